"""Dead clears: a buffer that is cleared and then accumulated into once in each cell is stored instead.

g[...] = 0;  for i: g[i] += x[i] * 2      becomes      for i: g[i] = 0 + x[i] * 2

Where that is 0.0 and what is never -0.0, it is a copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from weft.affine import AccessMap, Affine, covers, injective
from weft.loops import combined
from weft.loops.constants import constant_value
from weft.loops.nests import Nest
from weft.loops.nodes import Buffer, Read, Store, Update
from weft.loops.walk import rewritten
from weft.ops import Call, Scalar
from weft.optimise.signed_zeros import unsigned_buffers


def with_forwarded_fills(nests: Sequence[Nest]) -> list[Nest]:
    """Nests without fills that the first accumulation into a buffer makes up for."""
    fills, done = dict[Buffer, int](), dict[int, Nest](enumerate(nests))
    for at, nest in enumerate(nests):
        first = fills.get(nest.target)
        if first is not None and takes_all(nest) and not nest.shared:
            fill = nests[first].core
            done[at] = replace(nest, core=stored_from(nest.core, fill.value))
            del done[first]
        for buffer in [nest.target, *(read.buffer for read in nest.reads)]:
            fills.pop(buffer, None)
        if nest.fills and not nest.shared and not nest.reads:
            fills[nest.target] = at
    return [done[at] for at in sorted(done)]


def with_plain_copies(nests: Sequence[Nest]) -> list[Nest]:
    """Nests that copy what they add to zero, where that is never -0.0: whoever reads a copy may read the original."""
    positive = unsigned_buffers(nests)

    def plain(nest: Nest) -> Nest:
        match nest.core:
            case Store(value=Call(op="add", args=(zero, Read() as read))) if (
                read.buffer in positive and read.buffer.dtype == nest.target.dtype and constant_value(zero) == 0
            ):
                return replace(nest, core=replace(nest.core, value=read))
        return nest

    return list(map(plain, nests))


def takes_all(nest: Nest) -> bool:
    """Does a nest accumulate into every cell of its target, each once, and read it nowhere else?"""
    at = tuple([index for index in nest.core.at if isinstance(index, Affine)])
    if not isinstance(nest.core, Update) or nest.tests or len(at) < len(nest.core.at):
        return False
    if any(read.buffer == nest.target for read in nest.reads):
        return False
    one, shape = AccessMap(at, nest.loops), nest.target.shape
    return covers([one], AccessMap.all_of(shape), shape) and injective([one])


def stored_from(core: Store | Update, start: Scalar) -> Store:
    """An accumulation into a cell that holds a number, as a store."""
    assert isinstance(core, Update)
    cell = Read(core.buffer, core.at)
    return Store(core.buffer, core.at, rewritten(combined(core), lambda one: start if one == cell else None))
