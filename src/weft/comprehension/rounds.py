"""The ranges of a statement's indices, found in rounds (ranges.py says how)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import islpy as isl

from weft.comprehension.affine import Affine, Known, Range, at_least, is_interval, span_of
from weft.comprehension.mistakes import Mistake, listed, meant
from weft.comprehension.nodes import (
    Between,
    Binary,
    Choose,
    Comprehension,
    Exists,
    Expr,
    Ident,
    Index,
    Let,
    Local,
    Read,
    children,
    exprs,
    indices,
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


def accesses(statement: Comprehension) -> Iterator[Access]:
    """Every subscript of a statement, that of the left side first."""
    for axis, index in enumerate(statement.indices):
        yield Access(statement.target.name, axis, Index(index.name, index.span), None, (), index.span)
    yield from _within(statement.value, ())
    for clause in statement.where:
        if isinstance(clause, Let):
            yield from _within(clause.value, ())
        elif isinstance(clause, Exists):
            for one in _within(clause.value, ()):
                yield Access(one.tensor, one.axis, one.subscript, None, (), one.span)


def _within(expr: Expr, guards: Guards) -> Iterator[Access]:
    match expr:
        case Choose(condition=condition, yes=yes, no=no):
            yield from _within(condition, guards)
            yield from _within(yes, (*guards, (condition, True)))
            yield from _within(no, (*guards, (condition, False)))
        case Binary(op="&&" | "||" as op, left=left, right=right):
            yield from _within(left, guards)
            yield from _within(right, (*guards, (left, op == "&&")))
        case _:
            if isinstance(expr, Read):
                for axis, subscript in enumerate(expr.subscripts):
                    yield Access(expr.tensor, axis, subscript, expr, guards, subscript.span)
            for part in children(expr):
                yield from _within(part, guards)


@dataclass(frozen=True, slots=True)
class _Constraint:
    """One side of a subscript that must stay inside: the indices in it, and the points at which it does not.

    `reached` are the points at which it is read, by the guards that are known. A subscript that is not affine has no
    points.
    """

    access: Access
    indices: frozenset[str]
    outside: isl.Set | None
    reached: isl.Set | None


def solve(statement: Comprehension, known: Known) -> tuple[dict[str, Range], list[Mistake]]:
    """The range of every index, in the order of `indices(statement)`, or why there is none."""
    names = indices(statement)
    affine = Affine(names, known, _lets(statement))
    ranges, mistakes = _given(statement, affine)
    constraints = _constraints(statement, known, affine)
    left = {one.name for one in statement.indices}
    while not mistakes and (unresolved := [name for name in names if name not in ranges]):
        found: dict[str, Range] = {}
        for name in unresolved:
            alone = [one for one in constraints if one.indices & set(unresolved) == {name} and one.outside is not None]
            try:
                range = _range_of(name, alone, ranges, affine, left)
            except _Scattered:
                mistakes.append(_scattered(name, statement, alone))
                continue
            if range is not None:
                found[name] = range
        if not found and not mistakes:
            mistakes.append(_unbounded(unresolved[0], unresolved, statement, constraints, known))
        ranges |= found
    return {name: ranges[name] for name in names if name in ranges}, mistakes


def _lets(statement: Comprehension) -> list[Let]:
    return [clause for clause in statement.where if isinstance(clause, Let)]


def _given(statement: Comprehension, affine: Affine) -> tuple[dict[str, Range], list[Mistake]]:
    """The ranges that `where i in low:high` gives."""
    ranges: dict[str, Range] = {}
    mistakes: list[Mistake] = []
    for clause in statement.where:
        if not isinstance(clause, Between):
            continue
        bounds = [_number(bound, affine) for bound in (clause.low, clause.high)]
        for bound, number in zip((clause.low, clause.high), bounds, strict=True):
            if number is None:
                fix = "use sizes, whole numbers and `+ - * / % min max`"
                mistakes.append(Mistake(f"`{show_expr(bound)}` is no whole number known beforehand", bound.span, fix))
        low, high = bounds
        if low is not None and high is not None:
            ranges[clause.index.name] = Range(low, max(low, high))
    return ranges, mistakes


def _number(expr: Expr, affine: Affine) -> int | None:
    value = affine.value(expr)
    if value is None or not value.is_cst() or not value.max_val().is_int():
        return None
    number: int = value.max_val().to_python()
    return number


def _constraints(statement: Comprehension, known: Known, affine: Affine) -> list[_Constraint]:
    locals = {clause.name.name: clause.value for clause in _lets(statement)}
    behind: dict[str, frozenset[str]] = {}
    for name, value in locals.items():
        behind[name] = _indices(value, behind)
    found = []
    for access in accesses(statement):
        shape = known.shapes.get(access.tensor)
        if shape is None:  # the left side of a tensor that this statement defines
            continue
        inside = _indices(access.subscript, behind)
        position = affine.value(access.subscript)
        if position is None:
            found.append(_Constraint(access, inside, None, None))
            continue
        reached = guarded(affine.all, access.guards, affine) if access.guards else None
        for outside in (affine.below(position), affine.above(position, shape[access.axis])):
            found.append(_Constraint(access, inside, outside, reached))
    return found


def guarded(points: isl.Set, guards: Guards, affine: Affine) -> isl.Set:
    """The points at which something is read; a guard that is not known may hold anywhere."""
    for condition, holds in guards:
        where = affine.holds(condition)
        if where is not None:
            points = points.intersect(where if holds else where.complement())
    return points


def _indices(expr: Expr, behind: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """The indices in an expression, also behind its local names."""
    own = frozenset(one.name for one in walk(expr) if isinstance(one, Index))
    return own.union(*(behind.get(one.name, frozenset()) for one in walk(expr) if isinstance(one, Local)))


def _range_of(
    name: str, constraints: list[_Constraint], ranges: Mapping[str, Range], affine: Affine, left: set[str]
) -> Range | None:
    """The range of an index in which every constraint holds, wherever the resolved indices are in theirs.

    A side that the guards of a read rule out anyway does not bound the index if the others do: in
    `i > 0 ? A(i - 1) : A(i)` nothing says that `i` begins at 1.
    """
    needed = every = at_least(0) if name in left else affine.allowed(name, affine.all.complement())
    box = affine.box(ranges, left)
    for one in constraints:
        assert one.outside is not None
        resolved = affine.box({index: ranges[index] for index in one.indices if index in ranges})
        allowed = affine.allowed(name, resolved.intersect(one.outside))
        every = every.intersect(allowed)
        if one.reached is None or not box.intersect(one.reached).intersect(one.outside).is_empty():
            needed = needed.intersect(allowed)
    try:
        found = _range(needed)
    except _Scattered:
        found = None
    return found or _range(every)


class _Scattered(Exception):
    """The values an index may take are not one range."""


def _range(values: isl.Set) -> Range | None:
    """The range a set of values is; None when it has no end."""
    if values.is_empty():
        return Range(0, 0)
    low, high = span_of(values)
    if low is None or high is None:
        return None
    if not is_interval(values, low, high):
        raise _Scattered
    return Range(low, high + 1)


# What cannot be resolved


def place_of(name: str, statement: Comprehension) -> Span:
    """Where an index first appears, on the right if it is there."""
    for expr in exprs(statement):
        for one in walk(expr):
            if isinstance(one, Index) and one.name == name:
                return one.span
    clauses: list[Ident] = [one.index for one in statement.where if isinstance(one, Between)]
    return next(one.span for one in (*statement.indices, *clauses) if one.name == name)


def _scattered(name: str, statement: Comprehension, constraints: list[_Constraint]) -> Mistake:
    reads = listed(dict.fromkeys(_shown(one.access) for one in constraints))
    what = f"the values of `{name}` at which {reads} stays inside are not one range"
    return Mistake(what, place_of(name, statement), f"say which: `where {name} in …:…`")


def _shown(access: Access) -> str:
    if access.read is not None:
        return show_expr(access.read)
    return f"{access.tensor}(… {show_expr(access.subscript)} …)"


def _unbounded(
    name: str, unresolved: list[str], statement: Comprehension, constraints: list[_Constraint], known: Known
) -> Mistake:
    mine = [one for one in constraints if name in one.indices]
    others = [one for one in unresolved if any({name, one} <= both.indices for both in mine) and one != name]
    shown = listed(dict.fromkeys(_shown(one.access) for one in mine))
    size = next(iter(known.sizes), "N")
    fix = f"give its range: `where {name} in 0:{size}`"
    if not mine:
        scalars = [tensor for tensor, shape in known.shapes.items() if not shape]
        guess = meant(name, [*scalars, *known.sizes])
        what = f"nothing says how far `{name}` runs"
        return Mistake(what, place_of(name, statement), guess or fix)
    if all(one.outside is None for one in mine):
        data = any(isinstance(part, Read) for one in mine for part in walk(one.access.subscript))
        why = "depends on what tensors hold" if data else "is not affine"
        what = f"{shown} does not say how far `{name}` runs: the subscript {why}"
    elif others:
        what = f"{shown} does not say how far each of {listed([name, *others])} runs"
        fix = f"give the range of one: `where {others[0]} in 0:{size}`"
    else:
        what = f"{shown} does not bound `{name}` on both sides"
    return Mistake(what, place_of(name, statement), fix)
