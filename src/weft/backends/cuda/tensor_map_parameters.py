"""Tensor maps as a kernel is given them: the map itself by value, then its sizes and strides, which Triton adds.

The driver encodes a map from an address, so it belongs to memory that is bound, as pointers do.
"""

from __future__ import annotations

import ctypes
from typing import TypeAlias

from weft.backends.cuda.kernel_source import BlockMap
from weft.backends.cuda.libcuda import LINES_OF_128, MAPPED_TYPES, Driver, EncodedMap
from weft.ops.dtypes import numpy_type

#: The parameters of one map, in their order.
MapParameters: TypeAlias = tuple[EncodedMap, ctypes.c_int32, ctypes.c_int32, ctypes.c_int64, ctypes.c_int64]
#: A map begins at a multiple of so many bytes.
_ALIGNMENT = 64


def encoded(driver: Driver, one: BlockMap, address: int) -> MapParameters:
    """A map of what lies at an address."""
    made, (height, width), (high, wide) = _aligned(), one.shape, one.box
    sizes, strides = (ctypes.c_uint64 * 2)(width, height), (ctypes.c_uint64 * 1)(_row_bytes(one))
    box, steps = (ctypes.c_uint * 2)(wide, high), (ctypes.c_uint * 2)(1, 1)
    layout = MAPPED_TYPES[one.dtype], 2, address, sizes, strides, box, steps
    driver.call("cuTensorMapEncodeTiled", ctypes.byref(made), *layout, 0, one.swizzle, LINES_OF_128, 0)
    return made, ctypes.c_int32(height), ctypes.c_int32(width), ctypes.c_int64(width), ctypes.c_int64(1)


def _row_bytes(one: BlockMap) -> int:
    return one.shape[1] * numpy_type(one.dtype).itemsize


def _aligned() -> EncodedMap:
    """Room for a map."""
    size = ctypes.sizeof(EncodedMap)
    room = ctypes.create_string_buffer(size + _ALIGNMENT)
    return EncodedMap.from_buffer(room, -ctypes.addressof(room) % _ALIGNMENT)
