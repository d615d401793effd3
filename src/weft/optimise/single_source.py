"""Pointwise values of one large buffer: whoever reads them may read that buffer instead, and recompute.

h[i, j] = x[i, j] * s[j]      x is as large as h, s is not: a reader of h moves as many bytes if it reads x
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.loops.nests import Nest
from weft.loops.walk import walk
from weft.ops import OPS, Call


def is_from_one(writers: Sequence[Nest]) -> bool:
    """Do nests compute each cell of a buffer once, from one as large at most, that lies along memory as it does?"""
    target = writers[0].target
    large = [(nest, read) for nest in writers for read in nest.reads if 2 * read.buffer.bytes > target.bytes]
    along = all(read.at[-1:] == nest.core.at[-1:] for nest, read in large)
    alone = len({read.buffer for _, read in large} - {target}) <= 1
    return along and alone and not any(nest.reduces or nest.tests for nest in writers)


def price_of(writers: Sequence[Nest]) -> int:
    """What the operations for a cell cost."""
    calls = (one for nest in writers for one in walk(nest.core.value) if isinstance(one, Call))
    return sum(OPS[one.op].price for one in calls)
