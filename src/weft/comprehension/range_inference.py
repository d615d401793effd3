"""The ranges of a statement's indices, found in rounds (ranges.py says how)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import islpy as isl

from weft.comprehension.accesses import Access, Accesses, Guards, place_of
from weft.comprehension.boundedness import Names, unbounded
from weft.comprehension.mistakes import Mistake, listed
from weft.comprehension.nodes import Comprehension, Index, left
from weft.comprehension.piecewise import Piecewise, Range, at_least, box, span_of
from weft.comprehension.scalars import Known
from weft.comprehension.show import show_expr
from weft.ops import Scalar


@dataclass(frozen=True, slots=True)
class _Constraint:
    """One side of a subscript that must stay inside: the points at which it does not.

    `reached` are the points at which it is read, by the guards that are known. A subscript that is not affine has no
    points.
    """

    access: Access
    outside: isl.Set | None
    reached: isl.Set | None


def solve(
    accesses: Accesses, known: Known, points: Piecewise, declared: Sequence[int | None] = ()
) -> tuple[dict[str, Range], list[Mistake]]:
    """The range of every index, in the order of `indices(statement)`, or why there is none.

    `declared` are the sizes that the type of the result gives its axes: they bound what nothing else does.
    """
    statement, names = accesses.statement, points.names
    ranges, mistakes = _given(accesses, points)
    constraints = _constraints([one for one in accesses.every if one.tensor in known.shapes], known, points)
    kept = set(left(statement))
    while not mistakes and (pending := [name for name in names if name not in ranges]):
        found: dict[str, Range] = {}
        for name in pending:
            alone = [
                one for one in constraints if one.access.indices & {*pending} == {name} and one.outside is not None
            ]
            try:
                extent = _range_of(name, alone, ranges, points, kept)
            except _Scattered:
                mistakes.append(_scattered(name, statement, alone))
                continue
            if extent is not None:
                found[name] = extent
        found = found or _of_declared(statement, pending, declared)
        if not found and not mistakes:
            scalars = [tensor for tensor, shape in known.shapes.items() if not shape]
            parts = [one.access for one in constraints]
            affine = [one.access for one in constraints if one.outside is not None]
            mistakes.append(unbounded(pending, statement, parts, affine, Names(list(known.sizes), scalars)))
        ranges |= found
    return {name: ranges[name] for name in names if name in ranges}, mistakes


def _of_declared(statement: Comprehension, pending: Sequence[str], declared: Sequence[int | None]) -> dict[str, Range]:
    pairs = zip(statement.at, declared, strict=False)
    return {
        one.name: Range(0, size)
        for one, size in pairs
        if isinstance(one, Index) and one.name in pending and size is not None
    }


def _given(accesses: Accesses, points: Piecewise) -> tuple[dict[str, Range], list[Mistake]]:
    """The ranges that `where i in low:high` gives."""
    ranges: dict[str, Range] = {}
    mistakes: list[Mistake] = []
    for name, clause in accesses.statement.given.items():
        bounds = [_number(bound, points) for bound in accesses.given[name]]
        for bound, number in zip((clause.low, clause.high), bounds, strict=True):
            if number is None:
                fix = "use sizes, whole numbers and `+ - * / % min max`"
                mistakes.append(Mistake(f"`{show_expr(bound)}` is no whole number known beforehand", bound.span, fix))
        low, high = bounds
        if low is not None and high is not None:
            ranges[name] = Range(low, max(low, high))
    return ranges, mistakes


def _number(bound: Scalar, points: Piecewise) -> int | None:
    value = points.value(bound)
    if value is None or not value.is_cst() or not value.max_val().is_int():
        return None
    number: int = value.max_val().to_python()
    return number


def _constraints(parts: Sequence[Access], known: Known, points: Piecewise) -> list[_Constraint]:
    found = []
    for access in parts:
        position = points.value(access.at)
        if position is None:
            found.append(_Constraint(access, None, None))
            continue
        reached = guarded(points.all, access.guards, points) if access.guards else None
        for outside in (points.below(position), points.above(position, known.shapes[access.tensor][access.axis])):
            found.append(_Constraint(access, outside, reached))
    return found


def guarded(reached: isl.Set, guards: Guards, points: Piecewise) -> isl.Set:
    """The points at which something is read; a guard that is not known may hold anywhere."""
    for condition, holds in guards:
        where = points.holds(condition)
        if where is not None:
            reached = reached.intersect(where if holds else where.complement())
    return reached


def _range_of(
    name: str, constraints: list[_Constraint], ranges: Mapping[str, Range], points: Piecewise, kept: set[str]
) -> Range | None:
    """The range of an index in which every constraint holds, wherever the resolved indices are in theirs.

    A side that the guards of a read rule out anyway does not bound the index if the others do: in
    `i > 0 ? A(i - 1) : A(i)` nothing says that `i` begins at 1.
    """
    needed = every = at_least(0) if name in kept else points.allowed(name, points.all.complement())
    known = points.box(ranges, kept)
    for one in constraints:
        assert one.outside is not None
        resolved = points.box({index: ranges[index] for index in one.access.indices if index in ranges})
        allowed = points.allowed(name, resolved.intersect(one.outside))
        every = every.intersect(allowed)
        if one.reached is None or not known.intersect(one.reached).intersect(one.outside).is_empty():
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
    found = Range(low, high + 1)
    if not box([found]).is_subset(values):
        raise _Scattered
    return found


def _scattered(name: str, statement: Comprehension, constraints: list[_Constraint]) -> Mistake:
    reads = listed(dict.fromkeys(str(one.access) for one in constraints))
    what = f"the values of `{name}` at which {reads} stays inside are not one range"
    return Mistake(what, place_of(name, statement), f"say which: `where {name} in …:…`")
