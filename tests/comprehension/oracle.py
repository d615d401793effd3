"""What a program means, said in NumPy over whole ranges at once: slow, simple, and apart from the compiler."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np

from weft.comprehension import CheckedProgram, infer
from weft.comprehension.builtins import BUILTINS
from weft.comprehension.nodes import (
    UNWANTED,
    Apply,
    Binary,
    Cast,
    Choose,
    Dim,
    Expr,
    Index,
    Int,
    Let,
    Local,
    Read,
    Real,
    Size,
    Truth,
    Unary,
    computed_subscripts,
    left,
)
from weft.comprehension.ranges import Called, Loops, Ranges
from weft.ops import OPS, Call, Num, Scalar, call
from weft.ops.dtypes import numpy_type

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
REDUCE = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}
COMPUTE = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "%": np.mod, "==": np.equal, "!=": np.not_equal, "<": np.less,
    "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "&&": np.logical_and, "||": np.logical_or,
}  # fmt: skip


def run(checked: CheckedProgram, name: str, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Every tensor of a definition after it has run on some inputs."""
    shapes = {one: np.shape(value) for one, value in inputs.items()}
    return _run(checked, infer(checked, name, shapes), inputs)


def _run(checked: CheckedProgram, ranges: Ranges, inputs: Mapping[str, Array]) -> dict[str, Array]:
    types = checked[ranges.definition.name.name].types
    tensors = {name: np.array(value, dtype=_wide(types[name])) for name, value in inputs.items()}
    for one in ranges.body:
        if isinstance(one, Called):
            args = {
                param.name.name: evaluate(arg, tensors, ranges) if not is_whole(arg) else tensors[arg.tensor]
                for param, arg in zip(one.ranges.definition.params, one.statement.args, strict=True)
            }
            results = list(zip(one.statement.targets, one.ranges.definition.results, strict=True))
            begun = checked[one.ranges.definition.name.name].accumulates
            args |= {result.name.name: tensors[to.name] for to, result in results if result.name.name in begun}
            made = _run(checked, one.ranges, args)
            tensors |= {to.name: made[result.name.name] for to, result in results if to.name != UNWANTED}
        else:
            _loops(one, ranges, types, tensors)
        tensors = {name: _stored(value, types[name]) for name, value in tensors.items()}
    return {name: value.astype(numpy_type(types[name])) for name, value in tensors.items()}


def is_whole(arg: Expr) -> bool:
    return isinstance(arg, Read) and not arg.subscripts


def _stored(value: Array, dtype: str) -> Array:
    """A value with all its digits, but infinite where its type ends."""
    if value.dtype.kind != "f":
        return value
    narrow = value.astype(numpy_type(dtype))
    return np.where(np.isinf(narrow), narrow, value)


def _wide(dtype: str) -> np.dtype[Any]:
    kind = numpy_type(dtype).kind
    return np.dtype({"b": "bool", "i": "int64", "u": "int64"}.get(kind, "float64"))


def _loops(loops: Loops, ranges: Ranges, types: Mapping[str, str], tensors: dict[str, Array]) -> None:
    statement, rank = loops.statement, len(loops.indices)
    env: dict[str, Array] = dict(tensors)
    for axis, (name, range) in enumerate(loops.indices):
        env[name] = np.arange(range.low, range.high).reshape([-1 if one == axis else 1 for one in np.arange(rank)])
    for clause in statement.where:
        if isinstance(clause, Let):
            env[clause.name.name] = evaluate(clause.value, env, ranges)
    extents = [range.size for _, range in loops.indices]
    target, wide = statement.target.name, _wide(types[statement.target.name])
    value = np.broadcast_to(evaluate(statement.value, env, ranges), extents).astype(wide)
    if computed_subscripts(statement):
        _scatter(loops, env, value, ranges, tensors)
        return
    kept = len(left(statement))
    cells = tuple(
        range.low if isinstance(at, Int) else slice(range.low, range.high)
        for at, range in zip(statement.at, loops.cells(ranges.shapes[target]), strict=True)
    )
    if target not in tensors:
        tensors[target] = np.zeros(ranges.shapes[target], wide)
    if statement.reduction is None:
        tensors[target][cells] = value
        return
    op = OPS[statement.reduction]
    assert op.neutral is not None
    neutral = np.asarray(op.neutral(wide)).astype(wide)
    axes = tuple(np.arange(kept, rank).tolist())
    reduced = REDUCE[statement.reduction].reduce(value, axis=axes, initial=neutral)
    old = np.full(reduced.shape, neutral) if statement.resets else tensors[target][cells]
    tensors[target][cells] = REDUCE[statement.reduction](old, reduced)


def _scatter(loops: Loops, env: Mapping[str, Array], value: Array, ranges: Ranges, tensors: dict[str, Array]) -> None:
    """Accumulate, one after another, where the left side says."""
    statement = loops.statement
    target, reduction, shape = statement.target.name, statement.reduction, ranges.shapes[statement.target.name]
    assert reduction is not None
    if statement.resets:
        neutral = OPS[reduction].neutral
        assert neutral is not None
        tensors[target] = np.full(shape, neutral(value.dtype), value.dtype)
    at = [np.broadcast_to(evaluate(one, env, ranges), value.shape) for one in statement.at]
    if value.size and all(shape):
        REDUCE[reduction].at(tensors[target], tuple(at), value)


def evaluate(expr: Expr, env: Mapping[str, Array], ranges: Ranges) -> Any:
    """The values of an expression over all points; what a choice leaves out is read somewhere inside and dropped."""
    match expr:
        case Int(value=value) | Real(value=value) | Truth(value=value):
            return np.asarray(value)
        case Index(name=name) | Local(name=name):
            return env[name]
        case Size(name=name):
            return np.asarray(ranges.sizes[name])
        case Dim(tensor=tensor, axis=axis):
            return np.asarray(ranges.shapes[tensor][axis])
        case Read(tensor=tensor, subscripts=subscripts):
            source = env[tensor]
            places = [evaluate(one, env, ranges) for one in subscripts]
            if not source.size:  # nothing of it is used
                return np.zeros(np.broadcast_shapes(*map(np.shape, places)), source.dtype)
            inside = [np.clip(one, 0, size - 1) for one, size in zip(places, source.shape, strict=True)]
            return source[tuple(inside)]
        case Cast(dtype=dtype, value=value):
            inner = evaluate(value, env, ranges)
            whole = numpy_type(dtype).kind in "iu"
            return (np.trunc(inner) if whole else inner).astype(_wide(dtype))
        case Apply(function=function, args=args):
            leaves = [_Leaf(evaluate(one, env, ranges)) for one in args]
            return _scalar(call(BUILTINS[function].name, *leaves))
        case Unary(op=op, value=value):
            inner = evaluate(value, env, ranges)
            return np.logical_not(inner) if op == "!" else -inner
        case Binary(op="/", left=left, right=right):
            a, b = evaluate(left, env, ranges), evaluate(right, env, ranges)
            return a / b if "f" in (a.dtype.kind, b.dtype.kind) else a // b
        case Binary(op=op, left=left, right=right):
            return COMPUTE[op](*map(_number, (evaluate(left, env, ranges), evaluate(right, env, ranges))))
        case Choose(condition=condition, yes=yes, no=no):
            return np.where(*(evaluate(one, env, ranges) for one in (condition, yes, no)))
    raise AssertionError(expr)


def _number(value: Array) -> Array:
    return value.astype(np.int64) if value.dtype.kind == "u" else value


class _Leaf(Scalar):
    def __init__(self, value: Array) -> None:
        self.value = value


def _scalar(value: Scalar) -> Array:
    match value:
        case Num(value=number):
            return np.asarray(number)
        case Call(op=op, args=args):
            return np.asarray(OPS[op].meaning(*map(_scalar, args)))
    assert isinstance(value, _Leaf)
    return value.value
