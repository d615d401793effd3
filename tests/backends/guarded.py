"""Memory between pages that must not be touched: compiled code that leaves its buffers ends the process.

Every run is on copies that end at a forbidden page, then again on copies that begin behind one, and both must come to
the same.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import pytest

from weft.backends.cc import Cc
from weft.backends.protocol import BoundProgram, Executable, Memory
from weft.loops import Program

PAGE = mmap.PAGESIZE
_libc = ctypes.CDLL(None, use_errno=True)


def guarded(array: np.ndarray, at_end: bool) -> np.ndarray:
    """A copy right before a forbidden page, or right after one."""
    pages = -(-max(array.nbytes, 1) // PAGE)
    area = mmap.mmap(-1, (pages + 2) * PAGE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(area))
    for page in (0, pages + 1):
        if _libc.mprotect(
            ctypes.c_void_p(start + page * PAGE), PAGE, mmap.PROT_NONE if hasattr(mmap, "PROT_NONE") else 0
        ):
            raise OSError(ctypes.get_errno(), "mprotect")
    offset = (pages + 1) * PAGE - array.nbytes if at_end else PAGE
    copy = np.frombuffer(area, array.dtype, array.size, offset).reshape(array.shape)
    copy[...] = array
    return copy


class Guarded:
    """A compiled program that is run twice, on guarded copies of its memory."""

    def __init__(self, executable: Executable) -> None:
        self.executable = executable

    @property
    def source(self) -> str:
        return self.executable.source

    def bind(self, memory: Memory) -> BoundProgram:
        def run(given: Mapping[str, int]) -> None:
            results = []
            for at_end in (True, False):
                copies = {buffer: guarded(array, at_end) for buffer, array in memory.items()}
                self.executable.bind(copies)(given)
                results.append(copies)
            for buffer, array in memory.items():
                first, second = (copies[buffer] for copies in results)
                assert first.tobytes() == second.tobytes(), buffer.name
                if array.flags.writeable:
                    array[...] = first

        return run


@contextmanager
def guarding() -> Iterator[None]:
    """Every program of the C backend that is compiled meanwhile runs on such memory."""
    compile_plain = Cc.compile

    def compile_guarded(self: Cc, program: Program) -> Executable:
        return Guarded(compile_plain(self, program))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Cc, "compile", compile_guarded)
        yield
