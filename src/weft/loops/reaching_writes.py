"""Reaching writes: is every read of a buffer covered by earlier writes of the same code?

    for j: e[j] = x[j];  for j: y[j] = e[j] + e[0]      yes: every cell of e is written before it is read
    for j: e[j + 1] = e[j]                              no: e[0] is read and never written
    e[0] = 0;  for j: e[j + 1] = e[j]                   yes: by the iteration before, and the first by what is before

A read is covered if its cell is among those that statements before it write, in the same iteration of all loops
around both; or if that holds of the first iteration of some loop, and of each later one with what the one before it
wrote. Writes of still earlier iterations are not considered, so the answer is conservative.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile

from weft.affine import AccessMap, Affine, covers
from weft.loops.affine_accesses import Site as Site, sites as sites


def covered(one_buffer: Sequence[Site], outer: int = 0) -> bool:
    """Are the reads among the sites of a buffer, all it has in some block, covered by the writes?

    Each is to be covered in the very iteration of the loops among so many outer steps.
    """
    reads = dict.fromkeys(site for site in one_buffer if not site.access.writes)
    writes = list(dict.fromkeys(site for site in one_buffer if site.access.writes))
    return all(_covered(read, writes, outer) for read in reads)


def _covered(read: Site, writes: Sequence[Site], outer: int) -> bool:
    """Loops around the read are parameters, a write's own loops take all their values."""
    before = [(write, shared) for write in writes if (shared := _shared(write, read)) is not None]
    maps = [write.map(shared) for write, shared in before if write.is_affine(shared)]
    if not maps:
        return False
    if covers(maps, read.map(len(read.steps)), read.access.buffer.shape):
        return True
    ordered = [*takewhile(lambda step: not step.staged, read.steps)]  # a backend orders its own loops
    return any(_carried(read, writes, maps, depth) for depth in range(outer, len(ordered)))


def _carried(read: Site, writes: Sequence[Site], maps: Sequence[AccessMap], depth: int) -> bool:
    """Is a read covered in the first iteration of the loop at a depth, and in others with what the one before wrote?"""
    loop, path = read.steps[depth].loop, _path(read, depth + 1)
    inside = [write for write in writes if _path(write, depth + 1) == path and write.is_affine(depth + 1)]
    if loop is None or not inside:
        return False
    at, size = Affine.of(loop[0]), loop[1]
    region, shape = read.map(len(read.steps)), read.access.buffer.shape
    first, later = (replace(region, guards=(*region.guards, one)) for one in ((at, 1), (at - 1, size - 1)))
    earlier = [write.map(depth + 1).substitute({loop[0]: at - 1}) for write in inside]
    return covers(maps, first, shape) and covers([*maps, *earlier], later, shape)


def _path(site: Site, depth: int) -> list[int]:
    return [step.position for step in site.steps[:depth]]


def _shared(write: Site, read: Site) -> int | None:
    """How many steps two sites share, if the write comes first in the block where their paths diverge; else None."""
    for shared, (mine, yours) in enumerate(zip(write.steps, read.steps, strict=False)):
        if mine.position != yours.position:
            return shared if mine.position < yours.position else None
    return None
