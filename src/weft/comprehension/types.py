"""Element types of expressions.

Types meet as everywhere in weft (ops/dtypes.py). What differs from tensor expressions is what C programmers expect of
this language: whole numbers divide to whole numbers, indices and sizes are int32, a truth value in arithmetic too, so
is a whole number that is written beside one of fewer bits, and a sum keeps the type of what is summed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from weft.comprehension.builtins import BUILTINS, spelled
from weft.comprehension.mistakes import Mistake
from weft.comprehension.nodes import (
    Apply,
    Binary,
    BinaryOp,
    Cast,
    Choose,
    Comprehension,
    Expr,
    Int,
    Let,
    Local,
    Read,
    Real,
    Truth,
    Unary,
    fold,
)
from weft.comprehension.show import show_expr
from weft.errors import WeftError
from weft.ops import OPS, Scalar
from weft.ops import type_of as type_of_scalar
from weft.ops.dtypes import UNKNOWN, WEAK_FLOAT, WEAK_INT, WHOLE, is_float, promote

#: The type of indices, of sizes, and of numbers that nothing gives another type.
INDEX = "int32"
#: Types of fewer bits: a number that is written widens them, as in C.
_NARROW = {"int8", "int16", "uint8", "uint16"}

Report: TypeAlias = Callable[[Mistake], None]

_ROWS: Mapping[BinaryOp, str] = {
    "||": "or",
    "&&": "and",
    "==": "eq",
    "!=": "ne",
    "<": "lt",
    "<=": "le",
    ">": "lt",
    ">=": "le",
    "+": "add",
    "-": "sub",
    "*": "mul",
    "/": "div",
    "%": "mod",
}


@dataclass(frozen=True, slots=True)
class _Typed(Scalar):
    """A value of which only the type is known."""

    dtype: str


def row_of(op: BinaryOp, left: str, right: str) -> str:
    """The row of the table of operations that an operator means for operands of these types.

    `a > b` and `a >= b` are the rows of `b < a` and `b <= a`.
    """
    whole = op == "/" and not is_float(left) and not is_float(right)
    return "floordiv" if whole else _ROWS[op]


def operation(expr: Binary, tensors: Mapping[str, str]) -> str:
    """The row of the table that an operator means; only of a quotient that depends on types."""
    if expr.op != "/":
        return _ROWS[expr.op]
    return row_of("/", type_of(expr.left, tensors, {}), type_of(expr.right, tensors, {}))


def settled(dtype: str) -> str:
    """The element type of a number that nothing raises any more."""
    return {WEAK_INT: INDEX, WHOLE: INDEX, WEAK_FLOAT: "float32", UNKNOWN: "float32"}.get(dtype, dtype)


def joined(old: str, new: str) -> str:
    """The type that holds what is of either type; the old one where there is none."""
    try:
        return promote(old, new) if UNKNOWN not in (old, new) else new if old == UNKNOWN else old
    except WeftError:
        return old


def fits(dtype: str, declared: str) -> bool:
    """Can what is of a type be put into what is declared so?"""
    return dtype == UNKNOWN or joined(declared, dtype) == declared


def accumulated(dtype: str, reduction: str | None) -> str:
    """The type of a tensor that collects values of a type: what is added up is a number."""
    return INDEX if dtype == "bool" and reduction in ("add", "mul") else dtype


def local_types(statement: Comprehension, tensors: Mapping[str, str]) -> dict[str, str]:
    """The types of the names a statement's clauses give to values."""
    found: dict[str, str] = {}
    for clause in statement.where:
        if isinstance(clause, Let):
            found[clause.name.name] = type_of(clause.value, tensors, found)
    return found


def type_of(
    expr: Expr, tensors: Mapping[str, str], variables: Mapping[str, str], report: Report = lambda mistake: None
) -> str:
    """The type of an expression, given those of tensors and local names; what is wrong with it is reported.

    Numbers of the program have the weak types of ops/dtypes.py; `settled` says what they are when nothing meets them.
    """
    return fold(expr, lambda one, types: _type(one, types, tensors, variables, report))


def _type(
    expr: Expr, types: list[str], tensors: Mapping[str, str], variables: Mapping[str, str], report: Report
) -> str:
    """The type of an expression, given those of its parts."""
    match expr:
        case Int(value=value):
            return WEAK_INT if value < 2**31 else "int64"
        case Real():
            return WEAK_FLOAT
        case Truth():
            return "bool"
        case Local(name=name):
            return variables.get(name, UNKNOWN)
        case Read(tensor=tensor, subscripts=subscripts):
            for subscript, dtype in zip(subscripts, types, strict=True):
                check_whole(subscript, dtype, "a subscript", report)
            return tensors.get(tensor, UNKNOWN)
        case Cast(dtype=dtype):
            return dtype
        case Apply(function=function, args=args):
            return _applied(expr, function, _beside(args, types), report)
        case Unary(op="!", value=value):
            _check_truth(value, types[0], "`!` negates", report)
            return "bool"
        case Unary():
            return _number(OPS["neg"].typing(types[0])[1])
        case Binary():
            left, right = _beside((expr.left, expr.right), types)
            return _operated(expr, left, right, report)
        case Choose(condition=condition, yes=yes, no=no):
            _check_truth(condition, types[0], "`?` chooses by", report)
            return _met(expr, lambda: promote(*_beside((yes, no), types[1:])), report)
    return INDEX


def _beside(parts: Sequence[Expr], types: Sequence[str]) -> list[str]:
    """The types of operands that meet.

    A whole number that is written is an int32 beside one of fewer bits; else it takes the type of what it meets.
    """
    narrow, large = not _NARROW.isdisjoint(types), "uint64" in types
    return [
        INDEX if dtype == WEAK_INT and narrow else WEAK_INT if isinstance(part, Int) and large else dtype
        for part, dtype in zip(parts, types, strict=True)
    ]


def _operated(expr: Binary, left: str, right: str, report: Report) -> str:
    if expr.op in ("&&", "||"):
        _check_truth(expr.left, left, f"`{expr.op}` joins", report)
        _check_truth(expr.right, right, f"`{expr.op}` joins", report)
        return "bool"
    row = OPS[row_of(expr.op, left, right)]
    return _met(expr, lambda: row.typing(left, right)[1], report)


def _applied(expr: Expr, function: str, types: list[str], report: Report) -> str:
    builtin = BUILTINS.get(function)
    if builtin is None or builtin.arity != len(types):
        return UNKNOWN
    value = builtin.build(*map(_Typed, types))
    return _met(expr, lambda: type_of_scalar(value, _leaf), report)


def _leaf(value: Scalar) -> str:
    assert isinstance(value, _Typed)
    return value.dtype


def _met(expr: Expr, meet: Callable[[], str], report: Report) -> str:
    """The type some types meet in; unknown, and reported, when they meet in none."""
    try:
        return _number(meet())
    except WeftError as error:
        report(Mistake(error.what, expr.span, "convert one of them: `int64(x)`"))
        return UNKNOWN


def _number(dtype: str) -> str:
    return INDEX if dtype == WHOLE else dtype


def _check_truth(expr: Expr, dtype: str, says: str, report: Report) -> None:
    if dtype not in ("bool", UNKNOWN):
        fix = f"compare it: `{show_expr(expr)} != 0`"
        report(Mistake(f"{says} truth values, and this is {spelled(settled(dtype))}", expr.span, fix))


def check_whole(expr: Expr, dtype: str, what: str, report: Report) -> None:
    """Reports an expression that must be a whole number and is not."""
    if is_float(dtype) or dtype == "bool":
        fix = f"convert it: `int32({show_expr(expr)})`"
        report(Mistake(f"{what} is a whole number, and this is {spelled(settled(dtype))}", expr.span, fix))
