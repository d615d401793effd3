"""The ranges of a statement's indices, found in rounds (ranges.py says how)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import islpy as isl

from weft.comprehension.accesses import Guards, place_of
from weft.comprehension.affine import Affine, Known, Range, at_least, is_interval, span_of
from weft.comprehension.boundedness import Names, Subscript, subscripts, unbounded
from weft.comprehension.mistakes import Mistake, listed
from weft.comprehension.nodes import Between, Comprehension, Expr, Index, Let, indices, left
from weft.comprehension.show import show_expr


@dataclass(frozen=True, slots=True)
class _Constraint:
    """One side of a subscript that must stay inside: the points at which it does not.

    `reached` are the points at which it is read, by the guards that are known. A subscript that is not affine has no
    points.
    """

    subscript: Subscript
    outside: isl.Set | None
    reached: isl.Set | None

    @property
    def indices(self) -> frozenset[str]:
        return self.subscript.indices


def solve(
    statement: Comprehension, known: Known, declared: Sequence[int | None] = ()
) -> tuple[dict[str, Range], list[Mistake]]:
    """The range of every index, in the order of `indices(statement)`, or why there is none.

    `declared` are the sizes that the type of the result gives its axes: they bound what nothing else does.
    """
    names = indices(statement)
    affine = Affine(names, known, _lets(statement))
    ranges, mistakes = _given(statement, affine)
    constraints = _constraints(statement, known, affine)
    kept = set(left(statement))
    while not mistakes and (pending := [name for name in names if name not in ranges]):
        found: dict[str, Range] = {}
        for name in pending:
            alone = [one for one in constraints if one.indices & {*pending} == {name} and one.outside is not None]
            try:
                extent = _range_of(name, alone, ranges, affine, kept)
            except _Scattered:
                mistakes.append(_scattered(name, statement, alone))
                continue
            if extent is not None:
                found[name] = extent
        found = found or _of_declared(statement, pending, declared)
        if not found and not mistakes:
            scalars = [tensor for tensor, shape in known.shapes.items() if not shape]
            parts = [replace(one.subscript, affine=one.outside is not None) for one in constraints]
            mistakes.append(unbounded(pending, statement, parts, Names(list(known.sizes), scalars)))
        ranges |= found
    return {name: ranges[name] for name in names if name in ranges}, mistakes


def _of_declared(statement: Comprehension, pending: Sequence[str], declared: Sequence[int | None]) -> dict[str, Range]:
    pairs = zip(statement.at, declared, strict=False)
    return {
        one.name: Range(0, size)
        for one, size in pairs
        if isinstance(one, Index) and one.name in pending and size is not None
    }


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
    found = []
    for one in subscripts(statement, known.shapes):
        access = one.access
        position = affine.value(access.subscript)
        if position is None:
            found.append(_Constraint(one, None, None))
            continue
        reached = guarded(affine.all, access.guards, affine) if access.guards else None
        for outside in (affine.below(position), affine.above(position, known.shapes[access.tensor][access.axis])):
            found.append(_Constraint(one, outside, reached))
    return found


def guarded(points: isl.Set, guards: Guards, affine: Affine) -> isl.Set:
    """The points at which something is read; a guard that is not known may hold anywhere."""
    for condition, holds in guards:
        where = affine.holds(condition)
        if where is not None:
            points = points.intersect(where if holds else where.complement())
    return points


def _range_of(
    name: str, constraints: list[_Constraint], ranges: Mapping[str, Range], affine: Affine, kept: set[str]
) -> Range | None:
    """The range of an index in which every constraint holds, wherever the resolved indices are in theirs.

    A side that the guards of a read rule out anyway does not bound the index if the others do: in
    `i > 0 ? A(i - 1) : A(i)` nothing says that `i` begins at 1.
    """
    needed = every = at_least(0) if name in kept else affine.allowed(name, affine.all.complement())
    box = affine.box(ranges, kept)
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


def _scattered(name: str, statement: Comprehension, constraints: list[_Constraint]) -> Mistake:
    reads = listed(dict.fromkeys(str(one.subscript.access) for one in constraints))
    what = f"the values of `{name}` at which {reads} stays inside are not one range"
    return Mistake(what, place_of(name, statement), f"say which: `where {name} in …:…`")
