"""Reductions of a contraction's results: do its readers sum over its cells, so that programs of a grid would race?

    for h: for i: for j: z[h, i, j] += a[h, i, k] * b[h, k, j];  for h: for i: for j: s[i] += f(z[h, i, j])

Whoever computes `z` for a row of `s` has all of its columns, and a block of rows and columns is no program's alone.
Along `h`, which is in both factors, each program could add up its own block: if there are enough of those.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from weft.loops.contraction import Contraction
from weft.loops.legality import points
from weft.loops.nests import Nest
from weft.loops.nodes import Buffer, Read
from weft.loops.walk import mentioned

#: Which nests read each buffer, by their index in the program.
Reads = Mapping[Buffer, Sequence[tuple[int, Read]]]


def axes_added_up(buffer: Buffer, nests: Sequence[Nest], reads: Reads, stored: Callable[[Buffer], bool]) -> set[int]:
    """The axes of a buffer along which those who read it add up what they make of it, or those into whom they go."""
    found = set[int]()
    for index, read in reads.get(buffer, ()):
        nest = nests[index]
        told = mentioned(*nest.core.at)
        summed = {name for name, size in nest.loops if size > 1 and name not in told}
        if not stored(nest.target):
            later = axes_added_up(nest.target, nests, reads, stored)
            summed |= mentioned(*(one for at, one in enumerate(nest.core.at) if at in later))
        found |= {at for at, one in enumerate(read.at) if summed & mentioned(one)}
    return found


class Alone(NamedTuple):
    """A program takes long for more points than these alone; so many cells are enough for all that run at once."""

    points: int
    cells: int


def leaves_few_programs(product: Contraction, summed: Collection[str], alone: Alone) -> bool:
    """Would adding up its results along some loops leave a contraction to few programs: all along its rows or columns,
    or in few cells along its batches?"""
    kept = (*product.batch, *product.left, *product.right)
    moving = [(name, size) for name, size in kept if size > 1 and name in summed]
    if not moving or points((*kept, *product.sums)) <= alone.points:
        return False
    return not set(moving) <= set(product.batch) or points([one for one in kept if one not in moving]) < alone.cells
