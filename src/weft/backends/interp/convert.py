"""Conversions between element types, as every backend makes them.

Whole numbers wrap around. A float becomes the whole number next to it towards zero, the type's end where it lies
beyond, 0 where it is not a number. Floats narrower than single precision are reached by way of single precision.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.ops.dtypes import is_float, numpy_type


def convert(value: Any, dtype: str) -> Any:
    """A value in another element type."""
    array = np.asarray(value)
    if array.dtype.name == dtype:
        return value
    if dtype == "bool":
        return (array != 0)[()]
    if is_float(dtype):
        wide = array if dtype in ("float32", "float64") else array.astype(np.float32)
        return wide.astype(numpy_type(dtype))[()]
    if is_float(array.dtype.name):
        return _cut_off(array.astype(np.float64), dtype)[()]
    return array.astype(numpy_type(dtype))[()]


def constant(value: float | int | bool, dtype: str) -> Any:
    """A number written in the program, in an element type; whole numbers of any size wrap around."""
    if isinstance(value, int) and not isinstance(value, bool) and not is_float(dtype) and dtype != "bool":
        return convert(np.uint64(value % (1 << 64)), dtype)
    return convert(value, dtype)


def _cut_off(array: Any, dtype: str) -> Any:
    kind = numpy_type(dtype)
    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    inside = (array > float(low)) & (array < float(high))
    ends = np.where(array >= float(high), kind.type(high), np.where(array <= float(low), kind.type(low), kind.type(0)))
    return np.where(inside, np.where(inside, array, 0).astype(kind), ends)
