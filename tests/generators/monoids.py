"""Accumulations by random monoids give what a fold one value at a time gives.

A monoid is drawn as several smaller ones side by side, whose numbers are carried together, some of them in an order
that matters. It accumulates over random axes of a tensor, or of what is computed from one, and the result may be used
again, on both backends, optimised or not. The fold is made in Python, from the same functions on numbers. Its gradient
is the same where calls decide the sizes, which has it joined one after another, as where they are given, two by two;
that of what is scattered is the gradient of each cell by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise, product
from math import exp, inf, log, prod, sqrt
from typing import Any

import numpy as np

import weft as wf

Number = Any


@dataclass(frozen=True)
class Part:
    """A small monoid: over expressions, and what a fold of it comes to in NumPy."""

    start: tuple[float, ...]
    of: Callable[[Number, Number], tuple[Number, ...]]
    combine: Callable[[tuple[Number, ...], tuple[Number, ...]], tuple[Number, ...]]
    result: Callable[[tuple[Number, ...]], Number]
    meaning: Callable[[list[float]], float]


def _later(a: tuple[Number, ...], b: tuple[Number, ...]) -> tuple[Number, ...]:
    return wf.where(b[1] > 0, b[0], a[0]), wf.maximum(a[1], b[1])


def _sum_of_exps(a: tuple[Number, ...], b: tuple[Number, ...]) -> tuple[Number, ...]:
    top = wf.maximum(a[0], b[0])
    return top, sum(y * wf.where(wf.equal(x, top), 1.0, wf.exp(x - top)) for x, y in (a, b))


PARTS = (
    Part((0.0,), lambda x, at: (x,), lambda a, b: (a[0] + b[0],), lambda s: s[0], sum),
    Part((0.0,), lambda x, at: (x * x,), lambda a, b: (a[0] + b[0],), lambda s: wf.sqrt(s[0]),
         lambda xs: sqrt(sum(x * x for x in xs))),
    Part((1.0,), lambda x, at: (1 + x / 64,), lambda a, b: (a[0] * b[0],), lambda s: s[0],
         lambda xs: prod(1 + x / 64 for x in xs)),
    Part((inf,), lambda x, at: (x,), lambda a, b: (wf.minimum(a[0], b[0]),), lambda s: s[0] / 8,
         lambda xs: min(xs) / 8),
    Part((0, 0.0), lambda x, at: (1, x * at), lambda a, b: (a[0] + b[0], a[1] + b[1]), lambda s: s[1] / s[0],
         lambda xs: sum(x * at for at, x in enumerate(xs)) / len(xs)),
    Part((0.0, 0), lambda x, at: (x, 1), _later, lambda s: s[0], lambda xs: xs[-1]),
    Part((-inf, 0.0), lambda x, at: (x, 1.0), _sum_of_exps, lambda s: s[0] + wf.log(s[1]),
         lambda xs: log(sum(exp(x) for x in xs))),
)  # fmt: skip


def _joined(parts: list[Part]) -> Any:
    """Several monoids as one: their numbers side by side, the sum of their results."""
    ends = np.cumsum([0, *(len(one.start) for one in parts)])

    def own(state: tuple[Number, ...]) -> list[tuple[Number, ...]]:
        return [state[low:high] for low, high in pairwise(ends)]

    return wf.monoid(
        "drawn",
        start=tuple(number for one in parts for number in one.start),
        of=lambda x, at: tuple(number for one in parts for number in one.of(x, at)),
        combine=lambda a, b: tuple(
            number
            for one, left, right in zip(parts, own(a), own(b), strict=True)
            for number in one.combine(left, right)
        ),
        result=lambda state: sum(one.result(mine) for one, mine in zip(parts, own(state), strict=True)),
    )


def check(rng: np.random.Generator) -> None:
    parts = [PARTS[at] for at in rng.integers(0, len(PARTS), int(rng.integers(1, 4)))]
    sizes = [
        int(size)
        for size in rng.choice([1, 2, 3, 5, 33, 70, 150], int(rng.integers(1, 4)), p=[*[0.2] * 4, 0.1, 0.05, 0.05])
    ]
    names = "abc"[: len(sizes)]
    kept = [name for name in names if rng.random() < 0.5]
    result = "".join(rng.permutation(kept)) if kept else "0"
    dtype = str(rng.choice(["float32", "float64", "int32"]))
    array = rng.integers(-16, 17, sizes) / (1 if dtype == "int32" else 8)
    wanted = _folded(array, names, result, parts)
    scaled = bool(rng.random() < 0.3)
    for backend, optimise in (("interp", True), ("cc", bool(rng.random() < 0.7))):
        with wf.config.using(optimise=optimise):
            x = wf.data(array.astype(dtype), label="x")
            y = wf.einsum(f"{names} => {result}", x * 1 if scaled else x, accum=_joined(parts))
            found = wf.Context(backend)[y + 1 if scaled else y]
        np.testing.assert_allclose(found - scaled, wanted.reshape(found.shape), rtol=1e-3, atol=1e-3)
    if array.size < 70 and rng.random() < 0.2:
        _check_gradient(array, names, result, _joined(parts))
    if rng.random() < 0.1:
        # where a value stands among all updates is not where it stands among those of a cell
        _check_scatter(rng, _joined([one for one in parts if one is not PARTS[4]] or [PARTS[0]]))


def _check_gradient(array: np.ndarray, names: str, result: str, accum: Any) -> None:
    spec, ctx = f"{names} => {result}", wf.Context("interp")
    slopes = []
    for given in (wf.data(array, label="x"), wf.input("x", o=list(names), dtype="float64")):
        w = wf.require_grad(wf.data(np.ones(1), label="w"))
        slopes.append(wf.grad(wf.einsum("...|... => 0", wf.einsum(spec, given * w, accum=accum)), w))
    known, decided = slopes
    np.testing.assert_allclose(ctx.function(given, returns=decided)(array), ctx[known], rtol=1e-6, atol=1e-9)


def _check_scatter(rng: np.random.Generator, accum: Any) -> None:
    """The gradient of what is scattered is that of each cell accumulated by itself."""
    updates, cells, width = int(rng.integers(1, 8)), int(rng.integers(1, 5)), int(rng.integers(1, 3))
    ids = rng.integers(-1, cells, updates)
    unlike = rng.choice(33, (updates, width), replace=False) / 8 - 1.99  # who of equals has the gradient is not said
    x = wf.require_grad(wf.data(unlike, batch=1, label="x"))
    factors = wf.data(rng.normal(size=(cells, width)), label="factors")
    places = wf.data(ids, batch=1, label="ids")
    y = wf.einsum("b|d; b|@v => v, d", x, places, v=cells, accum=accum, outside="skip")
    found, wanted = list[wf.Tensor](), list[wf.Tensor]()
    for cell in (one for one in range(cells) if one in ids):  # of no values some have no result
        own = wf.data(np.flatnonzero(ids == cell), batch=1, label="own")
        alone = wf.einsum("b|d => d", wf.einsum("u|d; b|@u => b|d", x, own), accum=accum)
        found.append(wf.sum(y[cell] * factors[cell]))
        wanted.append(wf.sum(alone * factors[cell]))
    if found:
        ctx = wf.Context("interp")
        slopes = [ctx[wf.grad(sum(some[1:], some[0]), x)] for some in (found, wanted)]
        np.testing.assert_allclose(slopes[0], slopes[1], rtol=1e-6, atol=1e-9)


def _folded(array: np.ndarray, names: str, result: str, parts: list[Part]) -> np.ndarray:
    """The result, folded one value at a time: axes that are left out in the order of the operand."""
    order = [*(names.index(name) for name in result if name in names)]
    rest = [axis for axis in range(array.ndim) if axis not in order]
    moved = array.transpose(*order, *rest)
    shape = moved.shape[: len(order)]
    made = np.zeros(shape)
    for cell in product(*map(range, shape)):
        values = [float(one) for one in moved[cell].ravel()]
        made[cell] = sum(one.meaning(values) for one in parts)
    return made
