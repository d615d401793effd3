"""What a piece of code reads and writes, and where."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from weft.loops import Buffer, Fill, For, If, Let, Remark, Set, Staged, Stmt, Store, Update, reads
from weft.ops import Scalar


@dataclass(frozen=True, slots=True)
class Access:
    """A cell that code touches, by its subscripts; a fill, which touches all cells, has none."""

    buffer: Buffer
    at: tuple[Scalar, ...] | None
    writes: bool


def accesses(body: Sequence[Stmt]) -> Iterator[Access]:
    """Every access in a block, in the order written."""
    for stmt in body:
        match stmt:
            case For(body=inner) | Remark(body=inner) | Staged(body=inner):
                yield from accesses(inner)
            case If(tests=tests, body=inner):
                yield from _reads(*(test.place for test in tests))
                yield from accesses(inner)
            case Store(buffer=buffer, at=at, value=value):
                yield from _reads(value, *at)
                yield Access(buffer, at, True)
            case Update(buffer=buffer, at=at, value=value):
                yield from _reads(value, *at)
                yield Access(buffer, at, False)
                yield Access(buffer, at, True)
            case Let(value=value) | Set(value=value):
                yield from _reads(value)
            case Fill(buffer=buffer):
                yield Access(buffer, None, True)


def read_in(body: Sequence[Stmt]) -> set[Buffer]:
    return {one.buffer for one in accesses(body) if not one.writes}


def written_in(body: Sequence[Stmt]) -> set[Buffer]:
    return {one.buffer for one in accesses(body) if one.writes}


def _reads(*scalars: Scalar) -> Iterator[Access]:
    return (Access(read.buffer, read.at, False) for scalar in scalars for read in reads(scalar))
