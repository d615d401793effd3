"""What the devices of a context share: a backend, a layout, a lock, and the code compiled for them."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from weft.assign import Code, Keep, Node, Stored, complete, seq, symbols
from weft.assign.check import check
from weft.assign.lint import doubts
from weft.assign.show import Printer
from weft.backends import Backend
from weft.config import config
from weft.errors import WeftError, user_origin, warn
from weft.garbage import uncollected
from weft.runtime import refuse
from weft.runtime.build import Job
from weft.runtime.built import Built
from weft.runtime.first import FirstValues
from weft.runtime.layout import Layout
from weft.runtime.process import LOWERING, watch
from weft.runtime.routine import Routine, analyse, reads_of, touch_of
from weft.runtime.site import Site
from weft.schedule import Clock, Options
from weft.shape.close import close_all
from weft.tensor.slices import StaticIndex


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
        self._computing: dict[Node, Routine] = {}
        self._first: dict[tuple[Node, ...], FirstValues] = {(): FirstValues()}
        self.sites = tuple(Site(self, index) for index in range(devices))
        watch(self)

    def __str__(self) -> str:
        count = len(self.sites)
        return f"context on {self.backend.name}, {count} device{'s' * (count > 1)}"

    # Code

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
            facts = analyse(full)
            for operand in facts.needs:
                if isinstance(operand, Stored) and operand.node in facts.written:
                    raise WeftError(
                        f"the code computes `{operand}` and also reads its stored value",
                        origin=user_origin(),
                        fix="read one of the two in a routine of its own",
                    )
            close_all(node.shape for node in facts.touched)
            _check_bound(full, static)
            check(full)
            for doubt in doubts(full):
                _tell(doubt)
        built = self._build(full, static, dict(facts.kept), recompute, clock, options)
        reads = reads_of(facts, self.layout.buffer)
        touch = touch_of(facts, reads, built.placed.buffers, self.layout.buffer)
        return Routine(self.sites[0], full, built, static, facts, reads, touch)

    def computing(self, node: Node) -> Routine:
        """The routine that computes a node from leaves."""
        if node not in self._computing:
            with LOWERING:
                code = complete(Keep((node,)))
                for name, _, _ in symbols(code):
                    raise refuse.depends_on_index(node, name)
            self._computing[node] = self.compile(code, {})
        return self._computing[node]

    def first_values(self, nodes: tuple[Node, ...]) -> FirstValues:
        """The initialisers of some nodes, as one program."""
        if nodes not in self._first:
            code = seq(*(node.init for node in nodes if node.init is not None))
            built = self._build(code, {}, dict.fromkeys(nodes, "a first value"))
            self._first[nodes] = FirstValues(nodes, built.placed)
        return self._first[nodes]

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
            with uncollected():
                return job.build(clock or Clock())
        except WeftError as error:
            error.origin = error.origin or user_origin()
            raise

    # Asking for work

    def admit(self) -> None:
        """Go on once nobody holds everything still. Called with the lock held, which is let go meanwhile."""
        while self._still is not None and self._still != threading.get_ident():
            self._gate.wait()
        self._check_open()

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
