"""DLPack: arrays of other libraries as NumPy arrays on the same memory, and NumPy arrays handed to other libraries.

NumPy speaks DLPack too, but not bfloat16 and not the eight-bit floats, so what comes in is read here. What goes out is
made by NumPy for a view as whole numbers of the same width, and is then told its element type. So it is NumPy's C code
that lets the memory go, safely on any thread, at exit and while an exception is under way; a callback into Python
could not.

Arrays in the memory of a GPU come in as a `DeviceArray` where the taker can use one. They are asked for on the legacy
default stream: what was asked of it before is done first, and weft's own stream waits for it.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from ctypes import c_char_p, c_int, c_int32, c_int64, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p, py_object
from dataclasses import dataclass, replace
from math import prod
from threading import RLock
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.errors import WeftError
from weft.ops.dtypes import ELEMENT_TYPES, numpy_type

Array = npt.NDArray[Any]

#: Where weft's arrays live, as DLPack says it: the CPU's memory.
CPU = (1, 0)
#: The newest version whose meanings are known here; every 1.x has the same structures.
VERSION = (1, 1)

_HOST = (1, 3, 11)  # the CPU's memory, plain or pinned for CUDA or ROCm
_CUDA = (2, 13)  # that of an NVIDIA GPU, its own or managed
#: Streams by the numbers DLPack gives them: CUDA's legacy default one, and none to wait for.
_DEFAULT_STREAM, _NO_STREAM = 1, -1
_DEVICES = {
    2: "CUDA",
    4: "OpenCL",
    7: "Vulkan",
    8: "Metal",
    10: "ROCm",
    13: "CUDA (managed)",
    14: "oneAPI",
    15: "WebGPU",
}
_READ_ONLY, _COPIED = 1, 2
_MOST_AXES = 64
_NUMPY_HAS_VERSIONS = np.lib.NumpyVersion(np.__version__) >= "2.1.0"

# The names of capsules. A capsule keeps only the address of its name and can outlive this module, so they never go.
_LEGACY, _VERSIONED = b"dltensor", b"dltensor_versioned"
_USED = {_LEGACY: b"used_dltensor", _VERSIONED: b"used_dltensor_versioned"}
for _name in _USED.values():
    ctypes.pythonapi.Py_IncRef(py_object(_name))

# Prototypes of our own: attributes of ctypes.pythonapi are shared with every other package.
_is_valid = ctypes.PYFUNCTYPE(c_int, py_object, c_char_p)(("PyCapsule_IsValid", ctypes.pythonapi))
_pointer = ctypes.PYFUNCTYPE(c_void_p, py_object, c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))
_rename = ctypes.PYFUNCTYPE(c_int, py_object, c_char_p)(("PyCapsule_SetName", ctypes.pythonapi))
_Deleter = ctypes.PYFUNCTYPE(None, c_void_p)
TAKING = RLock()  # a capsule can be taken once, also by two threads


class ExchangeError(WeftError, BufferError, ValueError):
    """An array that cannot be taken or handed over as asked."""


class _Type(ctypes.Structure):
    _fields_ = [("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16)]


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", c_void_p),
        ("device", c_int32),
        ("device_id", c_int32),
        ("ndim", c_int32),
        ("type", _Type),
        ("shape", ctypes.POINTER(c_int64)),
        ("strides", ctypes.POINTER(c_int64)),
        ("byte_offset", c_uint64),
    ]


class _Managed(ctypes.Structure):
    _fields_ = [("tensor", _Tensor), ("manager", c_void_p), ("deleter", c_void_p)]


class _ManagedVersioned(ctypes.Structure):
    _fields_ = [
        ("major", c_uint32),
        ("minor", c_uint32),
        ("manager", c_void_p),
        ("deleter", c_void_p),
        ("flags", c_uint64),
        ("tensor", _Tensor),
    ]


#: The codes of kinds of elements, in order: `int` is 0.
_KINDS = (
    *("int", "uint", "float", "opaque", "bfloat", "complex", "bool"),
    *("float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz"),
    *("float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn"),
)


def _code(name: str) -> tuple[int, int]:
    """The code and the number of bits of an element type."""
    kind = name if name in _KINDS else name.rstrip("0123456789")
    return _KINDS.index(kind), 8 * numpy_type(name).itemsize


def _words(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Whole numbers of the same width, which every way into and out of NumPy knows."""
    return np.dtype(f"u{dtype.itemsize}")


_CODES = {name: _code(name) for name in ELEMENT_TYPES}
_NAMES = {code: name for name, code in _CODES.items()}


@dataclass(frozen=True, slots=True, eq=False)
class DeviceArray:
    """An array in the memory of a GPU, in the order of its axes: only what runs there looks at its values.

    `owner` keeps the memory. `ready` lets a stream wait for what was asked of weft, where that may still write it.
    """

    address: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    device: tuple[int, int]
    owner: object
    writable: bool = True
    ready: Callable[[int], None] | None = None

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def reshape(self, shape: tuple[int, ...]) -> DeviceArray:
        """The same memory with other axes."""
        assert prod(shape) == self.size
        return replace(self, shape=tuple(shape))

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        if copy or (dl_device is not None and tuple(dl_device) != self.device):
            raise ExchangeError(
                f"the array lies on {place_name(self.device)} and is handed over as it is",
                fix="take it there, and copy it or move it then",
            )
        if self.ready is not None and stream not in (None, _DEFAULT_STREAM, _NO_STREAM):
            self.ready(int(stream or 0))
        seen = _Lent(self, {"version": 3, "shape": self.shape, "typestr": _words(self.dtype).str})
        return _told(np.asarray(seen), self.dtype, self.device, max_version)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device


class _Lent:
    """Stands for memory that NumPy counts the users of, and never looks into."""

    __slots__ = ("__array_interface__", "_array")

    def __init__(self, array: DeviceArray, interface: dict[str, Any]) -> None:
        self._array = array
        self.__array_interface__ = {**interface, "data": (array.address, False)}


def place_name(device: tuple[int, int]) -> str:
    """Where an array lies, for people."""
    kind, number = device
    return "the CPU" if kind in _HOST else f"{_DEVICES.get(kind, f'device type {kind}')} device {number}"


# Taking


def is_producer(source: object) -> bool:
    """Is it an array of another library that speaks DLPack?"""
    return hasattr(source, "__dlpack__") and not isinstance(source, np.ndarray | type)


def borrow(source: Any, copy: bool | None = None) -> Array:
    """What an object with `__dlpack__`, or a capsule, holds, as an array on the same memory.

    Memory of a GPU is refused: who can use it asks `on_device` first.

    The memory is given back once, when the last array on it is gone. It is read-only if its owner says so, or cannot
    say because it speaks DLPack older than 1.0. With `copy=False` its owner may not copy it to hand it over.
    """
    capsule = type(source).__name__ == "PyCapsule"
    found = _take(source, "the capsule") if capsule else _take(_capsule_of(source, copy), type_name(source))
    assert isinstance(found, np.ndarray)
    return found


def on_device(source: Any) -> DeviceArray | None:
    """What an array of another library holds, if that lies in the memory of an NVIDIA GPU: the same memory."""
    if isinstance(source, DeviceArray):
        return source
    if not is_producer(source) or not hasattr(source, "__dlpack_device__"):
        return None
    if int(source.__dlpack_device__()[0]) not in _CUDA:
        return None
    found = _take(_capsule_of(source, None, _CUDA), type_name(source), _CUDA)
    assert isinstance(found, DeviceArray)
    return found


def type_name(source: object) -> str:
    """The type of something given, with the package it is from: `torch.Tensor`."""
    package = type(source).__module__.partition(".")[0]
    return type(source).__name__ if package in ("builtins", "__main__") else f"{package}.{type(source).__name__}"


def _capsule_of(source: Any, copy: bool | None, places: tuple[int, ...] = _HOST) -> Any:
    if isinstance(source, np.ndarray):
        return to_capsule(source, max_version=VERSION, copy=copy)
    what = type_name(source)
    if not is_producer(source):
        raise ExchangeError(
            f"{what} does not speak DLPack: it has no __dlpack__",
            fix="pass it to wf.data, which also takes NumPy arrays, buffers and lists",
        )
    try:
        return _ask(source, what, copy, places)
    except WeftError:
        raise
    except Exception as error:
        raise ExchangeError(
            f"{what} cannot be handed over by DLPack: {error}",
            fix="hand over plain values: x.detach() in PyTorch, or a NumPy array",
        ) from error


def _ask(source: Any, what: str, copy: bool | None, places: tuple[int, ...]) -> Any:
    if hasattr(source, "__dlpack_device__"):
        device, number = source.__dlpack_device__()
        _check_device(what, int(device), int(number), places)
    stream = {"stream": _DEFAULT_STREAM} if places == _CUDA else {}
    try:
        return source.__dlpack__(max_version=VERSION, **stream, **({} if copy is None else {"copy": copy}))
    except TypeError:  # older than version 1: it takes neither
        return source.__dlpack__(**stream)


def _take(capsule: Any, what: str, places: tuple[int, ...] = _HOST) -> Array | DeviceArray:
    with TAKING:
        name = next((name for name in _USED if _is_valid(capsule, name)), None)
        if name is None:
            raise _not_a_tensor(capsule, what)
        address = _pointer(capsule, name)
        managed = _managed(address, name)
        dtype = numpy_type(_element_type(managed.tensor, what))
        interface = _interface(managed, dtype, what, places)
        if places == _CUDA:
            _check_order(interface, dtype, what)
        _rename(capsule, _USED[name])
        loan = _Loan(address, managed.deleter, interface)
    if places == _CUDA:
        (at, read_only), place = interface["data"], (_CUDA[0], managed.tensor.device_id)
        return DeviceArray(at, interface["shape"], dtype, place, loan, not read_only)
    return np.asarray(loan).view(dtype)


def _check_order(interface: dict[str, Any], dtype: np.dtype[Any], what: str) -> None:
    """Memory of a GPU must lie in the order of its axes: nothing here could copy it."""
    expected = dtype.itemsize
    for size, stride in zip(reversed(interface["shape"]), reversed(interface["strides"] or ()), strict=False):
        if size > 1 and stride != expected and prod(interface["shape"]):
            said = f"its strides are {interface['strides']} bytes, not those of the order of its axes"
            fix = "bring it in order there: x.contiguous() in PyTorch"
            raise ExchangeError(f"{what} of shape {interface['shape']} cannot be used on its GPU: {said}", fix=fix)
        expected *= size


def _not_a_tensor(capsule: Any, what: str) -> ExchangeError:
    if any(_is_valid(capsule, used) for used in _USED.values()):
        return ExchangeError(
            "the DLPack capsule was used already; it can be taken once",
            fix="pass the array itself, or make a new capsule with its __dlpack__",
        )
    return ExchangeError(f"{what} gave {capsule!r}, which is not a DLPack capsule")


def _managed(address: int, name: bytes) -> _Managed | _ManagedVersioned:
    if name == _LEGACY:
        return _Managed.from_address(address)
    managed = _ManagedVersioned.from_address(address)
    if managed.major != VERSION[0]:
        raise ExchangeError(
            f"the array is of DLPack {managed.major}.{managed.minor}; weft reads {VERSION[0]}.x and older"
        )
    return managed


def _interface(
    managed: _Managed | _ManagedVersioned, dtype: np.dtype[Any], what: str, places: tuple[int, ...]
) -> dict[str, Any]:
    """The tensor in the words of NumPy's array interface, checked, as whole numbers of the same width."""
    tensor = managed.tensor
    _check_device(what, tensor.device, tensor.device_id, places)
    if not 0 <= tensor.ndim <= _MOST_AXES or (tensor.ndim and not tensor.shape):
        raise ExchangeError(f"{what} says it has {tensor.ndim} axes")
    shape = tuple(tensor.shape[: tensor.ndim]) if tensor.ndim else ()
    if any(size < 0 for size in shape):
        raise ExchangeError(f"{what} says its shape is {shape}")
    strides = None  # compact
    if shape and tensor.strides:
        strides = tuple(dtype.itemsize * stride for stride in tensor.strides[: tensor.ndim])
    if not tensor.data and prod(shape):
        raise ExchangeError(f"{what} of shape {shape} has no memory")
    # An empty array may have a null, which NumPy before 2 does not take; what stands in for it is never read.
    start = tensor.data + tensor.byte_offset if tensor.data else ctypes.addressof(managed)
    writable = isinstance(managed, _ManagedVersioned) and not managed.flags & _READ_ONLY
    words = _words(dtype).str
    return {"version": 3, "shape": shape, "strides": strides, "typestr": words, "data": (start, not writable)}


def _element_type(tensor: _Tensor, what: str) -> str:
    code, bits, lanes = tensor.type.code, tensor.type.bits, tensor.type.lanes
    if lanes == 1 and (code, bits) in _NAMES:
        return _NAMES[code, bits]
    kind = _KINDS[code] if code < len(_KINDS) else f"type code {code}, bits "
    spelled = kind if kind.startswith("float") and kind != "float" else f"{kind}{bits}"
    raise ExchangeError(
        f"{what} holds elements of {spelled}{f' in groups of {lanes}' if lanes != 1 else ''}, which weft does not have",
        fix="convert it first to one of " + ", ".join(ELEMENT_TYPES),
    )


def _check_device(what: str, device: int, number: int, places: tuple[int, ...]) -> None:
    if device not in places:
        raise ExchangeError(
            f"{what} lies on {place_name((device, number))}, not in the CPU's memory",
            fix="move it to the CPU first: x.cpu() in PyTorch, jax.device_get(x) in JAX",
        )


class _Loan:
    """Memory of somebody else: the base of every array on it, given back when the last of them is gone."""

    __slots__ = ("__array_interface__", "_address", "_deleter")

    def __init__(self, address: int, deleter: int | None, interface: dict[str, Any]) -> None:
        self.__array_interface__ = interface
        self._address = address
        self._deleter = _Deleter(deleter) if deleter else None

    def __del__(self, _exiting: Callable[[], bool] = sys.is_finalizing) -> None:
        """At exit the memory goes with the process, and what its owner would need to free it may be gone."""
        if self._deleter and not _exiting():
            self._deleter(self._address)


# Handing over


def to_capsule(
    array: Array,
    *,
    max_version: tuple[int, int] | None = None,
    copy: bool | None = None,
    stream: object = None,
    dl_device: tuple[int, int] | None = None,
) -> Any:
    """A capsule of the array, on the same memory: what `__dlpack__` returns, with the arguments it is given.

    Who speaks a version older than 1.0 cannot be told that memory is read-only and gets a copy, as does anyone when
    strides are no multiple of the element size; with `copy=False` that is an error.
    """
    if array.dtype.name not in ELEMENT_TYPES or not array.dtype.isnative:
        raise ExchangeError(f"DLPack cannot tell of elements of {array.dtype!r}")
    if stream is not None:
        raise ExchangeError(f"the CPU has no streams, and stream {stream!r} was asked for")
    if dl_device is not None and tuple(dl_device) != CPU:
        raise ExchangeError(
            f"the array lies in the CPU's memory, DLPack device {CPU}, and was asked for on {tuple(dl_device)}",
            fix="take it on the CPU and move it from there",
        )
    obstacle = _obstacle(array, _speaks(max_version))
    if obstacle and copy is False:
        raise ExchangeError(f"the array cannot be handed over without a copy: {obstacle}")
    copied = bool(obstacle or copy)
    if copied:
        array = np.array(array, order="C")
    return _told(array.view(_words(array.dtype)), array.dtype, CPU, max_version, copied)


def _told(
    plain: Array,
    dtype: np.dtype[Any],
    device: tuple[int, int],
    max_version: tuple[int, int] | None,
    copied: bool = False,
) -> Any:
    """The capsule that NumPy makes of an array of whole numbers, told what its elements are and where they lie."""
    versioned = _speaks(max_version)
    capsule = plain.__dlpack__(max_version=VERSION) if versioned else plain.__dlpack__()
    name = _VERSIONED if versioned else _LEGACY
    managed = _managed(_pointer(capsule, name), name)
    managed.tensor.type.code = _CODES[dtype.name][0]
    managed.tensor.device, managed.tensor.device_id = device
    if isinstance(managed, _ManagedVersioned):
        managed.minor = max(managed.minor, VERSION[1])
        managed.flags |= _COPIED if copied else 0
    return capsule


def _speaks(max_version: tuple[int, int] | None) -> bool:
    """Can a capsule of the one who asks say that memory is read-only?"""
    return _NUMPY_HAS_VERSIONS and max_version is not None and tuple(max_version) >= (1, 0)


def _obstacle(array: Array, versioned: bool) -> str:
    """Why the array's own memory cannot be handed over; empty if it can."""
    if not array.flags.writeable and not versioned:
        return "it is read-only, and the one who asks speaks a version of DLPack that cannot say so"
    if any(stride % array.itemsize for size, stride in zip(array.shape, array.strides, strict=True) if size > 1):
        return f"its strides of {array.strides} bytes are no multiples of its elements' {array.itemsize}"
    return ""
