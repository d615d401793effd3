"""Is the result's index map injective, is it surjective? Decided exactly.

Injective: no cell is written twice, so accumulating is a plain write. Surjective: every cell is written, so nothing
need be cleared first. Plain loops are counted, parts of concatenations compared by where they begin and end; other
maps are handed to isl as integer sets.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from math import prod
from typing import TypeAlias

import islpy as isl

from weft.project.nodes import Choice, Fix, Given, Iter, Projection, linear, stays_inside


def is_injective(projection: Projection) -> bool:
    return _injective_surjective(projection)[0]


def is_surjective(projection: Projection) -> bool:
    return _injective_surjective(projection)[1]


@lru_cache(maxsize=8192)
def _injective_surjective(projection: Projection) -> tuple[bool, bool]:
    choices = list(projection.choices())
    if len(choices) == 1 and _plain(projection, choices[0]):
        return _count(projection, choices[0])
    found = _by_offsets(projection, choices)
    return _by_sets(projection, choices) if found is None else found


#: The cells of a run: in each axis those from one place to before another.
_Box: TypeAlias = tuple[tuple[int, int], ...]


def _by_offsets(projection: Projection, choices: Sequence[Choice]) -> tuple[bool, bool] | None:
    """Decided where every run fills a box and, in each axis, two boxes lie in the same positions or in none alike.

    Then two boxes are the same or have no cell in common.
    """
    boxes: list[_Box] = []
    for choice in choices:
        if not all(loop.size for loop in choice):
            continue
        box = _box(projection, choice)
        if box is None:
            return None
        boxes.append(box)
    if not all(_apart({box[axis] for box in boxes}) for axis in range(len(projection.maps[0]))):
        return None
    different = dict.fromkeys(boxes)
    cells = sum(prod(end - start for start, end in box) for box in different)
    return len(different) == len(boxes), cells == projection.shapes[0].count


def _box(projection: Projection, choice: Choice) -> _Box | None:
    """The cells that a run writes, each once; None if that are other cells, or it does so more often."""
    if not all(_stays(projection, slot, choice) for slot in projection.slots(choice)):
        return None
    sizes, box = {loop.name: loop.size for loop in choice}, list[tuple[int, int]]()
    for index in projection.maps[0]:
        coefficients, offset = linear(index, choice)
        if any(coefficient != 1 or name not in sizes for name, coefficient in coefficients.items()):
            return None
        if len(coefficients) > 1:
            return None
        box.append((offset, offset + prod(sizes.pop(name) for name in coefficients)))
    return tuple(box) if all(size == 1 for size in sizes.values()) else None


def _stays(projection: Projection, slot: int, choice: Choice) -> bool:
    """Are all points of a run inside a tensor?"""
    axes = zip(projection.maps[slot], projection.shapes[slot].array_shape, strict=True)
    return all(isinstance(index, Given) or stays_inside(index, size, choice) for index, size in axes)


def _apart(spans: set[tuple[int, int]]) -> bool:
    """Do positions from one place to before another have none in common?"""
    return all(end <= start for (_, end), (start, _) in pairwise(sorted(spans)))


def _plain(projection: Projection, choice: Choice) -> bool:
    """Are result indices single loops or positions, and all reads inside?"""
    return all(isinstance(index, Iter | Fix | Given) for index in projection.maps[0]) and all(
        isinstance(index, Iter) or stays_inside(index, size, choice)
        for slot in projection.slots(choice)
        for index, size in zip(projection.maps[slot], projection.shapes[slot].array_shape, strict=True)
        if not isinstance(index, Given)
    )


def _count(projection: Projection, choice: Choice) -> tuple[bool, bool]:
    if any(not loop.size for loop in choice):
        return True, not projection.shapes[0].count
    long = {loop.name for loop in choice if loop.size > 1}
    written = [index.loop for index in projection.maps[0] if isinstance(index, Iter) and index.loop in long]
    injective = long == set(written)
    sizes = zip(projection.maps[0], projection.shapes[0].array_shape, strict=True)
    covers = all(isinstance(index, Iter) or size == 1 for index, size in sizes)
    return injective, covers and len(set(written)) == len(written)


def _by_sets(projection: Projection, choices: list[Choice]) -> tuple[bool, bool]:
    rank = len(projection.maps[0])
    cells = ", ".join(f"x{axis}" for axis in range(rank))
    names = {loop.name: f"l{number}" for number, loop in enumerate(projection.loops)}
    pieces = [_piece(projection, number, choice, names, cells) for number, choice in enumerate(choices)]
    if not pieces:
        return True, not projection.shapes[0].count
    written = isl.Map(f"{{ {'; '.join(pieces)} }}")
    box = " and ".join(f"0 <= x{axis} < {size}" for axis, size in enumerate(projection.shapes[0].array_shape))
    every = isl.Set(f"{{ [{cells}] : {box or 'true'} }}")
    return bool(written.is_injective()), bool(every.is_subset(written.range()))


def _piece(projection: Projection, number: int, choice: Choice, names: dict[str, str], cells: str) -> str:
    """The points executed while `choice` is active, as an isl map from (choice, loops) to the cell written."""
    active = {loop.name: loop.size for loop in choice}
    bounds = [f"0 <= {name} < {active[loop]}" if loop in active else f"{name} = 0" for loop, name in names.items()]
    for slot in projection.slots(choice):
        axes = zip(projection.maps[slot], projection.shapes[slot].array_shape, strict=True)
        for axis, (index, size) in enumerate(axes):
            coefficients, offset = linear(index, choice)
            position = " + ".join([f"{c} * {names[loop]}" for loop, c in coefficients.items()] + [str(offset)])
            if slot == 0:
                bounds.append(f"x{axis} = {position}")
            bounds.append(f"0 <= {position} < {size}")
    return f"[{', '.join([str(number), *names.values()])}] -> [{cells}] : {' and '.join(bounds)}"
