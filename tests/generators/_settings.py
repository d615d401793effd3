"""Options drawn at random: lines that passes draw so low that small programs cross them, for machines of any size."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np

import weft as wf
from weft.thresholds import _LEAST, _ORDERED


def drawn(rng: np.random.Generator) -> dict[str, Any]:
    """Settings of `wf.config` that change no result: each drawn as often as not, low or high where it matters."""
    few = int(rng.choice([1, 4, 64]))
    return {
        "chunk_ns": int(rng.choice([1, 50, 2000])),
        "contraction_points": few,
        "large_contraction_points": few,
        "reuse": int(rng.choice([0, 1, 4])),
        "pack_rows": int(rng.choice([1, 8, 512])),
        "short_loop": int(rng.choice([1, 2, 8, 64])),
        "jam_iterations": int(rng.choice([2, 3, 4, 8])),
        "jam_operations": int(rng.choice([1, 12, 100])),
        "inline_operations": int(rng.choice([1, 8, 128])),
        "kernel_operations": int(rng.choice([1, 16, 256])),
        "fusion_tries": int(rng.choice([1, 16])),
        "max_visits": int(rng.choice([1, 4])),
        "single_terms": int(rng.choice([1, 10])),
        "recompute_operations": int(rng.choice([0, 16, 1000])),
        "recompute_share": float(rng.choice([0, 1 / 8])),
        "recompute_inline": int(rng.choice([1, 8, 64])),
        "thresholds": thresholds(rng),
        "machine": (found := machine(rng)),
        "gpu": wf.Gpu(
            cache_bytes=found.caches[0],
            swept_columns=few,
            cheap_again=8 * few,
            parted_from=few,
            alone_points=int(rng.choice([1, 1 << 13])),
        ),
    }


def thresholds(rng: np.random.Generator) -> wf.Thresholds:
    """Lines that hardly anybody moves, moved: down to the least, to a few, or as they are; shares up too."""
    found = {one.name: _line(rng, one.name, one.default) for one in fields(wf.Thresholds)}
    for few, many in _ORDERED:
        found[many] = max(found[many], _LEAST.get(few, 1))
        found[few] = min(found[few], found[many])
    return wf.Thresholds(**found)


def _line(rng: np.random.Generator, name: str, usual: Any) -> Any:
    if isinstance(usual, tuple):
        return tuple(int(one) for one in rng.integers(1, 5, int(rng.integers(0, 5))))
    if name == "hidden_depth":
        return float(rng.choice([usual, np.inf]))
    if isinstance(usual, float):
        return float(rng.choice([usual, 100.0]))
    least = _LEAST.get(name, 1)
    return int(rng.choice([least, max(least, min(usual, 3)), max(least, usual // 4), usual]))


def machine(rng: np.random.Generator) -> wf.Machine:
    """This one's instructions, with caches so small that little fits, and other cores."""
    first = int(rng.choice([1 << 7, 1 << 10, 1 << 14]))
    second = first * int(rng.choice([2, 8, 64]))
    caches = (first, second, 4 * second)
    return replace(wf.Machine.here(), caches=caches, cores=int(rng.integers(1, 4)))
