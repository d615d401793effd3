"""The search of a tuning: schedules of a routine's kernels are tried on memory of its own, checked, and timed.

Each kernel begins at the best that is known. Candidates (`schedule/tuning/search.py`) are compiled a few at a time.
One whose answers are not those of the untuned kernel is refused before it is timed; one that is clearly quicker than
the best so far, in rounds in which both run in turns (`interleaved_timing.py`), is the best from then on. Kernels
that take longest, and are farthest from what the machine could do, are tried most.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import ceil, inf
from time import perf_counter, perf_counter_ns

from weft.backends import Array, BoundProgram
from weft.errors import WeftError
from weft.loops import Buffer, MalformedLoops
from weft.runtime.build import Request
from weft.runtime.compiled import Compiled
from weft.runtime.interleaved_timing import CLEARLY, Sample, raced, rounds
from weft.runtime.speeds import with_measured_speeds
from weft.runtime.tuning_report import Display, TunedKernel
from weft.runtime.workbench import Trial, Workbench
from weft.schedule import Kernel
from weft.schedule.cost import assignments, cost, roofline
from weft.schedule.decisions import Decisions
from weft.schedule.gpu.gpu_roofline import gpu_bound
from weft.schedule.tuning.search import Search
from weft.schedule.tuning.subjects import Subject, after_decisions, subjects
from weft.schedule.tuning.tuned import Found, Tuned, machine_key

#: So many candidates are compiled at a time, if there is time for it: about so long for each.
_GENERATION, _COMPILE_S = 8, 0.1
#: Where candidates did not help, what could still be gained counts so much less.
_FRUITLESS = 0.7
#: What all kernels together could still gain, relative to the whole, to go on.
_WORTH_IT = 0.01
_FEW = 5


@dataclass(slots=True)
class _Tuning:
    """A kernel and what is known of it: what it runs with at first, and the best so far, each as it is called."""

    subject: Subject
    search: Search
    bound: float
    first: Decisions
    best: Decisions
    #: What is known but does not run: it is tried however little time there is.
    unproven: list[Decisions]
    calls: dict[Decisions, BoundProgram]
    #: The last candidates as kernels.
    made: dict[Decisions, Kernel]
    #: The best time of what it runs with at first, and what the best takes of that.
    before: float = inf
    level: float = 1.0
    tried: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    hope: float = 1.0

    @property
    def position(self) -> int:
        return self.subject.positions[0]

    @property
    def runs(self) -> int:
        return len(self.subject.positions)

    @property
    def seconds(self) -> float:
        """What the best so far takes."""
        return self.before * self.level

    @property
    def left(self) -> float:
        """The seconds of a run that could still be gained, if there is anything left to try."""
        return 0.0 if self.search.exhausted else max(self.seconds - self.bound, 0.0) * self.runs

    @property
    def potential(self) -> float:
        """The seconds that there is hope to gain."""
        return self.hope * self.left


class Tuner:
    """The kernels of a routine being tuned, on values for what it reads; `known` is what tuning has found so far."""

    def __init__(
        self,
        request: Request,
        values: Mapping[Buffer, Array],
        given: Mapping[str, int],
        known: Tuned,
    ) -> None:
        self.request, self.known = request, known
        self.loops, self.stage = request.undecided()
        assert self.stage.plan is not None
        self.bench = Workbench(request.backend, self.stage.kernels, self.stage.plan, values, given)
        found = [self.bench.runnable(one) for one in after_decisions(self.stage, request.task).kernels]
        self.now, self.running = tuple(one for one, _ in found), [call for _, call in found]
        self.kernels = [self._tuning(one) for one in subjects(self.stage, request.task)]
        self._trial: tuple[_Tuning, Trial] | None = None

    def _tuning(self, subject: Subject) -> _Tuning:
        made: dict[Decisions, Kernel] = {}
        now, later = (found.best.get(subject.key, subject.rules) for found in (self.request.tuned, self.known))
        legal = [one for one in (now, subject.rules, later) if _is_legal(subject, one, made)]
        start = list(dict.fromkeys(legal))
        search = Search(subject.knobs, lambda one: _is_legal(subject, one, made), start, perf_counter_ns())
        running = {start[0]: self.running[subject.positions[0]]}
        return _Tuning(subject, search, self._least(subject.kernel), start[0], start[0], start[1:], running, made)

    def _least(self, kernel: Kernel) -> float:
        """The least seconds that what runs a kernel needs."""
        options = self.request.options
        if options.gpu is not None:
            return gpu_bound(kernel, options.gpu)
        return roofline(cost(kernel), with_measured_speeds(options.machine, self.request.backend))

    # Searching

    def search(self, seconds: float, display: Display) -> str:
        """Look for better schedules for so long; says when it ended."""
        start = perf_counter()
        try:
            self._time_all()
            while True:
                left = seconds - (perf_counter() - start)
                open_ones = [one for one in self.kernels if one.unproven or left > 0]
                tuning = max(open_ones, key=lambda one: (bool(one.unproven), one.potential), default=None)
                if tuning is None:
                    return "when time was up"
                if not tuning.unproven and self._is_done:
                    return self._when_done
                each = _COMPILE_S + _FEW * tuning.seconds
                gained = self._improve(tuning, min(ceil(left / each), _GENERATION) if left > 0 else 0)
                spent = perf_counter() - start
                display.update(spent, sum(one.tried for one in self.kernels), self.gain)
                if gained:
                    display.gained(spent, f"{assignments(tuning.subject.kernel)}: {tuning.best}", self.gain)
        except KeyboardInterrupt:
            return "when it was interrupted"

    @property
    def seconds(self) -> float:
        """What all kernels take together."""
        return sum(one.seconds * one.runs for one in self.kernels if one.before < inf)

    @property
    def gain(self) -> float:
        """How many times as fast all kernels are together."""
        return sum(one.before * one.runs for one in self.kernels if one.before < inf) / (self.seconds or inf) or 1.0

    @property
    def _is_done(self) -> bool:
        return sum(one.left for one in self.kernels) <= _WORTH_IT * self.seconds

    @property
    def _when_done(self) -> str:
        if all(one.seconds <= one.bound for one in self.kernels):
            return "when the machine could do no more"
        return "when there was hardly anything left to try"

    def _time_all(self) -> None:
        """Run the kernels one after another as they are, and time each where it first comes."""
        first = {one.position: one for one in self.kernels}
        self.bench.begin()
        for position, call in enumerate(self.running):
            if (tuning := first.get(position)) is None:
                self.bench.run(call)
                continue
            trial = Trial.of(self.bench, tuning.subject.kernel, call, tuning.subject.own)
            sample = trial.sample(call)
            tuning.before = min(sample() for _ in range(_FEW))
            tuning.search.learn(tuning.first, 1.0)
            trial.leave(call)

    def _improve(self, tuning: _Tuning, count: int) -> bool:
        """Try some schedules of a kernel; is one of them the best so far now?"""
        tuning.made.clear()
        wanted = [one for one in tuning.unproven if _is_legal(tuning.subject, one, tuning.made)]
        wanted += tuning.search.candidates(count) if count else ()
        tuning.unproven.clear()
        trial = self._at(tuning)
        self._compile([tuning.made[one] for one in wanted])
        running = {one: call for one in wanted if (call := self._tried(tuning, one, trial)) is not None}
        rivals = list(running)
        race = raced(trial.sample(tuning.calls[tuning.best]), [trial.sample(running[one]) for one in rivals])
        for one, took in zip(rivals, race.times, strict=True):
            tuning.search.learn(one, took * tuning.level)
        tuning.before = min(tuning.before, race.champion / tuning.level)
        tuning.hope *= _FRUITLESS
        if race.winner is not None:
            tuning.calls[rivals[race.winner]] = running[rivals[race.winner]]
            tuning.best, tuning.hope = rivals[race.winner], 1.0
            tuning.level *= race.times[race.winner]
        return race.winner is not None

    def _compile(self, wanted: Sequence[Kernel]) -> None:
        """Have the compiler work on all of them at once; where one does not compile, that is told of it alone."""
        with suppress(Exception):
            self.request.backend.compile(wanted)

    def _tried(self, tuning: _Tuning, candidate: Decisions, trial: Trial) -> BoundProgram | None:
        """A schedule on memory, if it works and its answers are right."""
        tuning.tried += 1
        try:
            call = self.bench.compiled((tuning.made[candidate],))
            problem = trial.problem(call)
        except Exception as error:  # whatever is wrong with a candidate, the next one is tried
            problem = f"it fails: {_reason(error)}"
        if problem:
            tuning.refused[problem] += 1
            return None
        return call

    def _at(self, tuning: _Tuning) -> Trial:
        """A kernel on the memory that it finds."""
        if self._trial is None or self._trial[0] is not tuning:
            self._trial = None  # if what follows is interrupted, memory is nobody's
            self.bench.begin()
            for call in self.running[: tuning.position]:
                self.bench.run(call)
            _, untuned = self.bench.runnable(tuning.subject.made(tuning.subject.rules))
            tuning.calls[tuning.subject.rules] = untuned
            self._trial = tuning, Trial.of(self.bench, tuning.subject.kernel, untuned, tuning.subject.own)
        return self._trial[1]

    # Deciding

    def found(self) -> list[Found]:
        """What is to be kept: of each kernel that gained what it gained, and what is not the best any more."""
        lines = []
        for tuning in self.kernels:
            if tuning.best != tuning.first:
                lines += self._measured(tuning)
        return lines

    def _measured(self, tuning: _Tuning) -> list[Found]:
        """A kernel that gained, timed once more in turns with what it was; if it is not quicker, it is that again."""
        trial, subject, rules = self._at(tuning), tuning.subject, tuning.subject.rules
        samples = {one: trial.sample(tuning.calls[one]) for one in (rules, tuning.first, tuning.best)}
        times = dict.fromkeys(samples, inf)
        for _ in range(rounds(tuning.seconds)):
            times = {one: min(times[one], sample()) for one, sample in samples.items()}
        tuning.before, tuning.level = times[tuning.first], times[tuning.best] / times[tuning.first]
        if tuning.level >= CLEARLY:
            tuning.best, tuning.level = tuning.first, 1.0
            return []
        machine, what = machine_key(self.request.options.timed_on), assignments(subject.kernel)
        chosen = dict.fromkeys([tuning.first, tuning.best])
        return [Found(subject.key, machine, one, times[one], times[rules], what) for one in chosen if one != rules]

    def improved(self) -> Compiled:
        """The routine with the best that was found."""
        best = {one.subject.key: None if one.best == one.subject.rules else one.best for one in self.kernels}
        return replace(self.request, tuned=self.request.tuned.but(best)).decided(self.loops, self.stage)

    def whole(self, kernels: Sequence[Kernel]) -> Sample:
        """What times all kernels of a routine, one after another."""
        return self.bench.sample(self.bench.compiled(kernels), self.bench.updated)

    def undo(self) -> None:
        """Nothing was gained, after all."""
        for one in self.kernels:
            one.best, one.level = one.first, 1.0

    def told(self) -> tuple[TunedKernel, ...]:
        """What became of each kernel that was timed."""
        return tuple(_told(one) for one in self.kernels if one.before < inf)


def _told(one: _Tuning) -> TunedKernel:
    said = "" if one.best == one.first else str(one.best)
    what = assignments(one.subject.kernel)
    return TunedKernel(what, one.runs, one.before, one.seconds, one.bound, one.tried, dict(one.refused), said)


def _is_legal(subject: Subject, chosen: Decisions, made: dict[Decisions, Kernel]) -> bool:
    """May a kernel run so? Then it is made."""
    try:
        made[chosen] = subject.made(chosen)
    except MalformedLoops:
        return False
    return True


def _reason(error: Exception) -> str:
    text = error.what if isinstance(error, WeftError) else str(error)
    return text.splitlines()[0] if text else type(error).__name__
