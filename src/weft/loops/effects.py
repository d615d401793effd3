"""What a block changes and uses: the buffers it writes, the variables it sets, the names it mentions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from weft.affine import Affine
from weft.loops.nodes import Buffer, For, Let, Local, Set, Stmt
from weft.loops.walk import WRITING, Cell, accesses, everything, parts, reads, walk
from weft.ops import OPS, Call, Scalar


class Effects(NamedTuple):
    """What a block changes: the buffers it writes, the variables it gives other values, and those it declares."""

    buffers: set[Buffer]
    sets: set[Local]
    lets: set[Local]


def effects(body: Sequence[Stmt]) -> Effects:
    """What a block and the blocks inside it change."""
    found = Effects(set(), set(), set())
    for stmt in everything(body):
        if isinstance(stmt, WRITING):
            found.buffers.add(stmt.buffer)
        elif isinstance(stmt, Set):
            found.sets.add(stmt.local)
        elif isinstance(stmt, Let):
            found.lets.add(stmt.local)
    return found


def weight(body: Sequence[Stmt]) -> int:
    """How long a block is: its statements, those of the blocks inside it, and their operations."""
    stmts = everything(body)
    return len(stmts) + sum(isinstance(one, Call) for stmt in stmts for part in parts(stmt) for one in walk(part))


def accumulation(stmt: Set) -> tuple[str, Scalar] | None:
    """The operation and the value with which a variable accumulates, where it is set to itself and something more."""
    match stmt.value:
        case Call(op=op, args=(first, value)) if first == stmt.local and OPS[op].neutral is not None:
            return op, value
    return None


def sources(scalar: Scalar) -> set[Buffer]:
    """The buffers a scalar reads."""
    return {one.buffer for one in reads(scalar)}


def read_in(body: Sequence[Stmt]) -> set[Buffer]:
    return {one.buffer for one in accesses(body) if not one.writes}


def written_in(body: Sequence[Stmt]) -> set[Buffer]:
    return effects(body).buffers


def found_through(cell: Cell) -> set[Buffer]:
    """The buffers that must be read to know which cell is meant."""
    return {buffer for index in cell[1] for buffer in sources(index)}


def names(body: Sequence[Stmt]) -> set[str]:
    """Every name of a loop, a static index or a variable in a block."""
    found: set[str] = set()
    for stmt in everything(body):
        if isinstance(stmt, For):
            found.add(stmt.loop)
        if isinstance(stmt, Let | Set):
            found.add(stmt.local.name)
        for one in (one for part in parts(stmt) for one in walk(part)):
            if isinstance(one, Affine):
                found.update(one.names)
            elif isinstance(one, Local):
                found.add(one.name)
    return found
