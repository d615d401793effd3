"""Code ready to run on memory, and the stages it went through."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from weft.backends import Backend, Bindable, Bound, Executable, Memory
from weft.loops import Buffer, Program, buffers_of
from weft.schedule import Clock, Schedule


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """A program and its memory: the buffers it touches, those it leaves, and which of them lie where in an arena."""

    program: Bindable
    touched: Sequence[Buffer]
    kept: tuple[Buffer, ...]
    arena: Buffer | None
    offsets: Mapping[Buffer, int]

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """The memory it works on and leaves behind; what lies in the arena is not named."""
        own = [buffer for buffer in self.touched if buffer not in self.offsets]
        return tuple(dict.fromkeys([*own, *self.kept, *([self.arena] if self.arena else [])]))

    def bind(self, blocks: Memory, backend: Backend) -> Bound:
        """The program on blocks for its buffers."""
        if self.arena is None:
            return self.program.bind(blocks)
        whole = blocks[self.arena]
        parts = {buffer: backend.view(whole, buffer, at) for buffer, at in self.offsets.items()}
        return self.program.bind({**blocks, **parts})


@dataclass(frozen=True, slots=True, eq=False)
class Stages:
    """Code at every stage below assignments: loops, loops cut into kernels, and what the backend made of them."""

    loops: Program
    program: Program
    schedule: Schedule | None
    executable: Executable
    kept: tuple[Buffer, ...]
    arena: Buffer | None

    @property
    def placed(self) -> Placed:
        """What runs."""
        offsets = self.schedule.plan.offsets if self.schedule and self.arena else {}
        return Placed(self.executable, buffers_of(self.program), self.kept, self.arena, offsets)


@dataclass(frozen=True, eq=False)
class Built:
    """Code ready to run. Where it was recalled, its stages are made when someone asks to see them."""

    placed: Placed
    clock: Clock
    make: Callable[[], Stages]

    @cached_property
    def stages(self) -> Stages:
        return self.make()
