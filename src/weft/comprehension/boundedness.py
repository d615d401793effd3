"""Does anything say how far each index runs? As far as the text alone tells, whatever the sizes.

This follows the rounds in which ranges are found (range_inference.py), but asks only whether a subscript could bound
an index: what it refuses could not run for any sizes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from weft.affine import Affine
from weft.comprehension.accesses import Access, accesses, place_of
from weft.comprehension.linear import is_size, linear, never_negative, spelled, with_sizes, written
from weft.comprehension.mistakes import Mistake, listed, meant
from weft.comprehension.nodes import (
    Apply,
    Between,
    Binary,
    Cast,
    Choose,
    Comprehension,
    Dim,
    Expr,
    Index,
    Int,
    Let,
    Local,
    Read,
    Size,
    Truth,
    Unary,
    indices,
    left,
    walk,
)
from weft.comprehension.show import show_expr


@dataclass(frozen=True, slots=True)
class Subscript:
    """A subscript, the indices in it, also behind local names, and whether isl can look at it."""

    access: Access
    indices: frozenset[str]
    affine: bool


@dataclass(frozen=True, slots=True)
class Names:
    """The names a mistake about ranges may suggest."""

    sizes: Sequence[str]
    scalars: Sequence[str]


def subscripts(statement: Comprehension, shaped: Collection[str]) -> list[Subscript]:
    """The subscripts of a statement in tensors whose shapes are known before it runs."""
    lets = [clause for clause in statement.where if isinstance(clause, Let)]
    behind: dict[str, frozenset[str]] = {}
    affine: dict[str, bool] = {}
    for let in lets:
        behind[let.name.name] = _indices(let.value, behind)
        affine[let.name.name] = is_affine(let.value, affine)
    return [
        Subscript(access, _indices(access.subscript, behind), is_affine(access.subscript, affine))
        for access in accesses(statement)
        if access.tensor in shaped
    ]


def check_bounded(
    statement: Comprehension, shaped: Collection[str], declared: Collection[str], names: Names
) -> Iterator[Mistake]:
    """An index of a statement that nothing bounds; `declared` are those that the type of a result bounds."""
    parts = subscripts(statement, shaped)
    given = {clause.index.name for clause in statement.where if isinstance(clause, Between)}
    pending = [name for name in indices(statement) if name not in given]
    while pending:
        found = [one for one in pending if any(part.affine and part.indices & {*pending} == {one} for part in parts)]
        found = found or [one for one in pending if one in declared]
        if not found:
            yield unbounded(pending, statement, parts, names)
            return
        pending = [one for one in pending if one not in found]


def unbounded(pending: Sequence[str], statement: Comprehension, parts: Sequence[Subscript], names: Names) -> Mistake:
    """That nothing says how far the first of some indices runs, and why."""
    name = pending[0]
    mine = [one for one in parts if name in one.indices]
    others = [one for one in pending if any({name, one} <= both.indices for both in mine) and one != name]
    shown = listed(dict.fromkeys(str(one.access) for one in mine))
    size = next(iter(names.sizes), "N")
    fix = f"give its range: `where {name} in 0:{size}`"
    if not mine:
        guess = meant(name, [*names.scalars, *names.sizes])
        return Mistake(f"nothing says how far `{name}` runs", place_of(name, statement), guess or fix)
    if not any(one.affine for one in mine):
        data = any(isinstance(part, Read) for one in mine for part in walk(one.access.subscript))
        why = "depends on what tensors hold" if data else "is not affine"
        what = f"{shown} does not say how far `{name}` runs: the subscript {why}"
    elif others:
        what = f"{shown} does not say how far each of {listed([name, *others])} runs"
        fix = f"give the range of one: `where {others[0]} in 0:{size}`"
    else:
        what = f"{shown} does not bound `{name}` on both sides"
    return Mistake(what, place_of(name, statement), fix)


def check_begins(statement: Comprehension) -> Iterator[Mistake]:
    """The indices on the left of a tensor's only statement that begin later than 0 whatever the sizes."""
    for index in left(statement):
        low = _begins(index, statement)
        if low is not None:
            place = next(one for one in statement.at if isinstance(one, Index) and one.name == index)
            yield late(index, f"begins at {low}", statement.target.name, low, place)


def late(index: str, runs: str, target: str, low: int | str, place: Index) -> Mistake:
    """That a tensor has cells which nothing defines, because an index begins late."""
    fix = f"let it begin at 0: write `{index} + {low}` for `{index}` on the right"
    return Mistake(f"`{index}` {runs}, so nothing defines `{target}` below {low}", place.span, fix)


def _begins(index: str, statement: Comprehension) -> str | None:
    """A value above 0, whatever the sizes, that an index is never below, as far as numbers and sizes tell."""
    given = [one for one in statement.where if isinstance(one, Between) and one.index.name == index]
    if given:
        lows = [with_sizes(given[0].low)]
    else:
        forms = (with_sizes(access.subscript) for access in accesses(statement) if not access.guards)
        lows = [_least(form, index) for form in forms if form is not None and index in form.names]
    late = [low for low in lows if low is not None and all(map(is_size, low.names))]
    late = [low for low in late if never_negative(low - 1)]
    found = max(late, key=lambda low: low.offset, default=None)
    return show_expr(written(spelled(found))) if found is not None else None


def _least(form: Affine, index: str) -> Affine | None:
    """What an index must not be below for a subscript not to be."""
    factor, rest = form.coefficient(index), form.without([index])
    if factor == 1:
        return -rest
    return Affine((), -(rest.offset // factor)) if factor > 0 and rest.is_constant else None


def _indices(expr: Expr, behind: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """The indices in an expression, also behind its local names."""
    own = frozenset(one.name for one in walk(expr) if isinstance(one, Index))
    return own.union(*(behind.get(one.name, frozenset()) for one in walk(expr) if isinstance(one, Local)))


def is_affine(expr: Expr, variables: Mapping[str, bool] = MappingProxyType({})) -> bool:
    """Could an expression be affine for some sizes? What affine.py says once they are known implies it."""

    def all_of(*parts: Expr) -> bool:
        return all(is_affine(part, variables) for part in parts)

    match expr:
        case Int() | Size() | Dim() | Index() | Truth():
            return True
        case Local(name=name):
            return variables.get(name, False)
        case Cast(dtype="int32" | "int64", value=value) | Unary(value=value):
            return all_of(value)
        case Binary(op="*", left=one, right=other):
            return all_of(one, other) and (_is_constant(one) or _is_constant(other))
        case Binary(op="/" | "%", left=one, right=other):
            return all_of(one, other) and _is_constant(other)
        case Binary(left=one, right=other):
            return all_of(one, other)
        case Apply(function="min" | "fmin" | "max" | "fmax" | "abs" | "fabs", args=args):
            return all_of(*args)
        case Choose(condition=condition, yes=yes, no=no):
            return all_of(condition, yes, no)
    return False


def _is_constant(expr: Expr) -> bool:
    form = linear(expr, lambda size: 1)
    return form.is_constant if form is not None else not any(isinstance(one, Index | Local) for one in walk(expr))
