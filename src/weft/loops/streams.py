"""Streams: contiguous memory that each iteration of a loop touches, and who can prefetch it: loops inside, or the loop.

    for i: { for row: for lane: s[lane] += x[i, 64 row + lane];  …;  for j: y[i, j] = x[i, j] * t }

has the streams x and y, a row at each iteration of i. A processor that walks along a row sees ahead, but not from one
row to the next, nor that y comes after x: so loops such as `row` fetch the next row of each, a part at each iteration.
What is stored past the caches is not fetched.

    for i: { row = ids[i];  for d: y[i, d] = table[row, d] }

gathers rows, which are anywhere: no processor sees ahead, and the loop itself fetches those of an iteration to come.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from weft.affine import Affine, are_affine
from weft.loops.effects import effects, sources
from weft.loops.nests import stride_of
from weft.loops.nodes import Buffer, For, If, Let, Local, NonTemporal, Read, Role, Stmt, Store
from weft.loops.walk import accesses, everything, expanded, mentioned, own_accesses, scoped, substituted, variables
from weft.ops import Scalar
from weft.ops.dtypes import numpy_type

#: The bytes of a cache line: what is stored past the caches at once.
LINE_BYTES = 64


@dataclass(frozen=True, slots=True)
class MemoryStream:
    """Cells of a buffer that follow each other: the place of the first, how many there are, are any written."""

    buffer: Buffer
    first: Affine
    cells: int
    written: bool

    @property
    def size(self) -> int:
        """In bytes."""
        return self.cells * self._itemsize

    @property
    def is_whole_lines(self) -> bool:
        """Does it begin and end where cache lines do, wherever the loops around stand?"""
        places = [self.cells, self.first.offset, *(stride for stride, _ in self.first.terms)]
        return all(one * self._itemsize % LINE_BYTES == 0 for one in places)

    @property
    def _itemsize(self) -> int:
        return numpy_type(self.buffer.dtype).itemsize


def streams_of(loop: For) -> list[MemoryStream]:
    """What an iteration of a loop touches, that moves with it, as it is touched first."""
    past = set(_past_caches(loop))
    return [one for one in _pieces(loop) if loop.loop in one.first.names and one.buffer not in past]


def bytes_with_next(loop: For) -> int:
    """What an iteration of a loop touches, and what moves with it once more: the next iteration's."""
    return sum(one.size * (2 if loop.loop in one.first.names else 1) for one in _pieces(loop))


def passes_over(loop: For, streams: Sequence[MemoryStream]) -> int:
    """How many loops inside one touch some streams."""
    moving = {one.buffer for one in streams}
    inner = [one for one in loop.body if isinstance(one, For)]
    return sum(any(each.buffer in moving for each in accesses((one,))) for one in inner)


def _pieces(loop: For) -> list[MemoryStream]:
    """What an iteration of a loop touches for certain, as it is touched first."""
    written = effects(loop.body).buffers
    found: dict[tuple[Buffer, tuple[tuple[int, str], ...]], list[MemoryStream]] = {}
    for stmt, scope in scoped(loop.body):
        for one in own_accesses(stmt):
            if one.at is None or any(isinstance(step, If) for step in scope.steps):
                continue
            piece = piece_of(Read(one.buffer, one.at), dict(scope.loops))
            if piece is not None:
                stream = replace(piece, written=one.buffer in written)
                found.setdefault((one.buffer, piece.first.terms), []).append(stream)
    return list(chain.from_iterable(map(_merged, found.values())))


def _past_caches(loop: For) -> Iterator[Buffer]:
    """The buffers that loops inside store past the caches."""
    for inner in everything(loop.body):
        if isinstance(inner, For) and any(isinstance(one, NonTemporal) for one in inner.how):
            yield from (one.buffer for one in bypassing(inner.loop, inner.body))


def bypassing(loop: str, body: Sequence[Stmt]) -> list[Store]:
    """What a loop stores in one piece, in memory that it touches nowhere else and that is no thread's own."""
    touched = Counter(one.buffer for stmt in everything(body) for one in own_accesses(stmt))
    return [
        one
        for one in body
        if isinstance(one, Store)
        and touched[one.buffer] == 1
        and one.buffer.role is not Role.PRIVATE
        and stride_of(Read(one.buffer, one.at), loop) == 1
    ]


def piece_of(cell: Read, inner: dict[str, int]) -> MemoryStream | None:
    """The cells that loops inside make of one, if these follow each other."""
    names = {name for index in cell.at if isinstance(index, Affine) for name in index.names}
    strides = {name: stride_of(cell, name) for name in names}
    if not are_affine(cell.at) or None in strides.values():
        return None
    cells = 1
    for stride, size in sorted((strides[name] or 0, size) for name, size in inner.items() if name in names):
        if stride != cells:
            return None
        cells *= size
    terms = tuple((stride, name) for name, stride in sorted(strides.items()) if name not in inner and stride)
    return MemoryStream(cell.buffer, Affine(terms, _offset(cell)), cells, written=False)


def _offset(cell: Read) -> int:
    """The place of a cell where all loops stand at 0."""
    place, step = 0, 1
    for index, size in zip(reversed(cell.at), reversed(cell.buffer.shape), strict=True):
        assert isinstance(index, Affine)
        place += step * index.offset
        step *= size
    return place


def _merged(pieces: list[MemoryStream]) -> Iterator[MemoryStream]:
    """Pieces of one buffer that move alike, those that overlap or follow each other as one."""
    first, *rest = sorted(pieces, key=lambda one: one.first.offset)
    for one in rest:
        if one.first.offset > first.first.offset + first.cells:
            yield first
            first = one
        else:
            end = max(first.first.offset + first.cells, one.first.offset + one.cells)
            first = replace(first, cells=end - first.first.offset)
    yield first


def fetched_by(loop: For) -> dict[For, list[MemoryStream]]:
    """The loops inside that fetch the streams of the next iteration, dealt out as they are needed."""
    fetching = [one for one in loop.body if isinstance(one, For) and _is_fetching(one)]
    streams = streams_of(loop) if fetching else []
    found: dict[For, list[MemoryStream]] = {}
    for at, one in enumerate(streams):
        found.setdefault(fetching[at * len(fetching) // len(streams)], []).append(one)
    return found


def _is_fetching(loop: For) -> bool:
    """Has a loop iterations that do a part of the work each, on what another loop inside passes over?"""
    return loop.size > 1 and not loop.how and len(loop.body) == 1 and isinstance(loop.body[0], For)


@dataclass(frozen=True, slots=True)
class GatheredRow:
    """Cells of a buffer that follow each other from one on, which data says."""

    first: Read
    cells: int

    @property
    def size(self) -> int:
        """In bytes."""
        return self.cells * numpy_type(self.first.buffer.dtype).itemsize


def gathered_rows(loop: For) -> list[GatheredRow]:
    """The rows that each iteration of a loop gathers for certain, by what is known before its first statement."""
    changed, known, found = effects(loop.body), dict[Local, Scalar](), dict[GatheredRow, None]()
    for stmt in loop.body:
        if isinstance(stmt, Let) and stmt.local not in changed.sets:
            known[stmt.local] = expanded(stmt.value, known)
        elif isinstance(stmt, For) and not any(isinstance(one, For) for one in stmt.body):
            for one in chain.from_iterable(map(own_accesses, stmt.body)):
                row = _row(Read(one.buffer, one.at or ()), stmt, known)
                if row and loop.loop in mentioned(row.first) and not changed.buffers & sources(row.first):
                    found[row] = None
    inside = changed.sets | changed.lets
    return [one for one in found if not inside.intersection(variables(one.first))]


def _row(cell: Read, along: For, known: Mapping[Local, Scalar]) -> GatheredRow | None:
    """The cells that a loop makes of one that is gathered, if they follow each other."""
    if are_affine(cell.at) or stride_of(cell, along.loop) != 1:
        return None
    first = substituted(expanded(cell, known), {along.loop: Affine(())})
    assert isinstance(first, Read)
    return GatheredRow(first, along.size)
