"""What code touches: the scalars of a statement, the cells and numbers a block changes, the names it uses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import is_
from typing import NamedTuple

from weft.affine import Affine
from weft.loops.nodes import (
    Buffer,
    Fill,
    For,
    If,
    Inside,
    Let,
    Local,
    Read,
    Remark,
    Set,
    Staged,
    Stmt,
    Store,
    Update,
    walk,
)
from weft.ops import OPS, Call, Scalar


def parts(stmt: Stmt) -> tuple[Scalar, ...]:
    """The scalars of a statement itself, without those of its body."""
    match stmt:
        case If(tests=tests):
            return tuple(test.place for test in tests)
        case Store(at=at, value=value) | Update(at=at, value=value):
            return (*at, value)
        case Let(value=value) | Set(value=value):
            return (value,)
    return ()


def everything(body: Sequence[Stmt]) -> list[Stmt]:
    """Every statement of a block and of the blocks inside it, in the order written."""
    found: list[Stmt] = []
    rest = list(body[::-1])
    while rest:
        stmt = rest.pop()
        found.append(stmt)
        if isinstance(stmt, For | If | Remark | Staged):
            rest += stmt.body[::-1]
    return found


def weight(body: Sequence[Stmt]) -> int:
    """How long a block is: its statements, those of the blocks inside it, and their operations."""
    stmts = everything(body)
    return len(stmts) + sum(isinstance(one, Call) for stmt in stmts for part in parts(stmt) for one in walk(part))


def with_body(stmt: For | If | Remark | Staged, body: tuple[Stmt, ...]) -> Stmt:
    """A statement with another body."""
    match stmt:
        case For(loop=loop, size=size):
            return For(loop, size, body)
        case If(tests=tests):
            return If(tests, body)
        case Staged(what=what):
            return Staged(what, body)
    return Remark(stmt.text, body)


def mapped(stmt: Stmt, change: Callable[[Scalar], Scalar]) -> Stmt:
    """A statement with the scalars of itself and its body changed; the very same where none is."""
    old = parts(stmt)
    new = tuple(map(change, old))
    same = all(map(is_, new, old))
    match stmt:
        case For() | If() | Remark() | Staged():
            body = tuple([mapped(one, change) for one in stmt.body])
            around = stmt if same or not isinstance(stmt, If) else _tested(stmt, new)
            return around if all(map(is_, body, stmt.body)) else with_body(around, body)
        case _ if same:
            return stmt
        case Store(buffer=buffer):
            return Store(buffer, new[:-1], new[-1])
        case Update(buffer=buffer, op=op):
            return Update(buffer, new[:-1], op, new[-1])
        case Let(local=local):
            return Let(local, new[0])
        case Set(local=local):
            return Set(local, new[0])
    return stmt


def _tested(stmt: If, places: Sequence[Scalar]) -> If:
    return If(tuple(Inside(place, test.size) for place, test in zip(places, stmt.tests, strict=True)), stmt.body)


class Effects(NamedTuple):
    """What a block changes: the buffers it writes, the numbers it gives other values, and those it declares."""

    buffers: set[Buffer]
    sets: set[Local]
    lets: set[Local]


def effects(body: Sequence[Stmt]) -> Effects:
    """What a block and the blocks inside it change."""
    found = Effects(set(), set(), set())
    for stmt in everything(body):
        match stmt:
            case Store(buffer=buffer) | Update(buffer=buffer) | Fill(buffer=buffer):
                found.buffers.add(buffer)
            case Set(local=local):
                found.sets.add(local)
            case Let(local=local):
                found.lets.add(local)
    return found


def growth(stmt: Set) -> tuple[str, Scalar] | None:
    """The operation and the value by which a number grows, where it is set to itself and something more."""
    match stmt.value:
        case Call(op=op, args=(first, value)) if first == stmt.local and OPS[op].neutral is not None:
            return op, value
    return None


def sources(scalar: Scalar) -> set[Buffer]:
    """The buffers a scalar reads."""
    return {one.buffer for one in walk(scalar) if isinstance(one, Read)}


def numbers(scalar: Scalar) -> list[Local]:
    """The numbers a scalar mentions, as often as it does."""
    return [] if isinstance(scalar, Affine) else [one for one in walk(scalar) if isinstance(one, Local)]


def names(body: Sequence[Stmt]) -> set[str]:
    """Every name of a loop, a static index or a number in a block."""
    found: set[str] = set()
    for stmt in everything(body):
        if isinstance(stmt, For):
            found.add(stmt.loop)
        if isinstance(stmt, Let | Set):
            found.add(stmt.local.name)
        for one in (one for part in parts(stmt) for one in walk(part)):
            if isinstance(one, Affine):
                found |= {name for _, name in one.terms}
            elif isinstance(one, Local):
                found.add(one.name)
    return found
