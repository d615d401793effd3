"""What a piece of code reads and writes, and where."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from weft.loops import Buffer, Fill, Stmt, Store, Update, reads
from weft.loops.effects import effects, everything, parts
from weft.ops import Scalar

#: A cell by its buffer and subscripts.
Cell = tuple[Buffer, tuple[Scalar, ...]]


class Access(NamedTuple):
    """A cell that code touches, by its subscripts; a fill, which touches all cells, has none."""

    buffer: Buffer
    at: tuple[Scalar, ...] | None
    writes: bool


def accesses(body: Sequence[Stmt]) -> list[Access]:
    """Every access in a block, in the order written."""
    return [one for stmt in everything(body) for one in own_accesses(stmt)]


def own_accesses(stmt: Stmt) -> list[Access]:
    """The accesses of a statement itself, without those of its body, in the order written."""
    match stmt:
        case Store(buffer=buffer, at=at, value=value):
            return [*_reads((value, *at)), Access(buffer, at, True)]
        case Update(buffer=buffer, at=at, value=value):
            return [*_reads((value, *at)), Access(buffer, at, False), Access(buffer, at, True)]
        case Fill(buffer=buffer):
            return [Access(buffer, None, True)]
    return _reads(parts(stmt))


def read_in(body: Sequence[Stmt]) -> set[Buffer]:
    return {one.buffer for one in accesses(body) if not one.writes}


def written_in(body: Sequence[Stmt]) -> set[Buffer]:
    return effects(body).buffers


def found_through(cell: Cell) -> set[Buffer]:
    """The buffers that must be read to know which cell is meant."""
    return {read.buffer for place in cell[1] for read in reads(place)}


def _reads(scalars: Iterable[Scalar]) -> list[Access]:
    return [Access(read.buffer, read.at, False) for scalar in scalars for read in reads(scalar)]
