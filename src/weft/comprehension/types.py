"""Element types of expressions.

Types meet as everywhere in weft (ops/dtypes.py). What differs from tensor expressions is what C programmers expect of
this language: whole numbers divide to whole numbers, indices and sizes are int32, a truth value in arithmetic too, so
is a whole number that is written beside one of fewer bits, and a sum keeps the type of what is summed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
    Local,
    Read,
    Real,
    Truth,
    Unary,
    UnaryOp,
    children,
    fold,
)
from weft.comprehension.show import show_expr
from weft.errors import WeftError
from weft.ops.dtypes import UNKNOWN, WEAK_FLOAT, WEAK_INT, WHOLE, decided, is_float, promote
from weft.ops.table import result_type

#: The type of indices, of sizes, and of numbers that nothing gives another type.
INDEX = "int32"
#: Types of fewer bits: a number that is written widens them, as in C.
_NARROW = {"int8", "int16", "uint8", "uint16"}

Report: TypeAlias = Callable[[Mistake], None]

#: The rows of the table of operations that operators mean; that of a quotient depends on types.
ROWS: Mapping[BinaryOp | UnaryOp, str] = {
    "!": "not",
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


def row_of(op: BinaryOp, left: str, right: str) -> str:
    """The row of the table of operations that an operator means for operands of these types.

    `a > b` and `a >= b` are the rows of `b < a` and `b <= a`.
    """
    whole = op == "/" and not is_float(left) and not is_float(right)
    return "floordiv" if whole else ROWS[op]


def settled(dtype: str) -> str:
    """The element type of a number that nothing raises any more."""
    return INDEX if dtype in (WEAK_INT, WHOLE) else decided(dtype)


def join_types(old: str, new: str) -> str:
    """The type that holds what is of either type; the old one where there is none."""
    try:
        return promote(old, new)
    except WeftError:
        return old


def fits(dtype: str, declared: str) -> bool:
    """Can what is of a type be put into what is declared so?"""
    return dtype == UNKNOWN or join_types(declared, dtype) == declared


def accumulated(dtype: str, reduction: str | None) -> str:
    """The type of a tensor that collects values of a type: what is added up is a number."""
    return INDEX if dtype == "bool" and reduction in ("add", "mul") else dtype


def local_types(statement: Comprehension, tensors: Mapping[str, str]) -> dict[str, str]:
    """The types of the names a statement's clauses give to values."""
    found: dict[str, str] = {}
    for let in statement.lets:
        found[let.name.name] = type_of(let.value, tensors, found)
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
        case Apply(function=function):
            known = BUILTINS.get(function)
            return _met(expr, known.name, types, report) if known and known.arity == len(types) else UNKNOWN
        case Unary(op=op):
            return _met(expr, "neg" if op == "-" else ROWS[op], types, report)
        case Binary(op=op):
            return _met(expr, row_of(op, *_beside(expr, types)), types, report)
        case Choose():
            return _met(expr, "where", types, report)
    return INDEX


def _beside(expr: Expr, types: Sequence[str]) -> list[str]:
    """The types of operands that meet.

    A whole number that is written is an int32 beside one of fewer bits; else it takes the type of what it meets.
    """
    narrow, large = not _NARROW.isdisjoint(types), "uint64" in types
    return [
        INDEX if dtype == WEAK_INT and narrow else WEAK_INT if isinstance(part, Int) and large else dtype
        for part, dtype in zip(children(expr), types, strict=True)
    ]


#: What takes truth values, how that is said, and of how many parts.
_OF_TRUTHS = {
    "not": ("`!` negates", 1),
    "and": ("`&&` joins", 2),
    "or": ("`||` joins", 2),
    "where": ("`?` chooses by", 1),
}


def _met(expr: Expr, row: str, types: Sequence[str], report: Report) -> str:
    """The type that an operation makes of others; unknown, and reported, where they do not go together."""
    says, truths = _OF_TRUTHS.get(row, ("", 0))
    for part, dtype in zip(children(expr)[:truths], types, strict=False):
        _check_truth(part, dtype, says, report)
    try:
        found = result_type(row, *_beside(expr, types))
    except WeftError as error:
        report(Mistake(error.what, expr.span, "convert one of them: `int64(x)`"))
        return UNKNOWN
    return INDEX if found == WHOLE else found


def _check_truth(expr: Expr, dtype: str, says: str, report: Report) -> None:
    if dtype not in ("bool", UNKNOWN):
        fix = f"compare it: `{show_expr(expr)} != 0`"
        report(Mistake(f"{says} truth values, and this is {spelled(settled(dtype))}", expr.span, fix))


def check_whole(expr: Expr, dtype: str, what: str, report: Report) -> None:
    """Reports an expression that must be a whole number and is not."""
    if is_float(dtype) or dtype == "bool":
        fix = f"convert it: `int32({show_expr(expr)})`"
        report(Mistake(f"{what} is a whole number, and this is {spelled(settled(dtype))}", expr.span, fix))
