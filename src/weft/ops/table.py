"""The one table of primitive scalar operations.

A primitive is one row: its name and arity, how it is written, what it means in NumPy (the oracle), how C and Triton
spell it ({t} stands for the type it is computed in), how it is typed, whether it can accumulate and from which neutral
element, or at least what `=:-` and its like start from, what algebra it obeys and what it distributes over, what it
costs, and its gradient.
Parser, printer, interpreter and emitters all read this table.
"""

from __future__ import annotations

from collections.abc import Callable
from math import pi, sqrt
from typing import Any

import numpy as np

from weft.errors import WeftError
from weft.migration_hints import no_accumulation
from weft.ops import typing
from weft.ops.dtypes import WEAK_FLOAT, WEAK_INT
from weft.ops.library import LIBRARY
from weft.ops.meaning import erf, floor_divide, fused_multiply_add, order_place, power, precedes, sigmoid, sign, type_as
from weft.ops.monoid import OWN_MONOIDS, Monoid
from weft.ops.random import standard_normal, threefry4x32, unit_interval
from weft.ops.row import Op, flat, no_gradient, unary
from weft.ops.scalar import Num, Number, Scalar, call, computed, where
from weft.ops.special import keeps_whole


def _lowest(dtype: np.dtype[Any]) -> object:
    if dtype.name == "float8_e4m3fn":  # it has no infinities
        return -448.0
    return np.iinfo(dtype).min if dtype.kind in "iu" else dtype.kind != "b" and -np.inf


def _highest(dtype: np.dtype[Any]) -> object:
    if dtype.name == "float8_e4m3fn":
        return 448.0
    return np.iinfo(dtype).max if dtype.kind in "iu" else dtype.kind == "b" or np.inf


def _pow_gradient(x: Scalar, y: Scalar, z: Scalar) -> tuple[Number, ...]:
    """By a constant exponent the powers are spelled out, so that none is infinite without need.

    A power that is 0 whatever the exponent, or 1 whatever the base, does not change with it, also where the formula
    has 0 times infinity.
    """
    if isinstance(y, Num):
        match y.value:
            case 0:
                return (0, 0)
            case 1:
                return (1, 0)
            case 2:
                return (2 * x, 0)
        return (y * call("pow", x, y.value - 1), 0)
    still = call("and", call("eq", x, 0), call("le", 0, y))
    return where(call("eq", y, 0), 0, y * call("pow", x, y - 1)), where(still, 0, z * call("log", x))


def _zero(dtype: np.dtype[Any]) -> object:
    return 0


def _one(dtype: np.dtype[Any]) -> object:
    return 1


_ROWS: tuple[Op, ...] = (
    # one operand
    unary("identity", lambda x: x, "{0}", "{0}", lambda x, y: (1,), "id", typing.first, idempotent=True),
    unary(
        "relu", lambda x: np.maximum(x, 0), "weft_relu_{t}({0})", "weft_relu_{t}({0})",
        lambda x, y: (call("lt", 0, x),), "?/", idempotent=True, unsigned=True,
    ),
    unary(
        "sat01", lambda x: np.minimum(np.maximum(x, 0), 1), "weft_sat01_{t}({0})",
        "weft_sat01_{t}({0})", lambda x, y: (call("and", call("lt", 0, x), call("lt", x, 1)),), "?^",
        idempotent=True, unsigned=True,
    ),
    unary(
        "exp", np.exp, "weft_exp_{t}({0})", "libdevice.exp({0})", lambda x, y: (y,), typing=typing.reals, unsigned=True,
        vectorised=True,
    ),
    unary(
        "log", np.log, "weft_log_{t}({0})", "libdevice.log({0})", lambda x, y: (call("recip", x),), typing=typing.reals,
        vectorised=True,
    ),
    unary(
        "exp2", np.exp2, "exp2({0})", "libdevice.exp2({0})", lambda x, y: (y * float(np.log(2)),), typing=typing.reals,
        unsigned=True,
    ),
    unary(
        "log2", np.log2, "log2({0})", "libdevice.log2({0})", lambda x, y: (call("recip", x * float(np.log(2))),),
        typing=typing.reals,
    ),
    unary(
        "sin", np.sin, "weft_sin_{t}({0})", "libdevice.sin({0})", lambda x, y: (call("cos", x),), typing=typing.reals,
        vectorised=True,
    ),
    unary(
        "cos", np.cos, "weft_cos_{t}({0})", "libdevice.cos({0})", lambda x, y: (-call("sin", x),), typing=typing.reals,
        vectorised=True,
    ),
    unary(
        "sqrt", np.sqrt, "sqrt({0})", "weft_sqrt_{t}({0})", lambda x, y: (0.5 / y,), typing=typing.reals,
        instruction=True,
    ),
    unary(
        "recip", lambda x: 1 / x, "(1 / {0})", "weft_recip_{t}({0})", lambda x, y: (-(y * y),), typing=typing.reals,
        instruction=True,
    ),
    unary(
        "recip_sqrt", lambda x: 1 / np.sqrt(x), "(1 / sqrt({0}))", "weft_recip_sqrt_{t}({0})",
        lambda x, y: (-0.5 * (y * y * y),), typing=typing.reals, instruction=True,
    ),
    unary("neg", np.negative, "weft_neg_{t}({0})", "weft_neg_{t}({0})", lambda x, y: (-1,), "~-"),
    unary(
        "tanh", np.tanh, "weft_tanh_{t}({0})", "libdevice.tanh({0})", lambda x, y: (1 - y * y,), typing=typing.reals,
        vectorised=True,
    ),
    unary(
        "sigmoid", sigmoid, "weft_sigmoid_{t}({0})", "weft_sigmoid_{t}({0})",
        lambda x, y: (y * call("sigmoid", -x),), typing=typing.reals, unsigned=True, vectorised=True,
    ),
    unary(
        "erf", erf, "weft_erf_{t}({0})", "weft_erf_{t}({0})", lambda x, y: (call("exp", -(x * x)) * (2 / sqrt(pi)),),
        typing=typing.reals, vectorised=True,
    ),
    unary(
        "abs", np.abs, "weft_abs_{t}({0})", "weft_abs_{t}({0})", lambda x, y: (where(x < 0, -1, call("lt", 0, x)),),
        idempotent=True, unsigned=True,
    ),
    unary("floor", np.floor, "weft_floor_{t}({0})", "weft_floor_{t}({0})", flat, idempotent=True),
    unary("rint", keeps_whole(np.rint), "weft_rint_{t}({0})", "weft_rint_{t}({0})", flat, idempotent=True),
    unary(
        "sign", sign, "weft_sign_{t}({0})", "weft_sign_{t}({0})", flat,
        idempotent=True,
    ),
    unary("not", lambda x: np.equal(x, 0), "({0} == 0)", "({0} == 0)", flat, typing=typing.truths),
    unary(
        "order_place", order_place, "weft_order_place_{t}({0})", "weft_order_place_{t}({0})",
        no_gradient("order_place"), typing=typing.place,
    ),
    # two operands
    Op(
        "arg1", 2, "-@>", lambda x, y: np.broadcast_arrays(x, y)[0], "{0}", "{0}", lambda x, y, z: (1, 0),
        typing=typing.first, associative=True, idempotent=True,
    ),
    Op(
        "arg2", 2, "-/>", lambda x, y: np.broadcast_arrays(x, y)[1], "{1}", "{1}", lambda x, y, z: (0, 1),
        typing=typing.second, associative=True, idempotent=True,
    ),
    Op("type_as", 2, "type_as", type_as, "{0}", "{0}", lambda x, y, z: (1, 0), typing=typing.second),
    Op(
        "add", 2, "+", np.add, "({0} + {1})", "({0} + {1})", lambda x, y, z: (1, 1), neutral=_zero,
        commutative=True, associative=True, over=("max", "min"),
    ),
    Op("sub", 2, "-", np.subtract, "({0} - {1})", "({0} - {1})", lambda x, y, z: (1, -1), start=_zero, unordered=True),
    Op(
        "mul", 2, "*", np.multiply, "({0} * {1})", "({0} * {1})", lambda x, y, z: (y, x), neutral=_one,
        commutative=True, associative=True, over=("add",),
    ),
    Op(
        "div", 2, "/", np.divide, "({0} / {1})", "weft_div_{t}({0}, {1})", lambda x, y, z: (call("recip", y), -(z / y)),
        typing=typing.reals, start=_one, instruction=True,
    ),
    Op(
        "floordiv", 2, "//", floor_divide, "weft_floordiv_{t}({0}, {1})", "weft_floordiv_{t}({0}, {1})", flat,
    ),
    Op(
        "pow", 2, "**", power, "weft_pow_{t}({0}, {1})", "libdevice.pow({0}, {1})",
        _pow_gradient, start=_one,
    ),
    Op(
        "relu_gate", 2, "-?/", lambda x, y: np.where(x > 0, y, 0), "weft_relu_gate_{t}({0}, {1})",
        "weft_relu_gate_{t}({0}, {1})",
        lambda x, y, z: (0, call("lt", 0, x)), start=_one,
    ),
    Op(
        "sat01_gate", 2, "-?^", lambda x, y: np.where((x > 0) & (x < 1), y, 0), "weft_sat01_gate_{t}({0}, {1})",
        "weft_sat01_gate_{t}({0}, {1})",
        lambda x, y, z: (0, call("and", call("lt", 0, x), call("lt", x, 1))),
    ),
    Op(
        "select", 2, "select", lambda c, x: np.where(c, x, np.zeros_like(x)), "weft_where_{t}({0}, {1}, 0)",
        "tl.where({0}, {1}, 0)", lambda c, x, y: (0, call("ne", c, 0)), typing=typing.selection,
    ),
    Op(
        "max", 2, "@^", np.maximum, "weft_max_{t}({0}, {1})", "weft_max_{t}({0}, {1})",
        lambda x, y, z: (call("le", y, x), call("lt", x, y)), neutral=_lowest,
        commutative=True, associative=True, idempotent=True, over=("min",),
    ),
    Op(
        "min", 2, "^^", np.minimum, "weft_min_{t}({0}, {1})", "weft_min_{t}({0}, {1})",
        lambda x, y, z: (call("le", x, y), call("lt", y, x)), neutral=_highest,
        commutative=True, associative=True, idempotent=True, over=("max",),
    ),
    Op(
        "mod", 2, "%", np.mod, "weft_mod_{t}({0}, {1})", "weft_mod_{t}({0}, {1})",
        lambda x, y, z: (1, -call("floor", x / y)),
    ),
    Op("lt", 2, "<", np.less, "({0} < {1})", "({0} < {1})", flat, typing=typing.compared),
    Op("le", 2, "<=", np.less_equal, "({0} <= {1})", "({0} <= {1})", flat, typing=typing.compared),
    Op("eq", 2, "=", np.equal, "({0} == {1})", "({0} == {1})", flat, typing=typing.compared, commutative=True),
    Op("ne", 2, "<>", np.not_equal, "({0} != {1})", "({0} != {1})", flat, typing=typing.compared, commutative=True),
    Op(
        "precedes", 2, "precedes", precedes, "(({0} < {1}) | (({1} != {1}) & ({0} == {0})))",
        "(({0} < {1}) | (({1} != {1}) & ({0} == {0})))", flat, typing=typing.compared,
    ),
    Op(
        "or", 2, "||", np.logical_or, "({0} | {1})", "({0} | {1})", flat, typing.truths, _zero,
        commutative=True, associative=True, idempotent=True, over=("and",),
    ),
    Op(
        "and", 2, "&&", np.logical_and, "({0} & {1})", "({0} & {1})", flat, typing.truths, _one,
        commutative=True, associative=True, idempotent=True, over=("or",),
    ),
    Op(
        "threefry4x32", 2, "^^^^", threefry4x32, "weft_threefry({0}, {1})", "weft_threefry({0}, {1})", flat,
        typing=typing.bits,
    ),
    Op(
        "uniform", 2, "uniform", unit_interval, "weft_uniform_{t}({0}, {1})", "weft_uniform({0}, {1})", flat,
        typing=typing.drawn, unsigned=True,
    ),
    # three operands
    Op(
        "normal", 3, "normal", standard_normal, "weft_normal_{t}({0}, {1}, {2})", "weft_normal({0}, {1}, {2})", flat,
        typing.drawn,
    ),
    Op(
        "where", 3, "where", np.where, "weft_where_{t}({0}, {1}, {2})", "tl.where({0}, {1}, {2})",
        lambda c, x, y, z: (0, call("ne", c, 0), call("eq", c, 0)), typing.selection,
    ),
    Op(
        "fma", 3, "fma", fused_multiply_add, "weft_fma_{t}({0}, {1}, {2})", "weft_fma_{t}({0}, {1}, {2})",
        lambda x, y, z, w: (y, x, 1),
    ),
    *LIBRARY,
)  # fmt: skip


class _Table(dict[str, Op]):
    """The primitives by name. What is declared since (`declare.py`) is found too, and not among them."""

    def __missing__(self, name: str) -> Op:
        return DECLARED[name]


#: Monoids, and what puts their states together and takes them apart.
DECLARED: dict[str, Op] = {}
OPS: dict[str, Op] = _Table({op.name: op for op in _ROWS})
_BY_TEXT = {op.text: op for op in _ROWS}


def find(name: str, *, arity: int | None = None) -> Op:
    """The operation called `name`, by its name or as it is written."""
    found = (OPS.get(name) or _BY_TEXT.get(name)) if isinstance(name, str) else None
    if found is None or arity not in (None, found.arity):
        kind = {1: "unary ", 2: "binary ", 3: "ternary "}.get(arity or 0, "")
        known = [op.name for op in _ROWS if arity in (None, op.arity)]
        raise WeftError(f"there is no {kind}operation {name!r}", fix="use one of " + ", ".join(known))
    return found


def exists(name: str) -> bool:
    """Is there an operation of this name: a primitive, or one that was declared?"""
    return name in OPS or name in DECLARED


def monoid_row(name: object) -> Op | None:
    """The row of a monoid, or of the one that is called so."""
    found = DECLARED.get(name.name if isinstance(name, Monoid) else name) if isinstance(name, Monoid | str) else None
    return found if found and found.monoid else None


def accumulator(name: str | Monoid) -> Op:
    """The operation called `name`, which must have a neutral element to start from; or that of a monoid."""
    if own := monoid_row(name):
        return own
    known = [op.text if op.text in "+*" else op.name for op in _ROWS if op.neutral]
    known += OWN_MONOIDS
    found = (OPS.get(name) or _BY_TEXT.get(name)) if isinstance(name, str) else None
    if found is None or found.arity != 2:
        raise no_accumulation(name, known)
    if found.neutral is None:
        raise WeftError(
            f"{name!r} cannot accumulate: it has no neutral element", fix="accumulate with one of " + ", ".join(known)
        )
    return found


def starter(name: str) -> Op:
    """The operation called `name`, which an assignment that starts afresh must have something to begin with."""
    found = find(name, arity=2)
    if found.begins is None:
        known = [op.name for op in _ROWS if op.begins]
        raise WeftError(
            f"an assignment with {name!r} has nothing to start from",
            fix="go on from the old value, or start afresh with one of " + ", ".join(known),
        )
    return found


def accumulating_op(name: str | Monoid, reset: bool) -> Op:
    """The operation called `name`, with which an assignment accumulates: afresh, or going on from the old value."""
    if (found := monoid_row(name)) is None:
        assert isinstance(name, str)
        return starter(name) if reset else find(name, arity=2)
    if not reset and found.monoid and not found.monoid.plain:
        what = f"`{found.name}` cannot go on from a result, which does not say what state it came from"
        raise WeftError(what, fix="start afresh: t.accumulate(…, reset=True)")
    return found


def scalar_type(value: Scalar, leaf: Callable[[Scalar], str]) -> str:
    """The type of a scalar expression, given that of its leaves."""
    return computed(value, lambda one: _constant_type(one) or leaf(one), lambda one, types: result_type(one.op, *types))


def result_type(op: str, *types: str) -> str:
    """The type an operation's value has, given those of its operands."""
    return OPS[op].typing(*types)[1]


def _constant_type(value: Scalar) -> str | None:
    if not isinstance(value, Num):
        return None
    if isinstance(value.value, bool):
        return "bool"
    return WEAK_INT if isinstance(value.value, int) else WEAK_FLOAT
