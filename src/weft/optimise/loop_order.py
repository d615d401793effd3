"""The order of a nest's loops: cells in memory order, sums inside, and innermost the loop that walks memory best.

A nest that stores into cells more than once, or writes where data says, comes to each of them in the order in which it
did before: the last value stored stays, and sums are the same to the last bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from weft.affine import AccessMap, Affine, are_affine, injective
from weft.loops.nests import Nest, stride_of
from weft.loops.nodes import Read, Store
from weft.loops.walk import Loop, free, mentioned
from weft.ops import OPS


def ordered(nest: Nest) -> Nest:
    """The nest with its loops in the best order for reading and writing memory."""
    if not _is_movable(nest):
        return nest
    kept, summed = _kept_and_summed(nest)
    touched = [Read(nest.target, nest.core.at), *nest.reads]
    innermost = min(reversed([*kept, *summed]), key=lambda loop: _jumps(touched, loop))
    outer = [loop for loop in [*kept, *summed] if loop != innermost]
    return _in_order(nest, (*outer, innermost))


def sums_innermost(nest: Nest) -> Nest:
    """The nest with the loops of its cells outside, in memory order, its sums inside, the closest cells innermost."""
    if not _is_movable(nest):
        return nest
    kept, summed = _kept_and_summed(nest)
    summed.sort(
        key=lambda loop: -min((abs(step) for one in nest.reads if (step := stride_of(one, loop[0]))), default=0)
    )
    return _in_order(nest, (*kept, *summed))


def _is_movable(nest: Nest) -> bool:
    """Are there several loops, of which the values in a cell may be taken in another order?"""
    return len(nest.own_loops) > 1 and (isinstance(nest.core, Store) or OPS[nest.core.op].reorderable)


def _kept_and_summed(nest: Nest) -> tuple[list[Loop], list[Loop]]:
    """The loops of a nest's cells in memory order, and those of its sums."""
    kept = [loop for loop in _by_axis(nest) if loop in nest.own_loops]
    return kept, [loop for loop in nest.own_loops if loop not in kept]


def _in_order(nest: Nest, loops: tuple[Loop, ...]) -> Nest:
    """The nest with its loops so, but where iterations may not run in any order: those that do not tell cells apart as
    they were.
    """
    if not (is_reorderable(nest) and _is_affine(nest)):
        apart = _telling_apart(nest)
        before = iter([loop for loop in nest.own_loops if loop[0] not in apart])
        loops = tuple(loop if loop[0] in apart else next(before) for loop in loops)
    return replace(nest, loops=(*nest.loops[: len(nest.shared)], *loops))


def is_reorderable(nest: Nest) -> bool:
    """May all iterations of a nest run in any order?"""
    if isinstance(nest.core, Store):
        return _is_affine(nest) and _stores_once(nest)
    return OPS[nest.core.op].reorderable


def _stores_once(nest: Nest) -> bool:
    """Does a nest come to each of its cells in one iteration of its own loops alone?"""
    if _telling_apart(nest).issuperset(name for name, size in nest.own_loops if size > 1):
        return True
    at = tuple(one for one in nest.core.at if isinstance(one, Affine))
    return injective([AccessMap(at, tuple(nest.own_loops))])


def _telling_apart(nest: Nest) -> set[str]:
    """The loops of which no two iterations write the same cell: each alone in a subscript."""
    return {one.terms[0][1] for one in nest.core.at if isinstance(one, Affine) and len(one.terms) == 1}


def _is_affine(nest: Nest) -> bool:
    """Do loops alone say which cells are written, and no data?"""
    return are_affine(nest.core.at)


def sums_inside(nest: Nest) -> bool:
    """Is every cell finished before the next is begun, as an accumulation in a variable must be?"""
    moving = mentioned(*nest.core.at)
    summing = False
    for name, _ in nest.own_loops:
        if name not in moving:
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
