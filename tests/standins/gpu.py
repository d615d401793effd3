"""A GPU that is not there: a driver with the binary interface of NVIDIA's, and compilers whose kernels the oracle runs.

    cuda = StandIn(devices=2).backend()
    ctx = wf.Context(cuda, devices=2)

The driver does nothing before somebody waits for it, so what is not waited for is missed.
"""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from itertools import count
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from weft.backends.cc.compiler import find_compiler
from weft.backends.cuda import Cuda
from weft.backends.cuda.gpu_kernels import Toolchain
from weft.backends.cuda.kernel_source import BlockMap, Launch, Source
from weft.backends.cuda.libcuda import Driver
from weft.loops import Buffer, Program, show
from weft.loops.interp import run
from weft.loops.walk import Body
from weft.ops.dtypes import numpy_type

_C = Path(__file__).with_name("libcuda.c")
_LAUNCHED = ctypes.CFUNCTYPE(
    ctypes.c_int,
    *(ctypes.c_char_p, ctypes.c_uint, ctypes.c_uint, ctypes.c_uint, ctypes.c_int, ctypes.POINTER(ctypes.c_void_p)),
)
Kernels = dict[str, tuple[Body, Sequence[Buffer], Sequence[str]]]
_libraries = count()
#: The parameters of a tensor map: itself, two sizes and two strides.
_OF_A_MAP = 5


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="weft-standin-")


@cache
def _compiled() -> bytes:
    compiler = find_compiler(None)
    assert compiler is not None
    made = Path(_folder().name) / "libcuda.so"
    command = [*compiler.command, "-shared", "-fPIC", "-O1", str(_C), "-o", str(made), "-lpthread"]
    subprocess.run(command, check=True)
    return made.read_bytes()


class StandIn:
    """A driver of so many GPUs, and what ran on them."""

    def __init__(
        self, devices: int = 1, architecture: tuple[int, int] = (9, 0), version: int = 13000, memory: int = 1 << 24
    ) -> None:
        # Each has a library of its own: the loader knows libraries by their files.
        file = Path(_folder().name) / f"libcuda-{next(_libraries)}.so"
        file.write_bytes(_compiled())
        self.library = ctypes.CDLL(str(file))
        self.library.standin_calls.restype = ctypes.c_char_p
        self.library.standin_taken.restype = ctypes.c_size_t
        self._callback = _LAUNCHED(self._launched)
        self.library.standin_setup(devices, *architecture, version, ctypes.c_size_t(memory), self._callback)
        self.driver = Driver(self.library)
        self.written: Kernels = {}
        self.kernels: Kernels = {}
        self.compiled: list[str] = []
        self.launches: list[tuple[str, int, int, int]] = []
        self.failure: BaseException | None = None
        self.mapped: list[tuple[int, ...]] = []
        self.shared = 0
        self.maps: tuple[BlockMap, ...] = ()  # that every kernel is given

    def backend(self, folder: Path | None = None) -> Cuda:
        """The backend on these GPUs; what it compiles is kept in a folder."""
        place = folder or Path(tempfile.mkdtemp(prefix="kept-", dir=_folder().name))
        chains = {one: Toolchain(self._emit(one), self._compile) for one in ("triton", "cuda")}
        return Cuda(self.driver, chains, place)  # type: ignore[arg-type]

    def calls(self) -> list[str]:
        """What the driver was asked to do since the last time."""
        found = self.library.standin_calls().decode().splitlines()
        self.library.standin_forget()
        return found

    def _emit(self, language: Any) -> Callable[[str, Body, Sequence[Buffer], Sequence[str]], Source]:
        def emit(name: str, body: Body, buffers: Sequence[Buffer], given: Sequence[str]) -> Source:
            inside = f"{list(buffers)!r} {list(given)!r}\n{show(Program(body))}"
            self.written[inside] = (body, buffers, given)
            text = f"kernel {name}\n{inside}"
            return Source(language, name, text, tuple(one.dtype for one in buffers), bool(given), programs=7, warps=4)

        return emit

    def _compile(self, source: Source, architecture: str) -> Launch:
        self.compiled.append(source.entry)
        self.kernels[source.entry] = self.written[source.text.partition("\n")[2]]
        parameters = len(source.dtypes) + source.given + _OF_A_MAP * len(self.maps) + 2
        image = f"{parameters} {source.entry}".encode() + b"\0"
        return Launch(source.entry, image, source.programs, 32 * source.warps, self.shared, trailing=2, maps=self.maps)

    def _launched(self, name: bytes, programs: int, threads: int, shared: int, count: int, values: Any) -> int:
        try:
            self.launches.append((name.decode(), programs, threads, shared))
            body, buffers, given = self.kernels[name.decode()]
            memory = {one: _array(one, values[at]) for at, one in enumerate(buffers)}
            assert count == len(buffers) + bool(given) + _OF_A_MAP * len(self.maps) + 2
            for at, one in enumerate(self.maps):
                first = len(buffers) + bool(given) + _OF_A_MAP * at
                encoded, *sizes = values[first : first + _OF_A_MAP]
                assert encoded == values[one.buffer], "a map begins with the address of its buffer"
                self.mapped.append(tuple(size & 0xFFFFFFFF for size in sizes))
            assert values[count - 2] is values[count - 1] is None
            bound = (ctypes.c_int64 * len(given)).from_address(values[len(buffers)]) if given else ()
            with np.errstate(all="ignore"):
                run(Program(body), memory, dict(zip(given, bound, strict=True)))
        except BaseException as error:
            self.failure = error
            return 700
        return 0


def _array(buffer: Buffer, address: int) -> np.ndarray[Any, Any]:
    dtype = numpy_type(buffer.dtype)
    raw = (ctypes.c_ubyte * (prod(buffer.shape) * dtype.itemsize)).from_address(address)
    return np.frombuffer(raw, np.uint8).view(dtype).reshape(buffer.shape)
