"""Sums keep the bound that docs/precisions.md promises, however long they are and whatever axes they are over.

Tensors of random shapes, up to a million numbers, are summed over outer, inner and middle axes, squared first or not;
products contract long axes, in any layout, and what they give may be summed again. Numbers are all the same, or of one
sign, or of both, or fall in size. All is compared with the same in more digits, on both backends, optimised and not.
"""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np

import weft as wf

TYPES = ("float32", "float32", "float32", "float64", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
LAYOUTS = ("ik; kj => ij", "ik; jk => ij", "ki; kj => ij", "ki; jk => ij", "ik; kj => ji", "lik; kjl => ij")
Fill = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]
FILLS: dict[str, Fill] = {
    "alike": lambda rng, shape: np.full(shape, rng.uniform(0.05, 0.2)),
    "positive": lambda rng, shape: rng.uniform(0, 0.25, shape),
    "of both signs": lambda rng, shape: rng.normal(size=shape) / 8,
    "falling": lambda rng, shape: 0.25 / (1.0 + np.arange(np.prod(shape, dtype=int)).reshape(shape) % 997),
}


def check(rng: np.random.Generator) -> None:
    dtype, fill = str(rng.choice(TYPES)), str(rng.choice(list(FILLS)))
    spec, shapes = (_product if rng.random() < 0.4 else _sum)(rng)
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    arrays = [FILLS[fill](rng, shape).astype(kind) for shape in shapes]
    again = bool(rng.random() < 0.2)
    exact, sizes, terms = _exact(spec, arrays, again)
    for backend, optimise in (("interp", True), ("cc", bool(rng.random() < 0.6))):
        with wf.config.using(optimise=optimise):
            found = wf.einsum(spec, *map(wf.data, arrays))
            found = wf.einsum("...|... => 0", found) if again else found
            value = wf.Context(backend)[found]
        off = np.abs(value.astype(np.longdouble) - exact)
        bound = _bound(value, exact, sizes, terms)
        what = f"{spec!r} of {shapes} {dtype}, {fill}, {again=}, {backend}, {optimise=}"
        assert (off <= bound).all(), f"{what}: off by {np.max(off / bound)} of what is promised"


def _sum(rng: np.random.Generator) -> tuple[str, list[tuple[int, ...]]]:
    """A sum of numbers, or of their squares, over some axes of up to a million cells."""
    axes = "abcd"[: int(rng.integers(1, 5))]
    cells = 10 ** rng.uniform(1, 6)
    shares = rng.dirichlet(np.ones(len(axes)))
    shape = tuple(max(1, int(cells**share)) for share in shares)
    kept = [axis for axis in axes if rng.random() < 0.4]
    rng.shuffle(kept)
    operand = ", ".join(axes) + ","
    times = int(rng.integers(1, 3))
    return f"{'; '.join([operand] * times)} => {', '.join(kept) + ',' if kept else '0'}", [shape] * times


def _product(rng: np.random.Generator) -> tuple[str, list[tuple[int, ...]]]:
    """A product of matrices, of few cells where it is long."""
    spec = str(rng.choice(LAYOUTS))
    depth = int(10 ** rng.uniform(1, 5.5))
    many = max(2, min(70, (1 << 19) // depth))
    sizes = {"i": int(rng.integers(1, many)), "j": int(rng.integers(1, many)), "k": depth, "l": int(rng.integers(1, 4))}
    operands = spec.split(" => ")[0].split("; ")
    return spec, [tuple(sizes[axis] for axis in axes) for axes in operands]


def _exact(spec: str, arrays: list[np.ndarray], again: bool) -> tuple[np.ndarray, np.ndarray, int]:
    """The result in more digits than its type has, that of the numbers' sizes, and how many are added up in a cell."""
    more = np.longdouble if arrays[0].dtype == np.float64 else np.float64
    left, right = spec.replace(",", "").split(" => ")
    text = f"{','.join(one.replace(' ', '') for one in left.split(';'))}->{right.replace(' ', '').replace('0', '')}"
    wide = [one.astype(more) for one in arrays]
    exact, sizes = np.einsum(text, *wide), np.einsum(text, *map(np.abs, wide))
    points = int(np.einsum(text, *(np.ones(one.shape) for one in arrays)).flat[0])
    if again:
        exact, sizes, points = exact.sum(), sizes.sum(), points + exact.size
    return np.atleast_1d(exact), np.atleast_1d(sizes), points


def _bound(value: np.ndarray, exact: np.ndarray, sizes: np.ndarray, terms: int) -> np.ndarray:
    """How far a sum may be off: docs/precisions.md."""
    if value.dtype == np.float64:
        return (max(terms, 64) / 2) * 2.0**-52 * sizes
    stored = ml_dtypes.finfo(value.dtype)
    return 32 * 2.0**-23 * sizes + float(stored.eps) * np.abs(exact) + float(stored.smallest_subnormal)
