"""Sums keep the bounds that docs/precisions.md promises, however long they are and whatever axes they are over.

Tensors of random shapes, up to a million numbers, are summed over outer, inner and middle axes; products contract long
axes, in any layout, and what they give may be summed again. Numbers are all the same, or of one sign, or of both, or
fall in size, or are large ones that cancel each other and leave little. The steps of a recurrence are added up in the
gradient of what all of them read. All is compared with the same in more digits, on both backends, optimised and not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isqrt

import ml_dtypes
import numpy as np

import weft as wf
from backends.on_grid import OnGrid
from weft import backends

TYPES = (*["float32"] * 6, "float64", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
LAYOUTS = ("ik; kj => ij", "ik; jk => ij", "ki; kj => ij", "ki; jk => ij", "ik; kj => ji", "lik; kjl => ij")
Fill = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]
FILLS: dict[str, Fill] = {
    "alike": lambda rng, shape: np.full(shape, rng.uniform(0.05, 0.2)),
    "positive": lambda rng, shape: rng.uniform(0, 0.25, shape),
    "of both signs": lambda rng, shape: rng.normal(size=shape) / 8,
    "falling": lambda rng, shape: 0.25 / (1.0 + np.arange(np.prod(shape, dtype=int)).reshape(shape) % 997),
    "cancelling": lambda rng, shape: _cancelling(rng, shape),
}
#: How often: what is alike is rounded alike.
OFTEN = (0.4, 0.1, 0.1, 0.1, 0.3)
#: ε, as docs/precisions.md has it, and half of the distance from 1 to the next number in double precision.
EPSILON, WIDE = 2.0**-23, 2.0**-53


@dataclass(frozen=True)
class Exact:
    """A result in more digits than its type has: of the numbers added up in a cell their sizes, and how many there are;
    and how far they may be off themselves."""

    value: np.ndarray
    sizes: np.ndarray
    terms: int
    off: np.ndarray


def check(rng: np.random.Generator) -> None:
    dtype, fill = str(rng.choice(TYPES)), str(rng.choice(list(FILLS), p=OFTEN))
    (_over_steps if rng.random() < 0.2 else _over_axes)(rng, dtype, fill)


def _over_axes(rng: np.random.Generator, dtype: str, fill: str) -> None:
    """A sum of numbers, or of products."""
    product = rng.random() < 0.5
    spec, shapes = (_product if product else _sum)(rng)
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    arrays = [FILLS[fill](rng, shape).astype(kind) for shape in shapes]
    again = bool(rng.random() < 0.2)
    for backend, optimise in (("interp", True), ("cc", bool(rng.random() < 0.75))):
        with wf.config.using(optimise=optimise):
            found = wf.einsum(spec, *map(wf.data, arrays))
            exact = _exact(spec, arrays)
            bound = _bound(found.dtype, exact)
            if again:
                found = wf.einsum("...|... => 0", found)
                exact = _again(exact, bound)
                bound = _bound(found.dtype, exact)
            ctx = wf.Context(backend)
            if _adds_one_by_one(ctx.compile(wf.seq(), keep=[found]).show("kernels"), product, backend):
                bound = bound + exact.terms * EPSILON / 2 * exact.sizes
            value = ctx[found]
        off = np.abs(value.astype(np.longdouble) - exact.value)
        what = f"{spec!r} of {shapes} {dtype}, {fill}, {again=}, {backend}, {optimise=}"
        assert ((off <= bound) | np.isinf(bound)).all(), f"{what}: off by {np.nanmax(off / bound)} of what is promised"


def _adds_one_by_one(kernels: str, product: bool, backend: str) -> bool:
    """Do units of a GPU add up a product; or is what its lanes add up side by side interpreted, one after another?"""
    interpreted = backend == "cc" and backends._BACKENDS["cc"] is OnGrid
    return (product and " in blocks of " in kernels) or (interpreted and " in lanes by " in kernels)


def _over_steps(rng: np.random.Generator, dtype: str, fill: str) -> None:
    """The gradient of a parameter that every step multiplies by its input: the sum of all inputs."""
    shape = int(10 ** rng.uniform(1, 3.3)), int(rng.integers(1, 3)), int(rng.integers(1, 4))
    array = FILLS[fill](rng, shape).astype(getattr(ml_dtypes, dtype, dtype))
    recompute = (False, False, 1, True)[int(rng.integers(4))]
    reverse = bool(rng.random() < 0.5)
    p = wf.param("p", o=shape[-1], init=1.0)
    hs, _ = wf.scan(
        lambda h, x: h * 0.0 + p * x,
        wf.data(array, batch=2),
        init=0.0,
        reverse=reverse,
        recompute=recompute,
    )
    found = wf.grad(wf.einsum("...|... => 0", hs), p)
    exact = _exact("t, b, i, => i,", [array])
    bound = _bound(found.dtype, exact) + _of_parts(array, reverse, recompute)
    for backend, optimise in (("interp", True), ("cc", bool(rng.random() < 0.75))):
        with wf.config.using(optimise=optimise):
            value = wf.Context(backend)[found]
        off = np.abs(value.astype(np.longdouble) - exact.value)
        what = f"{shape} {dtype}, {fill}, {recompute=}, {backend}, {optimise=}"
        assert ((off <= bound) | np.isinf(bound)).all(), f"{what}: off by {np.nanmax(off / bound)} of what is promised"


def _of_parts(array: np.ndarray, reverse: bool, recompute: bool | int) -> np.ndarray:
    """What rounding adds where steps that are computed again fill no last segment: these and the rest are two sums."""
    steps, stored = len(array), ml_dtypes.finfo(array.dtype)
    root = isqrt(steps)
    even = any(steps % every == 0 for every in range(root // 2 + 1, 2 * root + 1))
    rest = 0 if even or recompute is not True else steps % root
    if not rest or str(array.dtype) in ("float32", "float64"):
        return np.zeros(())
    along = array[::-1] if reverse else array
    parts = (np.abs(one.astype(np.float64).sum((0, 1))) for one in (along[: steps - rest], along[steps - rest :]))
    return sum((float(stored.eps) * one + float(stored.smallest_subnormal) for one in parts), np.zeros(()))


def _cancelling(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers of many sizes in any order, each of which is taken away again elsewhere, and something small."""
    count = int(np.prod(shape, dtype=int))
    half = rng.normal(size=count // 2) * 2.0 ** rng.uniform(-6, 3, count // 2)
    both = rng.permutation(np.concatenate([half, -half, rng.normal(size=count % 2)]))
    small = rng.integers(0, count, 1 + count // 100)
    both[small] += rng.normal(size=len(small)) / 64
    return both.reshape(shape)


def _sum(rng: np.random.Generator) -> tuple[str, list[tuple[int, ...]]]:
    """A sum of numbers over some axes of up to a million cells."""
    axes = "abcd"[: int(rng.integers(1, 5))]
    kept = [axis for axis in axes if rng.random() < 0.4] if rng.random() < 0.5 else [axes[-1]]
    few = 10 ** rng.uniform(0, 2) if kept else 1.0
    sizes = {**_shares(rng, kept, few), **_shares(rng, [axis for axis in axes if axis not in kept], 10**6 / few)}
    shape = tuple(sizes[axis] for axis in axes)
    rng.shuffle(kept)
    return f"{', '.join(axes)}, => {', '.join(kept) + ',' if kept else '0'}", [shape]


def _shares(rng: np.random.Generator, axes: list[str], most: float) -> dict[str, int]:
    """Sizes of axes with up to so many cells, often many."""
    cells = most ** rng.uniform(0.5, 1)
    shares = rng.dirichlet(np.ones(len(axes))) if axes else []
    return {axis: max(1, int(cells**share)) for axis, share in zip(axes, shares, strict=True)}


def _product(rng: np.random.Generator) -> tuple[str, list[tuple[int, ...]]]:
    """A product of matrices, of few cells where it is long; or a sum of squares."""
    if rng.random() < 0.2:
        spec, (shape,) = _sum(rng)
        left, right = spec.split(" => ")
        return f"{left}; {left} => {right}", [shape, shape]
    spec = str(rng.choice(LAYOUTS))
    depth = int(10 ** rng.uniform(1.5, 5.5))
    many = max(2, min(70, (1 << 19) // depth))
    sizes = {"i": int(rng.integers(1, many)), "j": int(rng.integers(1, many)), "k": depth, "l": int(rng.integers(1, 4))}
    operands = spec.split(" => ")[0].split("; ")
    return spec, [tuple(sizes[axis] for axis in axes) for axes in operands]


def _exact(spec: str, arrays: list[np.ndarray]) -> Exact:
    more = np.longdouble if arrays[0].dtype == np.float64 else np.float64
    left, right = spec.replace(",", "").split(" => ")
    text = f"{','.join(one.replace(' ', '') for one in left.split(';'))}->{right.replace(' ', '').replace('0', '')}"
    wide = [one.astype(more) for one in arrays]
    value, sizes = np.einsum(text, *wide), np.einsum(text, *map(np.abs, wide))
    terms = int(np.einsum(text, *(np.ones(one.shape) for one in arrays)).flat[0])
    return Exact(np.atleast_1d(value), np.atleast_1d(sizes), terms, np.zeros(()))


def _again(exact: Exact, bound: np.ndarray) -> Exact:
    """The sum of results that are off by a bound themselves."""
    cells, sizes = exact.value.size, np.abs(exact.value) + bound
    value, total = (np.reshape(one, 1) for one in (exact.value.sum(), sizes.sum()))
    return Exact(value, total, cells, bound.sum())


def _bound(dtype: str, exact: Exact) -> np.ndarray:
    """How far a sum may be off: docs/precisions.md."""
    if dtype == "float64":
        return exact.off + max(exact.terms, 1) * WIDE * exact.sizes
    stored = ml_dtypes.finfo(dtype)
    bound = exact.off + 40 * EPSILON * exact.sizes
    if dtype != "float32":
        bound = bound + float(stored.eps) * np.abs(exact.value) + float(stored.smallest_subnormal)
    return np.where(np.abs(exact.value) + bound > float(stored.max), np.inf, bound)
