"""A device at work: the records of what it holds and of what is under way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from weft.assign import Node
from weft.backends import BoundProgram, InOrder, Prompt
from weft.loops import Buffer
from weft.runtime import errors
from weft.runtime.hazards import Hazards
from weft.runtime.initial_values import InitialValues
from weft.runtime.memory import DeviceMemory
from weft.runtime.queue import Queue
from weft.runtime.residency import Residency
from weft.runtime.weak import Weak

if TYPE_CHECKING:
    from weft.runtime.engine import Engine
    from weft.runtime.routine import Routine
    from weft.runtime.runs import Installed


class DeviceState:
    """A device. What it holds is known when work is asked for, so mistakes are raised where they are made.

    `hazards` says what is under way, `residency` what there is, `memory` where; `installed` are the routines bound to
    that memory, and `ready` is the one that ran last, if it can run again as it is.
    """

    def __init__(self, engine: Engine, index: int) -> None:
        self.engine = engine
        self.index = index
        self.lock = engine.lock
        self.hazards = Hazards()
        self.memory = DeviceMemory(engine.backend, index, engine.layout.origin)
        self.residency = Residency(self.memory, self.hazards, engine.layout.buffer, engine.initial_program, index)
        self.installed: Weak[Routine, Installed] = Weak()
        self.ready: tuple[Routine, Installed] | None = None
        self._queues: Weak[Queue, None] = Weak()
        self.queue = self.new_queue()
        self._synchronize = None if isinstance(engine.backend, Prompt) else engine.backend.synchronize
        #: What a run waits with for its end, where what follows might not find it done.
        self.synchronize = None if isinstance(engine.backend, InOrder) else self._synchronize

    def new_queue(self) -> Queue:
        """A queue of this device."""
        queue = Queue(self.index)
        self._queues.put(queue, None)
        return queue

    # Asking

    def refuse_inside(self) -> None:
        """A signal handler in the middle of work, or of asking for it, must not change what that is about to use."""
        if self.engine.asking > 1 or self.hazards.own() is not None:
            raise errors.inside_a_run()

    def compile_initial_values(self, nodes: Sequence[Node]) -> None:
        """Have the compiler do its work now, while the lock is not held."""
        if missing := self.residency.uncomputed(nodes):
            self.engine.initial_program(missing)

    def fill(self, initial: InitialValues) -> list[BoundProgram]:
        """Give nodes the initial values that are given; what is left to call for those that are computed."""
        if not initial.nodes:
            return []
        self.ready = None
        return self.residency.fill(initial)

    # Waiting

    def wait(self) -> None:
        """Return when the backend has done what it was asked to do here, or what it is asked next finds it done."""
        if self.synchronize is not None:
            self.synchronize(self.index)

    def settle(self) -> None:
        """Return when everything asked of this device is over."""
        with self.lock:
            waiting = self.hazards.under_way()
        for event in waiting:
            event.settle()
        self.finish()

    def finish(self) -> None:
        """Return when the backend has done all that it was asked to do here."""
        if self._synchronize is not None:
            self._synchronize(self.index)

    def tell(self) -> None:
        """Raise what went wrong and was not raised yet. Called with the lock held."""
        while self.hazards.failures:
            self.ready = None
            failure = self.hazards.failures.pop(0)
            if not failure.told:
                raise failure.tell()

    # Letting go, with the lock held

    def drop(self, gone: int | Buffer, buffers: Sequence[Buffer]) -> None:
        """A node is no more, or an arena: let go of what belongs to it."""
        if isinstance(gone, int):
            self.residency.drop(gone)
        for buffer in buffers:
            self.memory.drop(buffer)
            self.hazards.uses.pop(buffer, None)

    def clear(self) -> None:
        """Let go of all memory."""
        self.ready = None
        self.installed.clear()
        self.memory.blocks.clear()
        self.residency.marks.clear()
        self.residency.sent.clear()

    def stop(self) -> None:
        """End the threads once they have done what was enqueued. Called without the lock."""
        for queue in self._queues:
            queue.stop()
