"""Elements in order: of rows of every type, length and number, along either axis, up or down.

Equal elements stay in order, what is not a number comes last, or first where the order goes down; what is taken in
order is what stands there, to the bit, and the gradient of that goes where the elements came from.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

import weft as wf

TYPES = ("float32", "float64", "float16", "bfloat16", "int8", "uint16", "int32", "uint32", "int64", "bool")


def check(rng: np.random.Generator) -> None:
    dtype, along = str(rng.choice(TYPES)), int(rng.integers(2))
    shape = int(rng.choice([1, 3, 8, 16, 21])), int(rng.choice([5, 64, 100, 129, 300]))
    array = _elements(rng, shape if along else shape[::-1], dtype)
    x, spec, down = wf.data(array, label="x"), ("ij => i", "ij => j")[1 - along], bool(rng.integers(2))
    ctx = wf.Context("cc")
    order = _order(array, along, down)
    assert np.array_equal(ctx[wf.argsort(x, spec, descending=down)], order)
    found = ctx[wf.sort(x, spec, descending=down)]
    assert found.tobytes() == np.take_along_axis(array, order, along).tobytes()
    if dtype == "float32":
        weights = rng.integers(-9, 9, array.shape).astype(dtype)
        w = wf.param("w", o=array.shape)
        ctx[w] = array
        taken = wf.sum(wf.sort(w, spec, descending=down) * wf.data(weights))
        wanted = np.zeros_like(array)
        np.put_along_axis(wanted, order, weights, along)
        assert np.array_equal(ctx[wf.grad(taken, w)], wanted)


def _elements(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Few numbers, many of them equal; or any bits but those of what is not a number and says so."""
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if rng.integers(2) or dtype in ("float16", "bfloat16"):
        few = rng.integers(0 if dtype.startswith("u") else -3, 4, shape).astype(kind)
        if kind.kind in "fV":
            few[rng.random(shape) < 0.1] = kind.type(rng.choice([np.nan, np.inf, -np.inf, -0.0]))
        return few
    found = np.frombuffer(rng.bytes(kind.itemsize * int(np.prod(shape))), kind).reshape(shape).copy()
    if kind.kind == "f":
        found[np.isnan(found)] = np.nan
    return found


def _order(array: np.ndarray, along: int, down: bool) -> np.ndarray:
    wide = array if array.dtype.kind in "biu" else array.astype(np.float64)
    if not down:
        return np.argsort(wide, axis=along, kind="stable")
    order = np.flip(np.argsort(np.flip(wide, along), axis=along, kind="stable"), along)
    return array.shape[along] - 1 - order
