"""The seam between the runtime and what runs code: all a backend has to offer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias

import numpy.typing as npt

from weft.loops import Buffer, Program

Array: TypeAlias = npt.NDArray[Any]
Memory: TypeAlias = Mapping[Buffer, Array]


Bound: TypeAlias = Callable[[Mapping[str, int]], None]


class Executable(Protocol):
    """A compiled program."""

    @property
    def source(self) -> str:
        """The text it was compiled from, for people."""
        ...

    def bind(self, memory: Memory) -> Bound:
        """The program on `memory`, which holds an array for every buffer: a call runs it with static indices bound."""
        ...


class Backend(Protocol):
    """Something that compiles loop programs."""

    @property
    def name(self) -> str: ...

    def compile(self, program: Program) -> Executable: ...
