"""The rewriting rules: one table of equations, read from left to right.

A small letter stands for any scalar, a capital for any constant. `number(c)` is a truth value converted to a number; a
name with an underscore after it is an operation that Python has as a word. Each equation says where it holds:

    always    to the last bit: infinities, what is not a number and signs of zeros included
    whole     on whole numbers and truth values
    real      on whole numbers; on floats under fast math, which minds neither rounding, infinities nor signs of zeros
    unsigned  likewise, and to the last bit on floats where x is never -0.0
    fast      under fast math only

Zeros have their sign, so x + 0 = x is unsigned and x + -0.0 = x always. Where the last digits may change, as in powers,
a row says `rounds`. What the table of operations knows of their algebra is not repeated: those rows are read from it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from keyword import iskeyword
from typing import Any, TypeAlias

import numpy as np

from weft.ops import OPS, Call, Num, Op, Scalar

#: What must be true of the constants of an equation, given by name in their own type.
Condition: TypeAlias = Callable[..., bool]


@dataclass(frozen=True, slots=True)
class PatternVariable(Scalar):
    """What a letter of an equation stands for: any scalar, or any constant."""

    name: str
    constant: bool


@dataclass(frozen=True, slots=True)
class Rule:
    """One equation: what is found, what replaces it, where that is right."""

    left: str
    right: str
    holds: str = "always"
    given: Condition | None = None
    rounds: bool = False

    def __str__(self) -> str:
        return f"{self.left} = {self.right}"


def _inverse_is_exact(C: Any) -> bool:
    with np.errstate(all="ignore"):
        return bool(abs(np.frexp(C)[0]) == 0.5 and np.isfinite(1 / C))


def _is_neutral(op: Op, C: Any) -> bool:
    return op.neutral is not None and bool(op.neutral(C.dtype) == C)


def _not_zeros(C: Any, D: Any) -> bool:
    """Of 0.0 and -0.0 the larger and the smaller may be either."""
    return C.dtype.kind != "f" or bool(C != 0 and D != 0)


def _called(op: Op, *args: str) -> str:
    return f"{op.name}{'_' * iskeyword(op.name)}({', '.join(args)})"


def _facts(op: Op) -> Iterator[Rule]:
    """What the table of operations says of one."""
    if op.neutral is not None:
        yield Rule(_called(op, "x", "C"), "x", "unsigned" if op.name == "add" else "always", partial(_is_neutral, op))
    if op.idempotent and op.arity == 1 and op.name != "identity":
        yield Rule(_called(op, _called(op, "x")), _called(op, "x"))
    if op.idempotent and op.arity == 2:
        yield Rule(_called(op, "x", "x"), "x")
    if op.commutative and op.associative:
        nested, holds = _called(op, _called(op, "x", "C"), "D"), "always" if op.idempotent else "real"
        yield Rule(nested, _called(op, "x", _called(op, "C", "D")), holds, _not_zeros if op.idempotent else None)


RULES: tuple[Rule, ...] = (
    *(rule for op in OPS.values() for rule in _facts(op)),
    Rule("identity(x)", "x"),
    Rule("arg1(x, y)", "x"),
    Rule("arg2(x, y)", "y"),
    # sums
    Rule("add(x, -0.0)", "x"),
    Rule("sub(x, 0)", "x"),
    Rule("sub(0, x)", "neg(x)", "real"),
    Rule("sub(-0.0, x)", "neg(x)"),
    Rule("sub(x, x)", "0", "real"),
    Rule("sub(x, neg(y))", "add(x, y)"),
    Rule("add(x, neg(y))", "sub(x, y)"),
    Rule("sub(neg(x), C)", "sub(neg(C), x)"),
    Rule("sub(add(x, y), y)", "x", "real"),
    Rule("add(sub(x, y), y)", "x", "real"),
    Rule("neg(neg(x))", "x"),
    Rule("neg(sub(x, y))", "sub(y, x)", "real"),
    # products
    Rule("mul(x, 0)", "0", "real"),
    Rule("mul(x, -1)", "neg(x)"),
    Rule("mul(neg(x), neg(y))", "mul(x, y)"),
    Rule("mul(neg(x), C)", "mul(x, neg(C))"),
    Rule("neg(mul(x, C))", "mul(x, neg(C))"),
    Rule("abs(neg(x))", "abs(x)", "fast"),
    Rule("abs(mul(x, x))", "mul(x, x)", "fast"),
    # quotients
    Rule("div(x, C)", "mul(x, recip(C))", given=_inverse_is_exact),
    Rule("div(x, C)", "mul(x, recip(C))", "fast"),
    Rule("div(1, x)", "recip(x)"),
    Rule("div(-1, x)", "neg(recip(x))"),
    Rule("div(neg(x), neg(y))", "div(x, y)"),
    Rule("div(x, x)", "1", "fast"),
    Rule("div(div(x, y), z)", "div(x, mul(y, z))", "fast"),
    Rule("div(x, div(y, z))", "div(mul(x, z), y)", "fast"),
    Rule("div(x, recip(y))", "mul(x, y)", "fast"),
    Rule("recip(recip(x))", "x", "fast"),
    Rule("recip(div(x, y))", "div(y, x)", "fast"),
    Rule("mul(recip(x), x)", "1", "fast"),
    Rule("mul(recip(x), recip(y))", "recip(mul(x, y))", "fast"),
    Rule("mul(div(x, y), y)", "x", "fast"),
    Rule("floordiv(x, 1)", "x", "whole"),
    Rule("floordiv(x, 1)", "floor(x)", "fast"),
    Rule("mod(x, 1)", "0", "whole"),
    Rule("mod(mod(x, C), C)", "mod(x, C)", "whole"),
    Rule("floor(x)", "x", "whole"),
    # products and sums in one
    Rule("fma(x, 1, y)", "add(x, y)"),
    Rule("fma(1, x, y)", "add(x, y)"),
    Rule("fma(x, y, 0)", "mul(x, y)", "real"),
    Rule("fma(x, y, -0.0)", "mul(x, y)"),
    Rule("fma(C, D, x)", "add(mul(C, D), x)", "fast"),
    Rule("fma(x, 0, y)", "y", "real"),
    Rule("fma(0, x, y)", "y", "real"),
    Rule("add(mul(x, y), z)", "fma(x, y, z)", "fast"),
    Rule("sub(mul(x, y), z)", "fma(x, y, neg(z))", "fast"),
    Rule("sub(z, mul(x, y))", "fma(neg(x), y, z)", "fast"),
    # powers
    Rule("pow(x, 0)", "1"),
    Rule("pow(1, x)", "1"),
    Rule("pow(x, 1)", "x"),
    Rule("pow(x, 2)", "mul(x, x)", rounds=True),
    Rule("pow(x, 3)", "mul(mul(x, x), x)", rounds=True),
    Rule("pow(x, 4)", "mul(mul(x, x), mul(x, x))", rounds=True),
    Rule("pow(x, -1)", "recip(x)", rounds=True),
    Rule("pow(x, -2)", "mul(recip(x), recip(x))", rounds=True),
    Rule("pow(x, 0.5)", "sqrt(x)", "fast"),
    Rule("pow(x, -0.5)", "recip_sqrt(x)", "fast"),
    Rule("pow(x, 1.5)", "mul(x, sqrt(x))", "fast"),
    Rule("pow(2, x)", "exp2(x)", "fast"),
    # roots, exponentials, logarithms
    Rule("recip(sqrt(x))", "recip_sqrt(x)", "fast"),
    Rule("recip(recip_sqrt(x))", "sqrt(x)", "fast"),
    Rule("div(x, sqrt(y))", "mul(x, recip_sqrt(y))", "fast"),
    Rule("mul(sqrt(x), sqrt(x))", "x", "fast"),
    Rule("mul(recip_sqrt(x), recip_sqrt(x))", "recip(x)", "fast"),
    Rule("sqrt(mul(x, x))", "abs(x)", "fast"),
    Rule("exp(log(x))", "x", "fast"),
    Rule("log(exp(x))", "x", "fast"),
    Rule("exp2(log2(x))", "x", "fast"),
    Rule("log2(exp2(x))", "x", "fast"),
    Rule("mul(exp(x), exp(y))", "exp(add(x, y))", "fast"),
    Rule("recip(exp(x))", "exp(neg(x))", "fast"),
    Rule("div(x, exp(y))", "mul(x, exp(neg(y)))", "fast"),
    # comparisons
    Rule("lt(x, x)", "False"),
    Rule("ne(x, x)", "False", "real"),
    Rule("le(x, x)", "True", "real"),
    Rule("eq(x, x)", "True", "real"),
    Rule("not_(eq(x, y))", "ne(x, y)"),
    Rule("not_(ne(x, y))", "eq(x, y)"),
    Rule("not_(lt(x, y))", "le(y, x)", "real"),
    Rule("not_(le(x, y))", "lt(y, x)", "real"),
    Rule("not_(not_(c))", "c"),
    # truth values
    Rule("or_(c, True)", "True"),
    Rule("and_(c, False)", "False"),
    Rule("or_(c, not_(c))", "True"),
    Rule("and_(c, not_(c))", "False"),
    Rule("ne(c, False)", "c"),
    Rule("eq(c, True)", "c"),
    Rule("eq(c, False)", "not_(c)"),
    Rule("ne(c, True)", "not_(c)"),
    Rule("ne(number(c), 0)", "c"),
    Rule("eq(number(c), 0)", "not_(c)"),
    Rule("lt(0, number(c))", "c"),
    Rule("mul(number(c), number(d))", "number(and_(c, d))"),
    Rule("mul(x, number(c))", "where(c, x, 0)", "real"),
    # choices
    Rule("select(c, x)", "where(c, x, 0)"),
    Rule("where(c, x, x)", "x"),
    Rule("where(True, x, y)", "x"),
    Rule("where(False, x, y)", "y"),
    Rule("where(not_(c), x, y)", "where(c, y, x)"),
    Rule("where(c, True, False)", "c"),
    Rule("where(c, False, True)", "not_(c)"),
    Rule("where(c, 1, 0)", "number(c)"),
    Rule("where(c, 0, 1)", "number(not_(c))"),
    Rule("where(c, where(c, x, y), z)", "where(c, x, z)"),
    Rule("where(c, x, where(c, y, z))", "where(c, x, z)"),
    Rule("relu_gate(x, 0)", "0"),
    Rule("sat01_gate(x, 0)", "0"),
)


@cache
def parse_pattern(text: str) -> Scalar:
    """One side of an equation: calls, numbers and letters."""
    return _parsed(ast.parse(text, mode="eval").body)


def _parsed(node: ast.expr) -> Scalar:
    match node:
        case ast.Call(func=ast.Name(id=name), args=args):
            return Call(name.rstrip("_"), tuple(map(_parsed, args)))
        case ast.Name(id=name):
            return PatternVariable(name, constant=name.isupper())
        case ast.Constant(value=bool() | int() | float() as value):
            return Num(value)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return Num(-value)
    raise AssertionError(f"not an equation of scalars: {ast.unparse(node)}")


#: The rules by the operation they look for.
BY_OP: dict[str, tuple[Rule, ...]] = {
    name: tuple(rule for rule in RULES if getattr(parse_pattern(rule.left), "op", "") == name) for name in OPS
}
