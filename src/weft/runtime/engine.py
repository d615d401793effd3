"""What the devices of a context share: a backend, a layout, a lock, and the code compiled for them."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

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
from weft.config import Chosen, config
from weft.errors import WeftError, user_origin, warn
from weft.garbage import uncollected
from weft.loops import Buffer
from weft.runtime import refuse
from weft.runtime.build import Job
from weft.runtime.built import Built, Placed
from weft.runtime.facts import Reads, analyse, reads_of, touch_of
from weft.runtime.first import FirstValues
from weft.runtime.layout import Layout
from weft.runtime.order import Touch
from weft.runtime.process import LOWERING, uninterrupted, watch
from weft.runtime.recent import Recent
from weft.runtime.routine import Routine
from weft.runtime.site import Site
from weft.runtime.sources import Sources, sources_of
from weft.schedule import Clock, Options
from weft.shape.close import close_all
from weft.tensor.slices import StaticIndex

#: So many programs that compute single tensors are kept, and so many that compute first values.
_COMPUTING, _FIRST = 256, 32


@dataclass(frozen=True, slots=True)
class Computation:
    """A program that computes one tensor from leaves. It does not keep that tensor alive."""

    placed: Placed
    reads: Reads
    touch: Touch


class Engine:
    """Compiles for some devices, and lets one thread at a time ask them for work."""

    def __init__(self, backend: Backend, devices: int) -> None:
        self.backend = backend
        self.layout = Layout()
        self.lock = threading.RLock()
        self._gate = threading.Condition(self.lock)
        self._holding = threading.Lock()
        self._still: int | None = None  # the thread that holds everything still
        self.closed = False
        self._computing: Recent[int, tuple[Chosen, Computation]] = Recent(_COMPUTING)
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
        options: Options | None = None,
    ) -> Routine:
        """Code as a routine. Others can compile while the backend does."""
        clock = Clock()
        with LOWERING, clock("shapes"):
            full = complete(seq(code, Keep(kept)))
            touched = (one for statement in statements(full) for one in (target(statement), *operands_of(statement)))
            close_all(node.shape for node in dict.fromkeys(map(node_of, touched)))
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
                _tell(doubt)
        built = self._build(full, static, dict(facts.kept), recompute, clock, options)
        reads = reads_of(facts, self.layout.buffer)
        touch = touch_of(facts, reads, built.placed.buffers, self.layout.buffer)
        made = Routine(self.sites[0], full, built, static, facts, reads, touch)
        if built.placed.arena is not None:
            weakref.finalize(made, self.layout.dead.append, built.placed.arena).atexit = False
        return made

    def computing(self, node: Node, changed: int | None) -> Computation:
        """The program that computes a node from leaves. `changed` is why its stored value will not do, if there is one.

        It goes with the node, and with other settings it is another.
        """
        kept = self._computing.get(node.id)
        if kept is not None and kept[0] == config.chosen:
            return kept[1]
        for name in self.sources(node).indices:
            since = None if changed is None else self.layout.label(changed)
            raise refuse.depends_on_index(node, name, since)
        chosen = config.chosen
        routine = self.compile(Keep((node,)), {})
        made = Computation(routine.built.placed, routine.reads, routine.touch)
        return self._computing.put(node.id, (chosen, made))[1]

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
        built = self._build(code, {}, dict.fromkeys(nodes, "a first value"))
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
        recompute: Sequence[Node] = (),
        clock: Clock | None = None,
        options: Options | None = None,
    ) -> Built:
        """Code ready to run; a failure leaves no trace. `kept`: what is wanted after it, and why."""
        sizes = {name: index.size for name, index in static.items()}
        try:
            self._check_open()
            job = Job(self.backend, self.layout, code, sizes, kept, recompute, options=options or Options())
            return uncollected(lambda: job.build(clock or Clock()))
        except WeftError as error:
            error.origin = error.origin or user_origin()
            raise

    # Asking for work

    def admit(self) -> None:
        """Go on once nobody holds everything still. Called with the lock held, which is let go meanwhile."""
        while self._still is not None and self._still != threading.get_ident():
            self._gate.wait()
        self._check_open()
        while self.layout.dead:
            self._forget(self.layout.dead.popleft())

    def _forget(self, gone: int | Buffer) -> None:
        """A node is no more, or the arena of a routine: so is what belonged to it."""
        if isinstance(gone, Buffer):
            for site in self.sites:
                site.order.uses.pop(gone, None)
            return
        buffers = self.layout.drop(gone)
        self._computing.drop(gone)
        self._sources.pop(gone, None)
        for site in self.sites:
            site.drop(gone, buffers)

    @contextmanager
    def held_still(self) -> Iterator[None]:
        """Let nothing new begin, and wait for what has begun."""
        with self._holding:
            with self.lock:
                self._still = threading.get_ident()
                for site in self.sites:
                    site.forget()
            try:
                for site in self.sites:
                    site.settle()
                with self.lock:
                    yield
            finally:
                with self._gate:
                    self._still = None
                    self._gate.notify_all()

    def synchronize(self) -> None:
        """Return when everything enqueued on any device is done; raise what went wrong and was not raised yet."""
        for site in self.sites:
            site.settle()
        with self.lock:
            self.admit()
            for site in self.sites:
                site.tell()

    def untold(self) -> list[str]:
        """What went wrong in tasks and nobody was told."""
        failures = (failure for site in self.sites for failure in site.order.failures)
        return [str(failure.tell()) for failure in failures if not failure.told]

    def close(self) -> None:
        """Finish what is enqueued, end the threads of the devices, let go of their memory."""
        if not self.closed:
            with self.held_still():
                self.closed = True
                for site in self.sites:
                    site.clear()
            for site in self.sites:
                site.stop()

    def _check_open(self) -> None:
        if self.closed:
            raise refuse.closed()


def _tell(doubt: WeftError) -> None:
    """Warn of something at the line it was written; who is strict gets an error."""
    if config.strict:
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
