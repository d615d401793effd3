"""The oracle: loop programs run directly in NumPy."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from weft.backends.host import HostMemory
from weft.backends.interp.run import run, run_scalar
from weft.backends.seam import Bound, Executable, Memory
from weft.loops import Program, buffers_of, show

__all__ = ["Interp", "run", "run_scalar"]


@dataclass(frozen=True, slots=True)
class _Interpreted:
    program: Program

    @property
    def source(self) -> str:
        return show(self.program)

    def bind(self, memory: Memory) -> Bound:
        return partial(run, self.program, {buffer: memory[buffer] for buffer in buffers_of(self.program)})


@dataclass(frozen=True, slots=True)
class Interp(HostMemory):
    """Interprets instead of compiling."""

    name: str = "interp"

    def compile(self, program: Program) -> Executable:
        return _Interpreted(program)
