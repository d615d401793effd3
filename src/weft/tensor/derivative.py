"""Derivatives of scalars, and of what accumulations make of them: both languages differentiate here.

of  relu(x) * y         by  x    comes    select(0 < x, y)  …  by the table of operations and the chain rule
of  r =:max value       by what value reads    where(value = r, 1 / ties, 0)  …  all that attain it share
of  r =:{logsumexp} value                      exp(value - r)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import TypeAlias

from weft.errors import WeftError
from weft.loops import Cast
from weft.ops import OPS, Call, Num, Scalar, call, fold_tree, leaves, scalar, where
from weft.ops.dtypes import is_float

_ZERO, _ONE = Num(0), Num(1)


def differentiate(value: Scalar, leaf: Scalar) -> Scalar:
    """The derivative of a scalar expression by one of its leaves."""

    def chained(one: Scalar, inner: Sequence[Scalar]) -> Scalar:
        if not inner:
            return Num(int(one == leaf))
        if all(part == _ZERO for part in inner):
            return _ZERO
        match one:
            case Call(op="where" | "select", args=args):
                return _chosen(args[0], *inner) if len(inner) == 2 else _chosen(args[0], inner[0], _ZERO)
            case Call(op=op, args=args):
                return reduce(_plus, map(times, map(scalar, OPS[op].gradient(*args, one)), inner))
        return inner[0]

    return fold_tree(value, chained, continuous)


def continuous(value: Scalar) -> tuple[Scalar, ...]:
    """The parts that a scalar changes with a little at a time, if at all."""
    match value:
        case Call(op="where" | "select", args=(_, *chosen)):
            return tuple(chosen)
        case Call(op=op, args=args):
            return () if OPS[op].truth else args
        case Cast(dtype=dtype, value=inner) if is_float(dtype):
            return (inner,)
    return ()


#: Something made of an accumulated value and of the result.
Of: TypeAlias = Callable[[Scalar, Scalar], Scalar]


#: The accumulations whose gradient is what each value is of it: `share` knows how much.
SHARED = ("arg2", "add", "max", "min", "mul", "logsumexp", "mean", "var")


def share(accum: str, collect: Callable[[str, str, Of], Scalar]) -> Of:
    """How much an accumulated result changes with each value that was accumulated.

    `collect(name, accum, of)` accumulates what `of` makes of every value.
    """
    match accum:
        case "arg2" | "add":
            return lambda value, result: _ONE
        case "max" | "min":
            ties = collect("ties", "add", _attains)
            return lambda value, result: where(_attains(value, result), 1 / ties, 0)
        case "mul":
            zeros = collect("zeros", "add", lambda value, result: _is_zero(value))
            rest = collect("rest", "mul", lambda value, result: _or_one(value))
            return lambda value, result: where(call("eq", zeros, _is_zero(value)), _without(value, rest), 0)
        case "logsumexp":
            return lambda value, result: where(call("eq", value, result), 1, call("exp", value - result))
        case "mean":
            count = collect("count", "add", lambda value, result: _ONE)
            return lambda value, result: call("recip", count)
        case "var":
            count = collect("count", "add", lambda value, result: _ONE)
            mean = collect("mean", "mean", lambda value, result: value)
            return lambda value, result: (value - mean) * (2 / count)
    raise WeftError(f"accumulating with {accum!r} has no gradient")


def _attains(value: Scalar, result: Scalar) -> Scalar:
    """What is computed has more digits than what was stored: it is compared as it would be stored."""
    return call("eq", call("type_as", value, result) if isinstance(value, Call) else value, result)


def _is_zero(value: Scalar) -> Scalar:
    return call("eq", value, 0)


def _or_one(value: Scalar) -> Scalar:
    return where(_is_zero(value), 1, value)


def _without(value: Scalar, product: Scalar) -> Scalar:
    """The product of all factors but one, given that of those that are not zero."""
    return where(_is_zero(value), product, product / _or_one(value))


def contribution(gradient: Scalar, part: Scalar, slope: Scalar, masked: bool) -> Scalar | None:
    """What a result's gradient adds to that of something its values depend on; None if that is always nothing.

    `part` is how much the result changes with a value that was accumulated (`share`), `slope` how much that value does.
    """
    factor = times(part, slope)
    return None if factor == _ZERO else _passed_on(gradient, factor, masked)


def _passed_on(gradient: Scalar, factor: Scalar, masked: bool) -> Scalar:
    """`gradient * factor`; nothing where nothing is let through, also of an infinite gradient.

    If `masked`, below a choice, no gradient stays none, whatever it is multiplied with.
    """
    match factor:
        case Call() if _is_truth(factor):
            return call("select", factor, gradient)
        case Call(op="where", args=(condition, Num(value=1), Num(value=0))):
            return call("select", condition if _is_truth(condition) else call("ne", condition, 0), gradient)
        case Call(op="where", args=(condition, yes, no)) if _ZERO in (yes, no):
            return where(condition, *(_passed_on(gradient, one, masked) for one in (yes, no)))
    product = times(gradient, factor)
    constant = all(isinstance(leaf, Num) for leaf in leaves(factor))
    return product if constant or not masked else where(call("ne", gradient, 0), product, 0)


def _is_truth(value: Scalar) -> bool:
    return isinstance(value, Call) and OPS[value.op].truth


# Expressions made plainer while they are made


def times(left: Scalar, right: Scalar) -> Scalar:
    """A product; none of a factor that is not chosen is computed."""
    if _ZERO in (left, right):
        return _ZERO
    if _ONE in (left, right):
        return right if left == _ONE else left
    for one, other in ((left, right), (right, left)):
        match one:
            case Call(op="where", args=(condition, yes, no)) if _ZERO in (yes, no):
                return where(condition, times(other, yes), times(other, no))
    return left * right


def _plus(left: Scalar, right: Scalar) -> Scalar:
    return right if left == _ZERO else left if right == _ZERO else left + right


def _chosen(condition: Scalar, yes: Scalar, no: Scalar) -> Scalar:
    same = yes is no or (not isinstance(yes, Call) and yes == no)
    return yes if same else where(condition, yes, no)
