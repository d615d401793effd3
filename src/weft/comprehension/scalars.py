"""Expressions of the language as scalars, and back: below the checks there is one expression language, that of loops.

    2 * A(i, I(k)) < N      becomes and comes from      lt(mul(2, A[i, I[k]]), N)

Sizes are variables until shapes are known: `N`, and `A.0` for the size of an axis. Tensors are buffers without shapes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from types import MappingProxyType

from weft.affine import Affine
from weft.comprehension import nodes as tc
from weft.comprehension.builtins import BUILTINS, WRITTEN
from weft.comprehension.nodes import BinaryOp, Expr
from weft.comprehension.types import INDEX, ROWS, row_of
from weft.errors import WeftError
from weft.loops import Buffer, Cast, Local, Read
from weft.loops.insert_casts import type_before
from weft.loops.walk import children, subexpressions
from weft.ops import Call, Num, Scalar, call, fold_tree, where
from weft.ops.dtypes import UNKNOWN, is_float

#: No other names.
AS_THEY_ARE: Mapping[str, str] = MappingProxyType({})
ZERO = tc.Int(0)

#: The operators that rows of the table are written as; of two, the first.
_INFIX: dict[str, BinaryOp] = {row: op for op, row in reversed([*ROWS.items()]) if op != "!"}
_INFIX["floordiv"] = "/"
#: The largest whole number that can be written.
_LARGEST = 2**63 - 1


def cell(tensor: str, dtype: str, at: Sequence[Scalar]) -> Read:
    """A cell of a tensor, whatever its shape will be."""
    return Read(Buffer(0, tensor, (), dtype), tuple(at))


@dataclass(frozen=True, slots=True)
class Known:
    """The sizes and shapes that are known."""

    shapes: Mapping[str, tuple[int, ...]]
    sizes: Mapping[str, int]

    def number(self, size: str) -> int:
        """The value of a size of a scalar: of a size variable, or of the axis of a tensor."""
        tensor, _, axis = size.rpartition(".")
        return self.shapes[tensor][int(axis)] if axis.isdigit() else self.sizes[size]


@dataclass(frozen=True, slots=True)
class Translation:
    """Makes scalars of the expressions of a definition, given the types of tensors.

    What tensors are called there, what names of sizes begin with, and the values of local names are put in.
    """

    types: Mapping[str, str]
    tensors: Mapping[str, str] = field(default_factory=dict)
    path: str = ""
    values: dict[str, Scalar] = field(default_factory=dict)

    def within(self, statement: tc.Comprehension) -> Translation:
        """That of a statement, whose clauses give values to names."""
        found = Translation(self.types, self.tensors, self.path)
        for let in statement.lets:
            found.values[let.name.name] = found(let.value)
        return found

    def __call__(self, expr: Expr) -> Scalar:
        return tc.fold(expr, self._combined)

    def _combined(self, one: Expr, parts: list[Scalar]) -> Scalar:
        match one:
            case tc.Int(value=value) | tc.Real(value=value) | tc.Truth(value=value):
                return Num(value)
            case tc.Index(name=name):
                return Affine.of(name)
            case tc.Size(name=name):
                return Local(f"{self.path}{name}", INDEX)
            case tc.Local(name=name):
                return self.values[name]
            case tc.Dim(tensor=name, axis=axis):
                return Local(f"{self.tensors.get(name, name)}.{axis}", INDEX)
            case tc.Read(tensor=name):
                tensor = self.tensors.get(name, name)
                return cell(tensor, self.types.get(tensor, UNKNOWN), parts)
            case tc.Apply(function=function):
                return call(BUILTINS[function].name, *parts)
            case tc.Cast(dtype=dtype):
                return Cast(dtype, parts[0])
            case tc.Unary(op=op):
                return call("not" if op == "!" else "neg", parts[0])
            case tc.Binary(op="/"):
                return call(row_of("/", *map(_type, parts)), *parts)
            case tc.Binary(op=op):
                return call(ROWS[op], *(reversed(parts) if op in (">", ">=") else parts))
            case tc.Choose():
                return where(*parts)


def _type(value: Scalar) -> str:
    """The type of a scalar; there is none while its parts do not agree."""
    try:
        return type_before(value)
    except WeftError:
        return UNKNOWN


def reads(*values: Scalar) -> Iterator[Read]:
    """Every different read in scalars, those in subscripts included."""
    return (one for one in subexpressions(*values) if isinstance(one, Read))


def operands(value: Scalar) -> Sequence[Scalar]:
    """What a scalar computes with: not the subscripts of what it reads."""
    return () if isinstance(value, Read) else children(value)


def index_names(*values: Scalar) -> frozenset[str]:
    """The indices in scalars."""
    return frozenset(name for one in subexpressions(*values) if isinstance(one, Affine) for name in one.names)


# Written back


def written(value: Scalar, names: Mapping[str, str] = AS_THEY_ARE) -> Expr:
    """A scalar as the language writes it; tensors are called as `names` says."""
    return fold_tree(value, lambda one, parts: _written(one, parts, names), children)


def _written(value: Scalar, parts: Sequence[Expr], names: Mapping[str, str]) -> Expr:
    match value:
        case Num(value=constant):
            return number(constant)
        case Affine(terms=terms, offset=offset):
            return _sum(terms, offset)
        case Local(name=name):
            tensor, _, axis = name.rpartition(".")
            return tc.Dim(tensor, int(axis)) if axis.isdigit() else tc.Size(name)
        case Read(buffer=buffer):
            return tc.Read(names.get(buffer.name, buffer.name), tuple(parts))
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
        case "and" | "or":
            return tc.Binary(_INFIX[op], *map(_truth, args, parts))
        case "div" | "floordiv" if any(map(_is_float, args)) is (op == "floordiv"):
            quotient = tc.Binary("/", tc.Cast("float32", parts[0]) if op == "div" else parts[0], parts[1])
            return quotient if op == "div" else tc.Apply("floor", (quotient,))
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
    """A number as it is written: a sign before it is an operator, and infinity a quotient."""
    if isinstance(value, bool):
        return tc.Truth(value)
    if not isfinite(value):
        positive: Expr = tc.Binary("/", tc.Real(float(value == value)), tc.Real(0.0))
    elif -_LARGEST <= value <= _LARGEST or isinstance(value, float):
        positive = tc.Int(abs(value)) if isinstance(value, int) else tc.Real(abs(value))
    elif value == -_LARGEST - 1:
        return tc.Binary("-", number(value + 1), tc.Int(1))
    else:
        raise WeftError(f"{value} is too large to be written")
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
