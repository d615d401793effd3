"""From code to something that runs: found again if it was built before, else lowered, cut into kernels and compiled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from weft.assign import Code, Fingerprint, Node, lower
from weft.backends import Backend, Lasting, Placing, Played
from weft.loops import Buffer, Program, check
from weft.optimise.wide_sums import widened
from weft.runtime import errors
from weft.runtime.compiled import Built, Check, Placed, Stages
from weft.runtime.fork import LOWERING
from weft.runtime.layout import Layout
from weft.runtime.routine_cache import Recalled, key_of, recall, remember
from weft.schedule import Clock, CompileOptions, Kernel, Schedule, Task, as_kernels, as_program, schedule, stages


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """Code to be built, and what is wanted of it.

    `sizes` are those of static indices; `kept` says of nodes why they must be stored afterwards; `recompute` are nodes
    to be computed again rather than stored.
    """

    backend: Backend
    layout: Layout
    code: Code
    sizes: Mapping[str, int]
    kept: Mapping[Node, str]
    recompute: Sequence[Node]
    options: CompileOptions

    def build(self, clock: Clock) -> Built:
        """Build it; a failure leaves no trace."""
        with LOWERING:
            mark = self.layout.mark()
        try:
            with LOWERING:
                try:
                    with clock("recall"):
                        entry = self._entry() if self._fuses and isinstance(self.backend, Lasting) else None
                        found = entry.recall() if entry else None
                    if found:
                        return Built(self._placed(found), clock, self._stages_again, self.trace)
                    lowered = self._lowered(clock)
                finally:
                    mark.settle()
            made = self._stages(lowered, clock)
        except BaseException:
            mark.go_back()
            raise
        if entry:
            entry.remember(made)
        return Built(replace(made.placed, checks=self._checks), clock, lambda: made, self.trace)

    def trace(self) -> Iterator[tuple[str, Sequence[Kernel]]]:
        """Run the passes once more: the loops, one kernel for each assignment, and the kernels after every pass."""
        with LOWERING:
            lowered = self._lowered(Clock())
        yield "loops", as_kernels(lowered)
        if self._fuses:
            yield from ((name, stage.kernels) for name, stage in stages(lowered, self._task))

    @property
    def _fuses(self) -> bool:
        return self.options.optimise and self.backend.fuses

    # Found again

    def _entry(self) -> _Entry:
        """Where it is kept."""
        assert isinstance(self.backend, Lasting)
        print = Fingerprint.of(self.code, [*self.kept, *self.recompute])
        wanted = [[print.number(node) for node in nodes] for nodes in (self.kept, self.recompute)]
        key = key_of(self.backend, dict(self.sizes), wanted, self.options.key, *print.lines)
        return _Entry(key, self.backend, [self.layout.buffer(one) for one in print.numbers])

    def _placed(self, found: Recalled) -> Placed:
        arena = self.layout.arena(found.arena) if found.offsets else None
        return Placed(found.program, found.touched, tuple(self._stored), arena, found.offsets, self._checks)

    def _stages_again(self) -> Stages:
        with LOWERING:
            lowered = self._lowered(Clock())
        return self._stages(lowered, Clock())

    @property
    def _checks(self) -> dict[Buffer, Check]:
        return {self.layout.buffer(node): node.verify for node in self.kept if node.verify}

    # Made

    @property
    def _stored(self) -> dict[Buffer, str]:
        return {self.layout.buffer(node): why for node, why in self.kept.items()}

    def _lowered(self, clock: Clock) -> Program:
        with clock("loops"):
            return check(lower(self.code, self.layout.buffer, self.sizes), self.sizes)

    def _stages(self, lowered: Program, clock: Clock) -> Stages:
        planned = self._scheduled(lowered, clock) if self._fuses else None
        kernels = planned.kernels if planned else self._plain(lowered)
        check(as_program(kernels), self.sizes)
        arena = self.layout.arena(planned.plan.size) if planned and planned.plan.offsets else None
        with clock("compile"):
            executable = self.backend.compile(kernels)
        return Stages(lowered, kernels, planned, executable, tuple(self._stored), arena)

    def _plain(self, lowered: Program) -> tuple[Kernel, ...]:
        """What runs where nothing is optimised: long sums are exact all the same."""
        kernels = as_kernels(lowered)
        wide = self.backend.fuses
        return (
            tuple(replace(one, body=widened(one.body, self.options.single_terms)) for one in kernels)
            if wide
            else kernels
        )

    @property
    def _task(self) -> Task:
        return Task(
            self._stored,
            self.sizes,
            [self.layout.buffer(node) for node in self.recompute],
            self.backend.places if isinstance(self.backend, Placing) else (),
            self.options,
        )

    def _scheduled(self, lowered: Program, clock: Clock) -> Schedule:
        task = self._task
        found = schedule(lowered, task, clock=clock)
        for buffer in task.recompute:
            verdict = found.verdicts.get(buffer)
            if verdict is None or verdict.stored:
                raise errors.not_recomputed(buffer.name, verdict.why if verdict else "the code does not use it")
        return found


@dataclass(frozen=True, slots=True)
class _Entry:
    """A place on disk for how a job's code runs, and the buffers of its tensors, by number."""

    key: str
    backend: Lasting
    tensors: Sequence[Buffer]

    def recall(self) -> Recalled | None:
        return recall(self.key, self.backend, self.tensors)

    def remember(self, stages: Stages) -> None:
        if stages.schedule and isinstance(stages.executable, Played):
            plan = stages.schedule.plan
            remember(self.key, stages.executable.calls, plan.size, plan.offsets, self.tensors)
