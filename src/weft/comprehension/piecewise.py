"""Scalars as isl sees them: piecewise affine functions of a statement's indices, and sets of points.

Sums, products by constants, quotients and remainders by constants, minima, maxima and choices are exact. For anything
else, such as a value read from a tensor, intervals.py still knows in which interval it lies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import islpy as isl

from weft.affine import Affine
from weft.comprehension.scalars import operands
from weft.loops import Cast, Local
from weft.ops import Call, Num, Scalar, fold_tree

#: Functions of more pieces than this are treated as unknown, so that no text keeps isl busy for long.
_MOST_PIECES = 32
_SET = isl.dim_type.set
#: A function, the points at which a condition holds, or nothing that isl knows.
_Lifted: TypeAlias = isl.PwAff | isl.Set | None


@dataclass(frozen=True, slots=True)
class Range:
    """`low <= index < high`."""

    low: int
    high: int

    @property
    def size(self) -> int:
        return max(self.high - self.low, 0)

    def __str__(self) -> str:
        return f"{self.low}:{self.high}"


class Piecewise:
    """Translates scalars over some indices; `number` gives the values of sizes."""

    def __init__(self, names: Sequence[str], number: Callable[[str], int]) -> None:
        self.names, self._number = tuple(names), number
        self.all = isl.Set.universe(isl.Space.set_alloc(isl.DEFAULT_CONTEXT, 0, len(self.names)))
        self._known: dict[Scalar, _Lifted] = {}
        self._space = isl.LocalSpace.from_space(self.all.get_space())

    def value(self, scalar: Scalar) -> isl.PwAff | None:
        """The function a scalar computes; None when it is not known to be affine."""
        found = self._of(scalar)
        return found if isinstance(found, isl.PwAff) else None

    def holds(self, scalar: Scalar) -> isl.Set | None:
        """The points at which a condition holds; None when that is not known."""
        found = self._of(scalar)
        return found if isinstance(found, isl.Set) else None

    def _of(self, scalar: Scalar) -> _Lifted:
        if scalar not in self._known:
            self._known[scalar] = fold_tree(scalar, self._combined, operands)
        return self._known[scalar]

    def _combined(self, one: Scalar, parts: Sequence[_Lifted]) -> _Lifted:
        match one:
            case Num(value=bool(value)):
                return self.all if value else self.all.complement()
            case Num(value=int(value)):
                return self.constant(value)
            case Local(name=name):
                return self.constant(self._number(name))
            case Affine(terms=terms, offset=offset):
                return self._sum(terms, offset)
            case Cast(dtype="int32" | "int64"):
                return parts[0]
            case Call(op=op):
                found = _called(op, parts)
                pieces = found.n_piece() if isinstance(found, isl.PwAff) else found.n_basic_set() if found else 0
                return found if pieces <= _MOST_PIECES else None
        return None

    def _sum(self, terms: Iterable[tuple[int, str]], offset: int) -> isl.PwAff:
        found = isl.Aff.zero_on_domain(self._space).set_constant_val(_val(offset))
        for factor, name in terms:
            found = found.set_coefficient_val(isl.dim_type.in_, self.names.index(name), _val(factor))
        return isl.PwAff.from_aff(found)

    def constant(self, number: int) -> isl.PwAff:
        return isl.PwAff.val_on_domain(self.all, _val(number))

    def box(self, ranges: Mapping[str, Range], natural: Iterable[str] = ()) -> isl.Set:
        """The points whose coordinates lie in the ranges; the others are free, or only not negative."""
        found = self.all
        for name in natural:
            found = found.lower_bound_val(_SET, self.names.index(name), _val(0))
        return _within(found, {self.names.index(name): extent for name, extent in ranges.items()})

    def below(self, position: isl.PwAff) -> isl.Set:
        """The points at which a subscript is negative."""
        return position.lt_set(self.constant(0))

    def above(self, position: isl.PwAff, size: int) -> isl.Set:
        """The points at which a subscript is at least the size."""
        return position.ge_set(self.constant(size))

    def allowed(self, name: str, bad: isl.Set) -> isl.Set:
        """The values of an index at which no point is bad, as a set of one dimension."""
        at = self.names.index(name)
        bad = bad.project_out(_SET, at + 1, len(self.names) - at - 1).project_out(_SET, 0, at)
        return bad.complement()


def _quotient(value: isl.PwAff, by: isl.PwAff, remainder: bool) -> isl.PwAff | None:
    divisor = by.max_val() if by.is_cst() else None
    if divisor is None or divisor.is_zero() or not divisor.is_int():
        return None
    scaled, scale = (value.neg(), divisor.neg()) if divisor.is_neg() else (value, divisor)  # isl wants it positive
    quotient = scaled.scale_down_val(scale).floor()
    return value.sub(quotient.scale_val(divisor)) if remainder else quotient


def _absolute(value: isl.PwAff) -> isl.PwAff:
    return value.max(value.neg())


#: What operations come to for functions, and for sets.
_OF_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "add": isl.PwAff.add,
    "sub": isl.PwAff.sub,
    "neg": isl.PwAff.neg,
    "abs": _absolute,
    "min": isl.PwAff.min,
    "max": isl.PwAff.max,
    "fmin": isl.PwAff.min,
    "fmax": isl.PwAff.max,
    "eq": isl.PwAff.eq_set,
    "ne": isl.PwAff.ne_set,
    "lt": isl.PwAff.lt_set,
    "le": isl.PwAff.le_set,
}
_OF_SETS: Mapping[str, Callable[..., Any]] = {
    "and": isl.Set.intersect,
    "or": isl.Set.union,
    "not": isl.Set.complement,
}


def _called(op: str, parts: Sequence[_Lifted]) -> Any:
    match op, *parts:
        case "where", isl.Set() as held, isl.PwAff() as yes, isl.PwAff() as no:
            return yes.intersect_domain(held).union_add(no.intersect_domain(held.complement()))
        case "mul", isl.PwAff() as one, isl.PwAff() as other:
            return one.mul(other) if one.is_cst() or other.is_cst() else None
        case "floordiv" | "mod", isl.PwAff() as one, isl.PwAff() as other:
            return _quotient(one, other, op == "mod")
    if op in _OF_FUNCTIONS and all(isinstance(one, isl.PwAff) for one in parts):
        return _OF_FUNCTIONS[op](*parts)
    return _OF_SETS[op](*parts) if op in _OF_SETS and all(isinstance(one, isl.Set) for one in parts) else None


@lru_cache(maxsize=1024)
def _val(number: int) -> isl.Val:
    return isl.Val(str(number))


def span_of(values: isl.Set) -> tuple[int | None, int | None]:
    """The least and the greatest of a set of one dimension that is not empty; None where there is none."""
    low, high = values.dim_min_val(0), values.dim_max_val(0)
    return (low.to_python() if low.is_int() else None), (high.to_python() if high.is_int() else None)


def box(ranges: Sequence[Range]) -> isl.Set:
    """The points whose coordinates lie in some ranges."""
    return _within(isl.Set.universe(isl.Space.set_alloc(isl.DEFAULT_CONTEXT, 0, len(ranges))), dict(enumerate(ranges)))


def _within(points: isl.Set, ranges: Mapping[int, Range]) -> isl.Set:
    for at, extent in ranges.items():
        points = points.lower_bound_val(_SET, at, _val(extent.low)).upper_bound_val(_SET, at, _val(extent.high - 1))
    return points


def first_point(points: isl.Set) -> tuple[int, ...]:
    """The first point of a set that is not empty and has one."""
    point = points.lexmin().sample_point()
    return tuple(point.get_coordinate_val(_SET, at).to_python() for at in range(points.dim(_SET)))


def at_least(number: int) -> isl.Set:
    """The numbers from this on, as a set of one dimension."""
    return isl.Set.universe(isl.Space.set_alloc(isl.DEFAULT_CONTEXT, 0, 1)).lower_bound_val(_SET, 0, _val(number))
