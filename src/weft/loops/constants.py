"""Constants of the typed loop language: what they come to, how they are written, what operations make of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import copysign
from typing import Any

import numpy as np

from weft.affine import Affine
from weft.loops.insert_casts import dtype_of
from weft.loops.nodes import Cast
from weft.ops import OPS, Call, Num, Scalar
from weft.ops.convert import convert, typed_constant
from weft.ops.dtypes import fields, is_float, numpy_type


def constant_value(scalar: Scalar) -> Any:
    """What a constant comes to, in its NumPy type; None of what is no constant."""
    match scalar:
        case Cast(dtype=dtype, value=Num(value=value)):
            return _number(dtype, value, type(value).__name__, isinstance(value, float) and copysign(1, value) < 0)
        case Affine(terms=(), offset=offset):
            return np.int64(offset)
    return None


@cache
def _number(dtype: str, value: float | int | bool, kind: str, minus: bool) -> Any:
    """A number in an element type. Kind and sign tell apart what Python takes for equal."""
    with np.errstate(all="ignore"):
        return np.asarray(typed_constant(value, dtype))[()]


def constant_of(value: Any, dtype: str) -> Cast:
    """A value of an element type as a constant, written as shortly as it can be."""
    if dtype == "bool":
        return Cast(dtype, Num(bool(value)))
    if not is_float(dtype):
        return Cast(dtype, Num(int(value)))
    short = float(str(value))
    return Cast(dtype, Num(short if typed_constant(short, dtype) == value else float(value)))


def neutral_of(op: str, dtype: str) -> Cast:
    """The neutral element of an operation that has one, in an element type."""
    neutral = OPS[op].neutral
    assert neutral is not None
    number = neutral(numpy_type(dtype))
    return Cast(dtype, Num(number if isinstance(number, bool | int) else float(number)))  # type: ignore[arg-type]


def constant_folded(call: Call) -> Cast | None:
    """What a call of constants comes to; None where that is no number or would be worth a warning."""
    values, dtype = _values(call.args), dtype_of(call)
    if values is None or len(fields(dtype)) > 1:
        return None
    try:
        with np.errstate(all="raise"):
            value = np.asarray(OPS[call.op].meaning(*values)).astype(numpy_type(dtype))[()]
    except FloatingPointError:
        return None
    return None if value != value else constant_of(value, dtype)


def cast_constant(dtype: str, value: Scalar) -> Cast | None:
    """What a constant comes to in another type; None of what is no constant."""
    number = constant_value(value)
    if number is None:
        return None
    with np.errstate(all="ignore"):
        return constant_of(convert(number, dtype), dtype)


def _values(args: Sequence[Scalar]) -> list[Any] | None:
    values = []
    for arg in args:
        value = constant_value(arg)
        if value is None:
            return None
        values.append(value)
    return values
