"""Arrays that speak DLPack, made by hand: every field can be set, and the calls of the deleter are counted."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import c_char_p, c_int32, c_int64, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p, py_object
from typing import Any

import numpy as np

#: Code and bits of the types of tests; the whole table is in dlpack.h.
TYPES = {
    "float32": (2, 32),
    "float64": (2, 64),
    "int64": (0, 64),
    "bfloat16": (4, 16),
    "bool": (6, 8),
    "float8_e4m3fn": (10, 8),
}

_new = ctypes.PYFUNCTYPE(py_object, c_void_p, c_char_p, c_void_p)(("PyCapsule_New", ctypes.pythonapi))
_FREE = ctypes.CFUNCTYPE(None, c_void_p)
_forever: list[Any] = []  # capsules and arrays point into what is kept here


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", c_void_p),
        ("device_type", c_int32),
        ("device_id", c_int32),
        ("ndim", c_int32),
        ("code", c_uint8),
        ("bits", c_uint8),
        ("lanes", c_uint16),
        ("shape", ctypes.POINTER(c_int64)),
        ("strides", ctypes.POINTER(c_int64)),
        ("byte_offset", c_uint64),
    ]


class Legacy(ctypes.Structure):
    _fields_ = [("tensor", Tensor), ("context", c_void_p), ("deleter", _FREE)]


class Versioned(ctypes.Structure):
    _fields_ = [
        ("major", c_uint32),
        ("minor", c_uint32),
        ("context", c_void_p),
        ("deleter", _FREE),
        ("flags", c_uint64),
        ("tensor", Tensor),
    ]


class Producer:
    """Hands out `memory` as it is told to; `strides` and `byte_offset` are those of DLPack, in elements and bytes."""

    def __init__(
        self,
        memory: np.ndarray | None,
        shape: Sequence[int],
        strides: Sequence[int] | None = None,
        *,
        type: tuple[int, int] | None = None,
        lanes: int = 1,
        byte_offset: int = 0,
        device: tuple[int, int] = (1, 0),
        versioned: bool = True,
        version: tuple[int, int] = (1, 0),
        flags: int = 0,
        ndim: int | None = None,
    ) -> None:
        self.deleted = 0
        self.device = device
        self.versioned = versioned
        code, bits = type or TYPES[memory.dtype.name if memory is not None else "float32"]
        axes = c_int64 * len(shape)
        self._shape = axes(*shape)
        self._strides = None if strides is None else axes(*strides)
        tensor = Tensor(
            memory.ctypes.data if memory is not None else None,
            *device,
            len(shape) if ndim is None else ndim,
            code,
            bits,
            lanes,
            ctypes.cast(self._shape, ctypes.POINTER(c_int64)) if shape else None,
            ctypes.cast(self._strides, ctypes.POINTER(c_int64)) if self._strides is not None else None,
            byte_offset,
        )
        free = _FREE(self._free)
        self.managed = Versioned(*version, None, free, flags, tensor) if versioned else Legacy(tensor, None, free)
        _forever.append((self, memory, free))

    def _free(self, address: int) -> None:
        assert address == ctypes.addressof(self.managed)
        self.deleted += 1

    def capsule(self, name: bytes | None = None) -> Any:
        name = name or (b"dltensor_versioned" if self.versioned else b"dltensor")
        _forever.append(name)
        return _new(ctypes.addressof(self.managed), name, None)

    def __dlpack__(
        self, *, stream: object = None, max_version: tuple[int, int] | None = None, copy: bool | None = None
    ) -> Any:
        assert stream == (1 if self.device[0] in (2, 13) else None)
        assert max_version is not None
        assert max_version >= (1, 0)
        return self.capsule()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device


class OldProducer(Producer):
    """Speaks DLPack as it was before version 1."""

    def __init__(self, memory: np.ndarray | None, shape: Sequence[int], strides: Sequence[int] | None = None) -> None:
        super().__init__(memory, shape, strides, versioned=False)

    def __dlpack__(self, *, stream: object = None) -> Any:  # type: ignore[override]
        return self.capsule()


def whole(array: np.ndarray, **options: Any) -> Producer:
    """A producer of a compact array."""
    return Producer(array, array.shape, **options)
