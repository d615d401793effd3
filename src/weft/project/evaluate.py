"""A projection executed by brute force: every point of the loops, one after another in meaning, in NumPy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.affine import Affine
from weft.ops import Op
from weft.project.nodes import Choice, Projection

Array = npt.NDArray[Any]


def evaluate(
    projection: Projection, arrays: Sequence[Array], accum: Op, op: Op, given: Mapping[str, int] | None = None
) -> Array:
    """Accumulate, at each point, the combination of the operands present there into the result."""
    assert accum.neutral is not None
    dtype = _dtype(arrays, accum, op)
    result = np.full(projection.shapes[0].array_shape, accum.neutral(dtype), dtype)
    for choice in projection.choices():
        indices = [_positions(projection, slot, choice, given or {}) for slot in range(len(projection.maps))]
        inside = _inside(projection, indices)
        values = [
            array[_at(index, inside)] for array, index in zip(arrays, indices[1:], strict=True) if index is not None
        ]
        assert indices[0] is not None
        scatter: Any = accum.meaning
        scatter.at(result, _at(indices[0], inside), reduce(op.meaning, values).astype(dtype))
    return result


def _dtype(arrays: Sequence[Array], accum: Op, op: Op) -> np.dtype[Any]:
    """The element type of the result; comparisons of numbers are counted when they are added or multiplied."""
    dtype: np.dtype[Any] = reduce(op.meaning, (np.ones(1, array.dtype) for array in arrays)).dtype
    compared = dtype.kind == "b" and all(array.dtype.kind != "b" for array in arrays)
    return np.dtype(np.int64) if compared and accum.name in ("add", "mul") else dtype


def _positions(projection: Projection, slot: int, choice: Choice, given: Mapping[str, int]) -> list[Array] | None:
    """The position along each axis of the slot, at every point of the choice; None if the slot is absent."""
    if not projection.present(slot, choice):
        return None
    sizes = [loop.size for loop in choice]
    grid = np.indices(sizes).reshape(len(sizes), prod(sizes))
    points = {**given, **{loop.name: grid[axis] for axis, loop in enumerate(choice)}}
    return [_position(index, points, grid.shape[1]) for index in projection.indices(slot, choice)]


def _position(index: Affine, points: Mapping[str, Array | int], count: int) -> Array:
    position = np.full(count, index.offset)
    for coefficient, name in index.terms:
        position = position + coefficient * points[name]
    return position


def _inside(projection: Projection, indices: Sequence[list[Array] | None]) -> npt.NDArray[np.bool_]:
    """Which points read and write inside every tensor."""
    assert indices[0] is not None
    bounds = [
        (position >= 0) & (position < size)
        for index, shape in zip(indices, projection.shapes, strict=True)
        for position, size in zip(index or (), shape.array_shape, strict=index is not None)
    ]
    return reduce(np.logical_and, bounds)


def _at(index: list[Array], inside: npt.NDArray[np.bool_]) -> tuple[Array, ...]:
    return tuple(position[inside] for position in index)
