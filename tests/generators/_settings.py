"""Options drawn at random: lines that passes draw so low that small programs cross them, for machines of any size."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

import weft as wf


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
        "machine": machine(rng),
    }


def thresholds(rng: np.random.Generator) -> wf.Thresholds:
    """Lines that hardly anybody moves, moved."""
    strips, lanes, states, rows = (int(rng.choice(some)) for some in ([1, 2, 5, 32], [2, 4, 64], [2, 8, 64], [1, 16]))
    return wf.Thresholds(
        tile_rows=int(rng.choice([1, 2, 3, 8])),
        tile_vectors=int(rng.choice([1, 2, 3])),
        few_rows_vectors=tuple(int(one) for one in rng.integers(1, 5, int(rng.integers(0, 5)))),
        dot_columns=int(rng.choice([1, 2, 4])),
        dot_row_columns=int(rng.choice([1, 2, 8])),
        packed_tiles=int(rng.choice([1, 2, 4])),
        group_tiles=int(rng.choice([1, 2, 32])),
        group_rows=int(rng.choice([1, 16, 1024])),
        group_panels=int(rng.choice([1, 2, 8])),
        packed_strips=int(rng.choice([1, 2, 8])),
        look_rows=int(rng.choice([1, 5])),
        look_tiles=int(rng.choice([1, 2, 16])),
        filled_tiles=int(rng.choice([1, 2, 16])),
        most_chunks=int(rng.choice([2, 3, 64])),
        few_iterations=int(rng.choice([1, 2, 8])),
        busy_chunks=int(rng.choice([1, 8])),
        packing_rows=int(rng.choice([1, 4, 256])),
        packing_panels=int(rng.choice([1, 4])),
        joining_share=float(rng.choice([1 / 8, 100])),
        lanes=lanes,
        lane_terms=int(rng.choice([1, 4])),
        lanes_left=int(rng.integers(1, min(lanes, 4), endpoint=True)),
        nested_lanes=int(rng.integers(2, min(lanes, 16), endpoint=True)),
        streams=min(rows, int(rng.choice([1, 2, 4]))),
        stream_rows=rows,
        states=states,
        state_values=int(rng.choice([1, 4])),
        states_left=int(rng.integers(1, min(states, 8), endpoint=True)),
        state_operations=int(rng.choice([1, 100])),
        strip_rows_least=strips,
        strip_rows_most=int(strips * rng.choice([1, 2])),
        border_uses=int(rng.choice([1, 4])),
        fetched_lines=int(rng.choice([1, 8])),
        simt_block=int(rng.choice([2, 32, 256])),
        simt_strips=int(rng.choice([2, 1024])),
        simt_wide=int(rng.choice([2, 4096])),
        simt_steps=int(rng.choice([1, 512])),
    )


def machine(rng: np.random.Generator) -> wf.Machine:
    """This one's instructions, with caches so small that little fits, and other cores."""
    first = int(rng.choice([1 << 7, 1 << 10, 1 << 14]))
    caches = (first, first * int(rng.choice([2, 8, 64])), first * 1024)
    return replace(wf.Machine.here(), caches=caches, cores=int(rng.integers(1, 4)))
