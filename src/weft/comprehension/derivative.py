"""The derivative of an expression by one of its reads, as an expression of the same language.

Functions and operators are differentiated by the table of operations they are made of; what comes of that is written
back in the language.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from weft.comprehension.builtins import BUILTINS, WRITTEN
from weft.comprehension.nodes import (
    Apply,
    Binary,
    BinaryOp,
    Cast,
    Choose,
    Expr,
    Int,
    Read,
    Real,
    Truth,
    Unary,
    fold,
)
from weft.comprehension.types import operation
from weft.ops import Call, Num, Scalar, call
from weft.ops.dtypes import is_float
from weft.tensor.derivative import differentiate

ZERO, ONE = Int(0), Int(1)

_INFIX: Mapping[str, BinaryOp] = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "mod": "%",
    "floordiv": "/",
    "lt": "<",
    "le": "<=",
    "eq": "==",
    "ne": "!=",
}
_JOINED: Mapping[str, BinaryOp] = {"and": "&&", "or": "||"}
_TRUTHS = {"lt", "le", "eq", "ne", "and", "or", "not"}


def differentiable_reads(expr: Expr, types: Mapping[str, str]) -> list[Read]:
    """The different reads of floating-point tensors whose values an expression depends on continuously."""
    found, waiting = dict[Read, None](), [expr]
    while waiting:
        one = waiting.pop()
        if isinstance(one, Read) and is_float(types[one.tensor]):
            found[one] = None
        waiting += reversed(_continuous(one))
    return list(found)


def _continuous(expr: Expr) -> Sequence[Expr]:
    """The parts that an expression depends on continuously."""
    match expr:
        case Choose(yes=yes, no=no):
            return (yes, no)
        case Apply(args=args):
            return args
        case Cast(dtype=dtype, value=value):
            return (value,) if is_float(dtype) else ()
        case Unary(op="-", value=value):
            return (value,)
        case Binary(op="+" | "-" | "*" | "/" | "%", left=left, right=right):
            return (left, right)
    return ()


def derivative(expr: Expr, by: Read, types: Mapping[str, str]) -> Expr:
    """How an expression changes with what a read reads."""

    def combine(one: Expr, inner: list[Expr]) -> Expr:
        match one:
            case Read():
                return ONE if one == by else ZERO
            case Cast():
                return inner[0] if inner else ZERO
            case Choose(condition=condition):
                return choose(condition, *inner)
            case Apply(function=function, args=args):
                return _chained(BUILTINS[function].build(*map(_Part, range(len(args)))), args, inner)
            case Unary(op="-"):
                return negative(inner[0])
            case Binary(left=left, right=right) if inner:
                return _chained(call(operation(one, types), _Part(0), _Part(1)), (left, right), inner)
        return ZERO

    return fold(expr, combine, _continuous)


@dataclass(frozen=True, slots=True)
class _Part(Scalar):
    """An argument of the operation that is differentiated."""

    number: int


def _chained(value: Scalar, args: Sequence[Expr], inner: Sequence[Expr]) -> Expr:
    """The derivative of an operation on some arguments, given those of the arguments."""
    terms = [
        times(_written(differentiate(value, _Part(number)), args), one)
        for number, one in enumerate(inner)
        if one != ZERO
    ]
    total: Expr = ZERO
    for term in terms:
        total = plus(total, term)
    return total


# Written back


def _written(value: Scalar, args: Sequence[Expr]) -> Expr:
    match value:
        case _Part(number=number):
            return args[number]
        case Num(value=constant):
            return _number(constant)
        case Call(op="identity", args=(one,)):
            return _written(one, args)
        case Call(op="neg", args=(one,)):
            return negative(_written(one, args))
        case Call(op="recip", args=(one,)):
            return Binary("/", Real(1.0), _written(one, args))
        case Call(op="not", args=(one,)):
            return Unary("!", _truth(one, args))
        case Call(op="where", args=(condition, yes, no)):
            return choose(_truth(condition, args), _written(yes, args), _written(no, args))
        case Call(op=op, args=(left, right)) if op in _JOINED:
            return Binary(_JOINED[op], _truth(left, args), _truth(right, args))
        case Call(op=op, args=(left, right)) if op in _INFIX:
            before, after = _written(left, args), _written(right, args)
            return times(before, after) if op == "mul" else Binary(_INFIX[op], before, after)
        case Call(op=op, args=parts) if op in WRITTEN:
            return Apply(WRITTEN[op], tuple(_written(part, args) for part in parts))
    raise AssertionError(f"no builtin is differentiated to {value}")


def _truth(value: Scalar, args: Sequence[Expr]) -> Expr:
    written = _written(value, args)
    return written if isinstance(value, Call) and value.op in _TRUTHS else Binary("!=", written, ZERO)


def _number(number: float | int | bool) -> Expr:
    if isinstance(number, bool):
        return Truth(number)
    positive = Int(abs(number)) if isinstance(number, int) else Real(abs(number))
    return Unary("-", positive) if number < 0 else positive


# Expressions made plainer while they are made


def times(left: Expr, right: Expr) -> Expr:
    """A product; none of a factor that is not chosen is computed."""
    if ZERO in (left, right):
        return ZERO
    if ONE in (left, right):
        return right if left == ONE else left
    for one, other in ((left, right), (right, left)):
        if isinstance(one, Choose) and ZERO in (one.yes, one.no):
            return Choose(one.condition, times(other, one.yes), times(other, one.no))
    return Binary("*", left, right)


def plus(left: Expr, right: Expr) -> Expr:
    if ZERO in (left, right):
        return right if left == ZERO else left
    return Binary("+", left, right)


def negative(value: Expr) -> Expr:
    if isinstance(value, Unary) and value.op == "-":
        return value.value
    return ZERO if value == ZERO else Unary("-", value)


def choose(condition: Expr, yes: Expr, no: Expr) -> Expr:
    return yes if yes == no else Choose(condition, yes, no)
