"""A routine: code compiled for a context, run by calling it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral
from typing import TYPE_CHECKING, NoReturn, TypeVar

from weft.assign import Code
from weft.assign.dtype_inference import show_precisions
from weft.backends import Executable
from weft.errors import WeftError
from weft.loops import Buffer, Program, show as show_loops
from weft.machine import Machine
from weft.migration_hints import not_pickled
from weft.public import public, theirs
from weft.runtime import errors
from weft.runtime.bisect import Difference, first_difference
from weft.runtime.compiled import Compiled
from weft.runtime.decisions_by_hand import decide_routine, decisions_about
from weft.runtime.exchange import Exchange
from weft.runtime.footprint import Footprint, nodes_in
from weft.runtime.profile import Profile
from weft.runtime.runs import enqueue, profile, run_now
from weft.runtime.speeds import with_measured_speeds
from weft.runtime.tune import tune_routine
from weft.runtime.tuning_report import TuningReport
from weft.runtime.values import read
from weft.schedule import (
    PASSES,
    Clock,
    Kernel,
    Pass,
    Schedule,
    as_program,
    passes_for,
    show_kernels,
    show_verdicts,
)
from weft.schedule.cost import Costs
from weft.schedule.decisions import Decisions
from weft.schedule.gpu_model import Gpu
from weft.schedule.memory.memory_plan import MemoryPlan
from weft.tensor.slices import StaticIndex

if TYPE_CHECKING:
    from weft.runtime.device_state import DeviceState
    from weft.runtime.engine import Engine
    from weft.runtime.events import Event
    from weft.runtime.queue import Queue
    from weft.tensor.tensor import Tensor

R = TypeVar("R")


@dataclass(eq=False)
class Routine:
    """Compiled code, with what it does to memory. It runs on every device of its context.

    Nothing about it changes but what it was compiled to, when tuning finds something quicker, or somebody decides.
    """

    state: DeviceState
    code: Code
    compiled: Compiled
    bindings: Mapping[str, StaticIndex]
    footprint: Footprint
    counters: tuple[StaticIndex, ...] = ()

    def __call__(self, *positions: object, **values: int) -> None:
        """Run on device 0 and return when done; every static index must be bound: `step(i=3)`."""
        try:
            if positions:
                raise self.unnamed("step(")
            standing = self.given(values) if values or self.bindings else values
            if self.counters:
                self.run(standing)
            else:  # one more call would be a tenth of a small run
                run_now(self.state, self, standing)
        except WeftError as error:
            error.__traceback__ = theirs(error.__traceback__)
            raise

    def run(self, given: Mapping[str, int], exchange: Exchange | None = None) -> None:
        """Run on device 0, with static indices that were checked."""
        if self.counters:
            self._counted(given, lambda all_given: run_now(self.state, self, all_given, exchange))
        else:
            run_now(self.state, self, given, exchange)

    def enqueue(
        self, state: DeviceState, queue: Queue, given: Mapping[str, int], exchange: Exchange | None = None
    ) -> Event:
        """Let a queue of a device run it, with static indices that were checked."""
        return self._counted(given, lambda all_given: enqueue(state, queue, self, all_given, exchange))

    def _counted(self, given: Mapping[str, int], run: Callable[[Mapping[str, int]], R]) -> R:
        """A run, given the numbers it has; if it is refused or interrupted, it does not count."""
        counters = self.engine.counters
        counted = counters.take(self.counters)
        try:
            return run({**given, **counted})
        except BaseException:
            counters.take_back(self.counters, counted)
            raise

    @public
    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise not_pickled("a routine")

    def __repr__(self) -> str:
        return f"<routine({', '.join(self.bindings)})>"

    @property
    def engine(self) -> Engine:
        """What it was compiled for."""
        return self.state.engine

    @property
    def loops(self) -> Program:
        """The program as it was lowered."""
        return self.compiled.stages.loops

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """What runs, in order."""
        return self.compiled.stages.kernels

    @property
    def program(self) -> Program:
        """The loops that run."""
        return as_program(self.kernels)

    @property
    def executable(self) -> Executable:
        return self.compiled.stages.executable

    def buffer(self, tensor: Tensor) -> Buffer:
        """The buffer that a tensor has in all stages."""
        return self.engine.layout.buffer(tensor.node)

    @public
    def show(self, stage: str) -> str:
        """A stage of the compilation as text: assignments, loops, verdicts on every buffer, kernels, source.

        Or the kernels after one of the passes in between, by its name.
        """
        called = self.engine.layout.name
        texts: dict[str, Callable[[], str]] = {
            "assign": lambda: self.engine.show(self.code),
            "loops": lambda: show_loops(self.loops),
            "virtual": lambda: show_verdicts(self.compiled.stages.schedule),
            "kernels": lambda: show_kernels(self.compiled.stages.kernels),
            "precisions": lambda: show_precisions((called(one), one.precision) for one in nodes_in(self.code)),
            "source": lambda: self.executable.source,
            **{one.name: partial(self._show_pass, one.name) for one in self._passes},
        }
        if not isinstance(stage, str) or stage not in texts:
            known = ", ".join(f'"{name}"' for name in texts)
            raise WeftError(f"there is no stage {stage!r}", fix=f"use one of {known}")
        return texts[stage]()

    @property
    def _passes(self) -> Sequence[Pass]:
        """The passes that programs go through on its backend."""
        request = self.compiled.request
        return PASSES if request is None else passes_for(request.task)

    def _show_pass(self, name: str) -> str:
        done = (show_kernels(kernels) for done, kernels in self.trace() if done == name)
        return next(done, f"`{name}` was not run: the program is not optimised")

    def trace(self) -> Iterator[tuple[str, Sequence[Kernel]]]:
        """Run the passes once more: the loops, and the kernels after every pass."""
        assert self.compiled.request is not None
        return self.compiled.request.trace()

    @public
    def bisect(self, **values: int) -> Difference | None:
        """The first pass after which the routine computes something else, on what is in memory now; None if none does.

        The kernels after every pass are interpreted and compared with the loops; at last, so is what was compiled.
        """
        buffer = self.engine.layout.buffer
        found = {buffer(node): read(self.state, node) for node in self.footprint.needs}
        kept = [buffer(node) for node in self.footprint.leaves]
        return first_difference(self.trace(), self.engine.backend, found, kept, self.standing(values))

    @public
    def memory(self) -> MemoryPlan:
        """Where its intermediate values lie: bytes, lives, what shares with what. Printed, it is a table."""
        return self._schedule.plan

    @public
    def cost(self) -> Costs:
        """Operations, bytes and their ratio, of each kernel. Printed, it is a table."""
        return Costs(self._schedule.kernels)

    def timings(self) -> Clock:
        """Where compile time went. Printed, it is a table."""
        return self.compiled.clock

    @public
    def profile(self, *, times: int = 20, machine: Machine | Gpu | None = None, **values: int) -> Profile:
        """Run it so many times and time each kernel against its bound on a machine, if none is given what runs it.

        Printed, it is a table.
        """
        if times < 1:
            raise WeftError(
                f"`profile` runs a routine once at least, not {times} times", fix="routine.profile(times=20)"
            )
        request, here = self.compiled.request, Machine.here()
        machine = machine or (request and request.options.gpu) or with_measured_speeds(here, self.engine.backend)
        return profile(self.state, self, self._schedule.kernels, self.standing(values), times, machine)

    @public
    def tune(self, *, seconds: float = 10.0, show: bool = True, **values: int) -> TuningReport:
        """Look for better schedules of its kernels for so many seconds, and use the best from now on.

        It runs on copies of what is in memory now, which it does not change. Each candidate must give the answers of
        the untuned kernel before its time counts. Ctrl-C ends it early and keeps the best. What is found is used by
        later processes without asking (`wf.config.tuned`). The report says what was tried, refused and gained.
        """
        return tune_routine(self, self.standing(values), {}, seconds, show)

    @public
    def decisions(self) -> tuple[Decisions, ...]:
        """How the loops and products of each kernel run: values that print, and that `decide` takes."""
        return decisions_about(self, self._schedule.kernels)

    @public
    def decide(self, chosen: Mapping[int, Decisions | Mapping[str, str]]) -> None:
        """Run kernels, by number, as is said from now on; what is not legal is refused, and nothing changes then.

        Loops are `i0`, `i1`, … from the top of the kernel, products `n0`, …; what is not mentioned runs as written:
        `step.decide({0: {"i0": "on threads by 64", "i1": "on vectors of 8"}, 2: {"order": "i1 i0"}})`.
        """
        decide_routine(self, chosen)

    def use(self, compiled: Compiled) -> None:
        """Run something else that does the same on the same memory, from now on."""
        with self.engine.lock:
            self.compiled = replace(compiled, arena=self.compiled.arena)
            for device in self.engine.devices:
                device.ready = None

    @property
    def _schedule(self) -> Schedule:
        schedule = self.compiled.stages.schedule
        if schedule is None:
            raise errors.not_in_kernels()
        return schedule

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """The memory it works on."""
        return self.compiled.buffers

    def given(self, values: Mapping[str, int]) -> Mapping[str, int]:
        """Where the static indices that a run is given stand, checked."""
        bindings = self.bindings
        if values.keys() != bindings.keys():
            raise self._mismatch(values)
        for name, value in values.items():
            if type(value) is not int or not 0 <= value < bindings[name].size:
                return {name: _position(index, values[name]) for name, index in bindings.items()}
        return values

    def standing(self, values: Mapping[str, int]) -> Mapping[str, int]:
        """Where all static indices stand in the next run, which is not begun."""
        return {**self.given(values), **self.engine.counters.now(self.counters)}

    def unnamed(self, call: str) -> WeftError:
        """A call gives static indices by position."""
        given = ", ".join(f"{name}=…" for name in self.bindings)
        return WeftError("static indices are given by name", fix=f"{call}{given})")

    def _mismatch(self, values: Mapping[str, int]) -> WeftError:
        for name in values:
            if name not in self.bindings:
                known = ", ".join(self.bindings) or "none"
                what = f"the routine has no static index `{name}`"
                return WeftError(what, fix=f"its indices are: {known}")
        name = next(name for name in self.bindings if name not in values)
        what = f"static index `{name}` is not bound"
        return WeftError(what, fix=f"call the routine with {name}=…")


def _position(index: StaticIndex, value: object) -> int:
    if isinstance(value, Integral) and not isinstance(value, bool) and 0 <= int(value) < index.size:
        return int(value)
    what = f"{index.name}={value} is outside the range of static index `{index.name}`"
    raise WeftError(what, fix=f"bind it to a whole number from 0 to {index.size - 1}")
