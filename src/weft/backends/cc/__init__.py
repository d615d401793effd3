"""Loop programs compiled by the machine's C compiler."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

from weft.backends.cc.build import Compiler, build, cache_folder, find_compiler
from weft.backends.cc.emit import Source, emit
from weft.backends.seam import Executable, Memory
from weft.errors import WeftError, user_origin
from weft.loops import Program

__all__ = ["Cc"]


class Cc:
    """Compiles with WEFT_CC, cc, gcc or clang, and keeps what it compiled."""

    name = "cc"

    def __init__(self) -> None:
        wanted = os.environ.get("WEFT_CC")
        found = find_compiler(wanted)
        if found is None:
            raise WeftError(
                f"WEFT_CC names no compiler: {wanted!r}" if wanted else "no C compiler was found",
                origin=user_origin(),
                fix='install gcc or clang, set WEFT_CC to a compiler, or use Context("interp")',
            )
        self.compiler: Compiler = found
        self.folder: Path = cache_folder()

    def compile(self, program: Program) -> Executable:
        source = emit(program)
        prelude = files("weft.backends.cc").joinpath("prelude.h").read_text(encoding="utf-8")
        return _Native(source, build(self.compiler, f"{prelude}\n{source.text}", self.folder))


class _Native:
    """One native call; pointers are bound once and again only when memory moved."""

    def __init__(self, source: Source, library: ctypes.CDLL) -> None:
        self._source = source
        self._library = library
        self._function = library.weft_run
        self._function.restype = None
        self._pointers = (ctypes.c_void_p * max(len(source.buffers), 1))()
        self._arrays: list[object] = []
        self._given = (ctypes.c_int64 * max(len(source.given), 1))()

    @property
    def source(self) -> str:
        return self._source.text

    def run(self, memory: Memory, given: Mapping[str, int]) -> None:
        arrays = [memory[buffer] for buffer in self._source.buffers]
        if len(arrays) != len(self._arrays) or any(a is not b for a, b in zip(arrays, self._arrays, strict=True)):
            for at, array in enumerate(arrays):
                assert array.flags.c_contiguous
                self._pointers[at] = array.ctypes.data
            self._arrays = list(arrays)
        for at, name in enumerate(self._source.given):
            self._given[at] = given[name]
        self._function(self._pointers, self._given)
