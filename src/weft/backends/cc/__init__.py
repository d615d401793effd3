"""Loop programs compiled by the machine's C compiler."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from pathlib import Path

from weft.backends.cc.build import Compiler, cache_folder, find_compiler
from weft.backends.cc.kernels import Pieces
from weft.backends.cc.units import Loaded, load
from weft.backends.host import HostMemory
from weft.backends.seam import Bound, Executable, Memory
from weft.errors import WeftError, user_origin
from weft.loops import Program

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
                origin=user_origin(),
                fix='install gcc or clang, pip install "weft[cc]", set WEFT_CC to a compiler, or use Context("interp")',
            )
        self.compiler: Compiler = found
        self.folder: Path = cache_folder()

    def compile(self, program: Program) -> Executable:
        pieces = Pieces(program)
        return _Native(pieces, load(self.compiler, {one.name: one.text for one in pieces.all}, self.folder))


class _Call(ctypes.Structure):
    _fields_ = (("kernel", ctypes.c_void_p), ("buffers", ctypes.c_void_p), ("given", ctypes.c_void_p))


class _Native:
    """A list of kernels; binding fixes their pointers, so that a run is a single call."""

    def __init__(self, pieces: Pieces, loaded: Loaded) -> None:
        self._pieces = pieces
        self._loaded = loaded

    @property
    def source(self) -> str:
        return self._pieces.readable

    def bind(self, memory: Memory) -> Bound:
        pieces = self._pieces.all
        arrays = {buffer: memory[buffer] for piece in pieces for buffer in piece.buffers}
        assert all(array.flags.c_contiguous for array in arrays.values())
        address = {buffer: array.ctypes.data for buffer, array in arrays.items()}
        pointers = [(ctypes.c_void_p * max(len(one.buffers), 1))(*map(address.get, one.buffers)) for one in pieces]
        places = [(ctypes.c_int64 * max(len(one.given), 1))() for one in pieces]
        calls = (_Call * max(len(pieces), 1))(
            *(
                _Call(self._loaded.kernels[piece.name], ctypes.addressof(to), ctypes.addressof(at))
                for piece, to, at in zip(pieces, pointers, places, strict=True)
            )
        )
        play, count = self._loaded.play, ctypes.c_int64(len(pieces))
        slots = [(at, n, name) for piece, at in zip(pieces, places, strict=True) for n, name in enumerate(piece.given)]

        def run(given: Mapping[str, int], _alive: object = (arrays, pointers, places)) -> None:
            for at, number, name in slots:
                at[number] = given[name]
            play(calls, count)

        return run
