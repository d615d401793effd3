"""A device at work: how routines come to run on it, and how values get in and out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, WeakSet

from weft.assign import Merge, Node
from weft.backends import Array, Block, Bound
from weft.loops import Buffer, Program, Remark
from weft.runtime import refuse
from weft.runtime.access import Access
from weft.runtime.events import Event, Failure
from weft.runtime.first import with_sources
from weft.runtime.holdings import Found, Holdings
from weft.runtime.memory import DeviceMemory
from weft.runtime.order import Order, Touch
from weft.runtime.profile import Profile, measured
from weft.runtime.queue import Queue
from weft.runtime.routine import Reads, Routine
from weft.schedule import Kernel
from weft.schedule.cost import Machine

if TYPE_CHECKING:
    from weft.runtime.engine import Engine


class Site:
    """A device at work. What it holds is known when work is asked for, so mistakes are raised where they are made."""

    def __init__(self, engine: Engine, index: int) -> None:
        self.engine = engine
        self.index = index
        self.order = Order()
        self._queues: WeakSet[Queue] = WeakSet()
        self.queue = self.new_queue()
        self.memory = DeviceMemory(engine.backend, index)
        self.holdings = Holdings(self.memory, self.order, engine.layout.buffer, engine.first_values, index)
        self._lock = engine.lock
        self._backend = engine.backend
        self._synchronize = engine.backend.synchronize
        self._bounds: WeakKeyDictionary[Routine, tuple[int, Bound]] = WeakKeyDictionary()
        self._ready: tuple[Routine, Bound] | None = None  # what ran last, if it can run again as it is

    def new_queue(self) -> Queue:
        """A queue of this device."""
        queue = Queue(self.index)
        self._queues.add(queue)
        return queue

    # Running

    def run_now(self, routine: Routine, given: Mapping[str, int]) -> None:
        """Run a routine in this thread. One that is ready, on a device with nothing to do, is a single call."""
        order = self.order
        awaited: list[Event] | None = None
        try:
            with self._lock:
                ready = self._ready
                if ready is not None and ready[0] is routine and not (order.active or order.failures or order.direct):
                    order.direct = routine.touch
                    order.awaited = awaited = []
            if ready is None or awaited is None:
                self._run_in_order(routine, given)
            else:
                ready[1](given)
                self._synchronize(self.index)
        except Exception as error:
            self._fail(error if awaited is not None else None)
            awaited = None
            raise
        finally:
            if awaited is not None:
                order.leave(awaited)

    def _fail(self, error: Exception | None) -> None:
        """What direct work was to write is lost, and nothing is ready any more."""
        with self._lock:
            self._ready = None
            if error is not None:
                self.order.fail(Failure(error, self.index, told=True))

    def _run_in_order(self, routine: Routine, given: Mapping[str, int]) -> None:
        queue = self.queue
        self._compile_first_values(routine.reads.nodes)
        with Access(self.order, self._lock, self.index) as access:
            with self._lock:
                self.engine.admit()
                self.tell()
                calls, touch = self._prepare(routine)
                queue.last = access.begin(touch, queue.earlier(), queue.key) or queue.last
            access.settle()
            self._do(calls, given)

    def enqueue(self, queue: Queue, routine: Routine, given: Mapping[str, int]) -> Event:
        """Let a queue of this device run a routine."""
        self._compile_first_values(routine.reads.nodes)
        with self._lock:
            self.engine.admit()
            calls, touch = self._prepare(routine)
            return queue.put(partial(self._do, calls, given), {self.order: touch})

    def _prepare(self, routine: Routine) -> tuple[Sequence[Bound], Touch]:
        """See to it that the routine finds what it needs; until something changes this need not be done again."""
        if self._ready is not None and self._ready[0] is routine:
            return (self._ready[1],), routine.touch
        found = self.holdings.find(routine.reads, routine)
        calls = self._fill(found)
        bound = self._bound(routine)
        self.holdings.accept(found)
        self.holdings.ran(routine.facts)
        self._ready = (routine, bound) if self.holdings.has(routine.reads) else None
        if not calls:
            return (bound,), routine.touch
        first = found.first.buffers
        needs = [buffer for buffer in routine.touch.needs if buffer not in first]
        return (*calls, bound), Touch(needs, (*first, *routine.touch.writes))

    def _bound(self, routine: Routine) -> Bound:
        """The routine on this device's memory, as long as no block is replaced."""
        replaced, bound = self._bounds.get(routine, (-1, None))
        if bound is None or replaced != self.memory.replaced:
            self.memory.allocate(routine.buffers)
            self.memory.own(routine.touch.writes)
            bound = self.memory.bind(routine.built.placed)
            self._bounds[routine] = (self.memory.replaced, bound)
        return bound

    def _do(self, calls: Sequence[Bound], given: Mapping[str, int]) -> None:
        for call in calls:
            call(given)
        self._synchronize(self.index)

    def profile(
        self, routine: Routine, kernels: Sequence[Kernel], given: Mapping[str, int], times: int, machine: Machine
    ) -> Profile:
        """Run a routine's kernels one by one, timed."""
        self.run_now(routine, given)  # now everything is in memory
        placed = routine.built.stages.placed
        programs = [Program((Remark("", kernel.body),)) for kernel in kernels]
        executables = [self._backend.compile(program) for program in programs]
        with Access(self.order, self._lock, self.index) as access:
            with self._lock:
                self.engine.admit()
                self.tell()
                self.memory.allocate(placed.buffers)
                calls = [self.memory.bind(replace(placed, program=one)) for one in executables]
                access.begin(routine.touch)
            access.settle()
            return measured(kernels, calls, given, times, machine)

    # Values

    def read(self, node: Node) -> Array:
        """The value of a node, stored or given its first one."""
        buffer = self.engine.layout.buffer(node)
        nodes = (node,) if node in self.holdings.stored else with_sources((node,))
        self._compile_first_values((node,))
        with Access(self.order, self._lock, self.index) as access:
            with self._lock:
                self.engine.admit()
                self.tell()
                found = self.holdings.find(Reads(nodes, (), tuple(map(self.engine.layout.buffer, nodes))))
                calls = self._fill(found)
                self.holdings.accept(found)
                block = self.memory.blocks[buffer]
                access.begin(Touch((buffer,), found.first.buffers))
            access.settle()
            self._do(calls, {})
            return self._backend.download(block)

    def compute(self, node: Node) -> Array:
        """Compute a node from leaves, in memory of its own: what routines left stored is not touched."""
        routine = self.engine.computing(node)
        writes = set(routine.touch.writes)
        self._compile_first_values(routine.reads.nodes)
        with Access(self.order, self._lock, self.index) as access:
            with self._lock:
                self.engine.admit()
                self.tell()
                found = self.holdings.find(routine.reads, routine)
                calls = self._fill(found)
                blocks = {
                    buffer: self.memory.new(buffer) if buffer in writes else self.memory.blocks[buffer]
                    for buffer in routine.buffers
                }
                bound = self.memory.bind(routine.built.placed, blocks)
                self.holdings.accept(found)
                access.begin(Touch(routine.touch.needs, found.first.buffers))
            access.settle()
            self._do((*calls, bound), {})
            return self._backend.download(blocks[self.engine.layout.buffer(node)])

    def write(self, node: Node, array: Array) -> None:
        """Store the values of an array of the node's shape and type."""
        buffer = self.engine.layout.buffer(node)
        with Access(self.order, self._lock, self.index) as access:
            with self._lock:
                self.engine.admit()
                block = self._overwrite(buffer)
                access.begin(Touch((), (buffer,)))
                self.holdings.stored[node] = None
            access.settle()
            self._backend.upload(array, block)

    def receive(self, queue: Queue, node: Node, source: Site, merge: bool) -> Event:
        """Let a queue of this device copy a node's stored value from another device."""
        sent, into = self.engine.layout.buffer(node), self.engine.layout.buffer(Merge(node) if merge else node)
        with self._lock:
            self.engine.admit()
            if node not in source.holdings.stored:
                raise refuse.nothing_to_send(node, source.index)
            source.holdings.check_whole((sent,))
            work = partial(self._copy, source.memory.blocks[sent], self._overwrite(into))
            event = queue.put(work, {source.order: Touch((sent,)), self.order: Touch((), (into,))})
            if merge:
                self.holdings.sent[node] = source.index
            else:
                self.holdings.stored[node] = None
            return event

    def _copy(self, source: Block, target: Block) -> None:
        self._backend.copy(source, target)
        self._synchronize(self.index)

    def _overwrite(self, buffer: Buffer) -> Block:
        """A block to be written as a whole; if it is another one, what was ready is no longer."""
        replaced, block = self.memory.replaced, self.memory.overwrite(buffer)
        if self.memory.replaced != replaced:
            self._ready = None
        return block

    def _fill(self, found: Found) -> list[Bound]:
        if found.nodes:
            self._ready = None
        return self.holdings.fill(found)

    def _compile_first_values(self, nodes: Sequence[Node]) -> None:
        """Have the compiler do its work now, while the lock is not held."""
        self.engine.first_values(self.holdings.uncomputed(nodes))

    # Waiting

    def settle(self) -> None:
        """Return when everything asked of this device is over."""
        with self._lock:
            waiting = self.order.under_way()
        for event in waiting:
            event.settle()
        self._synchronize(self.index)

    def tell(self) -> None:
        """Raise what went wrong and was not raised yet. Called with the lock held."""
        while self.order.failures:
            self._ready = None
            failure = self.order.failures.pop(0)
            if not failure.told:
                raise failure.tell()

    def forget(self) -> None:
        """Nothing is ready any more: the next run is seen to anew. Called with the lock held."""
        self._ready = None

    def stop(self) -> None:
        """End the threads once they have done what was enqueued."""
        for queue in list(self._queues):
            queue.stop()

    def clear(self) -> None:
        """Let go of all memory. Called with the lock held."""
        self.forget()
        self._bounds.clear()
        self.memory.blocks.clear()
        self.holdings.stored.clear()
