"""Conversions between element types, as every backend makes them.

Whole numbers wrap around. A float becomes the whole number next to it towards zero, the type's end where it lies
beyond, 0 where it is not a number. Floats narrower than single precision are reached by way of single precision.
"""

from __future__ import annotations

from functools import cache
from math import inf
from typing import Any

import numpy as np

from weft.ops.dtypes import digits, is_float, name_of, numpy_type

#: Which types hold all numbers of a float type.
_WIDER = {
    **dict.fromkeys(("float8_e5m2", "float8_e4m3fn"), ("float16", "bfloat16", "float32", "float64")),
    **dict.fromkeys(("float16", "bfloat16"), ("float32", "float64")),
    "float32": ("float64",),
    "float64": (),
}


def convert(value: Any, dtype: str) -> Any:
    """A value in another element type."""
    array = np.asarray(value)
    if array.dtype == numpy_type(dtype):
        return value
    if dtype == "bool":
        return (array != 0)[()]
    if is_float(dtype):
        wide = array if dtype in ("float32", "float64") else array.astype(np.float32)
        return wide.astype(numpy_type(dtype))[()]
    if is_float(name_of(array.dtype)):
        return _cut_off(array.astype(np.float64), dtype)[()]
    return array.astype(numpy_type(dtype))[()]


def typed_constant(value: float | int | bool, dtype: str) -> Any:
    """A number written in the program, in an element type; whole numbers of any size wrap around."""
    if is_float(dtype):
        return convert(np.float64(_nearest(value)), dtype)
    if isinstance(value, int) and not isinstance(value, bool) and dtype != "bool":
        return convert(np.uint64(value % (1 << 64)), dtype)
    return convert(value, dtype)


@cache
def exact(source: str, target: str) -> bool:
    """Is every value of one type a value of the other?"""
    if source in (target, "bool"):
        return True
    if is_float(source):
        return target in _WIDER[source]
    if is_float(target):
        return 8 * numpy_type(source).itemsize - (numpy_type(source).kind == "i") <= digits(target)
    return bool(np.can_cast(source, target))


@cache
def needless(source: str, between: str, target: str) -> bool:
    """Does a value come to the same whether or not it is converted to `between` on its way?"""
    whole = [not is_float(one) and one != "bool" for one in (source, between, target)]
    if exact(source, between):  # from floats to whole numbers ends are cut off, between whole numbers they wrap
        return not whole[2] or is_float(source) == is_float(between) or exact(source, target)
    if between == "float32" and is_float(target):  # the way to narrow floats
        return target != "float64"
    return all(whole) and numpy_type(between).itemsize >= numpy_type(target).itemsize


def _nearest(value: float | int) -> float:
    try:
        return float(value)
    except OverflowError:
        return inf if value > 0 else -inf


def _cut_off(array: Any, dtype: str) -> Any:
    kind = numpy_type(dtype)
    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    inside = (array > float(low)) & (array < float(high))
    ends = np.where(array >= float(high), kind.type(high), np.where(array <= float(low), kind.type(low), kind.type(0)))
    return np.where(inside, np.where(inside, array, 0).astype(kind), ends)
