"""Code ready to run on memory, and the stages it went through."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy.typing as npt

from weft.assign.nodes import Check
from weft.backends import Backend, Bindable, Block, BoundProgram, Executable, Memory
from weft.lazy import lazy_property
from weft.loops import Buffer, Program
from weft.schedule import Clock, Kernel, Schedule

if TYPE_CHECKING:
    from weft.runtime.build import Request


#: What gives the values of a block, where there is one.
Downloading: TypeAlias = "Callable[[], npt.NDArray[Any]] | None"


@dataclass(frozen=True, slots=True, eq=False)
class Stages:
    """Code at every stage below assignments: loops, kernels, and what the backend made of them.

    Is that `as_scheduled`, or did the compiler break down on kernels, which run in plain loops?
    """

    loops: Program
    kernels: tuple[Kernel, ...]
    schedule: Schedule | None
    executable: Executable
    as_scheduled: bool


@dataclass(frozen=True, eq=False)
class Compiled:
    """What runs, its memory, and how its stages are made.

    The program touches some buffers, and leaves those `kept`; what is in `offsets` lies in the arena. `checks` are
    called after every run with what it left in some buffers, and raise what is wrong with it, which what is in others
    helps to say. The stages are those `made`, or where the program was recalled, they are made from the `request` when
    someone asks to see them.
    """

    program: Bindable
    touched: Sequence[Buffer]
    arena: Buffer | None
    offsets: Mapping[Buffer, int]
    kept: tuple[Buffer, ...] = ()
    checks: Mapping[Buffer, tuple[Check, Buffer | None]] = field(default_factory=dict)
    clock: Clock = field(default_factory=Clock)
    request: Request | None = None
    made: Stages | None = None

    @lazy_property
    def buffers(self) -> tuple[Buffer, ...]:
        """The memory it works on and leaves behind; what lies in the arena is not named."""
        own = [buffer for buffer in self.touched if buffer not in self.offsets]
        return tuple(dict.fromkeys([*own, *self.kept, *([self.arena] if self.arena else [])]))

    @lazy_property
    def stages(self) -> Stages:
        if self.made is not None:
            return self.made
        assert self.request is not None
        return self.request.stages()

    def shown(self) -> Compiled:
        """The same on the buffers that its stages name; a recalled program has others of its own."""
        return self if self.made or self.request is None else self.request.placed(self.stages, self.clock)

    def alone(self) -> Compiled:
        """Without its stages: it keeps nothing of the code alive."""
        return replace(self, request=None, made=None)

    def bind(self, blocks: Memory, backend: Backend) -> BoundProgram:
        """The program on blocks for its buffers."""
        memory = dict(blocks)
        if self.arena is not None:
            whole = blocks[self.arena]
            memory |= {buffer: backend.view(whole, buffer, at) for buffer, at in self.offsets.items()}
        bound = self.program.bind(memory)
        checks = [
            (memory[buffer], check, _downloading(blocks.get(of) if of else None, backend))
            for buffer, (check, of) in self.checks.items()
        ]
        return _checked(bound, checks, backend) if checks else bound


def _downloading(block: Block | None, backend: Backend) -> Downloading:
    return None if block is None else lambda: backend.download(block)


def _checked(bound: BoundProgram, checks: Sequence[tuple[Block, Check, Downloading]], backend: Backend) -> BoundProgram:
    def run(given: Mapping[str, int]) -> None:
        bound(given)
        for block, check, of in checks:
            check.verify(backend.download(block), of)

    return run
