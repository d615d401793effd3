"""Loop programs compiled by the machine's C compiler."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

from weft.backends.cc.build import Compiler, build, cache_folder, find_compiler
from weft.backends.cc.emit import Source, emit
from weft.backends.host import HostMemory
from weft.backends.seam import Bound, Executable, Memory
from weft.errors import WeftError, user_origin
from weft.loops import Program

__all__ = ["Cc"]


class Cc(HostMemory):
    """Compiles with WEFT_CC, cc, gcc or clang, and keeps what it compiled."""

    name = "cc"

    def __init__(self) -> None:
        wanted = os.environ.get("WEFT_CC")
        found = find_compiler(wanted)
        if found is None:
            raise WeftError(
                f"WEFT_CC names no compiler: {wanted!r}" if wanted else "no C compiler was found",
                origin=user_origin(),
                fix='install gcc or clang, or pip install "weft[cc]", or set WEFT_CC to a compiler, or use Context("interp")',
            )
        self.compiler: Compiler = found
        self.folder: Path = cache_folder()

    def compile(self, program: Program) -> Executable:
        source = emit(program)
        prelude = files("weft.backends.cc").joinpath("prelude.h").read_text(encoding="utf-8")
        return _Native(source, build(self.compiler, f"{prelude}\n{source.text}", self.folder))


class _Native:
    """One native function; binding fixes its pointers, so that a run is a single call."""

    def __init__(self, source: Source, library: ctypes.CDLL) -> None:
        self._source = source
        self._function = library.weft_run
        self._function.restype = None

    @property
    def source(self) -> str:
        return self._source.text

    def bind(self, memory: Memory) -> Bound:
        arrays = [memory[buffer] for buffer in self._source.buffers]
        assert all(array.flags.c_contiguous for array in arrays)
        pointers = (ctypes.c_void_p * max(len(arrays), 1))(*(array.ctypes.data for array in arrays))
        places = (ctypes.c_int64 * max(len(self._source.given), 1))()
        function, given_at = self._function, tuple(enumerate(self._source.given))

        def run(given: Mapping[str, int], _alive: object = arrays) -> None:
            for at, name in given_at:
                places[at] = given[name]
            function(pointers, places)

        return run
