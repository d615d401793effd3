"""What the devices of a context share: a backend, a layout, a lock, and the code compiled for them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from weft.assign import Awaited, Code, Keep, Node, complete, seq, symbols
from weft.assign.check import check
from weft.assign.definitions import initial
from weft.assign.lint import doubts
from weft.assign.nodes import Symbol
from weft.assign.show import Printer
from weft.backends import Backend, DescribingGpu, Pooling
from weft.config import config
from weft.errors import Origin, WeftError, user_origin, warn
from weft.gc_pause import gc_paused
from weft.loops import Buffer
from weft.runtime import errors
from weft.runtime.build import Request
from weft.runtime.compiled import Compiled
from weft.runtime.counters import Counters
from weft.runtime.device_state import DeviceState
from weft.runtime.events import Event
from weft.runtime.footprint import Footprint, footprint_of, nodes_in
from weft.runtime.fork import LOWERING, uninterrupted, watch
from weft.runtime.layout import Layout
from weft.runtime.lru import LRU
from weft.runtime.memory import DeviceMemory
from weft.runtime.pure_function import PureFunction
from weft.runtime.routine import Routine
from weft.runtime.sources import Sources, sources_of
from weft.schedule import Clock, CompileOptions
from weft.schedule.tuning.tuned import Tuned, tuned
from weft.shape.close import close_all
from weft.tensor.slices import StaticIndex

R = TypeVar("R")


#: Static indices that code uses, and where.
_Used: TypeAlias = Sequence[tuple[Symbol, Origin | None]]
#: A program that computes one tensor from leaves, what it finds, its counters. It does not keep that tensor alive.
Computation: TypeAlias = tuple[Compiled, Footprint, tuple[StaticIndex, ...]]


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
        self.asking = 0  # so many pieces of work the thread that has the lock is asking for: a handler asks inside
        self.closed = False
        self._computing: LRU[int, tuple[CompileOptions, Computation]] = LRU(config.options.kept_programs)
        self._initial: LRU[tuple[int, ...], Compiled] = LRU(config.options.kept_programs)
        self._sources: dict[int, Sources] = {}
        self.counters = Counters()
        self.devices = tuple(DeviceState(self, index) for index in range(devices))
        watch(self)

    def __str__(self) -> str:
        count = len(self.devices)
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
        inputs: tuple[Node, ...] = (),
    ) -> Routine:
        """Code as a routine, for calls that hand some inputs in. Others can compile while the backend does."""
        clock, options = Clock(), options or config.options
        with LOWERING, clock("shapes"):
            full = complete(seq(code, Keep(kept)))
            touched = nodes_in(full)
            for node in touched:
                if isinstance(node.init, Awaited) and node not in inputs:
                    raise errors.not_handed_in(node)
            for node in kept:
                if node.is_grad and node not in touched:
                    raise errors.nothing_to_keep(node)
            close_all(node.shape for node in touched)
            footprint = footprint_of(full).without(inputs)
            used = list(symbols(full))
            counters = _counters(used, static)
            indices = {**static, **counters}
            _check_bound(used, indices)
            check(full)
            for doubt in doubts(full):
                _tell(doubt, options.strict)
        compiled = self._compiled(full, indices, footprint.leaves, recompute, options, clock)
        placed = footprint.placed(self.layout.buffer, compiled.buffers)
        made = Routine(self.devices[0], full, compiled, static, placed, tuple(counters.values()))
        if compiled.arena is not None:
            self.layout.used_by(compiled.arena, made)
        return made

    def pure_function(
        self, code: Code, inputs: Sequence[Node], outputs: Sequence[Node], options: CompileOptions | None = None
    ) -> PureFunction:
        """Code as a function of arrays, which works in memory of its own."""
        full = complete(seq(code, Keep(tuple(outputs))), inputs)
        routine = self.compile(full, {}, tuple(outputs), options=options)
        buffers = ([self.layout.buffer(node) for node in nodes] for nodes in (inputs, outputs))
        return PureFunction(routine, self.backend, DeviceMemory(self.backend, 0, self.layout.origin), *buffers)

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
        made = (routine.compiled.alone(), routine.footprint.found(), routine.counters)
        return self._computing.put(node.id, (options, made))[1]

    def show_computing(self, node: Node) -> str:
        """The code that computes a node, as text."""
        with LOWERING:
            return self.show(complete(Keep((node,))))

    def sources(self, node: Node) -> Sources:
        """What a computed node depends on."""
        found = self._sources.get(node.id)
        if found is None:
            made = sources_of(node)
            if not self.layout.knows(node):
                self.layout.buffer(node)  # known there, it is dropped when the node is no more
            found = self._sources[node.id] = made
        return found

    def initial_program(self, nodes: tuple[Node, ...]) -> Compiled | None:
        """The initialisers of some nodes, as one program; None if there are none."""
        ids = tuple([node.id for node in nodes])
        return (self._initial.get(ids) or self._compile_initial(nodes, ids)) if nodes else None

    @uninterrupted
    def _compile_initial(self, nodes: tuple[Node, ...], ids: tuple[int, ...]) -> Compiled:
        code = seq(*map(initial, nodes))
        made = self._compiled(code, {}, dict.fromkeys(nodes, "a first value"), (), config.options)
        return self._initial.put(ids, made.alone())

    def show(self, code: Code) -> str:
        """Code in the assignment notation, tensors called as their buffers are."""
        with LOWERING:
            return Printer(code, self.layout.name).show(code)

    def _compiled(
        self,
        code: Code,
        static: Mapping[str, StaticIndex],
        kept: Mapping[Node, str],
        recompute: Sequence[Node],
        options: CompileOptions,
        clock: Clock | None = None,
    ) -> Compiled:
        """Code ready to run; a failure leaves no trace. `kept`: what is wanted after it, and why."""
        sizes = {name: index.size for name, index in static.items()}
        try:
            self._check_open()
            if options.gpu is None and isinstance(self.backend, DescribingGpu):
                options = options.but(gpu=self.backend.described)
            found = tuned(options.tuned, options.timed_on) if not options.schedule.annotates else Tuned()
            request = Request(self.backend, self.layout, code, sizes, kept, recompute, options, found)
            return gc_paused(lambda: request.compiled(clock or Clock()))
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
                        self.asking += 1
                        self._tidy()
                        return ask()
                    finally:
                        self.asking -= 1
            still.end.settle()

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
        for device in self.devices:
            device.drop(gone, buffers)

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
                    for device in self.devices:
                        device.ready = None
                for device in self.devices:
                    device.settle()
                with self.lock:
                    yield
            finally:
                # Stores without calls: no signal comes before it is let go.
                self._still = before
                still.end.over = True
                still.end.finish()

    def synchronize(self) -> None:
        """Return when everything enqueued on any device is done; raise what went wrong and was not raised yet."""
        for device in self.devices:
            device.settle()
        self.admit(self._tell_all)

    def _tell_all(self) -> None:
        for device in self.devices:
            device.tell()

    def untold(self) -> list[str]:
        """What went wrong in tasks and nobody was told."""
        failures = (failure for device in self.devices for failure in device.hazards.failures)
        return [str(failure.tell()) for failure in failures if not failure.told]

    def finish(self) -> None:
        """Return when everything is done, whether or not another closes it meanwhile; raise what went wrong."""
        for device in self.devices:
            device.settle()
        with self.lock:
            self._tell_all()

    def close(self) -> None:
        """Finish what is enqueued, end the threads of the devices, let go of their memory."""
        with self.lock:
            if self.asking or any(device.hazards.own() is not None for device in self.devices):
                raise errors.inside_a_run()
        if not self.closed:
            held = self.held_still()
            try:
                next(held)
                self.closed = True
                for device in self.devices:
                    device.clear()
                    if isinstance(self.backend, Pooling):
                        self.backend.release(device.index)
            finally:
                held.close()
            for device in self.devices:
                device.stop()

    def _check_open(self) -> None:
        if self.closed:
            raise errors.closed()


def _tell(doubt: WeftError, strict: bool) -> None:
    """Warn of something at the line it was written; who is strict gets an error."""
    if strict:
        raise doubt
    warn(doubt)


def _counters(used: _Used, static: Mapping[str, StaticIndex]) -> dict[str, StaticIndex]:
    """The static indices of code that count; whoever lists one among the bindings counts himself."""
    found = (StaticIndex(one.name, one.size, True) for one, _ in used if one.counts)
    return {one.name: one for one in found if one.name not in static}


def _check_bound(used: _Used, static: Mapping[str, StaticIndex]) -> None:
    for symbol, origin in used:
        name, size = symbol.name, symbol.size
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
