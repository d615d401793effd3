"""A projection executed by brute force: every point of the loops, one after another in meaning, in NumPy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.affine import Affine
from weft.errors import IndexOutOfBounds
from weft.ops import Op
from weft.project.nodes import Choice, DataIndex, Projection

Array = npt.NDArray[Any]


def evaluate(
    projection: Projection, arrays: Sequence[Array], accum: Op, op: Op, given: Mapping[str, int] | None = None
) -> Array:
    """Accumulate, at each point, the combination of the operands present there into the result."""
    assert accum.neutral is not None
    valued = set(range(1, len(projection.maps))).difference(one.slot for one in projection.looked_up)
    dtype = _dtype([arrays[slot - 1] for slot in sorted(valued)], accum, op)
    result = np.full(projection.shapes[0].array_shape, accum.neutral(dtype), dtype)
    for choice in projection.choices():
        points = _points(choice, given or {})
        points |= {one.name: _looked_up(one, projection, arrays, choice, points) for one in projection.looked_up}
        indices = [_positions(projection, slot, choice, points) for slot in range(len(projection.maps))]
        inside = _inside(projection, indices)
        for one in projection.looked_up:
            inside &= (points[one.name] >= 0) & (points[one.name] < one.size)
        values = [
            arrays[slot - 1][_at(index, inside)] for slot, index in enumerate(indices) if slot in valued and index
        ]
        assert indices[0] is not None
        scatter: Any = accum.meaning
        value = reduce(op.meaning, values) if values else np.ones(np.count_nonzero(inside))
        scatter.at(result, _at(indices[0], inside), value.astype(dtype))
    return result


def _dtype(arrays: Sequence[Array], accum: Op, op: Op) -> np.dtype[Any]:
    """The element type of the result; comparisons of numbers are counted when they are added or multiplied."""
    if not arrays:
        return np.dtype(np.int64)
    dtype: np.dtype[Any] = reduce(op.meaning, (np.ones(1, array.dtype) for array in arrays)).dtype
    compared = dtype.kind == "b" and all(array.dtype.kind != "b" for array in arrays)
    return np.dtype(np.int64) if compared and accum.name in ("add", "mul") else dtype


def _points(choice: Choice, given: Mapping[str, int]) -> dict[str, Array | int]:
    """The values of all indices at every point of the choice."""
    sizes = [loop.size for loop in choice]
    grid = np.indices(sizes).reshape(len(sizes), prod(sizes))
    return {**given, **{loop.name: grid[axis] for axis, loop in enumerate(choice)}}


def _looked_up(
    one: DataIndex, projection: Projection, arrays: Sequence[Array], choice: Choice, points: Mapping[str, Array | int]
) -> Array:
    """What a tensor of positions holds, at every point of the choice."""
    indices = _positions(projection, one.slot, choice, points)
    assert indices is not None
    shape = projection.shapes[one.slot].array_shape
    inside = reduce(np.logical_and, [(at >= 0) & (at < size) for at, size in zip(indices, shape, strict=True)])
    found = np.full(len(inside), -1)
    found[inside] = arrays[one.slot - 1][_at(indices, inside)]
    strays = found[inside & ((found < 0) | (found >= one.size))]
    if one.outside == "check" and strays.size:
        what = f"`{one.name}` is {strays[0]} somewhere, and its axis has positions from 0 to {one.size - 1}"
        raise IndexOutOfBounds(what, fix=f"pass positions from 0 to {one.size - 1}")
    return np.where(inside, np.clip(found, 0, one.size - 1), -1) if one.outside == "clip" else found


def _positions(
    projection: Projection, slot: int, choice: Choice, points: Mapping[str, Array | int]
) -> list[Array] | None:
    """The position along each axis of the slot, at every point of the choice; None if the slot is absent."""
    if not projection.present(slot, choice):
        return None
    count = prod(loop.size for loop in choice)
    return [_position(index, points, count) for index in projection.indices(slot, choice)]


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
