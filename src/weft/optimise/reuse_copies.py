"""Copy propagation to what is stored anyway: a copy that a recurrence keeps is read in place of the original.

    for t: { z[t] = tanh(h[t] + x[t]);  h[t + 1] = z[t] };   for t: y[t] = z[t] * 2

becomes, so that `z` need not be stored,

    for t: { z[t] = tanh(h[t] + x[t]);  h[t + 1] = z[t] };   for t: y[t] = h[t + 1] * 2

What is carried from iteration to iteration is read where it was not written yet, and so it is never computed where it
is read. Only reads that come after the loop of the copy are moved: every cell is written by then, and once, the
original as well as the copy.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from weft.affine import AccessMap, Affine, injective
from weft.loops.nests import Nest, common_loops
from weft.loops.nodes import Buffer, Read, Store
from weft.loops.walk import rewritten, substituted
from weft.ops import Scalar


@dataclass(frozen=True, slots=True)
class _Copy:
    """Where the cells of a buffer also are, by the loops that index its axes, if any does, and from which nest on."""

    loops: tuple[str, ...]
    cell: Read
    since: int

    def at(self, subscripts: Sequence[Scalar]) -> Read | None:
        """The copy of a cell; None if its subscripts are not affine."""
        own = [one for one in subscripts if isinstance(one, Affine)]
        if len(own) < len(subscripts):
            return None
        where = {name: index for name, index in zip(self.loops, own, strict=True) if name}
        return Read(self.cell.buffer, tuple([substituted(one, where) for one in self.cell.at]))


def reusing_copies(nests: Sequence[Nest], kept: Collection[Buffer]) -> list[Nest]:
    """The nests with copies read that recurrences store."""
    found = _copies(nests, kept) if any(nest.shared for nest in nests) else {}
    return [_reading(nest, found, at) for at, nest in enumerate(nests)] if found else list(nests)


def _copies(nests: Sequence[Nest], kept: Collection[Buffer]) -> dict[Buffer, _Copy]:
    writers: dict[Buffer, list[int]] = {}
    readers: dict[Buffer, int] = {}
    for at, nest in enumerate(nests):
        writers.setdefault(nest.target, []).append(at)
        for read in nest.reads:
            readers.setdefault(read.buffer, at)
    found: dict[Buffer, _Copy] = {}
    for at in range(len(nests) - 1, -1, -1):
        source = _copied(nests[at])
        if source is None or source.buffer in kept or len(writers.get(source.buffer, ())) != 1:
            continue
        target, others = nests[at].target, writers[nests[at].target][:-1]
        last = writers[target][-1] == at and not any(common_loops(nests[one], nests[at]) for one in others)
        carried = last and readers.get(target, at + 1) <= at
        if writers[source.buffer][0] >= at or not (carried or target in found):
            continue
        if not _writes_once(nests[at]) or not _writes_once(nests[writers[source.buffer][0]]):
            continue
        loops = tuple("".join(index.names) for index in source.at if isinstance(index, Affine))
        own = Read(target, nests[at].core.at)
        cell = own if carried else found[target].at(own.at)
        if cell is not None:
            found[source.buffer] = _Copy(loops, cell, _end(nests, at) if carried else found[target].since)
    return found


def _copied(nest: Nest) -> Read | None:
    """What a nest copies, cell by cell: each subscript is a loop of its own, and these are all its loops."""
    value = nest.core.value
    if not isinstance(nest.core, Store) or nest.tests or not isinstance(value, Read):
        return None
    sizes, shape = dict(nest.loops), value.buffer.shape
    names = [_loop(index, size, sizes) for index, size in zip(value.at, shape, strict=True)]
    moving = [name for name in names if name]
    return value if None not in names and sorted(moving) == sorted(sizes) else None


def _writes_once(nest: Nest) -> bool:
    """Does it come to each cell that it writes once, and store a value there?"""
    at = tuple([index for index in nest.core.at if isinstance(index, Affine)])
    alone = isinstance(nest.core, Store) and len(at) == len(nest.core.at)
    return alone and injective([AccessMap(at, nest.loops)])


def _loop(index: Scalar, size: int, sizes: Mapping[str, int]) -> str | None:
    """The loop that runs through an axis, no loop through one of size 1; None if it is otherwise."""
    if isinstance(index, Affine) and not index.offset:
        if not index.terms and size == 1:
            return ""
        if len(index.terms) == 1 and index.terms[0][0] == 1 and sizes.get(index.terms[0][1]) == size:
            return index.terms[0][1]
    return None


def _end(nests: Sequence[Nest], at: int) -> int:
    """The first nest after those that share a loop with one."""
    shared = nests[at].shared[:1]
    while at < len(nests) and shared and nests[at].shared[:1] == shared:
        at += 1
    return at if shared else at + 1


def _reading(nest: Nest, copies: Mapping[Buffer, _Copy], at: int) -> Nest:
    def leaf(one: Scalar) -> Scalar | None:
        if not isinstance(one, Read) or one.buffer not in copies or at < copies[one.buffer].since:
            return None
        return copies[one.buffer].at([rewritten(index, leaf) for index in one.at])

    return nest.mapped(lambda scalar: rewritten(scalar, leaf))
