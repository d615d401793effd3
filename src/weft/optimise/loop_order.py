"""The order of a nest's loops: cells in memory order, sums inside, and innermost the loop that walks memory best."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from weft.loops.nests import Nest, stride_of
from weft.loops.nodes import Read, Store
from weft.loops.walk import Loop, free
from weft.ops import OPS


def ordered(nest: Nest) -> Nest:
    """The nest with its loops in the best order for reading and writing memory."""
    if len(nest.loops) < 2 or not (isinstance(nest.core, Store) or OPS[nest.core.op].reorderable):
        return nest
    kept = [loop for loop in _by_axis(nest) if loop in nest.loops]
    summed = [loop for loop in nest.loops if loop not in kept]
    touched = [Read(nest.target, nest.core.at), *nest.reads]
    innermost = min(reversed([*kept, *summed]), key=lambda loop: _jumps(touched, loop))
    outer = [loop for loop in [*kept, *summed] if loop != innermost]
    return Nest((*outer, innermost), nest.tests, nest.core, nest.remarks)


def sums_inside(nest: Nest) -> bool:
    """Is every cell finished before the next is begun, as an accumulation in a variable must be?"""
    mentioned = {name for one in nest.core.at for name in free(one)}
    summing = False
    for name, _ in nest.loops:
        if name not in mentioned:
            summing = True
        elif summing:
            return False
    return True


def _by_axis(nest: Nest) -> Iterator[Loop]:
    """The loops that index the written cell, in the order of its axes."""
    sizes = dict(nest.loops)
    names = dict.fromkeys(name for one in nest.core.at for name in free(one))
    return ((name, sizes[name]) for name in names if name in sizes)


def _jumps(touched: Sequence[Read], loop: Loop) -> int:
    """How many cells touched lie further away in memory, not next to the one before, when the loop goes on."""
    name, size = loop
    steps = [stride_of(cell, name) for cell in touched]
    return sum(step is None or abs(step) > 1 for step in steps) if size != 1 else len(touched) + 1
