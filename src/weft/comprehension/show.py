"""Program to text that parses back to an equal Program, with as few brackets as that takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from weft.comprehension.builtins import spelled
from weft.comprehension.nodes import (
    REDUCTIONS,
    Apply,
    Between,
    Binary,
    Cast,
    Choose,
    Comprehension,
    Definition,
    Dim,
    Exists,
    Expr,
    Index,
    Int,
    Invoke,
    Let,
    Local,
    Param,
    Program,
    Read,
    Real,
    Result,
    Size,
    Statement,
    TensorType,
    Truth,
    Unary,
    Where,
    fold,
)

#: How tightly operators bind; what binds less tightly than its place allows gets brackets.
_LEVELS = {
    **dict.fromkeys(("||",), 1),
    **dict.fromkeys(("&&",), 2),
    **dict.fromkeys(("==", "!=", "<", "<=", ">", ">="), 3),
    **dict.fromkeys(("+", "-"), 4),
    **dict.fromkeys(("*", "/", "%"), 5),
}
_CHOICE, _SIGN, _ATOM = 0, 6, 7
#: A text, and how tightly it binds.
_Text: TypeAlias = tuple[str, int]
#: Casts are written by words of the language, which no tensor can be called.
_CAST = {"float32": "float", "float64": "double"}
#: The signs of assignments, by what they accumulate with.
SIGNS: Mapping[str | None, str] = {None: "=", **{row: sign for sign, row in REDUCTIONS.items()}}


def show(program: Program) -> str:
    """The whole text, a definition after the other."""
    return "\n\n".join(map(show_definition, program.definitions))


def show_definition(definition: Definition) -> str:
    params = ", ".join(map(_typed, definition.params))
    results = ", ".join(map(_typed, definition.results))
    body = "".join(f"    {show_statement(one)}\n" for one in definition.body)
    return f"def {definition.name}({params}) -> ({results}) {{\n{body}}}"


def show_statement(statement: Statement) -> str:
    """`C(m, n) +=! A(m, k) * B(k, n) where k in 0:K`."""
    if isinstance(statement, Invoke):
        targets, args = ", ".join(map(str, statement.targets)), ", ".join(map(show_expr, statement.args))
        return f"{targets} = {statement.function}({args})"
    same = f" <=> {show_expr(statement.equivalent)}" if statement.equivalent else ""
    where = f" where {', '.join(map(_where, statement.where))}" if statement.where else ""
    return f"{show_left(statement)} {show_sign(statement)} {show_expr(statement.value)}{same}{where}"


def show_left(statement: Comprehension) -> str:
    """`C(m, n)`."""
    return show_expr(Read(statement.target.name, statement.at))


def show_sign(statement: Comprehension) -> str:
    """`=`, `+=`, `max=!` …"""
    return SIGNS[statement.reduction] + "!" * statement.resets


def show_expr(expr: Expr) -> str:
    return fold(expr, _shown)[0]


def _typed(one: Param | Result) -> str:
    return f"{show_type(one.type)} {one.name}" if one.type else one.name.name


def show_type(kind: TensorType) -> str:
    dims = ", ".join(map(str, kind.dims))
    return f"{spelled(kind.dtype)}({dims})" if dims else spelled(kind.dtype)


def _where(clause: Where) -> str:
    match clause:
        case Between(index=index, low=low, high=high):
            return f"{index} in {show_expr(low)}:{show_expr(high)}"
        case Exists(value=value):
            return f"exists {show_expr(value)}"
        case Let(name=name, value=value):
            return f"{name} = {show_expr(value)}"


def _shown(expr: Expr, parts: list[_Text]) -> _Text:
    """An expression, given its parts."""
    match expr:
        case Choose():
            condition, (yes, _), (no, _) = parts
            return f"{_at(condition, _CHOICE + 1)} ? {yes} : {no}", _CHOICE
        case Binary(op=op):
            own = _LEVELS[op]
            return f"{_at(parts[0], own)} {op} {_at(parts[1], own + 1)}", own
        case Unary(op=op):
            return op + _at(parts[0], _SIGN), _SIGN
    return _atom(expr, [text for text, _ in parts]), _ATOM


def _at(shown: _Text, level: int) -> str:
    """An expression in a place that takes what binds at least so tightly."""
    text, own = shown
    return text if own >= level else f"({text})"


def _atom(expr: Expr, parts: list[str]) -> str:
    match expr:
        case Int(value=value):
            return str(value)
        case Real(value=value):
            return repr(value)
        case Truth(value=value):
            return "true" if value else "false"
        case Index(name=name) | Size(name=name) | Local(name=name) | Read(tensor=name, subscripts=()):
            return name
        case Dim(tensor=tensor, axis=axis):
            return f"{tensor}.{axis}"
        case Read(tensor=name) | Apply(function=name):
            return f"{name}({', '.join(parts)})"
        case Cast(dtype=dtype):
            return f"{_CAST.get(dtype, dtype)}({parts[0]})"
    raise AssertionError(expr)
