"""Element types in C: what they are called, how numbers of them are written, how one becomes another."""

from __future__ import annotations

import math

import numpy as np

from weft.ops.convert import typed_constant
from weft.ops.dtypes import is_float

#: Types C computes with; the others are bits that the prelude's functions read and write.
_NATIVE = {"float32": "float", "float64": "double", "bool": "bool"}
_NARROW_FLOATS = {"float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"}


def c_type(dtype: str) -> str:
    """How C calls an element type."""
    return _NATIVE.get(dtype) or (f"weft_{dtype}" if dtype in _NARROW_FLOATS else f"{dtype}_t")


def converted(text: str, source: str, target: str) -> str:
    """A value of one type in another; whole numbers wrap around, floats are cut off at the ends of a whole type."""
    if source == target:
        return text
    if source in _NARROW_FLOATS:
        return converted(f"weft_from_{source}({text})", "float32", target)
    if target in _NARROW_FLOATS:
        return f"weft_to_{target}({converted(text, source, 'float32')})"
    if target == "bool":
        return f"({text} != 0)"
    if is_float(source) and not is_float(target):
        return f"weft_to_{target}({text})"
    return f"({c_type(target)}){text}"


def literal(value: float | int | bool, dtype: str) -> str:
    """A number of an element type."""
    if dtype == "bool":
        return "true" if value else "false"
    if dtype in _NARROW_FLOATS:
        return f"weft_to_{dtype}({literal(value, 'float32')})"
    if is_float(dtype):
        return _float(value, dtype)
    if not isinstance(value, int):
        return f"weft_to_{dtype}({literal(value, 'float64')})"
    return _whole(value, dtype)


def _float(value: float, dtype: str) -> str:
    with np.errstate(over="ignore"):
        number = typed_constant(value, dtype)
    if math.isnan(number):
        return "NAN"
    if math.isinf(number):
        return "INFINITY" if number > 0 else "(-INFINITY)"
    text = str(number) + ("f" if dtype == "float32" else "")
    text = (
        text if any(sign in text for sign in ".e") else text.replace("f", "") + (".0f" if dtype == "float32" else ".0")
    )
    return f"({text})" if math.copysign(1, number) < 0 else text


def _whole(value: int, dtype: str) -> str:
    bits = int(dtype.removeprefix("u").removeprefix("int"))
    wrapped = value % (1 << bits)
    if dtype.startswith("u"):
        return f"UINT64_C({wrapped})" if wrapped >= 1 << 31 else f"{wrapped}u"
    signed = wrapped - (1 << bits) if wrapped >= 1 << (bits - 1) else wrapped
    if signed == -(1 << 63):
        return "INT64_MIN"
    text = f"INT64_C({signed})" if abs(signed) >= 1 << 31 else str(signed)
    return text if signed >= 0 else f"({text})"
