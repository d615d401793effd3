"""The schedule of a GPU on the host: what is meant for SIMT threads, compiled as C++ and run on memory of the process.

Every launch runs twice, its threads in ascending and in descending order, on copies that must come to the same bits:
threads that depend on each other, or on a barrier that is missing, differ. A stand-in for tests, not a way to run code.
"""

from __future__ import annotations

import atexit
import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path

import numpy as np

from weft.backends.c_family.headers import functions
from weft.backends.c_family.types import c_type
from weft.backends.cuda.kernel_source import Source
from weft.backends.cuda.simt_text import simt_source
from weft.backends.host_memory import HostMemory
from weft.backends.kernel_texts import static_in
from weft.backends.protocol import BoundProgram, Executable, Memory
from weft.loops import Buffer, Program, Simt, buffers_of
from weft.schedule.nodes import Kernel

SHIM = Path(__file__).with_name("simt_host.h")
FLAGS = ("-std=c++17", "-O1", "-march=native", "-ffp-contract=off", "-fPIC", "-shared", "-w", "-fno-strict-aliasing")
#: Threads of a block that wait for each other: few enough to be quick, and several to a point of most nests.
FIBRES = 3
_libraries: dict[str, ctypes.CDLL] = {}


@cache
def _folder() -> Path:
    """Where texts are compiled, with all that they call compiled before."""
    folder = Path(tempfile.mkdtemp(prefix="weft-simt-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    (folder / "weft.h").write_text(f"{SHIM.read_text()}\n{functions()}")
    plain = [one for one in FLAGS if one != "-shared"]
    subprocess.run(["g++", *plain, "-x", "c++-header", "weft.h", "-o", "weft.h.gch"], cwd=folder, check=True)
    return folder


def build(text: str) -> ctypes.CDLL:
    """The library of a text of kernels and their callers."""
    key = sha256(text.encode()).hexdigest()[:32]
    if key not in _libraries:
        folder = _folder()
        (folder / f"{key}.cc").write_text(f'#include "weft.h"\n{text}')
        subprocess.run(["g++", *FLAGS, f"{key}.cc", "-o", f"{key}.so"], cwd=folder, check=True)
        _libraries[key] = ctypes.CDLL(str(folder / f"{key}.so"))
    return _libraries[key]


def caller(source: Source) -> str:
    """A function that calls a kernel with pointers out of an array."""
    kinds = [*map(c_type, source.dtypes), *(["int64_t"] if source.given else [])]
    arguments = ", ".join(f"({kind} *)at[{number}]" for number, kind in enumerate(kinds))
    return f'extern "C" void {source.entry}_called(void **at) {{ {source.entry}({arguments}); }}\n'


class _Launched:
    """A launch on the host."""

    def __init__(self, kernel: Kernel, number: int) -> None:
        self.buffers = buffers_of(Program(kernel.body))
        self.given = static_in(kernel.body)
        self.source = simt_source(f"kernel_{number}", kernel.body, self.buffers, self.given)

    @property
    def text(self) -> str:
        return self.source.text + caller(self.source)

    def run(self, library: ctypes.CDLL, memory: Memory, given: Mapping[str, int], backwards: bool) -> None:
        indices = np.array([given[one] for one in self.given], np.int64)
        arrays = [*(memory[one] for one in self.buffers), *([indices] if self.source.given else [])]
        pointers = (ctypes.c_void_p * len(arrays))(*(one.ctypes.data for one in arrays))
        waits = "__syncthreads" in self.source.text
        threads = FIBRES if waits else 32 * self.source.warps
        kernel = getattr(library, f"{self.source.entry}_called")
        if not library.weft_launch(kernel, pointers, self.source.programs, threads, waits, backwards):
            raise AssertionError(f"some threads wait where others have ended\n{self.source.text}")


class Launches:
    """Kernels one after another on the host."""

    def __init__(self, kernels: Sequence[Kernel]) -> None:
        self.launches = [_Launched(kernel, number) for number, kernel in enumerate(kernels)]
        self.source = "\n".join(one.source.text for one in self.launches)

    def bind(self, memory: Memory) -> BoundProgram:
        library = build("\n".join(one.text for one in self.launches))

        def run(given: Mapping[str, int]) -> None:
            for one in self.launches:
                both = [{buffer: memory[buffer].copy() for buffer in one.buffers} for _ in range(2)]
                for copies, backwards in zip(both, (False, True), strict=True):
                    one.run(library, copies, given, backwards)
                for buffer in one.buffers:
                    self._take(one, buffer, memory[buffer], *(copies[buffer] for copies in both))

        return run

    @staticmethod
    def _take(one: _Launched, buffer: Buffer, target: np.ndarray, first: np.ndarray, second: np.ndarray) -> None:
        if first.tobytes() != second.tobytes():
            raise AssertionError(f"`{buffer.name}` depends on the order of threads\n{one.source.text}")
        if first.tobytes() != target.tobytes():
            target[...] = first


class OnHost(HostMemory):
    """A GPU of which nothing is placed but on SIMT threads."""

    name = "simt"

    @property
    def fuses(self) -> bool:
        return True

    @property
    def places(self) -> frozenset[type]:
        return frozenset([Simt])

    def compile(self, kernels: Sequence[Kernel]) -> Executable:
        return Launches(kernels)
