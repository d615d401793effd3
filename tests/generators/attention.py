"""Attention as it is written by hand, with masks of every kind and gradients: every way to run it gives NumPy's answer.

    s = q k;  s where a position is seen, else -∞ or so;  p = softmax(s), the largest taken off first;  o = p v

Heads are several or none, lengths odd, what is seen is what comes before, a window, some positions of each sequence, or
drawn; rows that see nothing are among them where what is not seen is finite. A mask is data, or numbers of positions:
of these passes know what they hide. Beside it some of the first keys may be nobody's, so that rows see
only those. They run it in strips of rows, small enough that even these sequences have several.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

import weft as wf
from backends.on_grid import OnGrid
from generators._settings import drawn


def check(rng: np.random.Generator) -> None:
    batch, heads = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    queries, keys = (int(rng.choice([1, 2, 7, 16, 33, 50, 70])) for _ in range(2))
    width, values = (int(rng.choice([1, 2, 3, 4, 8])) for _ in range(2))
    dtype = str(rng.choice(["float32", "float64"]))
    shapes = [(batch, heads, queries, width), (batch, heads, keys, width), (batch, heads, keys, values)]
    arrays = [rng.normal(size=shape).astype(dtype) for shape in shapes]
    seen, hidden, mask = _seen(rng, queries, keys)
    own = np.arange(keys) >= (int(rng.integers(1, keys, endpoint=True)) if rng.random() < 0.3 else 0)
    if hidden == -np.inf and not (seen & own).any(1).all():
        own[:] = True
    seen = seen & own
    factors = rng.normal(size=(batch, heads, queries, values)).astype(dtype)
    params = [
        wf.param(name, o=shape, init=one, dtype=dtype) for name, shape, one in zip("qkv", shapes, arrays, strict=True)
    ]
    out = _written(rng, params, mask, own, hidden, seen.any(1).all())
    loss = wf.einsum("b h t c; b h t c => 0", out, wf.data(factors, label="factors"), label="loss")
    keep = [out, *(one.grad for one in params)]
    meant = _answers(*(one.astype(np.float64) for one in arrays), seen, hidden, factors.astype(np.float64))
    shown = f"{dtype} {shapes}, hidden {hidden}\n{seen.astype(int)}"
    digits = 1e-9 if dtype == "float64" else 2e-4
    settings = drawn(rng)
    if rng.random() < 0.7:
        held = 8 * keys * max(width, values) * arrays[0].itemsize
        settings |= _with_strips(rng, settings["thresholds"], settings["machine"], held)
    options = wf.config.options.but(**settings)
    for backend in ("interp", "cc", OnGrid()):
        ctx = wf.Context(backend)
        run = ctx.compile(wf.grad_update(loss), keep=keep, options=None if backend == "interp" else options)
        run()
        for one, right in zip(keep, meant, strict=True):
            said = f"{one.label} on {backend}\n{shown}\n{'' if backend == 'interp' else options}"
            np.testing.assert_allclose(ctx[one], right, rtol=digits, atol=digits, err_msg=said)


def _with_strips(rng: np.random.Generator, lines: wf.Thresholds, machine: wf.Machine, held: int) -> dict[str, Any]:
    """Settings for strips of a few rows: caches of so many bytes, and slow memory."""
    most = int(rng.integers(3, 9))
    lines = replace(lines, tile_rows=int(rng.integers(1, most + 1)), strip_rows_least=1, strip_rows_most=most)
    lines = replace(lines, strip_distance=100, strip_range_share=float(rng.choice([1e-3, 1 / 32])))
    return {
        "large_contraction_points": 1,
        "thresholds": lines,
        "machine": replace(machine, caches=(held // 4, held, held), bytes_per_s=1e6),
    }


def _seen(rng: np.random.Generator, queries: int, keys: int) -> tuple[np.ndarray, float, wf.Tensor]:
    """Which keys each query sees, what stands for a score that is not, and the mask."""
    hidden = float(rng.choice([-np.inf, -1e9, -3e38]))
    limit, window = int(rng.integers(1, keys, endpoint=True)), int(rng.integers(1, 9))
    late, ahead = (int(one) for one in rng.integers(0, 4, 2))
    kind = str(rng.choice(["int32", "int64", "uint32"]))
    places = wf.arange(queries, dtype=kind), wf.arange(keys, dtype=kind)
    t, s = (wf.einsum(f"{name} => t, s", one, t=queries, s=keys) for name, one in zip("ts", places, strict=True))
    kinds = [
        s >= 0,
        s <= t,
        s < t + ahead,
        wf.logical_and(s <= t, t - window < s),
        wf.logical_and(s + late <= t, t < s + window + late),
        s < limit,
        t - s < window,
        t - s >= 0,
    ]
    chosen = int(rng.integers(len(kinds) + 1))
    if chosen == len(kinds):
        seen = rng.random((queries, keys)) < 0.5
    else:
        seen = wf.Context("interp")[kinds[chosen]] > 0
    if hidden == -np.inf and not seen.any(1).all():
        seen[:, 0] = True
        chosen = len(kinds)
    if chosen == len(kinds) or rng.random() < 0.3:
        return seen, hidden, wf.data(seen.astype(np.float32), label="seen") > 0.5
    return seen, hidden, kinds[chosen]


def _written(
    rng: np.random.Generator, params: list[wf.Tensor], mask: wf.Tensor, own: np.ndarray, hidden: float, every: bool
) -> wf.Tensor:
    q, k, v = params
    scores = wf.einsum("b h t d; b h s d => b h t s", q, k, label="scores") * (q.dims.output[-1].size ** -0.5)
    if not own.all():
        scores = wf.where(wf.data(own.astype(np.float32), label="own") > 0.5, scores, hidden)
    way = rng.random()
    if way < 0.3 and every:
        counted = hidden > -np.inf and rng.random() < 0.5
        scores = scores + (hidden * wf.logical_not(mask) if counted else wf.where(mask, 0.0, hidden))
    elif way < 0.6:
        scores = wf.where(mask, scores, hidden)
    else:
        b, h, *_ = q.dims.output
        scores = wf.where(wf.einsum("t s => b h t s", mask, b=b, h=h), scores, hidden)
    if rng.random() < 0.5:
        weights = wf.softmax(scores, "b h t s => b h t")
    else:
        exps = wf.exp(
            wf.einsum("b h t s; b h t => b h t s", scores, wf.einsum("b h t s => b h t", scores, accum="max"), op="-")
        )
        weights = wf.einsum("b h t s; b h t => b h t s", exps, wf.einsum("b h t s => b h t", exps), op="/")
    return wf.einsum("b h t s; b h s c => b h t c", weights, v, label="out")


def _answers(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, seen: np.ndarray, hidden: float, factors: np.ndarray
) -> list[np.ndarray]:
    """The result, and the gradients of its sum with factors."""
    scale = q.shape[-1] ** -0.5
    scores = np.where(seen, np.einsum("bhtd,bhsd->bhts", q, k) * scale, hidden)
    exps = np.exp(scores - scores.max(-1, keepdims=True))
    p = exps / exps.sum(-1, keepdims=True)
    d_p = np.einsum("bhtc,bhsc->bhts", factors, v)
    d_s = np.where(seen, p * (d_p - (d_p * p).sum(-1, keepdims=True)), 0) * scale
    return [
        np.einsum("bhts,bhsc->bhtc", p, v),
        np.einsum("bhts,bhsd->bhtd", d_s, k),
        np.einsum("bhts,bhtd->bhsd", d_s, q),
        np.einsum("bhts,bhtc->bhsc", p, factors),
    ]
