"""Code ready to run on memory, and the stages it went through."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from weft.assign import Keep, Node
from weft.assign.nodes import Check
from weft.backends import Array, Backend, Bindable, Block, BoundProgram, Executable, Memory
from weft.errors import IndexOutOfBounds
from weft.lazy import lazy_property
from weft.loops import Buffer, Program
from weft.runtime.layout import Layout
from weft.runtime.recomputed import recomputed
from weft.schedule import Clock, Kernel, Schedule
from weft.schedule.hoist_checks import Checking

if TYPE_CHECKING:
    from weft.runtime.build import Request


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


@dataclass(frozen=True, slots=True, eq=False)
class RunCheck:
    """What is to hold of what a run left in a buffer."""

    check: Check
    layout: Layout

    def verify(self, block: Block, blocks: Memory, backend: Backend, given: Mapping[str, int]) -> None:
        """Raise what is wrong with it; what that is about is in a block, or is computed once more."""
        of = self.check.of
        values = None if of is None else partial(self._values, of, blocks, backend, given)
        self.check.verify(backend.download(block), values)

    def _values(self, of: Node, blocks: Memory, backend: Backend, given: Mapping[str, int]) -> Array:
        buffer = self.layout.buffer(of)
        if buffer in blocks:
            return backend.download(blocks[buffer])
        return recomputed(Keep((of,)), buffer, self.layout, blocks, backend, given)


@dataclass(frozen=True, eq=False)
class Compiled:
    """What runs, its memory, and how its stages are made.

    The program touches some buffers, and leaves those `kept`; what is in `offsets` lies in the arena. `checks` are
    called in every run with what it left in some buffers, and raise what is wrong with it, which what is in others
    helps to say. A run that they refuse has changed nothing that is `lasting`: they are called after what runs `first`,
    which changes none of that, or if they are `late` (`checking`), after the program, and then that is put back. The
    stages are those `made`, or where the program was recalled, they are made from the `request` when someone asks.
    """

    program: Bindable
    touched: Sequence[Buffer]
    arena: Buffer | None
    offsets: Mapping[Buffer, int]
    kept: tuple[Buffer, ...] = ()
    checks: Mapping[Buffer, RunCheck] = field(default_factory=dict)
    lasting: tuple[Buffer, ...] = ()
    first: Bindable | None = None
    checking: Checking = field(default_factory=Checking)
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
        if not self.checks:
            return bound
        verified = {
            buffer: partial(check.verify, memory[buffer], blocks, backend) for buffer, check in self.checks.items()
        }
        late = [verified.pop(buffer) for buffer in self.checking.late]
        kept = [memory[buffer] for buffer in self.lasting] if late else []
        first = self.first.bind(memory) if self.first else None
        return partial(_run_checked, first, list(verified.values()), bound, late, kept, backend)


def _run_checked(
    first: BoundProgram | None,
    early: Sequence[Callable[[Mapping[str, int]], None]],
    rest: BoundProgram,
    late: Sequence[Callable[[Mapping[str, int]], None]],
    lasting: Sequence[Block],
    backend: Backend,
    given: Mapping[str, int],
) -> None:
    """Run a program, or refuse to: then what lasts is as it was."""
    if first is not None:
        first(given)
        for verify in early:
            verify(given)
    before = [backend.download(block) for block in lasting]
    rest(given)
    try:
        for verify in late:
            verify(given)
    except IndexOutOfBounds:
        for array, block in zip(before, lasting, strict=True):
            backend.upload(array, block)
        raise
