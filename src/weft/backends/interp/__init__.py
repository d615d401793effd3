"""The oracle: loop programs run directly in NumPy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from weft.backends.interp.run import run, run_scalar
from weft.backends.seam import Executable, Memory
from weft.loops import Program, show

__all__ = ["Interp", "run", "run_scalar"]


@dataclass(frozen=True, slots=True)
class _Interpreted:
    program: Program

    @property
    def source(self) -> str:
        return show(self.program)

    def run(self, memory: Memory, given: Mapping[str, int]) -> None:
        run(self.program, memory, given)


@dataclass(frozen=True, slots=True)
class Interp:
    """Interprets instead of compiling."""

    name: str = "interp"

    def compile(self, program: Program) -> Executable:
        return _Interpreted(program)
