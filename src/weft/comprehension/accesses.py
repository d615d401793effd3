"""The subscripts of a statement, and where its indices stand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from weft.comprehension.nodes import (
    Between,
    Binary,
    Choose,
    Comprehension,
    Exists,
    Expr,
    Index,
    Let,
    Read,
    children,
    exprs,
    walk,
)
from weft.comprehension.show import show_expr
from weft.errors import Span

#: Conditions that hold where something is read, and those that do not.
Guards: TypeAlias = tuple[tuple[Expr, bool], ...]


@dataclass(frozen=True, slots=True)
class Access:
    """One subscript: of a read, of an `exists` or of the left side (then there is no read)."""

    tensor: str
    axis: int
    subscript: Expr
    read: Read | None
    guards: Guards
    span: Span

    def __str__(self) -> str:
        if self.read is not None:
            return show_expr(self.read)
        return f"{self.tensor}(… {show_expr(self.subscript)} …)"


def accesses(statement: Comprehension) -> Iterator[Access]:
    """Every subscript of a statement, that of the left side first."""
    for axis, one in enumerate(statement.at):
        yield Access(statement.target.name, axis, one, None, (), one.span)
    yield from _within(statement.value)
    for clause in statement.where:
        if isinstance(clause, Let):
            yield from _within(clause.value)
        elif isinstance(clause, Exists):
            for read in _within(clause.value):
                yield Access(read.tensor, read.axis, read.subscript, None, (), read.span)


def _within(expr: Expr) -> Iterator[Access]:
    """The subscripts in an expression, in the order written, each with the choices around it."""
    waiting: list[tuple[Expr, Guards]] = [(expr, ())]
    while waiting:
        one, guards = waiting.pop()
        if isinstance(one, Read):
            for axis, subscript in enumerate(one.subscripts):
                yield Access(one.tensor, axis, subscript, one, guards, subscript.span)
        waiting += reversed(list(_guarded(one, guards)))


def _guarded(expr: Expr, guards: Guards) -> Iterator[tuple[Expr, Guards]]:
    match expr:
        case Choose(condition=condition, yes=yes, no=no):
            yield condition, guards
            yield yes, (*guards, (condition, True))
            yield no, (*guards, (condition, False))
        case Binary(op="&&" | "||" as op, left=left, right=right):
            yield left, guards
            yield right, (*guards, (left, op == "&&"))
        case _:
            for part in children(expr):
                yield part, guards


def place_of(name: str, statement: Comprehension) -> Span:
    """Where an index first appears, on the right if it is there."""
    for expr in exprs(statement):
        for one in walk(expr):
            if isinstance(one, Index) and one.name == name:
                return one.span
    kept = [(one.name, one.span) for one in statement.at if isinstance(one, Index)]
    given = [(one.index.name, one.index.span) for one in statement.where if isinstance(one, Between)]
    return dict(reversed([*kept, *given]))[name]
