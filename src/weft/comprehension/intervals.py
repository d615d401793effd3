"""The interval a whole-number expression lies in, whatever tensors hold: by their types, by `min`, `max` and `%`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

import numpy as np

from weft.comprehension.affine import Known, Range
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
    Read,
    Size,
    Unary,
)
from weft.comprehension.types import type_of
from weft.ops.dtypes import is_float, numpy_type

#: The least and the greatest value; None where nothing is known.
Interval: TypeAlias = tuple[int | None, int | None]
_ANY: Interval = (None, None)
_WORD = 2**63


class Bounds:
    """The interval each whole-number expression of a statement lies in, whatever tensors hold."""

    def __init__(self, known: Known, ranges: Mapping[str, Range], lets: Iterable[Let] = ()) -> None:
        self.known, self.ranges = known, ranges
        self._locals: dict[str, Interval] = {}
        self._types: dict[str, str] = {}
        for let in lets:
            self._locals[let.name.name] = self.of(let.value)
            self._types[let.name.name] = type_of(let.value, known.types, self._types)

    def of(self, expr: Expr) -> Interval:
        low, high = self._of(expr)
        fits = (low is None or low >= -_WORD) and (high is None or high < _WORD)
        return (low, high) if fits else _ANY  # beyond 64 bits it may have wrapped

    def _of(self, expr: Expr) -> Interval:
        match expr:
            case Int() | Size() | Dim():
                number = self.known.number(expr)
                return number, number
            case Index(name=name):
                extent = self.ranges[name]
                return (extent.low, extent.high - 1)
            case Local(name=name):
                return self._locals.get(name, _ANY)
            case Read(tensor=tensor):
                return _limits(self.known.types[tensor])
            case Cast(dtype=dtype, value=value):
                real = is_float(type_of(value, self.known.types, self._types))  # it may be no number at all
                return _limits(dtype) if real else _within(self.of(value), _limits(dtype))
            case Unary(op="-", value=value):
                low, high = self.of(value)
                return (None if high is None else -high), (None if low is None else -low)
            case Binary(op="+" | "-" | "*" | "/" | "%" as op, left=left, right=right):
                return _combined(op, self.of(left), self.of(right))
            case Apply(function="min" | "fmin", args=(left, right)):
                return _least(self.of(left), self.of(right))
            case Apply(function="max" | "fmax", args=(left, right)):
                return _greatest(self.of(left), self.of(right))
            case Choose(yes=yes, no=no):
                return _hull(self.of(yes), self.of(no))
        return _ANY


def _limits(dtype: str) -> Interval:
    if dtype == "bool":
        return 0, 1
    if numpy_type(dtype).kind not in "iu":
        return _ANY
    limits = np.iinfo(numpy_type(dtype))
    return int(limits.min), int(limits.max)


def _within(value: Interval, limits: Interval) -> Interval:
    """What conversion to a type leaves of an interval: itself if it fits, else anything of the type."""
    return value if inside(value, limits) else limits


def inside(value: Interval, limits: Interval) -> bool:
    """Is an interval known to lie within limits that are known?"""
    if None in value or None in limits:
        return False
    (low, high), (least, most) = value, limits
    return bool(least <= low and high <= most)  # type: ignore[operator]  # none of them is None


def _combined(op: str, left: Interval, right: Interval) -> Interval:
    (a, b), (c, d) = left, right
    match op:
        case "+":
            return (None if a is None or c is None else a + c), (None if b is None or d is None else b + d)
        case "-":
            return (None if a is None or d is None else a - d), (None if b is None or c is None else b - c)
        case "%" if c is not None and d is not None and c > 0:
            return 0, d - 1
    if a is None or b is None or c is None or d is None:
        return _ANY
    if op == "*":
        corners = [x * y for x in (a, b) for y in (c, d)]
    elif op == "/" and c > 0:
        corners = [x // y for x in (a, b) for y in (c, d)]
    else:
        return _ANY
    return min(corners), max(corners)


def _least(left: Interval, right: Interval) -> Interval:
    highs = [one for one in (left[1], right[1]) if one is not None]
    lows = [left[0], right[0]]
    return (None if None in lows else min(one for one in lows if one is not None)), min(highs, default=None)


def _greatest(left: Interval, right: Interval) -> Interval:
    lows = [one for one in (left[0], right[0]) if one is not None]
    highs = [left[1], right[1]]
    return max(lows, default=None), (None if None in highs else max(one for one in highs if one is not None))


def _hull(left: Interval, right: Interval) -> Interval:
    (a, b), (c, d) = left, right
    return (None if a is None or c is None else min(a, c)), (None if b is None or d is None else max(b, d))
