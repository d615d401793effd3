"""What the devices of a context share: a backend, a layout, a lock, and the code compiled for them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from weft.assign import (
    Code,
    Keep,
    Node,
    Stored,
    complete,
    node_of,
    operands_of,
    seq,
    statements,
    symbols,
    target,
)
from weft.assign.check import check
from weft.assign.lint import doubts
from weft.assign.show import Printer
from weft.backends import Backend
from weft.config import config
from weft.errors import WeftError, user_origin, warn
from weft.gc_pause import gc_paused
from weft.loops import Buffer
from weft.runtime import errors
from weft.runtime.build import Job
from weft.runtime.compiled import Built, Placed
from weft.runtime.device_state import Site
from weft.runtime.events import Event
from weft.runtime.facts import Reads, analyse, reads_of, touch_of
from weft.runtime.fork import LOWERING, uninterrupted, watch
from weft.runtime.hazards import Touch
from weft.runtime.initial_values import FirstValues
from weft.runtime.layout import Layout
from weft.runtime.lru import Recent
from weft.runtime.routine import Routine
from weft.runtime.sources import Sources, sources_of
from weft.schedule import Clock, CompileOptions
from weft.shape.close import close_all
from weft.tensor.slices import StaticIndex

#: So many programs that compute single tensors are kept, and so many that compute first values.
_COMPUTING, _FIRST = 256, 32

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Computation:
    """A program that computes one tensor from leaves. It does not keep that tensor alive."""

    placed: Placed
    reads: Reads
    touch: Touch


@dataclass(frozen=True, slots=True, eq=False)
class _Standstill:
    """Nothing new begins until it is over, but what its thread asks for."""

    thread: int
    end: Event


class Engine:
    """Compiles for some devices, and lets one thread at a time ask them for work."""

    def __init__(self, backend: Backend, devices: int) -> None:
        self.backend = backend
        self.layout = Layout()
        self.lock = threading.RLock()
        self._holding = threading.RLock()
        self._still: _Standstill | None = None
        self._asking = 0  # so many pieces of work the thread that has the lock is asking for: a handler asks inside
        self.closed = False
        self._computing: Recent[int, tuple[CompileOptions, Computation]] = Recent(_COMPUTING)
        self._first: Recent[tuple[int, ...], FirstValues] = Recent(_FIRST)
        self._sources: dict[int, Sources] = {}
        self.sites = tuple(Site(self, index) for index in range(devices))
        watch(self)

    def __str__(self) -> str:
        count = len(self.sites)
        return f"context on {self.backend.name}, {count} device{'s' * (count > 1)}"

    # Code

    @uninterrupted
    def compile(
        self,
        code: Code,
        static: Mapping[str, StaticIndex],
        kept: tuple[Node, ...] = (),
        recompute: tuple[Node, ...] = (),
        options: CompileOptions | None = None,
    ) -> Routine:
        """Code as a routine. Others can compile while the backend does."""
        clock, options = Clock(), options or config.options
        with LOWERING, clock("shapes"):
            full = complete(seq(code, Keep(kept)))
            operands = (one for statement in statements(full) for one in (target(statement), *operands_of(statement)))
            touched = dict.fromkeys(map(node_of, operands))
            for node in kept:
                if node.gradient_of is not None and node not in touched:
                    raise errors.nothing_to_keep(node)
            close_all(node.shape for node in touched)
            facts = analyse(full)
            for operand in facts.needs:
                if isinstance(operand, Stored) and operand.node in facts.written:
                    raise WeftError(
                        f"the code computes `{operand}` and also reads its stored value",
                        origin=user_origin(),
                        fix="read one of the two in a routine of its own",
                    )
            _check_bound(full, static)
            check(full)
            for doubt in doubts(full):
                _tell(doubt, options.strict)
        built = self._build(full, static, dict(facts.kept), recompute, options, clock)
        reads = reads_of(facts, self.layout.buffer)
        touch = touch_of(facts, reads, built.placed.buffers, self.layout.buffer)
        made = Routine(self.sites[0], full, built, static, facts, reads, touch)
        if built.placed.arena is not None:
            self.layout.used_by(built.placed.arena, made)
        return made

    def computing(self, node: Node, changed: int | None) -> Computation:
        """The program that computes a node from leaves. `changed` is why its stored value will not do, if there is one.

        It goes with the node, and with other settings it is another.
        """
        kept = self._computing.get(node.id)
        if kept is not None and kept[0] == config.options:
            return kept[1]
        for name in self.sources(node).indices:
            since = None if changed is None else self.layout.label(changed)
            raise errors.depends_on_index(node, name, since)
        options = config.options
        routine = self.compile(Keep((node,)), {}, options=options)
        made = Computation(routine.built.placed, routine.reads, routine.touch)
        return self._computing.put(node.id, (options, made))[1]

    def show_computing(self, node: Node) -> str:
        """The code that computes a node, as text."""
        with LOWERING:
            return self.show(complete(Keep((node,))))

    def sources(self, node: Node) -> Sources:
        """What a computed node depends on."""
        found = self._sources.get(node.id)
        if found is None:
            if not self.layout.knows(node):
                self.layout.buffer(node)  # known there, it is dropped when the node is no more
            found = self._sources[node.id] = sources_of(node)
        return found

    def first_values(self, nodes: tuple[Node, ...]) -> FirstValues:
        """The initialisers of some nodes, as one program."""
        ids = tuple([node.id for node in nodes])
        return (self._first.get(ids) or self._compile_first_values(nodes, ids)) if nodes else FirstValues()

    @uninterrupted
    def _compile_first_values(self, nodes: tuple[Node, ...], ids: tuple[int, ...]) -> FirstValues:
        code = seq(*(node.init for node in nodes if node.init is not None))
        built = self._build(code, {}, dict.fromkeys(nodes, "a first value"), (), config.options)
        return self._first.put(ids, FirstValues(ids, built.placed))

    def show(self, code: Code) -> str:
        """Code in the assignment notation, tensors called as their buffers are."""
        with LOWERING:
            return Printer(code, self.layout.name).show(code)

    def _build(
        self,
        code: Code,
        static: Mapping[str, StaticIndex],
        kept: Mapping[Node, str],
        recompute: Sequence[Node],
        options: CompileOptions,
        clock: Clock | None = None,
    ) -> Built:
        """Code ready to run; a failure leaves no trace. `kept`: what is wanted after it, and why."""
        sizes = {name: index.size for name, index in static.items()}
        try:
            self._check_open()
            job = Job(self.backend, self.layout, code, sizes, kept, recompute, options)
            return gc_paused(lambda: job.build(clock or Clock()))
        except WeftError as error:
            error.origin = error.origin or user_origin()
            raise

    # Asking for work

    def admit(self, ask: Callable[[], R]) -> R:
        """Ask for something with the lock held, once nobody holds everything still."""
        while True:
            with self.lock:
                still = self._still
                if still is None or still.thread == threading.get_ident():
                    self._check_open()
                    try:
                        self._asking += 1
                        self._tidy()
                        return ask()
                    finally:
                        self._asking -= 1
            still.end.settle()

    def inside(self, site: Site) -> bool:
        """Is this a signal handler, in the middle of work of its thread, or of asking for it? Called with the lock."""
        return self._asking > 1 or site.order.interrupted()

    def _tidy(self) -> None:
        """Forget what is no more. It stays listed until it is forgotten: a signal may come in the middle."""
        dead = self.layout.dead
        while dead:
            gone = dead[0]
            self._forget(gone.what)
            if dead and dead[0] is gone:
                dead.popleft()

    def _forget(self, gone: int | Buffer) -> None:
        """A node is no more, or the arena of a routine: so is what belonged to it."""
        buffers = self.layout.drop(gone)
        if isinstance(gone, int):
            self._computing.drop(gone)
            self._sources.pop(gone, None)
        for site in self.sites:
            site.drop(gone, buffers)

    def held_still(self) -> Generator[None, None, None]:
        """Let nothing new begin and wait for what has begun, up to the `yield`; then let go.

        Not a context manager: an interrupt as it is entered would leave everything still for as long as the traceback
        is kept. Whoever drives it closes it, however it went.
        """
        with self._holding:
            before, still = self._still, _Standstill(threading.get_ident(), Event())
            try:
                with self.lock:
                    self._still = still
                    for site in self.sites:
                        site.forget()
                for site in self.sites:
                    site.settle()
                with self.lock:
                    yield
            finally:
                # Stores without calls: no signal comes before it is let go.
                self._still = before
                still.end.over = True
                still.end.finish()

    def synchronize(self) -> None:
        """Return when everything enqueued on any device is done; raise what went wrong and was not raised yet."""
        for site in self.sites:
            site.settle()
        self.admit(self._tell_all)

    def _tell_all(self) -> None:
        for site in self.sites:
            site.tell()

    def untold(self) -> list[str]:
        """What went wrong in tasks and nobody was told."""
        failures = (failure for site in self.sites for failure in site.order.failures)
        return [str(failure.tell()) for failure in failures if not failure.told]

    def finish(self) -> None:
        """Return when everything is done, whether or not another closes it meanwhile; raise what went wrong."""
        for site in self.sites:
            site.settle()
        with self.lock:
            self._tell_all()

    def close(self) -> None:
        """Finish what is enqueued, end the threads of the devices, let go of their memory."""
        with self.lock:
            if self._asking or any(site.order.interrupted() for site in self.sites):
                raise errors.inside_a_run()
        if not self.closed:
            held = self.held_still()
            try:
                next(held)
                self.closed = True
                for site in self.sites:
                    site.clear()
            finally:
                held.close()
            for site in self.sites:
                site.stop()

    def _check_open(self) -> None:
        if self.closed:
            raise errors.closed()


def _tell(doubt: WeftError, strict: bool) -> None:
    """Warn of something at the line it was written; who is strict gets an error."""
    if strict:
        raise doubt
    warn(doubt)


def _check_bound(code: Code, static: Mapping[str, StaticIndex]) -> None:
    for name, size, origin in symbols(code):
        if name not in static:
            raise WeftError(
                f"the code uses static index `{name}`, which is not among the bindings",
                origin=origin or user_origin(),
                fix=f"compile with bindings=[{name}]",
            )
        if size != static[name].size:
            raise WeftError(
                f"static index `{name}` has size {size} in the code and {static[name].size} among the bindings",
                origin=origin or user_origin(),
                fix="make the index once and use it in both places",
            )
