"""A device at work: how routines come to run on it, and how values get in and out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from threading import get_ident
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from weft.assign import Merge, Node, Operand
from weft.backends import Array, Block, BoundProgram, Prompt
from weft.loops import Buffer
from weft.machine import Machine
from weft.runtime import errors
from weft.runtime.compiled import Compiled
from weft.runtime.events import Event, Failure
from weft.runtime.exchange import Exchange
from weft.runtime.footprint import Footprint
from weft.runtime.hazards import Hazards
from weft.runtime.initial_values import InitialValues
from weft.runtime.memory import DeviceMemory
from weft.runtime.ordered import OrderedWork
from weft.runtime.profile import Profile, measured
from weft.runtime.queue import Queue
from weft.runtime.residency import FIRST, Mark, Moment, Residency, initial_marks, marks_of
from weft.runtime.routine import Routine
from weft.runtime.sources import key_of, leaves_of
from weft.runtime.weak import Weak
from weft.schedule import Kernel

if TYPE_CHECKING:
    from weft.runtime.engine import Engine

A = TypeVar("A")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Installed:
    """A routine on this device's memory as it was when so many blocks had been replaced, and what its runs change.

    `repeats`: after a run all it reads is there for the next.
    """

    replaced: int
    bound: BoundProgram
    moment: Moment
    marks: Mapping[int, Mark]
    repeats: bool


@dataclass(frozen=True, slots=True)
class Work:
    """A run to come: initial values, of the nodes `started`, then the routine; what it touches and changes."""

    first: Sequence[BoundProgram]
    started: Collection[int]
    bound: BoundProgram
    footprint: Footprint
    marks: Mapping[int, Mark]


class DeviceState:
    """A device at work. What it holds is known when work is asked for, so mistakes are raised where they are made."""

    def __init__(self, engine: Engine, index: int) -> None:
        self.engine = engine
        self.index = index
        self.hazards = Hazards()
        self._queues: Weak[Queue, None] = Weak()
        self.queue = self.new_queue()
        self.memory = DeviceMemory(engine.backend, index, engine.layout.origin)
        self.residency = Residency(self.memory, self.hazards, engine.layout.buffer, engine.initial_program, index)
        self._lock = engine.lock
        self._backend = engine.backend
        self._synchronize = None if isinstance(engine.backend, Prompt) else engine.backend.synchronize
        self._installed: Weak[Routine, Installed] = Weak()
        self._ready: tuple[Routine, BoundProgram, Moment] | None = None  # what ran last, if it can run again as it is

    def new_queue(self) -> Queue:
        """A queue of this device."""
        queue = Queue(self.index)
        self._queues.put(queue, None)
        return queue

    # Running

    def run_now(self, routine: Routine, given: Mapping[str, int], exchange: Exchange | None = None) -> None:
        """Run a routine in this thread. One that is ready, on a device with nothing to do, is a single call."""
        hazards = self.hazards
        awaited: list[Event] | None = None
        try:
            with self._lock:
                ready = self._ready
                if (
                    ready is not None
                    and ready[0] is routine
                    and not (hazards.active or hazards.failures or hazards.direct)
                ):
                    now = self.residency.now
                    hazards.owner = get_ident()
                    hazards.direct = routine.footprint
                    hazards.awaited = awaited = []
            if ready is None or awaited is None:
                self._run_in_order(routine, given, exchange)
            else:
                if exchange is not None:
                    exchange.hand_in(self.memory)
                ready[1](given)
                if self._synchronize is not None:
                    self._synchronize(self.index)
                if exchange is not None:
                    exchange.take_out(self.memory)
                ready[2].at = now
        except BaseException as error:
            self._broke_off(routine, error, awaited)
            raise
        finally:
            # Stores without calls: no signal comes between the end of the work and the word that it is over.
            if awaited is not None and hazards.awaited is awaited:
                hazards.direct = None
                if awaited:
                    hazards.leave(awaited)

    def _broke_off(self, routine: Routine, error: BaseException, awaited: list[Event] | None) -> None:
        """Nothing is ready any more. What direct work was to write is lost, unless it was only interrupted."""
        with self._lock:
            self._ready = None
            if awaited is None or self.hazards.awaited is not awaited or self.hazards.direct is None:
                return
            interrupted = not isinstance(error, Exception)
            if interrupted:
                marks = self.residency.marks
                written = {key: marks[key] for key in self._ran(routine).marks if key in marks}
                self.residency.take_back(written, routine.footprint.computed)
            self.hazards.fail(Failure(error, self.index, told=True), interrupted)

    def _run_in_order(self, routine: Routine, given: Mapping[str, int], exchange: Exchange | None) -> None:
        queue = self.queue

        def ask(access: OrderedWork) -> Work:
            self._refuse_inside()
            work = self._prepare(routine)
            queue.last = access.begin(work.footprint, queue.earlier(), queue.key) or queue.last
            self._claim(access, routine=routine, work=work)
            return work

        def do(access: OrderedWork, work: Work) -> None:
            for call in work.first:
                call({})
            if work.started:
                access.keep(work.started)
            self._do((work.bound,), given, exchange)

        self._compile_initial_values(routine.footprint.needs)
        self._in_order(ask, do)

    def enqueue(
        self, queue: Queue, routine: Routine, given: Mapping[str, int], exchange: Exchange | None = None
    ) -> Event:
        """Let a queue of this device run a routine."""

        def ask() -> Event:
            self._refuse_inside()
            ready = self._ready
            work = self._again(routine) if ready is not None and ready[0] is routine else self._prepare(routine)
            do = partial(self._do, (*work.first, work.bound), given, exchange)
            return self._put(
                queue, do, {self.hazards: work.footprint}, partial(self._claim, routine=routine, work=work)
            )

        self._compile_initial_values(routine.footprint.needs)
        return self.engine.admit(ask)

    def _prepare(self, routine: Routine) -> Work:
        """See to it that the routine finds what it needs. Nothing counts as written yet."""
        work = routine.footprint
        initial = self.residency.missing(work, lambda: routine.show("assign"))
        first = self._fill(initial)
        installed = self._install(routine)
        if not initial.nodes:
            return self._again(routine)
        own, marks = initial.buffers, initial_marks(initial)
        reads = tuple(buffer for buffer in work.reads if buffer not in own)
        return Work(first, marks, installed.bound, Footprint(reads, (*own, *work.writes)), {**marks, **installed.marks})

    def _again(self, routine: Routine) -> Work:
        """A run of a routine that finds all it needs."""
        installed = self._ran(routine)
        return Work((), (), installed.bound, routine.footprint, installed.marks)

    def _claim(self, access: OrderedWork, *, routine: Routine, work: Work) -> None:
        """What a run writes counts as written from now on; until something changes it need not be prepared again."""
        installed = self._ran(routine)
        access.claim(work.marks, routine.footprint.computed)
        installed.moment.at = self.residency.next().at
        self._ready = (routine, installed.bound, installed.moment) if installed.repeats else None

    def _install(self, routine: Routine) -> Installed:
        """The routine on this device's memory, as long as no block is replaced."""
        found = self._installed.get(routine)
        if found is None or found.replaced != self.memory.replaced:
            work = routine.footprint
            bound, _ = self.memory.place(routine.compiled, writes=work.writes)
            moment = found.moment if found is not None else Moment(0)
            marks = marks_of(work, moment) if found is None else found.marks
            repeats = not work.merges and all(marks.get(one.id, FIRST)[1] for one in work.needs)
            found = Installed(self.memory.replaced, bound, moment, marks, repeats)
            self._installed.put(routine, found)
        return found

    def _ran(self, routine: Routine) -> Installed:
        """A routine that was installed here."""
        found = self._installed.get(routine)
        assert found is not None
        return found

    def _do(self, calls: Sequence[BoundProgram], given: Mapping[str, int], exchange: Exchange | None = None) -> None:
        if exchange is not None:
            exchange.hand_in(self.memory)
        for call in calls:
            call(given)
        self._wait()
        if exchange is not None:
            exchange.take_out(self.memory)

    def _wait(self) -> None:
        """Return when the backend has done what it was asked to do here."""
        if self._synchronize is not None:
            self._synchronize(self.index)

    def profile(
        self, routine: Routine, kernels: Sequence[Kernel], given: Mapping[str, int], times: int, machine: Machine
    ) -> Profile:
        """Run a routine's kernels one by one, timed."""
        self.run_now(routine, given)  # now everything is in memory
        shown = routine.compiled.shown()
        executables = [self._backend.compile((kernel,)) for kernel in kernels]

        def ask(access: OrderedWork) -> list[BoundProgram]:
            calls = self.memory.place_all([replace(shown, program=one, checks={}) for one in executables])
            access.begin(routine.footprint)
            return calls

        return self._in_order(ask, lambda _, calls: measured(kernels, calls, given, times, machine))

    # Values

    def value(self, node: Node) -> Array:
        """The value of a node: as stored if that is up to date, else computed from leaves."""
        changed: int | None = None
        with self._lock:
            stored = self.residency.stores(node) and not self.residency.being_computed(node)
            if stored:
                changed = self.residency.changed_since(node, lambda: self.engine.sources(node))
        if node.definition is not None and (not stored or changed is not None):
            return self._compute(node, changed)
        if node.gradient_of is not None and not stored:
            raise errors.not_stored(node, self.index)
        return self.read(node)

    def has_value(self, node: Node) -> bool:
        """Is there a value to be had?"""
        with self._lock:
            if node.definition is None:
                return self.residency.can_have(node)
            if self.residency.intact(node):
                if self.residency.changed_since(node, lambda: self.engine.sources(node)) is None:
                    return True
            leaves, indices = leaves_of(node)
            return not indices and all(map(self.residency.can_have, leaves))

    def holds(self, node: Node) -> bool:
        """Is a value stored here of the node, or of anything it is computed from?"""
        sources = self.engine.sources(node).keys if node.definition is not None else ()
        with self._lock:
            return self.residency.stores(node) or any(map(self.residency.stores_key, sources))

    def read(self, node: Node) -> Array:
        """The value of a node, stored or its initial one."""
        return self._found(node, Footprint((self.engine.layout.buffer(node),), needs=(node,)))

    def _compute(self, node: Node, changed: int | None) -> Array:
        """Compute a node from leaves, in memory of its own: what routines left stored is not touched."""
        program, work, counters = self.engine.computing(node, changed)
        given = self.engine.counters.now(counters) if counters else {}
        return self._found(node, work, program, lambda: self.engine.show_computing(node), given)

    def _found(
        self,
        node: Node,
        work: Footprint,
        program: Compiled | None = None,
        reader: Callable[[], str] | None = None,
        given: Mapping[str, int] = MappingProxyType({}),
    ) -> Array:
        """The value of a node once everything that work reads is there, and the program has run."""
        buffer = self.engine.layout.buffer(node)
        self._compile_initial_values(work.needs)

        def ask(access: OrderedWork) -> tuple[Sequence[BoundProgram], Block]:
            initial = self.residency.missing(work, reader)
            calls, blocks = self._fill(initial), self.memory.blocks
            if program is not None:
                bound, blocks = self.memory.place(program, work.writes)
                calls.append(bound)
            access.begin(Footprint(work.reads, initial.buffers))
            if initial.nodes or work.merges:
                used = {key_of(Merge(one)): (self.residency.next(), False) for one in work.merges}
                access.claim({**initial_marks(initial), **used})
            return calls, blocks[buffer]

        def do(access: OrderedWork, asked: tuple[Sequence[BoundProgram], Block]) -> Array:
            calls, block = asked
            self._do(calls, given)
            return self.memory.download(buffer, block)

        return self._in_order(ask, do)

    def write(self, node: Node, array: Array) -> None:
        """Store the values of an array of the node's shape and type."""
        buffer = self.engine.layout.buffer(node)

        def ask(access: OrderedWork) -> Block:
            self._refuse_inside()
            block = self.memory.writable(buffer)
            access.begin(Footprint((), (buffer,)))
            self._overwrite(access, operand=node, buffer=buffer, block=block)
            return block

        self._in_order(ask, lambda _, block: self._backend.upload(array, block), tell=False)

    def receive(self, queue: Queue, node: Node, source: DeviceState, merge: bool) -> Event:
        """Let a queue of this device copy a node's stored value from another device."""
        operand = Merge(node) if merge else node
        sent, into = self.engine.layout.buffer(node), self.engine.layout.buffer(operand)

        def ask() -> Event:
            self._refuse_inside()
            self._check_sent(node, sent, source)
            block = self.memory.writable(into)
            if merge:
                self.residency.sent[key_of(operand)] = (node.label, source.index)
            copy = partial(self._copy, source.memory.blocks[sent], block)
            claim = partial(self._overwrite, operand=operand, buffer=into, block=block)
            return self._put(
                queue, copy, {source.hazards: Footprint((sent,)), self.hazards: Footprint((), (into,))}, claim
            )

        return self.engine.admit(ask)

    def _put(
        self,
        queue: Queue,
        work: Callable[[], None],
        touched: Mapping[Hazards, Footprint],
        claim: Callable[[OrderedWork], None],
    ) -> Event:
        """Enqueue work and count what it writes as written. Interrupted, it may be done or not."""
        access = OrderedWork(self.hazards, self.residency)
        try:
            return queue.put(work, touched, lambda: claim(access))
        except BaseException:
            self._ready = None
            if not access.claimed:
                claim(access)
            access.take_back()
            raise

    def _check_sent(self, node: Node, sent: Buffer, source: DeviceState) -> None:
        """Refuse to send what is not there, or is out of date."""
        if not source.residency.stores(node):
            raise errors.nothing_to_send(node, source.index)
        source.residency.check_whole((sent,))
        changed = source.residency.changed_since(node, lambda: self.engine.sources(node))
        if changed is not None:
            raise errors.out_of_date(node, self.engine.layout.label(changed), source.index)

    def _copy(self, source: Block, target: Block) -> None:
        self._backend.copy(source, target)
        self._wait()

    def _overwrite(self, access: OrderedWork, *, operand: Operand, buffer: Buffer, block: Block) -> None:
        """A block is to be written as a whole; if it is another one, what was ready is no longer."""
        key, replaced = key_of(operand), self.memory.blocks.get(buffer) is not block
        access.claim({key: (self.residency.next(), True)}, (key,) if replaced else ())
        if replaced:
            self._ready = None
            self.memory.put(buffer, block)

    def _fill(self, initial: InitialValues) -> list[BoundProgram]:
        if not initial.nodes:
            return []
        self._ready = None
        return self.residency.fill(initial)

    def _compile_initial_values(self, nodes: Sequence[Node]) -> None:
        """Have the compiler do its work now, while the lock is not held."""
        if missing := self.residency.uncomputed(nodes):
            self.engine.initial_program(missing)

    # In order

    def _in_order(self, ask: Callable[[OrderedWork], A], do: Callable[[OrderedWork, A], R], tell: bool = True) -> R:
        """Work in this thread, in its turn: `ask` is called with the lock held, `do` when it is its turn."""
        hazards = self.hazards
        access = OrderedWork(hazards, self.residency)

        def asking() -> A:
            if tell:
                self.tell()
            return ask(access)

        try:
            asked = self.engine.admit(asking)
            access.settle()
            return do(access, asked)
        except BaseException as error:
            with self._lock:
                if access.awaited is not None or access.event is not None:
                    self._ready = None
                    access.fail(error, self.index)
            raise
        finally:
            # Stores without calls: no signal comes between the end of the work and the word that it is over.
            if access.event is not None:
                access.event.instead = access.after
                access.event.over = True
            elif access.awaited is not None and hazards.awaited is access.awaited:
                hazards.direct = None
                hazards.claimed = {}
            access.end()

    def _refuse_inside(self) -> None:
        """A signal handler must not change what the work it interrupts is about to use."""
        if self.engine.inside(self):
            raise errors.inside_a_run()

    # Waiting

    def settle(self) -> None:
        """Return when everything asked of this device is over."""
        with self._lock:
            waiting = self.hazards.under_way()
        for event in waiting:
            event.settle()
        self._wait()

    def tell(self) -> None:
        """Raise what went wrong and was not raised yet. Called with the lock held."""
        while self.hazards.failures:
            self._ready = None
            failure = self.hazards.failures.pop(0)
            if not failure.told:
                raise failure.tell()

    def forget(self) -> None:
        """Nothing is ready any more: the next run is seen to anew. Called with the lock held."""
        self._ready = None

    def drop(self, gone: int | Buffer, buffers: Sequence[Buffer]) -> None:
        """A node is no more, or an arena: let go of what belongs to it. Called with the lock held."""
        if isinstance(gone, int):
            self.residency.drop(gone)
        for buffer in buffers:
            self.memory.drop(buffer)
            self.hazards.uses.pop(buffer, None)

    def stop(self) -> None:
        """End the threads once they have done what was enqueued."""
        for queue in self._queues:
            queue.stop()

    def clear(self) -> None:
        """Let go of all memory. Called with the lock held."""
        self.forget()
        self._installed.clear()
        self.memory.blocks.clear()
        self.residency.marks.clear()
        self.residency.sent.clear()
