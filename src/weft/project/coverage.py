"""Do several operations together write every cell of a tensor?"""

from __future__ import annotations

from collections.abc import Sequence

import islpy as isl

from weft.project.nodes import Choice, Given, Projection, linear


def cover(projections: Sequence[Projection]) -> bool:
    """Is every cell of the result, the same tensor for all, written by one of them?

    What is written at a position supplied when the code runs is taken for written nowhere.
    """
    shape = projections[0].shapes[0].array_shape
    cells = ", ".join(f"x{axis}" for axis in range(len(shape)))
    written = isl.Set(f"{{ [{cells}] : false }}")
    for projection in projections:
        if not any(isinstance(index, Given) for index in projection.maps[0]):
            for choice in projection.choices():
                written = written.union(isl.Set(_cells(projection, choice, cells)))
    box = " and ".join(f"0 <= x{axis} < {size}" for axis, size in enumerate(shape))
    return bool(isl.Set(f"{{ [{cells}] : {box or 'true'} }}").is_subset(written))


def _cells(projection: Projection, choice: Choice, cells: str) -> str:
    """The cells written while `choice` is active, as an isl set: points that would leave a tensor are skipped."""
    names = {loop.name: f"l{number}" for number, loop in enumerate(choice)}
    bounds = [f"0 <= {names[loop.name]} < {loop.size}" for loop in choice]
    for slot in projection.slots(choice):
        axes = zip(projection.maps[slot], projection.shapes[slot].array_shape, strict=True)
        for axis, (index, size) in enumerate(axes):
            if isinstance(index, Given):
                continue
            coefficients, offset = linear(index, choice)
            position = " + ".join([f"{c} * {names[loop]}" for loop, c in coefficients.items()] + [str(offset)])
            bounds += [f"x{axis} = {position}"] if slot == 0 else []
            bounds.append(f"0 <= {position} < {size}")
    inside = " and ".join(bounds) or "true"
    return (
        f"{{ [{cells}] : exists {', '.join(names.values())} : {inside} }}" if names else f"{{ [{cells}] : {inside} }}"
    )
