"""A routine: code compiled for a context, run by calling it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from numbers import Integral
from typing import TYPE_CHECKING

from weft.assign import Code
from weft.assign.dtype_inference import show_precisions
from weft.backends import Executable
from weft.errors import WeftError, user_origin
from weft.loops import Buffer, Program
from weft.loops import show as show_loops
from weft.machine import Machine
from weft.public import public, theirs
from weft.runtime.bisect import Difference, first_difference
from weft.runtime.compiled import Built
from weft.runtime.facts import Facts, Reads
from weft.runtime.hazards import Touch
from weft.runtime.profile import Profile
from weft.schedule import PASSES, Clock, Schedule, as_program, show_kernels, show_verdicts
from weft.schedule.cost import Costs
from weft.schedule.memory import Plan
from weft.tensor.slices import StaticIndex

if TYPE_CHECKING:
    from weft.runtime.device_state import Site


@dataclass(frozen=True, eq=False)
class Routine:
    """Compiled code, with what it does to memory. It runs on every device of its context."""

    site: Site
    code: Code
    built: Built
    bindings: Mapping[str, StaticIndex]
    facts: Facts
    reads: Reads
    touch: Touch

    def __call__(self, *positions: object, **values: int) -> None:
        """Run on device 0 and return when done; every static index must be bound: `step(i=3)`."""
        try:
            if positions:
                given = ", ".join(f"{name}=…" for name in self.bindings)
                raise WeftError("static indices are given by name", origin=user_origin(), fix=f"step({given})")
            self.site.run_now(self, self.given(values) if values or self.bindings else values)
        except WeftError as error:
            error.__traceback__ = theirs(error.__traceback__)
            raise

    def __repr__(self) -> str:
        return f"<routine({', '.join(self.bindings)})>"

    @property
    def program(self) -> Program:
        """The loops that run."""
        return as_program(self.built.stages.kernels)

    @property
    def executable(self) -> Executable:
        return self.built.stages.executable

    @public
    def show(self, stage: str) -> str:
        """A stage of the compilation as text: assignments, loops, verdicts on every buffer, kernels, source.

        Or the kernels after one of the passes in between, by its name.
        """
        texts: dict[str, Callable[[], str]] = {
            "assign": lambda: self.site.engine.show(self.code),
            "loops": lambda: show_loops(self.built.stages.loops),
            "virtual": lambda: show_verdicts(self.built.stages.schedule),
            "kernels": lambda: show_kernels(self.built.stages.schedule),
            "precisions": lambda: show_precisions(self.facts.touched, self.site.engine.layout.name),
            "source": lambda: self.executable.source,
            **{one.name: partial(self._show_pass, one.name) for one in PASSES},
        }
        if not isinstance(stage, str) or stage not in texts:
            known = ", ".join(f'"{name}"' for name in texts)
            raise WeftError(f"there is no stage {stage!r}", origin=user_origin(), fix=f"use one of {known}")
        return texts[stage]()

    def _show_pass(self, name: str) -> str:
        schedule = self.built.stages.schedule
        if schedule is None:
            return show_kernels(schedule)
        return show_kernels(next(kernels for done, kernels in self.built.trace() if done == name))

    @public
    def bisect(self, **values: int) -> Difference | None:
        """The first pass after which the routine computes something else, on what is in memory now; None if none does.

        The kernels after every pass are interpreted and compared with the loops; at last, so is what was compiled.
        """
        buffer = self.site.engine.layout.buffer
        found = {buffer(node): self.site.read(node) for node in self.reads.nodes}
        kept = [buffer(node) for node in self.facts.kept]
        return first_difference(self.built.trace(), self.site.engine.backend, found, kept, self.given(values))

    @public
    def memory(self) -> Plan:
        """Where its intermediate values lie: bytes, lives, what shares with what. Printed, it is a table."""
        return self._schedule.plan

    @public
    def cost(self) -> Costs:
        """Operations, bytes and their ratio, of each kernel. Printed, it is a table."""
        return Costs(self._schedule.kernels)

    def timings(self) -> Clock:
        """Where compile time went. Printed, it is a table."""
        return self.built.clock

    @public
    def profile(self, *, times: int = 20, machine: Machine | None = None, **values: int) -> Profile:
        """Run it so many times and time each kernel against its bound on a machine, this one if none is given.

        Printed, it is a table.
        """
        machine = machine or Machine.here().measured()
        return self.site.profile(self, self._schedule.kernels, self.given(values), times, machine)

    @property
    def _schedule(self) -> Schedule:
        schedule = self.built.stages.schedule
        if schedule is None:
            raise WeftError(
                "the routine is not cut into kernels",
                origin=user_origin(),
                fix='compile it for a backend that is, such as wf.Context("cc"), with wf.config.optimise',
            )
        return schedule

    @cached_property
    def buffers(self) -> tuple[Buffer, ...]:
        """The memory it works on."""
        return self.built.placed.buffers

    def given(self, values: Mapping[str, int]) -> Mapping[str, int]:
        """Where the static indices stand, checked."""
        bindings = self.bindings
        if values.keys() != bindings.keys():
            raise self._mismatch(values)
        for name, value in values.items():
            if type(value) is not int or not 0 <= value < bindings[name].size:
                return {name: _position(index, values[name]) for name, index in bindings.items()}
        return values

    def _mismatch(self, values: Mapping[str, int]) -> WeftError:
        for name in values:
            if name not in self.bindings:
                known = ", ".join(self.bindings) or "none"
                what = f"the routine has no static index `{name}`"
                return WeftError(what, origin=user_origin(), fix=f"its indices are: {known}")
        name = next(name for name in self.bindings if name not in values)
        what = f"static index `{name}` is not bound"
        return WeftError(what, origin=user_origin(), fix=f"call the routine with {name}=…")


def _position(index: StaticIndex, value: object) -> int:
    if isinstance(value, Integral) and not isinstance(value, bool) and 0 <= int(value) < index.size:
        return int(value)
    raise WeftError(
        f"{index.name}={value} is outside the range of static index `{index.name}`",
        origin=user_origin(),
        fix=f"bind it to a whole number from 0 to {index.size - 1}",
    )
