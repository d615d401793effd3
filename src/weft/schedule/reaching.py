"""Reaching writes: is every read of a buffer covered by earlier writes of the same code?

    for j: e[j] = x[j];  for j: y[j] = e[j] + e[0]      yes: every cell of e is written before it is read
    for j: e[j + 1] = e[j]                              no: e[0] is read and never written

A read is covered if its cell is among those that statements before it write, in the same iteration of all loops
around both. Writes of earlier iterations are not considered, so the answer is conservative.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.affine import covers
from weft.loops.sites import Site as Site, sites as sites


def covered(one_buffer: Sequence[Site]) -> bool:
    """Are the reads among the sites of a buffer, all it has in some block, covered by the writes?"""
    reads = dict.fromkeys(site for site in one_buffer if not site.access.writes)
    writes = list(dict.fromkeys(site for site in one_buffer if site.access.writes))
    return all(_covered(read, writes) for read in reads)


def _covered(read: Site, writes: Sequence[Site]) -> bool:
    """Loops around the read are parameters, a write's own loops take all their values."""
    before = [(write, shared) for write in writes if (shared := _shared(write, read)) is not None]
    maps = [write.map(shared) for write, shared in before if write.is_affine(shared)]
    return bool(maps) and covers(maps, read.map(len(read.steps)), read.access.buffer.shape)


def _shared(write: Site, read: Site) -> int | None:
    """How many steps two sites share, if the write comes first in the block where their paths diverge; else None."""
    for shared, (mine, yours) in enumerate(zip(write.steps, read.steps, strict=False)):
        if mine.position != yours.position:
            return shared if mine.position < yours.position else None
    return None
