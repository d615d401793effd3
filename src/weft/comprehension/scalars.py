"""Expressions of the language as scalars, and back: below the checks there is one expression language, that of loops.

    2 * A(i, I(k)) < N      becomes and comes from      lt(mul(2, A[i, I[k]]), N)

Sizes are variables until shapes are known: `N`, and `A.0` for the size of an axis. Tensors are buffers without shapes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from weft.affine import Affine
from weft.comprehension import nodes as tc
from weft.comprehension.builtins import BUILTINS, WRITTEN
from weft.comprehension.nodes import BinaryOp, Expr
from weft.comprehension.types import INDEX, operation
from weft.errors import WeftError
from weft.loops import Buffer, Cast, Local, Read
from weft.loops.insert_casts import type_before
from weft.loops.walk import children
from weft.ops import Call, Num, Scalar, call, fold, where
from weft.ops.dtypes import is_float

ZERO = tc.Int(0)

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


def cell(tensor: str, dtype: str, at: Sequence[Scalar]) -> Read:
    """A cell of a tensor, whatever its shape will be."""
    return Read(Buffer(0, tensor, (), dtype), tuple(at))


def scalar(expr: Expr, types: Mapping[str, str]) -> Scalar:
    """A checked expression as a scalar, given the types of tensors."""

    def combine(one: Expr, parts: list[Scalar]) -> Scalar:
        match one:
            case tc.Int(value=value) | tc.Real(value=value) | tc.Truth(value=value):
                return Num(value)
            case tc.Index(name=name):
                return Affine.of(name)
            case tc.Size(name=name):
                return Local(name, INDEX)
            case tc.Dim(tensor=name, axis=axis):
                return Local(f"{name}.{axis}", INDEX)
            case tc.Read(tensor=name):
                return cell(name, types[name], parts)
            case tc.Apply(function=function):
                return BUILTINS[function].build(*parts)
            case tc.Cast(dtype=dtype):
                return Cast(dtype, parts[0])
            case tc.Unary(op=op):
                return call("not" if op == "!" else "neg", parts[0])
            case tc.Binary(op=op):
                return call(operation(one, types), *(reversed(parts) if op in (">", ">=") else parts))
            case tc.Choose():
                return where(*parts)
        raise AssertionError(f"{one} is put in before expressions become scalars")

    return tc.fold(expr, combine)


def reads(*values: Scalar) -> Iterator[Read]:
    """Every different read in scalars, those in subscripts included."""
    rest, seen = list(reversed(values)), set[int]()
    while rest:
        one = rest.pop()
        if id(one) not in seen:
            seen.add(id(one))
            if isinstance(one, Read):
                yield one
            rest += reversed(children(one))


# Written back


def written(value: Scalar) -> Expr:
    """A scalar as the language writes it."""
    return fold(value, _written, children)


def _written(value: Scalar, parts: Sequence[Expr]) -> Expr:
    match value:
        case Num(value=constant):
            return number(constant)
        case Affine(terms=terms, offset=offset):
            return _sum(terms, offset)
        case Local(name=name):
            tensor, _, axis = name.rpartition(".")
            return tc.Dim(tensor, int(axis)) if axis.isdigit() else tc.Size(name)
        case Read(buffer=buffer):
            return tc.Read(buffer.name, tuple(parts))
        case Cast(dtype=dtype):
            return tc.Cast(dtype, parts[0])
        case Call(op=op, args=args):
            return _called(op, args, parts)
    raise WeftError(f"{value} cannot be said in the language of comprehensions")


def _called(op: str, args: Sequence[Scalar], parts: Sequence[Expr]) -> Expr:
    match op:
        case "identity" | "arg1":
            return parts[0]
        case "arg2":
            return parts[1]
        case "type_as":
            return tc.Cast(type_before(args[1]), parts[0])
        case "neg":
            return tc.Unary("-", parts[0])
        case "recip":
            return tc.Binary("/", tc.Real(1.0), parts[0])
        case "not":
            return tc.Unary("!", _truth(args[0], parts[0]))
        case "where" | "select":
            return tc.Choose(_truth(args[0], parts[0]), parts[1], parts[2] if op == "where" else ZERO)
        case "relu_gate":
            return tc.Choose(tc.Binary("<", ZERO, parts[0]), parts[1], ZERO)
        case "div" | "floordiv" if any(map(_is_float, args)) is (op == "floordiv"):
            quotient = tc.Binary("/", tc.Cast("float32", parts[0]) if op == "div" else parts[0], parts[1])
            return quotient if op == "div" else tc.Apply("floor", (quotient,))
    if op in _JOINED:
        return tc.Binary(_JOINED[op], _truth(args[0], parts[0]), _truth(args[1], parts[1]))
    if op in _INFIX:
        return tc.Binary(_INFIX[op], parts[0], parts[1])
    if op in WRITTEN:
        return tc.Apply(WRITTEN[op], tuple(parts))
    raise WeftError(f"`{op}` is no operation of the language of comprehensions")


def _truth(value: Scalar, expr: Expr) -> Expr:
    """A scalar as a condition."""
    return expr if type_before(value) == "bool" else tc.Binary("!=", expr, ZERO)


def _is_float(value: Scalar) -> bool:
    return is_float(type_before(value))


def number(value: float | int | bool) -> Expr:
    """A number as it is written: a sign before it is an operator."""
    if isinstance(value, bool):
        return tc.Truth(value)
    positive = tc.Int(abs(value)) if isinstance(value, int) else tc.Real(abs(value))
    return tc.Unary("-", positive) if value < 0 else positive


def _sum(terms: Sequence[tuple[int, str]], offset: int) -> Expr:
    found: Expr | None = None
    for factor, name in terms:
        term: Expr = tc.Index(name) if abs(factor) == 1 else tc.Binary("*", tc.Int(abs(factor)), tc.Index(name))
        if found is None:
            found = term if factor > 0 else tc.Unary("-", term)
        else:
            found = tc.Binary("+" if factor > 0 else "-", found, term)
    if found is None:
        return number(offset)
    return tc.Binary("+" if offset > 0 else "-", found, tc.Int(abs(offset))) if offset else found
