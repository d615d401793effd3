"""How a routine comes to run on a device: at once in the thread that calls it, in order with others, or by a queue."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from threading import get_ident
from typing import TYPE_CHECKING, NamedTuple

from weft.backends import Bindable, BoundProgram
from weft.machine import Machine
from weft.runtime.events import Event
from weft.runtime.exchange import Exchange
from weft.runtime.footprint import Footprint
from weft.runtime.hazards import DirectRun, OwnWork
from weft.runtime.ordered import broke_off, in_order, in_queue
from weft.runtime.profile import Profile, measured
from weft.runtime.queue import Queue
from weft.runtime.residency import FIRST, Claim, Mark, Moment, initial_marks, marks_of
from weft.schedule import Kernel
from weft.schedule.gpu_model import Gpu

if TYPE_CHECKING:
    from weft.runtime.device_state import DeviceState
    from weft.runtime.routine import Routine


@dataclass(frozen=True, slots=True)
class Installed:
    """A routine on a device's memory as it was when so many blocks had been replaced, and what its runs change.

    `repeats`: after a run all it reads is there for the next.
    """

    replaced: int
    program: Bindable
    bound: BoundProgram
    moment: Moment
    marks: Mapping[int, Mark]
    repeats: bool


class _Run(NamedTuple):
    """A run to come: initial values, of the nodes `started`, then the routine; what it touches and changes."""

    first: Sequence[BoundProgram]
    started: Collection[int]
    installed: Installed
    footprint: Footprint
    marks: Mapping[int, Mark]


def run_now(state: DeviceState, routine: Routine, given: Mapping[str, int], exchange: Exchange | None = None) -> None:
    """Run a routine in this thread. One that is ready, on a device with nothing to do, is a single call."""
    hazards, direct = state.hazards, None
    try:
        with state.lock:
            ready = state.ready
            if ready is not None and ready[0] is routine and not (hazards.active or hazards.failures or hazards.direct):
                now = state.residency.now
                thread = get_ident()
                direct = DirectRun()  # from here to its end there are only stores
                direct.event, direct.footprint, direct.thread = None, routine.footprint, thread
                hazards.direct = direct
        if ready is None or direct is None:
            _run_in_order(state, routine, given, exchange)
        else:
            if exchange is not None:
                exchange.hand_in(state.memory)
            ready[1].bound(given)
            if state.synchronize is not None:
                state.synchronize(state.index)
            if exchange is not None:
                exchange.take_out(state.memory)
            ready[1].moment.at = now
    except BaseException as error:
        if ready is not None and direct is not None:
            _broke_off(state, *ready, direct, error)
        raise
    finally:
        # Stores without calls, as in `in_order`.
        if direct is not None:
            if hazards.direct is direct:
                hazards.direct = None
            if direct.event is not None:
                direct.event.over = True
                direct.event.wake()


def _broke_off(
    state: DeviceState, routine: Routine, installed: Installed, direct: DirectRun, error: BaseException
) -> None:
    """A single call ended in an error: its claim is that of the run before it."""
    with state.lock:
        state.hazards.enter_direct()
        if (work := direct.event) is None:
            return  # it did not begin
        marks = state.residency.marks
        before = {key: marks[key] for key in installed.marks if key in marks}
        work.claim = Claim(state.residency, before, routine.footprint.computed)
        state.residency.claimed.update(dict.fromkeys(before, work.claim))
        broke_off(state, work, error)


def _run_in_order(state: DeviceState, routine: Routine, given: Mapping[str, int], exchange: Exchange | None) -> None:
    queue = state.queue

    def ask(work: OwnWork, claim: Claim) -> tuple[_Run, Claim]:
        state.refuse_inside()
        run = _prepare(state, routine)
        state.hazards.begin(work, run.footprint, queue.earlier())
        queue.last = work
        _claim(state, routine, run, claim)
        return run, claim

    def do(asked: tuple[_Run, Claim]) -> None:
        run, claim = asked
        for call in run.first:
            call({})
        if run.started:
            claim.keep(run.started)
        _do(state, (run.installed.bound,), given, exchange)

    state.compile_initial_values(routine.footprint.needs)
    in_order(state, ask, do)


def enqueue(
    state: DeviceState, queue: Queue, routine: Routine, given: Mapping[str, int], exchange: Exchange | None = None
) -> Event:
    """Let a queue of a device run a routine."""

    def ask() -> Event:
        state.refuse_inside()
        ready = state.ready
        run = _again(*ready) if ready is not None and ready[0] is routine else _prepare(state, routine)
        do = partial(_do, state, (*run.first, run.installed.bound), given, exchange)
        claim = partial(_claim, state, routine, run)
        return in_queue(state, queue, do, {state.hazards: run.footprint}, claim, run.started)

    state.compile_initial_values(routine.footprint.needs)
    return state.engine.admit(ask)


def profile(
    state: DeviceState,
    routine: Routine,
    kernels: Sequence[Kernel],
    given: Mapping[str, int],
    times: int,
    machine: Machine | Gpu,
) -> Profile:
    """Run a routine's kernels one by one, timed."""
    run_now(state, routine, given)  # now everything is in memory
    shown = routine.compiled.shown()
    executables = [state.engine.backend.compile((kernel,)) for kernel in kernels]

    def ask(work: OwnWork, _: Claim) -> list[BoundProgram]:
        calls = state.memory.place_all([replace(shown, program=one, first=None, checks={}) for one in executables])
        state.hazards.begin(work, routine.footprint)
        return calls

    return in_order(state, ask, lambda calls: measured(kernels, calls, given, times, machine, state.finish))


# A run to come


def _prepare(state: DeviceState, routine: Routine) -> _Run:
    """See to it that the routine finds what it needs. Nothing counts as written yet."""
    work = routine.footprint
    initial = state.residency.missing(work, lambda: routine.show("assign"))
    first = state.fill(initial)
    installed = _install(state, routine)
    if not initial.nodes:
        return _again(routine, installed)
    own, marks = initial.buffers, initial_marks(initial)
    reads = tuple(buffer for buffer in work.reads if buffer not in own)
    return _Run(first, marks, installed, Footprint(reads, (*own, *work.writes)), {**marks, **installed.marks})


def _again(routine: Routine, installed: Installed) -> _Run:
    """A run of a routine that finds all it needs."""
    return _Run((), (), installed, routine.footprint, installed.marks)


def _install(state: DeviceState, routine: Routine) -> Installed:
    """The routine on the device's memory, as long as no block is replaced."""
    found = state.installed.get(routine)
    if found is None or found.replaced != state.memory.replaced or found.program is not routine.compiled.program:
        work = routine.footprint
        bound, _ = state.memory.place(routine.compiled, writes=work.writes)
        moment = found.moment if found is not None else Moment(0)
        marks = marks_of(work, moment) if found is None else found.marks
        repeats = not work.merges and all(marks.get(one.id, FIRST)[1] for one in work.needs)
        made = Installed(state.memory.replaced, routine.compiled.program, bound, moment, marks, repeats)
        found = state.installed.put(routine, made)
    return found


def _claim(state: DeviceState, routine: Routine, run: _Run, claim: Claim) -> None:
    """What a run writes counts as written from now on; until something changes it need not be prepared again."""
    installed = run.installed
    claim.make(run.marks, routine.footprint.computed)
    installed.moment.at = state.residency.next().at
    state.ready = (routine, installed) if installed.repeats else None


def _do(state: DeviceState, calls: Sequence[BoundProgram], given: Mapping[str, int], exchange: Exchange | None) -> None:
    if exchange is not None:
        exchange.hand_in(state.memory)
    for call in calls:
        call(given)
    state.wait()
    if exchange is not None:
        exchange.take_out(state.memory)
