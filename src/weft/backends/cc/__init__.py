"""Kernels compiled by the machine's C compiler."""

from __future__ import annotations

import ctypes
import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from weft.backends.cc.build import Compiler, find_compiler
from weft.backends.cc.kernels import CFunctions
from weft.backends.cc.loader import Loaded, environment, find_kernels, load
from weft.backends.cc.threads import SPIN_NS, usable_threads
from weft.backends.host_memory import HostMemory, aligned
from weft.backends.protocol import Array, Bindable, BoundProgram, CompilerCrash, Executable, KernelCall, Memory
from weft.cache import cache_folder
from weft.errors import WeftError
from weft.loops import Cold, Collapse, Jam, NonTemporal, Parallel, PrefetchRows, Product, Registers, Unroll, Vector
from weft.schedule.nodes import Kernel

__all__ = ["Cc"]


class Cc(HostMemory):
    """Compiles with WEFT_CC, cc, gcc or clang, and keeps what it compiled."""

    name = "cc"

    @property
    def fuses(self) -> bool:
        return True

    def __init__(self) -> None:
        wanted = os.environ.get("WEFT_CC")
        found = find_compiler(wanted)
        if found is None:
            raise WeftError(
                f"WEFT_CC names no compiler: {wanted!r}" if wanted else "no C compiler was found",
                fix='install gcc or clang, pip install "weft[cc]", set WEFT_CC to a compiler, or use Context("interp")',
            )
        self.compiler: Compiler = found
        self.folder: Path = cache_folder("cc")

    @property
    def description(self) -> str:
        """What it compiles with, for people."""
        return shlex.join(self.compiler.command)

    def compile(self, kernels: Sequence[Kernel]) -> Executable:
        pieces = CFunctions(tuple(kernels))
        texts = {piece.call.kernel: piece.text for piece in pieces.all}
        loaded = load(self.compiler, texts, self.folder)
        if crashes := loaded.crashes:
            names = [piece.call.kernel for piece in pieces.all]
            raise CompilerCrash({at: crashes[name] for at, name in enumerate(names) if name in crashes})
        return _Compiled(pieces, loaded)

    @property
    def places(self) -> frozenset[type]:
        return frozenset([Product, Collapse, Parallel, Jam, Vector, Unroll, Registers, PrefetchRows, NonTemporal, Cold])

    @property
    def identity(self) -> str:
        return environment(self.compiler)

    def recall(self, calls: Sequence[KernelCall]) -> Bindable | None:
        loaded = find_kernels(self.compiler, dict.fromkeys(call.kernel for call in calls), self.folder)
        return _Native(calls, loaded) if loaded else None


class _RunWith(ctypes.Structure):
    """What a kernel runs with, in C."""

    _fields_ = (
        ("share", ctypes.c_void_p),
        ("threads", ctypes.c_int64),
        ("spin_ns", ctypes.c_int64),
        ("scratch", ctypes.c_void_p),
    )


class _Entry(ctypes.Structure):
    """A call in C."""

    _fields_ = (
        ("kernel", ctypes.c_void_p),
        ("buffers", ctypes.c_void_p),
        ("given", ctypes.c_void_p),
        ("run", ctypes.c_void_p),
    )


class _Native:
    """A list of calls; binding fixes their pointers, so that a run is a single call."""

    def __init__(self, calls: Sequence[KernelCall], loaded: Loaded) -> None:
        self.calls = calls
        self._loaded = loaded

    def bind(self, memory: Memory) -> BoundProgram:
        arrays = {buffer: memory[buffer] for call in self.calls for buffer in call.buffers}
        assert all(array.flags.c_contiguous for array in arrays.values())
        address = {buffer: array.ctypes.data for buffer, array in arrays.items()}
        scratch, runs = self._runs()
        pointers = [(ctypes.c_void_p * max(len(one.buffers), 1))(*map(address.get, one.buffers)) for one in self.calls]
        fixed = [[index if isinstance(index, int) else 0 for index in one.given] for one in self.calls]
        indices = [(ctypes.c_int64 * max(len(one), 1))(*one) for one in fixed]
        entries = (_Entry * (len(self.calls) + 1))(  # the last is empty: a count would be one more thing to hand over
            *(
                _Entry(
                    self._loaded.kernels[call.kernel],
                    ctypes.addressof(to),
                    ctypes.addressof(at),
                    ctypes.addressof(runs[call.threads]),
                )
                for call, to, at in zip(self.calls, pointers, indices, strict=True)
            )
        )
        play, first = self._loaded.play, ctypes.byref(entries)
        slots = [
            (at, position, name)
            for one, at in zip(self.calls, indices, strict=True)
            for position, name in enumerate(one.given)
            if isinstance(name, str)
        ]

        def run(given: Mapping[str, int], _alive: object = (arrays, scratch, runs, pointers, indices)) -> None:
            for at, position, name in slots:
                at[position] = given[name]
            play(first)

        return run

    def _runs(self) -> tuple[Array, dict[int, _RunWith]]:
        """Scratch memory, and what kernels run with by the threads they ask for.

        One kernel runs after another, and no two threads run this at once: they share it.
        """
        usual = usable_threads()
        threads = {one.threads: one.threads or usual for one in self.calls}
        scratch = aligned(self._loaded.scratch * max(threads.values(), default=1))
        return scratch, {
            asked: _RunWith(self._loaded.share, count, SPIN_NS if count <= usual else 0, scratch.ctypes.data)
            for asked, count in threads.items()
        }


class _Compiled(_Native):
    """A list of kernels that has just been compiled, and its text."""

    def __init__(self, pieces: CFunctions, loaded: Loaded) -> None:
        super().__init__([piece.call for piece in pieces.all], loaded)
        self._pieces = pieces

    @property
    def source(self) -> str:
        return self._pieces.readable
