"""Is the result's index map injective, is it surjective? Decided exactly.

Injective: no cell is written twice, so accumulating is a plain write. Surjective: every cell is written, so nothing
need be cleared first. Plain loops are counted; affine and concatenated maps are handed to isl as integer sets.
"""

from __future__ import annotations

from functools import lru_cache

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
    return _by_sets(projection, choices)


def _plain(projection: Projection, choice: Choice) -> bool:
    """Are result indices single loops or positions, and all reads inside?"""
    return all(isinstance(index, Iter | Fix | Given) for index in projection.maps[0]) and all(
        isinstance(index, Iter) or stays_inside(index, size, choice)
        for slot, (one, shape) in enumerate(zip(projection.maps, projection.shapes, strict=True))
        if projection.present(slot, choice)
        for index, size in zip(one, shape.array_shape, strict=True)
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
    for slot, (one, shape) in enumerate(zip(projection.maps, projection.shapes, strict=True)):
        if not projection.present(slot, choice):
            continue
        for axis, (index, size) in enumerate(zip(one, shape.array_shape, strict=True)):
            coefficients, offset = linear(index, choice)
            position = " + ".join([f"{c} * {names[loop]}" for loop, c in coefficients.items()] + [str(offset)])
            if slot == 0:
                bounds.append(f"x{axis} = {position}")
            bounds.append(f"0 <= {position} < {size}")
    return f"[{', '.join([str(number), *names.values()])}] -> [{cells}] : {' and '.join(bounds)}"
