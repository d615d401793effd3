"""Whole-number expressions as isl sees them: piecewise affine functions of a statement's indices, and sets of points.

Sums, products by constants, quotients and remainders by constants, minima, maxima and choices are exact. For anything
else, such as a value read from a tensor, intervals.py still knows in which interval it lies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import islpy as isl

from weft.comprehension.nodes import (
    Apply,
    Binary,
    Cast,
    Choose,
    Dim,
    Expr,
    Index,
    Int,
    Let,
    Local,
    Size,
    Truth,
    Unary,
)

#: Functions of more pieces than this are treated as unknown, so that no text keeps isl busy for long.
_MOST_PIECES = 32
_SET = isl.dim_type.set


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


@dataclass(frozen=True, slots=True)
class Known:
    """What is known before anything runs: sizes, shapes, and the types of what tensors hold."""

    sizes: Mapping[str, int]
    shapes: Mapping[str, tuple[int, ...]]
    types: Mapping[str, str]

    def number(self, expr: Expr) -> int | None:
        """The value of a number, a size or the size of an axis."""
        match expr:
            case Int(value=value):
                return value
            case Size(name=name):
                return self.sizes.get(name)
            case Dim(tensor=tensor, axis=axis):
                shape = self.shapes.get(tensor, ())
                return shape[axis] if axis < len(shape) else None
        return None


class Affine:
    """Translates the expressions of one statement."""

    def __init__(self, names: Sequence[str], known: Known, lets: Iterable[Let] = ()) -> None:
        self.names, self.known = tuple(names), known
        space = isl.Space.set_alloc(isl.DEFAULT_CONTEXT, 0, len(self.names))
        self.all = isl.Set.universe(space)
        self._local_space = isl.LocalSpace.from_space(space)
        self._locals: dict[str, isl.PwAff | None] = {}
        for let in lets:
            self._locals[let.name.name] = self.value(let.value)

    def value(self, expr: Expr) -> isl.PwAff | None:
        """The function an expression computes; None when it is not known to be affine."""
        found = self._value(expr)
        return None if found is None or found.n_piece() > _MOST_PIECES else found

    def _value(self, expr: Expr) -> isl.PwAff | None:
        match expr:
            case Int() | Size() | Dim():
                number = self.known.number(expr)
                return None if number is None else self.constant(number)
            case Index(name=name):
                return isl.PwAff.var_on_domain(self._local_space, _SET, self.names.index(name))
            case Local(name=name):
                return self._locals.get(name)
            case Cast(dtype="int32" | "int64", value=value):
                return self.value(value)
            case Unary(op="-", value=value):
                inner = self.value(value)
                return None if inner is None else inner.neg()
            case Binary(op="+" | "-" | "*" | "/" | "%"):
                return self._operated(expr.op, self.value(expr.left), self.value(expr.right))
            case Apply(function="min" | "fmin" | "max" | "fmax" as function, args=(left, right)):
                return self._operated(function[-3:], self.value(left), self.value(right))
            case Apply(function="abs" | "fabs", args=(value,)):
                inner = self.value(value)
                return None if inner is None else inner.max(inner.neg())
            case Choose(condition=condition, yes=yes, no=no):
                return self._chosen(self.holds(condition), self.value(yes), self.value(no))
        return None

    def _operated(self, op: str, left: isl.PwAff | None, right: isl.PwAff | None) -> isl.PwAff | None:
        if left is None or right is None:
            return None
        match op:
            case "+":
                return left.add(right)
            case "-":
                return left.sub(right)
            case "min":
                return left.min(right)
            case "max":
                return left.max(right)
            case "*":
                return left.mul(right) if left.is_cst() or right.is_cst() else None
        divisor = right.max_val() if right.is_cst() else None
        if divisor is None or divisor.is_zero() or not divisor.is_int():
            return None
        quotient = left.scale_down_val(divisor).floor()
        return quotient if op == "/" else left.sub(quotient.scale_val(divisor))

    @staticmethod
    def _chosen(where: isl.Set | None, yes: isl.PwAff | None, no: isl.PwAff | None) -> isl.PwAff | None:
        if where is None or yes is None or no is None:
            return None
        return yes.intersect_domain(where).union_add(no.intersect_domain(where.complement()))

    def holds(self, expr: Expr) -> isl.Set | None:
        """The points at which a condition holds; None when that is not known."""
        found = self._holds(expr)
        return None if found is None or found.n_basic_set() > _MOST_PIECES else found

    def _holds(self, expr: Expr) -> isl.Set | None:
        match expr:
            case Truth(value=value):
                return self.all if value else self.all.complement()
            case Unary(op="!", value=value):
                inner = self.holds(value)
                return None if inner is None else inner.complement()
            case Binary(op="&&" | "||" as op):
                both = self.holds(expr.left), self.holds(expr.right)
                if both[0] is None or both[1] is None:
                    return None
                return both[0].intersect(both[1]) if op == "&&" else both[0].union(both[1])
            case Binary(op="==" | "!=" | "<" | "<=" | ">" | ">=" as op):
                left, right = self.value(expr.left), self.value(expr.right)
                if left is None or right is None:
                    return None
                return _COMPARISONS[op](left, right)
        return None

    def constant(self, number: int) -> isl.PwAff:
        return isl.PwAff.val_on_domain(self.all, _val(number))

    def box(self, ranges: Mapping[str, Range], natural: Iterable[str] = ()) -> isl.Set:
        """The points whose coordinates lie in the ranges; the others are free, or only not negative."""
        box = self.all
        for name in natural:
            box = box.lower_bound_val(_SET, self.names.index(name), _val(0))
        for name, extent in ranges.items():
            at = self.names.index(name)
            box = box.lower_bound_val(_SET, at, _val(extent.low)).upper_bound_val(_SET, at, _val(extent.high - 1))
        return box

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


_COMPARISONS = {
    "==": isl.PwAff.eq_set,
    "!=": isl.PwAff.ne_set,
    "<": isl.PwAff.lt_set,
    "<=": isl.PwAff.le_set,
    ">": isl.PwAff.gt_set,
    ">=": isl.PwAff.ge_set,
}


def _val(number: int) -> isl.Val:
    return isl.Val(str(number))


def span_of(values: isl.Set) -> tuple[int | None, int | None]:
    """The least and the greatest of a set of one dimension that is not empty; None where there is none."""
    low, high = values.dim_min_val(0), values.dim_max_val(0)
    return (low.to_python() if low.is_int() else None), (high.to_python() if high.is_int() else None)


def is_interval(values: isl.Set, low: int, high: int) -> bool:
    """Does a set of one dimension hold every number from the least to the greatest?"""
    every = (
        isl.Set.universe(values.get_space()).lower_bound_val(_SET, 0, _val(low)).upper_bound_val(_SET, 0, _val(high))
    )
    return bool(every.is_subset(values))


def box(ranges: Sequence[Range]) -> isl.Set:
    """The points whose coordinates lie in some ranges."""
    found = isl.Set.universe(isl.Space.set_alloc(isl.DEFAULT_CONTEXT, 0, len(ranges)))
    for at, extent in enumerate(ranges):
        found = found.lower_bound_val(_SET, at, _val(extent.low)).upper_bound_val(_SET, at, _val(extent.high - 1))
    return found


def first_point(points: isl.Set) -> tuple[int, ...]:
    """The first point of a set that is not empty and has one."""
    point = points.lexmin().sample_point()
    return tuple(point.get_coordinate_val(_SET, at).to_python() for at in range(points.dim(_SET)))


def at_least(number: int) -> isl.Set:
    """The numbers from this on, as a set of one dimension."""
    return isl.Set.universe(isl.Space.set_alloc(isl.DEFAULT_CONTEXT, 0, 1)).lower_bound_val(_SET, 0, _val(number))
