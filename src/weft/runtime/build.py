"""From code to something that runs: found again if it was compiled before, else lowered, cut into kernels, compiled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from weft.assign import Code, Fingerprint, Node, lower
from weft.backends import Backend, Bindable, Lasting, Placing, Played
from weft.loops import Buffer, Program, check
from weft.optimise.round_factors import with_rounded_factors
from weft.runtime import errors
from weft.runtime.compiled import Compiled, RunCheck, Stages
from weft.runtime.crashes import as_compiled, compiled
from weft.runtime.fork import LOWERING
from weft.runtime.layout import Layout
from weft.runtime.routine_cache import halved, key_of, recall, remember
from weft.schedule import (
    Clock,
    CompileOptions,
    Kernel,
    Pass,
    Schedule,
    Task,
    as_kernels,
    passes_for,
    schedule,
    stages,
)
from weft.schedule.hoist_checks import checking, hoisted_checks
from weft.schedule.kernel_templates import check_kernels, touched
from weft.schedule.stage import Stage
from weft.schedule.tuning.subjects import after_decisions, before_decisions
from weft.schedule.tuning.tuned import Tuned


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """Code to be compiled, and what is wanted of it.

    `sizes` are those of static indices; `kept` says of nodes why they must be stored afterwards; `recompute` are nodes
    to be computed again rather than stored; `tuned` is what tuning found when it was asked for.
    """

    backend: Backend
    layout: Layout
    code: Code
    sizes: Mapping[str, int]
    kept: Mapping[Node, str]
    recompute: Sequence[Node]
    options: CompileOptions
    tuned: Tuned = field(default_factory=Tuned)

    def compiled(self, clock: Clock) -> Compiled:
        """Compile it; a failure leaves no trace."""
        key, tensors = "", list[Buffer]()
        with LOWERING:
            savepoint = self.layout.savepoint()
        try:
            with LOWERING:
                try:
                    if self.fuses and isinstance(self.backend, Lasting):
                        with clock("recall"):
                            key, tensors = self._key(self.backend)
                            found = recall(key, self.backend, tensors, self.layout.arena)
                        if found is not None:
                            return self._wanted(found, clock)
                    lowered, task = self._lowered(clock), self.task
                finally:
                    savepoint.settle()
            made = self.placed(self._stages(lowered, task, clock), clock)
        except BaseException:
            savepoint.go_back()
            raise
        if key:
            _remember(key, made, tensors)
        return made

    def stages(self) -> Stages:
        """The stages, made once more."""
        with LOWERING:
            lowered = self._lowered(Clock())
        return self._stages(lowered, self.task, Clock())

    def trace(self) -> Iterator[tuple[str, Sequence[Kernel]]]:
        """Run the passes once more: the loops, one kernel for each assignment, and the kernels after every pass."""
        with LOWERING:
            lowered = self._lowered(Clock())
        yield "loops", as_kernels(lowered)
        yield from ((name, stage.kernels) for name, stage in stages(lowered, self.task, passes=self.passes))

    def undecided(self) -> tuple[Program, Stage]:
        """The loops, and the kernels before anything is decided about how those run."""
        with LOWERING:
            lowered = self._lowered(Clock())
        return lowered, before_decisions(lowered, self.task)

    def decided(self, loops: Program, stage: Stage) -> Compiled:
        """Compile it from kernels of which nothing is decided, so that what tuning found is, and keep that."""
        last = after_decisions(stage, self.task)
        assert last.plan is not None
        check_kernels(last.kernels, self.sizes)
        planned = Schedule(last.kernels, last.verdicts, last.plan)
        made = self.placed(self._compiled(loops, last.kernels, planned), Clock())
        if isinstance(self.backend, Lasting):
            with LOWERING:
                key, tensors = self._key(self.backend)
            _remember(key, made, tensors)
        return made

    @property
    def fuses(self) -> bool:
        """Is it cut into kernels?"""
        return self.options.optimise and self.backend.fuses

    @property
    def passes(self) -> tuple[Pass, ...]:
        """What happens between loops and kernels. The oracle runs loops as they are."""
        return passes_for(self.task, optimising=self.fuses) if self.backend.fuses else ()

    def _key(self, backend: Lasting) -> tuple[str, list[Buffer]]:
        """What it is kept under, and the buffers of its tensors, by number."""
        code = Fingerprint.of(self.code, [*self.kept, *self.recompute])
        wanted = [[code.number(node) for node in nodes] for nodes in (self.kept, self.recompute)]
        key = key_of(backend, dict(self.sizes), wanted, self.options.key, self.tuned.identity, *code.lines)
        return key, [self.layout.buffer(one) for one in code.numbers]

    def placed(self, made: Stages, clock: Clock) -> Compiled:
        """Stages as something that runs, with memory for what lies between kernels."""
        offsets = made.schedule.plan.offsets if made.schedule else {}
        arena = self.layout.arena(made.schedule.plan.size) if made.schedule and offsets else None
        used = tuple(dict.fromkeys(buffer for own in touched(made.kernels) for buffer in own))
        when = checking(made.kernels, tuple(self._checks), self._lasting)
        first, program = self._halves(made, when.kernels)
        return self._wanted(Compiled(program, used, arena, offsets, first=first, checking=when, made=made), clock)

    def _halves(self, made: Stages, count: int) -> tuple[Bindable | None, Bindable]:
        """What runs before what it found is checked, if anything does, and what runs then."""
        if not count:
            return None, made.executable
        if isinstance(self.backend, Lasting) and isinstance(made.executable, Played):
            halves = [self.backend.recall(one) for one in halved(made.executable.calls, count)]
            if halves[0] is not None and halves[1] is not None:
                return halves[0], halves[1]
        first, rest = (self.backend.compile(one) for one in halved(made.kernels, count))
        return first, rest

    def _wanted(self, found: Compiled, clock: Clock) -> Compiled:
        """What was compiled, with what is wanted of it."""
        return replace(
            found, kept=tuple(self._kept), checks=self._checks, lasting=self._lasting, clock=clock, request=self
        )

    @property
    def _checks(self) -> dict[Buffer, RunCheck]:
        """What is to be checked, and what helps to say what is wrong with it."""
        checks = {self.layout.buffer(node): node.check for node in self.kept if node.check is not None}
        return {buffer: RunCheck(check, self.layout) for buffer, check in checks.items()}

    @property
    def _lasting(self) -> tuple[Buffer, ...]:
        """What a run that may be refused must not have written then: what nobody can compute again."""
        if all(node.check is None for node in self.kept):
            return ()
        lasting = (node for node in self.kept if node.definition is None and node.check is None)
        return tuple(self.layout.buffer(node) for node in lasting)

    @property
    def _kept(self) -> dict[Buffer, str]:
        return {self.layout.buffer(node): why for node, why in self.kept.items()}

    def _lowered(self, clock: Clock) -> Program:
        with clock("loops"):
            lowered = lower(self.code, self.layout.buffer, self.sizes)
            if self.options.factors:
                lowered = with_rounded_factors(lowered, self.options.factors)
            return check(lowered, self.sizes)

    def _stages(self, lowered: Program, task: Task, clock: Clock) -> Stages:
        planned = self._scheduled(lowered, task, clock) if self.fuses else None
        kernels = planned.kernels if planned else self._unoptimised(lowered, task, clock)
        check_kernels(kernels, self.sizes)
        with clock("compile"):
            return self._compiled(lowered, kernels, planned)

    def _compiled(self, lowered: Program, kernels: tuple[Kernel, ...], planned: Schedule | None) -> Stages:
        """All stages, the last of them with kernels as the backend could compile them."""
        found, executable = compiled(self.backend, kernels)
        if found is not kernels and planned is not None:
            planned = as_compiled(planned, found)
        return Stages(lowered, found, planned, executable, found is kernels)

    def _unoptimised(self, lowered: Program, task: Task, clock: Clock) -> tuple[Kernel, ...]:
        """Every assignment as a kernel of its own."""
        kernels = hoisted_checks(as_kernels(lowered), task.checked, task.lasting)
        for _, stage in stages(lowered, task, passes=self.passes, clock=clock):
            kernels = stage.kernels
        return kernels

    @property
    def task(self) -> Task:
        """What is asked of the passes."""
        recompute = tuple(self.layout.buffer(node) for node in self.recompute)
        places = self.backend.places if isinstance(self.backend, Placing) else frozenset[type]()
        return Task(
            *(self._kept, self.sizes, recompute, places, self.options, self.tuned.best),
            checked=tuple(self._checks),
            lasting=self._lasting,
        )

    def _scheduled(self, lowered: Program, task: Task, clock: Clock) -> Schedule:
        found = schedule(lowered, task, clock=clock)
        for buffer in task.recompute:
            verdict = found.verdicts.get(buffer)
            if verdict is None or verdict.stored:
                raise errors.not_recomputed(buffer.name, verdict.why if verdict else "the code does not use it")
        return found


def _remember(key: str, made: Compiled, tensors: Sequence[Buffer]) -> None:
    """Keep how something runs, unless it does not run as it was scheduled: the next process tries that again."""
    executable = made.stages.executable
    if isinstance(executable, Played) and made.stages.as_scheduled:
        remember(key, made, executable.calls, tensors)
