"""What code touches: the scalars of a statement, the cells and numbers a block changes, the names it uses."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from weft.loops.nodes import (
    Buffer,
    Cast,
    Fill,
    For,
    If,
    Inside,
    Let,
    Local,
    Place,
    Read,
    Remark,
    Set,
    Staged,
    Stmt,
    Store,
    Update,
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
    for stmt in body:
        found.append(stmt)
        if isinstance(stmt, For | If | Remark | Staged):
            found += everything(stmt.body)
    return found


def within(scalar: Scalar) -> list[Scalar]:
    """The scalar and everything inside it, subscripts of reads included."""
    match scalar:
        case Call(args=inner) | Read(at=inner):
            return [scalar, *(deeper for one in inner for deeper in within(one))]
        case Cast(value=value):
            return [scalar, *within(value)]
    return [scalar]


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
    """A statement with the scalars of itself and its body changed."""
    match stmt:
        case For() | Remark() | Staged():
            return with_body(stmt, tuple(mapped(one, change) for one in stmt.body))
        case If(tests=tests, body=body):
            changed = tuple(Inside(change(one.place), one.size) for one in tests)
            return If(changed, tuple(mapped(one, change) for one in body))
        case Store(buffer=buffer, at=at, value=value):
            return Store(buffer, tuple(map(change, at)), change(value))
        case Update(buffer=buffer, at=at, op=op, value=value):
            return Update(buffer, tuple(map(change, at)), op, change(value))
        case Let(local=local, value=value):
            return Let(local, change(value))
        case Set(local=local, value=value):
            return Set(local, change(value))
    return stmt


def written(body: Sequence[Stmt]) -> set[Buffer]:
    """The buffers a block writes."""
    return {stmt.buffer for stmt in everything(body) if isinstance(stmt, Store | Update | Fill)}


def changed(body: Sequence[Stmt]) -> set[Local]:
    """The numbers a block gives other values."""
    return {stmt.local for stmt in everything(body) if isinstance(stmt, Set)}


def declared(body: Sequence[Stmt]) -> set[Local]:
    """The numbers a block declares."""
    return {stmt.local for stmt in everything(body) if isinstance(stmt, Let)}


def growth(stmt: Set) -> tuple[str, Scalar] | None:
    """The operation and the value by which a number grows, where it is set to itself and something more."""
    match stmt.value:
        case Call(op=op, args=(first, value)) if first == stmt.local and OPS[op].neutral is not None:
            return op, value
    return None


def sources(scalar: Scalar) -> set[Buffer]:
    """The buffers a scalar reads."""
    return {one.buffer for one in within(scalar) if isinstance(one, Read)}


def numbers(scalar: Scalar) -> list[Local]:
    """The numbers a scalar mentions, as often as it does."""
    return [one for one in within(scalar) if isinstance(one, Local)]


def names(body: Sequence[Stmt]) -> set[str]:
    """Every name of a loop, a static index or a number in a block."""
    found: set[str] = set()
    for stmt in everything(body):
        if isinstance(stmt, For):
            found.add(stmt.loop)
        if isinstance(stmt, Let | Set):
            found.add(stmt.local.name)
        for one in (one for part in parts(stmt) for one in within(part)):
            if isinstance(one, Place):
                found |= {name for _, name in one.terms}
            elif isinstance(one, Local):
                found.add(one.name)
    return found
