"""The order of a nest's loops: cells in memory order, sums inside, and innermost the loop that walks memory best."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from weft.loops.nests import Loop, Nest, free
from weft.loops.nodes import Place, Read, Store

#: Accumulations that may run in any order.
_ANY_ORDER = {"add", "sub", "mul", "max", "min", "or", "and"}


def ordered(nest: Nest) -> Nest:
    """The nest with its loops in the best order for reading and writing memory."""
    if len(nest.loops) < 2 or not (isinstance(nest.core, Store) or nest.core.op in _ANY_ORDER):
        return nest
    kept = [loop for loop in _by_axis(nest) if loop in nest.loops]
    summed = [loop for loop in nest.loops if loop not in kept]
    innermost = min(reversed([*kept, *summed]), key=lambda loop: _jumps(nest, loop))
    outer = [loop for loop in [*kept, *summed] if loop != innermost]
    return replace(nest, loops=(*outer, innermost))


def sums_inside(nest: Nest) -> bool:
    """Is every cell finished before the next is begun, as numbers computed one at a time must be?"""
    mentioned = {name for one in nest.core.at for name in free(one)}
    summing = False
    for name, _ in nest.loops:
        if name not in mentioned:
            summing = True
        elif summing:
            return False
    return True


def _by_axis(nest: Nest) -> Iterator[Loop]:
    """The loops that the written cell tells, in the order of its axes."""
    sizes = dict(nest.loops)
    names = dict.fromkeys(name for one in nest.core.at for name in free(one))
    return ((name, sizes[name]) for name in names if name in sizes)


def _jumps(nest: Nest, loop: Loop) -> int:
    """How many accesses leave their place in memory for one further away when the loop goes on."""
    name, size = loop
    if size == 1:
        return len(list(nest.reads)) + 2
    own = Read(nest.target, nest.core.at)
    return sum(abs(_stride(access, name)) > 1 for access in (own, *nest.reads))


def _stride(access: Read, name: str) -> int:
    total, stride = 0, 1
    for place, size in zip(reversed(access.at), reversed(access.buffer.shape), strict=True):
        if isinstance(place, Place):
            total += stride * sum(factor for factor, loop in place.terms if loop == name)
        elif name in free(place):
            return stride * size
        stride *= size
    return total
