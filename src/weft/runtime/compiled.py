"""Code ready to run on memory, and the stages it went through."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from weft.backends import Array, Backend, Bindable, Block, Bound, Executable, Memory
from weft.loops import Buffer, Program, buffers_of
from weft.schedule import Clock, Kernel, Schedule, as_program

#: Raises what is wrong with a value.
Check: TypeAlias = Callable[[Array], None]


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """A program and its memory: the buffers it touches, those it leaves, and which of them lie where in an arena.

    `checks` are called after every run with what it left in some buffers, and raise what is wrong with it.
    """

    program: Bindable
    touched: Sequence[Buffer]
    kept: tuple[Buffer, ...]
    arena: Buffer | None
    offsets: Mapping[Buffer, int]
    checks: Mapping[Buffer, Check] = field(default_factory=dict)

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """The memory it works on and leaves behind; what lies in the arena is not named."""
        own = [buffer for buffer in self.touched if buffer not in self.offsets]
        return tuple(dict.fromkeys([*own, *self.kept, *([self.arena] if self.arena else [])]))

    def bind(self, blocks: Memory, backend: Backend) -> Bound:
        """The program on blocks for its buffers."""
        memory = dict(blocks)
        if self.arena is not None:
            whole = blocks[self.arena]
            memory |= {buffer: backend.view(whole, buffer, at) for buffer, at in self.offsets.items()}
        bound = self.program.bind(memory)
        checks = [(memory[buffer], check) for buffer, check in self.checks.items()]
        return _checked(bound, checks, backend) if checks else bound


def _checked(bound: Bound, checks: Sequence[tuple[Block, Check]], backend: Backend) -> Bound:
    def run(given: Mapping[str, int]) -> None:
        bound(given)
        for block, check in checks:
            check(backend.download(block))

    return run


@dataclass(frozen=True, slots=True, eq=False)
class Stages:
    """Code at every stage below assignments: loops, kernels, and what the backend made of them."""

    loops: Program
    kernels: tuple[Kernel, ...]
    schedule: Schedule | None
    executable: Executable
    kept: tuple[Buffer, ...]
    arena: Buffer | None

    @property
    def placed(self) -> Placed:
        """What runs."""
        offsets = self.schedule.plan.offsets if self.schedule and self.arena else {}
        return Placed(self.executable, buffers_of(as_program(self.kernels)), self.kept, self.arena, offsets)


@dataclass(frozen=True, eq=False)
class Built:
    """Code ready to run. Where it was recalled, its stages are made when someone asks to see them.

    `trace` runs the passes once more, and has the kernels after each.
    """

    placed: Placed
    clock: Clock
    make: Callable[[], Stages]
    trace: Callable[[], Iterator[tuple[str, Sequence[Kernel]]]]

    @cached_property
    def stages(self) -> Stages:
        return self.make()
