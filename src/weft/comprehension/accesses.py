"""The subscripts of a statement, and where its indices stand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
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
    computed_subscripts,
    exprs,
    walk,
)
from weft.comprehension.scalars import Translation, index_names
from weft.comprehension.show import show_expr
from weft.errors import Span
from weft.ops import Scalar

#: Conditions that hold where something is read, and those that do not.
Guards: TypeAlias = tuple[tuple[Scalar, bool], ...]


@dataclass(frozen=True, slots=True)
class Access:
    """One subscript: of a read, of an `exists` or of the left side (then there is no read); as written, and `at`."""

    tensor: str
    axis: int
    subscript: Expr
    at: Scalar
    read: Read | None
    guards: Guards
    indices: frozenset[str]

    @property
    def span(self) -> Span:
        return self.subscript.span

    def __str__(self) -> str:
        if self.read is not None:
            return show_expr(self.read)
        return f"{self.tensor}(… {show_expr(self.subscript)} …)"


@dataclass(frozen=True, slots=True)
class Accesses:
    """A statement with its subscripts, that of the left side first, and the ends of the ranges it gives, as scalars."""

    statement: Comprehension
    every: tuple[Access, ...]
    given: Mapping[str, tuple[Scalar, Scalar]]

    @staticmethod
    def of(statement: Comprehension, types: Mapping[str, str]) -> Accesses:
        """Those of a statement, given the types of tensors."""
        scalar = Translation(types).within(statement)
        given = {name: (scalar(one.low), scalar(one.high)) for name, one in statement.given.items()}
        return Accesses(statement, tuple(_accesses(statement, scalar)), given)


def _accesses(statement: Comprehension, scalar: Translation) -> Iterator[Access]:
    for axis, one in enumerate(statement.at):
        at = scalar(one)
        yield Access(statement.target.name, axis, one, at, None, (), index_names(at))
    for part in (*computed_subscripts(statement), statement.value):
        yield from _within(part, scalar)
    for clause in statement.where:
        if isinstance(clause, Let):
            yield from _within(clause.value, scalar)
        elif isinstance(clause, Exists):
            yield from (replace(read, read=None, guards=()) for read in _within(clause.value, scalar))


def _within(expr: Expr, scalar: Translation) -> Iterator[Access]:
    """The subscripts in an expression, in the order written, each with the choices around it."""
    waiting: list[tuple[Expr, Guards]] = [(expr, ())]
    while waiting:
        one, guards = waiting.pop()
        if isinstance(one, Read):
            for axis, subscript in enumerate(one.subscripts):
                at = scalar(subscript)
                yield Access(one.tensor, axis, subscript, at, one, guards, index_names(at))
        waiting += reversed(list(_guarded(one, guards, scalar)))


def _guarded(expr: Expr, guards: Guards, scalar: Translation) -> Iterator[tuple[Expr, Guards]]:
    match expr:
        case Choose(condition=condition, yes=yes, no=no):
            test = scalar(condition)
            yield condition, guards
            yield yes, (*guards, (test, True))
            yield no, (*guards, (test, False))
        case Binary(op="&&" | "||" as op, left=left, right=right):
            yield left, guards
            yield right, (*guards, (scalar(left), op == "&&"))
        case _:
            yield from ((part, guards) for part in children(expr))


def place_of(name: str, statement: Comprehension) -> Span:
    """Where an index first appears, on the right if it is there."""
    used = (one for expr in exprs(statement) for one in walk(expr))
    places = [(one.name, one.span) for one in (*used, *statement.at) if isinstance(one, Index)]
    places += [(one.index.name, one.index.span) for one in statement.where if isinstance(one, Between)]
    return dict(reversed(places))[name]
