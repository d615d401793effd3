"""Arrays of any library: as NumPy sees them, and back as the library's own."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from weft.backends import Array
from weft.comprehension.operator import check_number
from weft.dlpack import CPU, DeviceArray, ExchangeError, borrow, is_producer, on_device, to_capsule, type_name
from weft.errors import WeftError, user_origin
from weft.ops.dtypes import is_float, numpy_type
from weft.tensor.leaves import where_it_lies

#: Rounding differs with the order of sums.
_CLOSE = 1e-3


def as_array(value: Any, name: str) -> Any:
    """An argument as an array, on the same memory where that can be."""
    try:
        return where_it_lies(value)
    except WeftError as error:
        error.what = f"`{name}`: {error.what}"
        error.origin = error.origin or user_origin()
        raise


def as_number(value: float, dtype: str, name: str) -> Array:
    """A number of the program as an array without axes, if it is one of that type."""
    check_number(value, dtype, name)
    with np.errstate(over="ignore"):
        return np.asarray(float(value) if is_float(dtype) else value).astype(numpy_type(dtype))


def written(value: Any, name: str) -> Any:
    """An argument that is written: its own memory, whatever its strides."""
    reason = "it gives no memory"
    if isinstance(value, np.ndarray) or is_producer(value):
        try:
            if (there := on_device(value)) is not None:
                if there.writable:
                    return there
                raise ExchangeError("its memory is read-only")
            array = value if isinstance(value, np.ndarray) else borrow(value, copy=False)
            if array.flags.writeable and not _overlaps(array):
                return array
            reason = "cells of it lie in the same memory" if array.flags.writeable else "its memory is read-only"
        except ExchangeError as error:
            reason = error.what
    what = f"the output given for `{name}`, {type_name(value)}, cannot be written: {reason}"
    raise WeftError(what, fix="pass a NumPy array or a tensor that may be written")


def _overlaps(array: Array) -> bool:
    """Do two cells of an array lie in the same memory?"""
    axes = [(abs(stride), size) for stride, size in zip(array.strides, array.shape, strict=True) if size > 1]
    reach = array.itemsize
    for stride, size in sorted(axes):
        if stride < reach:
            break
        reach += stride * (size - 1)
    else:
        return False
    offsets = np.zeros((), np.int64)
    for stride, size in axes:
        offsets = np.add.outer(offsets, stride * np.arange(size))
    return bool(array.size and np.diff(np.sort(offsets, None)).min() < array.itemsize)


def is_close(found: Array, expected: Array) -> Array:
    """In which cells two arrays are as near as sums in any order come: that much of the largest number."""
    one, other = found.astype(np.float64), expected.astype(np.float64)
    scale = float(np.max(np.abs(other), initial=0.0, where=np.isfinite(other)))
    return np.isclose(one, other, rtol=_CLOSE, atol=_CLOSE * scale, equal_nan=True)


def kind_of(given: Sequence[Any]) -> Callable[[Array], Any]:
    """How to make a NumPy array one of the library that the first array of some arguments comes from."""
    first = next((one for one in given if isinstance(one, np.ndarray) or is_producer(one)), None)
    if first is None or isinstance(first, np.ndarray | np.generic):
        return lambda array: array
    take = next((one for place in _libraries(first) if (one := getattr(place, "from_dlpack", None))), None)
    return (lambda array: take(_handed(array))) if take else lambda array: array


def _handed(array: Array | DeviceArray) -> Any:
    return array if isinstance(array, DeviceArray) else _Handed(array)


def share_memory(one: Array | DeviceArray, other: Array | DeviceArray) -> bool:
    """Do cells of two arrays lie in the same memory?"""
    if isinstance(one, DeviceArray) and isinstance(other, DeviceArray):
        apart = one.address + one.nbytes <= other.address or other.address + other.nbytes <= one.address
        return one.device == other.device and not apart
    if isinstance(one, DeviceArray) or isinstance(other, DeviceArray):
        return False
    return np.may_share_memory(one, other) and np.shares_memory(one, other)


def _libraries(array: Any) -> Iterator[Any]:
    """Where the library of an array may have a function that takes arrays: it says so itself, or its classes do."""
    namespace = getattr(array, "__array_namespace__", None)
    if callable(namespace):
        yield namespace()
    for kind in type(array).__mro__:
        library = sys.modules.get(kind.__module__.partition(".")[0])
        if kind is not object:
            yield from (library, getattr(library, "dlpack", None), getattr(library, "numpy", None))


class _Handed:
    """An array as other libraries take it: NumPy itself cannot hand over every element type."""

    def __init__(self, array: Array) -> None:
        self._array = array

    def __dlpack__(self, **asked: Any) -> Any:
        return to_capsule(self._array, **asked)

    def __dlpack_device__(self) -> tuple[int, int]:
        return CPU
