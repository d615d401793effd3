"""The oracle as a backend: loop programs are interpreted instead of compiled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from weft.backends.host_memory import HostMemory
from weft.backends.protocol import BoundProgram, Executable, Memory
from weft.errors import OutOfMemory
from weft.loops import Program, buffers_of, show
from weft.loops.interp import run
from weft.schedule.nodes import Kernel, as_program

__all__ = ["Interp"]


@dataclass(frozen=True, slots=True)
class _Interpreted:
    program: Program

    @property
    def source(self) -> str:
        return show(self.program)

    def bind(self, memory: Memory) -> BoundProgram:
        return partial(_run, self.program, {buffer: memory[buffer] for buffer in buffers_of(self.program)})


def _run(program: Program, memory: Memory, given: Mapping[str, int]) -> None:
    try:
        run(program, memory, given)
    except MemoryError as error:
        what = f"there is no memory for what the interpreter computes in between: {error}"
        fix = 'make it smaller, or compile it: wf.Context("cc")'
        raise OutOfMemory(what, fix=fix) from None


@dataclass(frozen=True, slots=True)
class Interp(HostMemory):
    """Interprets instead of compiling."""

    name: str = "interp"

    @property
    def description(self) -> str:
        """What it runs with, for people."""
        return "NumPy"

    def compile(self, kernels: Sequence[Kernel]) -> Executable:
        return _Interpreted(as_program(kernels))
