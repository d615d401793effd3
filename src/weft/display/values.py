"""An array for people: its last two axes as boxes, one box for each position along the others.

Axes are named by their row, numbered where it has several, and by their label. Long axes show both ends. Below stands
what is true of all values, shown or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.display.boxes import BoxedGrid
from weft.display.shown import Shown
from weft.ops.dtypes import is_float, name_of
from weft.shape.nodes import MEMORY_ORDER, Shape

Array = npt.NDArray[Any]

#: So many are shown: rows and columns of a box, boxes.
ROWS, COLUMNS, BOXES = 10, 8, 4


def show_values(
    label: str, shape: Shape, array: Array, *, rows: int = ROWS, columns: int = COLUMNS, boxes: int = BOXES
) -> Shown:
    """The values of a tensor, in an array of its shape; at most so many rows, columns and boxes of them."""
    head = f"{label}: {shape} {name_of(array.dtype)}"
    if array.size <= 1:
        return Shown((head, _number(array.item()) if array.size else "no values"))
    names = named_axes(shape, array.ndim)
    outer = array.shape[:-2]
    inner = array.reshape(prod(outer), *array.shape[-2:]) if array.ndim > 1 else array[None, None]
    corner = " ".join(f"{name} {arrow}" for name, arrow in zip(names[-2:], "↓→"[-array.ndim :], strict=True))
    parts: list[str | BoxedGrid] = []
    for at in _ends(len(inner), boxes):
        if at is None:
            parts.append(f"… {len(inner) - boxes} more …")
            continue
        if outer:
            parts.append(_position(names, np.unravel_index(at, outer)))
        parts.append(_box(inner[at], corner, rows if array.ndim > 1 else 0, columns))
    return Shown((head, *parts, summary_line(array)))


def named_axes(shape: Shape, count: int) -> list[str]:
    """What the axes of an array are called; those of loops come before the rows."""
    names = []
    for kind in MEMORY_ORDER:
        dims = shape.row(kind)
        for at, dim in enumerate(dims):
            called = f"{kind}[{at}]" if len(dims) > 1 else kind
            names.append(f"{called} {dim.basis}" if dim.basis else called)
    return ["iteration"] * (count - len(names)) + names


def summary_line(array: Array) -> str:
    """The least, the mean and the greatest of all values that are numbers, and how many are none."""
    values = array.astype(np.float64) if is_float(name_of(array.dtype)) else array
    known = values[~np.isnan(values)] if values.dtype.kind == "f" else values
    nan = values.size - known.size
    if not known.size:
        return f"nan {nan}"
    with np.errstate(all="ignore"):
        found = {"min": known.min(), "mean": known.mean(dtype=np.float64), "max": known.max()}
    return "   ".join(f"{name} {_number(value.item())}" for name, value in (*found.items(), ("nan", np.int64(nan))))


def _box(grid: Array, corner: str, rows: int, columns: int) -> BoxedGrid:
    """Two axes; without `rows`, one, that of the columns."""
    across, down = _ends(grid.shape[1], columns), _ends(grid.shape[0], rows or 1)
    cells = tuple(tuple(_cell(grid, at, column) for column in across) for at in down)
    heads = tuple(map(_head, down)) if rows else ("",)
    return BoxedGrid(corner, tuple(map(_head, across)), tuple(zip(heads, cells, strict=True)))


def _cell(grid: Array, row: int | None, column: int | None) -> str:
    return "…" if row is None or column is None else _number(grid[row, column].item())


def _head(position: int | None) -> str:
    return "…" if position is None else str(position)


def _ends(count: int, most: int) -> list[int | None]:
    """So many positions at most, from both ends; None where some are left out."""
    if count <= most:
        return list(range(count))
    return [*range(most - most // 2), None, *range(count - most // 2, count)]


def _position(names: Sequence[str], at: Sequence[Any]) -> str:
    return ", ".join(f"{name} = {int(one)}" for name, one in zip(names, at, strict=False))


def _number(value: float | bool) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
