"""Element types in Triton: what they are called, how numbers of them are written, how one becomes another."""

from __future__ import annotations

import math

import numpy as np

from weft.ops.convert import typed_constant
from weft.ops.dtypes import is_float

_NAMES = {
    "float8_e4m3fn": "float8e4nv",
    "float8_e5m2": "float8e5",
    "bool": "int1",
}
_POINTERS = {
    "float64": "fp64",
    "float32": "fp32",
    "float16": "fp16",
    "bfloat16": "bf16",
    "float8_e4m3fn": "fp8e4nv",
    "float8_e5m2": "fp8e5",
    "bool": "i8",  # a truth value is a byte in memory
}
_NARROW = ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")


def triton_type(dtype: str) -> str:
    """How Triton calls the type of a value."""
    return f"tl.{_NAMES.get(dtype, dtype)}"


def pointer_type(dtype: str) -> str:
    """How a signature calls a pointer to memory of a type."""
    return f"*{_POINTERS.get(dtype) or dtype.replace('uint', 'u').replace('int', 'i')}"


def triton_converted(text: str, source: str, target: str) -> str:
    """A value of one type in another; whole numbers wrap around, floats are cut off at the ends of a whole type."""
    if source == target:
        return text
    if target == "bool":
        return f"({text} != 0)"
    if is_float(source) and not is_float(target):
        return f"weft_{source}_to_{target}({text})"
    if (
        (target in _NARROW and source != "float32" and source not in _NARROW)
        or (target in _NARROW and source in _NARROW)
        or (target == "float64" and source in _NARROW)
    ):
        text = f"tl.cast({text}, tl.float32)"
    return f"tl.cast({text}, {triton_type(target)})"


def triton_literal(value: float | int | bool, dtype: str) -> str:
    """A number as it is written beside a value of its type."""
    if dtype == "bool":
        return "True" if value else "False"
    with np.errstate(over="ignore"):
        number = typed_constant(value, dtype)
    if not is_float(dtype):
        return str(int(number))
    number = float(number)
    if math.isnan(number) or math.isinf(number):
        return f'float("{number}")'
    return repr(number) if number or math.copysign(1, number) > 0 else full(value, dtype)


def full(value: float | int | bool, dtype: str, shape: str = "()") -> str:
    """A number as a value by itself."""
    if is_float(dtype) and value == 0 and math.copysign(1, value) < 0:  # Triton takes any zero for 0.0
        return f"(tl.full({shape}, 0.0, {triton_type(dtype)}) * -1.0)"
    return f"tl.full({shape}, {triton_literal(value, dtype)}, {triton_type(dtype)})"
