"""NVIDIA's driver, called by ctypes: the functions that are used, what they are given, and what their errors mean.

The driver's binary interface is stable: a name ends in the version of its parameters. So there is nothing between
weft and it, no package that must fit the driver, and a warm start loads one library.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import POINTER, c_char_p, c_int, c_int64, c_size_t, c_ubyte, c_uint, c_uint64, c_ushort, c_void_p
from typing import Any, TypeAlias

from weft.errors import WeftError

#: An address in a GPU's memory, or what the driver names something by.
Handle: TypeAlias = int

# Numbers of cuda.h.
OUT_OF_MEMORY, NOT_INITIALIZED, NO_DEVICE = 2, 3, 100
#: The machine code is for another architecture, or of a newer compiler than the driver knows.
WRONG_IMAGE = (200, 209, 218, 222, 300)
MAJOR, MINOR, MOST_SHARED = 75, 76, 97
MULTIPROCESSORS, CLOCK_KHZ, MEMORY_KHZ, MEMORY_BITS, CACHE_BYTES = 16, 13, 36, 37, 38
NO_TIMING, PORTABLE = 2, 1
DYNAMIC_SHARED = 8
RELEASE_THRESHOLD, RESERVED, USED = 4, 5, 7
_PINNED, _ON_DEVICE, _READ_WRITE = 1, 1, 3
#: Element types of tensor maps; memory is read in lines of 128 bytes.
MAPPED_TYPES = {"float16": 6, "float32": 7, "bfloat16": 9}
LINES_OF_128 = 2
#: The port of a kernel node by which others are launched while it runs, and the type of edges from there.
_PROGRAMMATIC = 1


class _Location(ctypes.Structure):
    _fields_ = [("type", c_int), ("id", c_int)]


class PoolProps(ctypes.Structure):
    """What a pool of memory is made with."""

    _fields_ = [
        ("kind", c_int),
        ("handles", c_int),
        ("location", _Location),
        ("security", c_void_p),
        ("most", c_size_t),
        ("usage", c_ushort),
        ("reserved", c_ubyte * 54),
    ]

    @staticmethod
    def on(device: int) -> PoolProps:
        return PoolProps(kind=_PINNED, location=_Location(_ON_DEVICE, device))


class Access(ctypes.Structure):
    """Who may read and write the memory of a pool."""

    _fields_ = [("location", _Location), ("flags", c_int)]

    @staticmethod
    def of(device: int) -> Access:
        return Access(_Location(_ON_DEVICE, device), _READ_WRITE)


class KernelNode(ctypes.Structure):
    """A kernel of a graph, and what it is launched with."""

    _fields_ = [
        ("function", c_void_p),
        ("grid", c_uint * 3),
        ("block", c_uint * 3),
        ("shared", c_uint),
        ("parameters", c_void_p),
        ("extra", c_void_p),
        ("kernel", c_void_p),
        ("context", c_void_p),
    ]


class GraphEdge(ctypes.Structure):
    """What another node of a graph waits for: the end of a node, where nothing else is said."""

    _fields_ = [("from_port", c_ubyte), ("to_port", c_ubyte), ("type", c_ubyte), ("reserved", c_ubyte * 5)]

    @staticmethod
    def programmatic() -> GraphEdge:
        """Programmatic dependent launch: a kernel begins when another lets it, and waits for its end by itself."""
        return GraphEdge(from_port=_PROGRAMMATIC, type=_PROGRAMMATIC)


class EncodedMap(ctypes.Structure):
    """A matrix in memory of which blocks are copied, in the form that the hardware reads."""

    _fields_ = [("words", c_uint64 * 16)]


_handle, _number, _size = POINTER(c_void_p), POINTER(c_int), POINTER(c_size_t)
#: The functions by name, and the types of what they are given; what begins with a pointer gives something back there.
FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "cuInit": (c_uint,),
    "cuDriverGetVersion": (_number,),
    "cuGetErrorName": (c_int, POINTER(c_char_p)),
    "cuGetErrorString": (c_int, POINTER(c_char_p)),
    "cuDeviceGetCount": (_number,),
    "cuDeviceGet": (_number, c_int),
    "cuDeviceGetName": (c_char_p, c_int, c_int),
    "cuDeviceGetAttribute": (_number, c_int, c_int),
    "cuDeviceTotalMem_v2": (_size, c_int),
    "cuDeviceCanAccessPeer": (_number, c_int, c_int),
    "cuDevicePrimaryCtxRetain": (_handle, c_int),
    "cuCtxPushCurrent_v2": (c_void_p,),
    "cuCtxPopCurrent_v2": (_handle,),
    "cuMemGetInfo_v2": (_size, _size),
    "cuStreamCreate": (_handle, c_uint),
    "cuStreamSynchronize": (c_void_p,),
    "cuStreamWaitEvent": (c_void_p, c_void_p, c_uint),
    "cuEventCreate": (_handle, c_uint),
    "cuEventRecord": (c_void_p, c_void_p),
    "cuMemPoolCreate": (_handle, POINTER(PoolProps)),
    "cuMemPoolSetAttribute": (c_void_p, c_int, c_void_p),
    "cuMemPoolGetAttribute": (c_void_p, c_int, c_void_p),
    "cuMemPoolSetAccess": (c_void_p, POINTER(Access), c_size_t),
    "cuMemPoolTrimTo": (c_void_p, c_size_t),
    "cuMemAllocFromPoolAsync": (_handle, c_size_t, c_void_p, c_void_p),
    "cuMemFreeAsync": (c_void_p, c_void_p),
    "cuMemHostAlloc": (_handle, c_size_t, c_uint),
    "cuMemFreeHost": (c_void_p,),
    "cuMemsetD8Async": (c_void_p, c_ubyte, c_size_t, c_void_p),
    "cuMemcpyHtoDAsync_v2": (c_void_p, c_void_p, c_size_t, c_void_p),
    "cuMemcpyDtoHAsync_v2": (c_void_p, c_void_p, c_size_t, c_void_p),
    "cuMemcpyDtoDAsync_v2": (c_void_p, c_void_p, c_size_t, c_void_p),
    "cuMemcpyPeerAsync": (c_void_p, c_void_p, c_void_p, c_void_p, c_size_t, c_void_p),
    "cuModuleLoadData": (_handle, c_char_p),
    "cuModuleGetFunction": (_handle, c_void_p, c_char_p),
    "cuFuncSetAttribute": (c_void_p, c_int, c_int),
    "cuTensorMapEncodeTiled": (
        *(POINTER(EncodedMap), c_int, c_uint, c_void_p, POINTER(c_uint64), POINTER(c_uint64)),
        *(POINTER(c_uint), POINTER(c_uint), c_int, c_int, c_int, c_int),
    ),
    "cuGraphCreate": (_handle, c_uint),
    "cuGraphAddKernelNode_v2": (_handle, c_void_p, _handle, c_size_t, POINTER(KernelNode)),
    "cuGraphAddDependencies_v2": (c_void_p, _handle, _handle, POINTER(GraphEdge), c_size_t),
    "cuGraphInstantiateWithFlags": (_handle, c_void_p, c_uint64),
    "cuGraphUpload": (c_void_p, c_void_p),
    "cuGraphLaunch": (c_void_p, c_void_p),
    "cuGraphDestroy": (c_void_p,),
    "cuGraphExecDestroy": (c_void_p,),
}


class DriverError(WeftError):
    """The driver refused something, or a kernel failed; `code` is what it returned."""

    code: int = 0


class GpuOutOfMemory(MemoryError):
    """A GPU has no memory left for something."""


class Driver:
    """The functions of a driver. Those that return something do so as a number; an error is raised."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._functions: dict[str, Any] = {}
        for name, types in FUNCTIONS.items():
            function = getattr(library, name, None)
            if function is not None:
                function.argtypes, function.restype = types, c_int
                self._functions[name] = function

    def has_all(self) -> bool:
        """Does the driver have every function? An old one has not."""
        return len(self._functions) == len(FUNCTIONS)

    def function(self, name: str) -> Callable[..., int]:
        """A function as it is: it returns 0, or the number of an error."""
        found: Callable[..., int] = self._functions[name]
        return found

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function; an error is raised."""
        code = self._functions[name](*arguments)
        if code:
            raise self.error(code, name)

    def handle(self, name: str, *arguments: Any) -> Handle:
        """What a function gives back that makes something."""
        made = c_void_p()
        self.call(name, ctypes.byref(made), *arguments)
        return made.value or 0

    def number(self, name: str, *arguments: Any) -> int:
        """What a function gives back that says how many."""
        found = c_int()
        self.call(name, ctypes.byref(found), *arguments)
        return found.value

    def error(self, code: int, name: str) -> WeftError | MemoryError:
        """What an error means."""
        said = f"{self._text('cuGetErrorName', code)} ({self._text('cuGetErrorString', code)})"
        if code == OUT_OF_MEMORY:
            return GpuOutOfMemory(f"{name}: {said}")
        fix = "start the process again: after this error nothing runs on the GPU"
        if code == NOT_INITIALIZED:
            fix = "a process that was forked cannot use a GPU that its parent used: start it with spawn"
        made = DriverError(f"{name} failed: {said}", origin=None, fix=fix)
        made.code = code
        return made

    def _text(self, name: str, code: int) -> str:
        found = c_char_p()
        self._functions[name](code, ctypes.byref(found))
        return (found.value or b"error %d" % code).decode()


def pool_number(driver: Driver, pool: Handle, attribute: int) -> int:
    """What a pool says of itself."""
    found = c_uint64()
    driver.call("cuMemPoolGetAttribute", pool, attribute, ctypes.byref(found))
    return found.value


def int64s(address: int, count: int) -> Any:
    """Numbers that lie somewhere in this process's memory."""
    return (c_int64 * count).from_address(address)
