"""Which cells an expression reads at one point of its indices, by plain Python. Tensors hold zeros."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping

from weft.comprehension.nodes import Apply, Binary, Choose, Expr, Index, Int, Read, Size, Unary

OPERATIONS = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.floordiv, "%": operator.mod,
    "<": operator.lt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip


def reads_at(expr: Expr, env: Mapping[str, int]) -> Iterator[tuple[Read, tuple[int, ...]]]:
    """Each read that happens, with the cell it reads."""
    match expr:
        case Choose(condition=condition, yes=yes, no=no):
            yield from reads_at(condition, env)
            yield from reads_at(yes if value_at(condition, env) else no, env)
        case Binary(left=left, right=right):
            yield from reads_at(left, env)
            yield from reads_at(right, env)
        case Read(subscripts=subscripts):
            yield expr, tuple(value_at(one, env) for one in subscripts)


def value_at(expr: Expr, env: Mapping[str, int]) -> int:
    match expr:
        case Int(value=value):
            return value
        case Index(name=name) | Size(name=name):
            return env[name]
        case Unary(value=value):
            return -value_at(value, env)
        case Binary(op="&&", left=left, right=right):
            return value_at(left, env) and value_at(right, env)
        case Binary(op=op, left=left, right=right):
            return int(OPERATIONS[op](value_at(left, env), value_at(right, env)))
        case Apply(function=function, args=args):
            return {"min": min, "max": max}[function](value_at(one, env) for one in args)
        case Choose(condition=condition, yes=yes, no=no):
            return value_at(yes if value_at(condition, env) else no, env)
    raise AssertionError(expr)
