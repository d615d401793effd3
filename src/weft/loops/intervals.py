"""Interval analysis: where a whole-number scalar lies, whatever tensors hold, by its parts, by `min`, `max` and `%`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import TypeAlias

from weft.loops.insert_casts import type_before
from weft.loops.nodes import Cast, Read
from weft.loops.walk import children
from weft.ops import Call, Num, Scalar, fold_tree
from weft.ops.dtypes import is_float, limits

#: The least and the greatest value; infinite where nothing is known.
Interval: TypeAlias = tuple[float, float]
ANY: Interval = (-inf, inf)
_WORD = 2**63


def interval_of(value: Scalar, leaf: Callable[[Scalar], Interval]) -> Interval:
    """Where a whole-number scalar lies; `leaf` says it of what is neither computed nor a number."""

    def combine(one: Scalar, parts: Sequence[Interval]) -> Interval:
        match one:
            case Num(value=int(known)):
                found: Interval = known, known
            case Cast(dtype=dtype, value=inner):
                fits = not is_float(type_before(inner)) and inside(parts[0], limits(dtype))
                found = parts[0] if fits else limits(dtype)
            case Call(op=op):
                found = _called(op, parts)
            case _:
                found = leaf(one)
        wraps = -inf < found[0] < -_WORD or inf > found[1] >= _WORD
        return ANY if wraps else found

    return fold_tree(value, combine, lambda one: () if isinstance(one, Read) else children(one))


def inside(value: Interval, bounds: Interval) -> bool:
    """Is an interval known to lie within limits that are known?"""
    return bounds != ANY and bounds[0] <= value[0] and value[1] <= bounds[1]


def _called(op: str, parts: Sequence[Interval]) -> Interval:
    (a, b), (c, d) = parts[0] if len(parts) > 1 else (0, 0), parts[-1]
    match op:
        case "neg" | "sub":
            return a - d, b - c
        case "add":
            return a + c, b + d
        case "min" | "fmin":
            return min(a, c), min(b, d)
        case "max" | "fmax":
            return max(a, c), max(b, d)
        case "where":
            return min(parts[1][0], c), max(parts[1][1], d)
        case "mod" if c > 0 and d < inf:
            return 0, d - 1
        case "mul" | "floordiv" if -inf < min(a, c) and max(b, d) < inf and (op == "mul" or c > 0):
            ends = [one * other if op == "mul" else one // other for one in (a, b) for other in (c, d)]
            return min(ends), max(ends)
    return ANY
