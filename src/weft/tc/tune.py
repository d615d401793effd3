"""Tuning: options are tried, checked against the answer of the default ones, and timed; the best so far is kept.

It begins with what is known, then changes one choice at a time, then several of the best so far, or takes choices from
two of them. A candidate is first run once and compared with the default's answer; only then its time counts. Candidates
and the default are timed in turns, so that a busy machine slows both.
"""

from __future__ import annotations

import math
import os
import random
from bisect import insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from weft.backends import Array
from weft.machine import Machine
from weft.schedule import Options
from weft.tc.arrays import is_close
from weft.tc.tuning_store import Found

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

_TILES = (8, 16, 32, 64, 128, 256)
#: What is better by less is chance.
_CLEARLY = 0.98
_TIMED_S = 0.02
#: So many candidates in a row that were tried before: then there is hardly a new one.
_ENOUGH = 200
#: So many of the best are changed further.
_ELITE = 4

#: Runs once and gives the results.
TimedRun: TypeAlias = Callable[[], Sequence[Array]]
#: The ways to change one choice.
Knob: TypeAlias = Callable[[Options], list[Options]]


@dataclass(slots=True)
class Tuning:
    """How to compile a candidate, what to change about it, and what was found so far."""

    make: Callable[[Options], TimedRun]
    knobs: Sequence[Knob]
    known: Options = Options()  # noqa: RUF009 it is frozen
    seed: int = 0
    tried: int = 0
    refused: int = 0
    seconds: float = 0.0
    default: float = math.inf
    #: The best candidates and how long they took, the quickest first.
    ranked: list[tuple[float, Options]] = field(default_factory=list)

    def run(self, seconds: float, show: bool = True) -> Found | None:
        """The best options found in so many seconds. Ctrl-C ends it early and keeps the best; None if there is none."""
        start = perf_counter()
        with _bar(show) as bar:
            task = bar.add_task("", total=seconds, speed=1.0, best=str(self.known))
            try:
                plain = self.make(Options())
                expected = plain()
                self.default = _time(plain)
                if self.known != Options():  # however little time there is
                    self._try(self.known, plain, expected)
                for candidate in self._candidates():
                    self.seconds = perf_counter() - start
                    if self.seconds >= seconds:
                        break
                    self._try(candidate, plain, expected)
                    bar.update(task, completed=self.seconds, speed=self.speed, best=str(self._best[1]))
            except KeyboardInterrupt:
                pass
        self.seconds = perf_counter() - start
        if self.default == math.inf:
            return None
        took, options = self._best
        return Found(options, took, self.default)

    @property
    def _best(self) -> tuple[float, Options]:
        """The quickest, if it is clearly quicker than the default."""
        if self.ranked and self.ranked[0][0] < _CLEARLY * self.default:
            return self.ranked[0]
        return self.default, Options()

    @property
    def speed(self) -> float:
        """How many times as fast as the default the best is."""
        return self.default / self._best[0] if self.default < math.inf else 1.0

    def _try(self, candidate: Options, plain: TimedRun, expected: Sequence[Array]) -> None:
        """Compile a candidate, check its answer, and time it and the default in turns; one that fails is left out."""
        self.tried += 1
        try:
            run = self.make(candidate)
            agrees = all(map(_agree, run(), expected))
            took = _time(run) if agrees else math.inf
        except Exception:  # whatever is wrong with a candidate, the next one is tried
            agrees = False
        if not agrees:
            self.refused += 1
            return
        self.default = min(self.default, _time(plain))
        insort(self.ranked, (took, candidate), key=lambda one: one[0])
        del self.ranked[_ELITE:]

    def _candidates(self) -> Iterator[Options]:
        """Options to try, each once."""
        rng = random.Random(self.seed)
        first = [one for base in (self.known, Options()) for knob in self.knobs for one in knob(base)]
        seen, misses = {Options(), self.known}, 0
        while misses < _ENOUGH:
            candidate = first.pop(0) if first else self._bred(rng)
            misses += 1
            if candidate not in seen:
                seen.add(candidate)
                misses = 0
                yield candidate

    def _bred(self, rng: random.Random) -> Options:
        """One of the best with some choices changed, or with some of another's."""
        parents = [options for _, options in self.ranked] or [Options()]
        child = rng.choice(parents)
        if len(parents) > 1 and rng.random() < 0.5:
            other = rng.choice(parents)
            taken = [one.name for one in fields(Options) if rng.random() < 0.5]
            return replace(child, **{name: getattr(other, name) for name in taken})
        for _ in range(rng.choice((1, 1, 2, 3))):
            child = rng.choice(rng.choice(self.knobs)(child) or [child])
        return child


def _time(run: TimedRun) -> float:
    """The best of some runs."""
    best, spent = math.inf, 0.0
    while spent < _TIMED_S:
        start = perf_counter()
        run()
        took = perf_counter() - start
        best, spent = min(best, took), spent + took
    return best


def knobs(sizes: Mapping[str, int], products: bool, machine: Machine) -> list[Knob]:
    """What can be changed about loops of these names and sizes, and about products if there are any."""
    processors = min(machine.cores, len(os.sched_getaffinity(0)))
    found: list[Knob] = [
        _changing("threads", sorted({1, 2, processors} & set(range(1, processors + 1)))),
        _changing("unroll", (0, 2, 4, 8)),
        _changing("lanes", (0, 4, 8, 16)),
        _changing("order", _orders(list(sizes))),
        *(partial(_tiles, name, size) for name, size in sizes.items()),
    ]
    if products:
        found += [_changing("rows", (0, 4, 6, 8, 12)), _changing("vectors", (0, 1, 2, 3, 4))]
    return found


def _changing(choice: str, values: Iterable[object]) -> Knob:
    return lambda options: [replace(options, **{choice: value}) for value in values]  # type: ignore[arg-type]


def _tiles(name: str, size: int, options: Options) -> list[Options]:
    others = tuple((other, of) for other, of in options.tiles if other != name)
    cut = [replace(options, tiles=(*others, (name, tile))) for tile in _TILES if tile < size]
    return [replace(options, tiles=others), *cut]


def _orders(names: Sequence[str]) -> list[tuple[str, ...]]:
    """Every loop innermost, and every loop outermost."""
    if not 1 < len(names) <= 8:
        return [()]
    inner = [(*(other for other in names if other != name), name) for name in names]
    outer = [(name, *(other for other in names if other != name)) for name in names]
    return list(dict.fromkeys([(), *inner, *outer]))


def _agree(found: Array, expected: Array) -> bool:
    if expected.dtype.kind not in "fV":
        return bool(np.array_equal(found, expected))
    return bool(is_close(found, expected).all())


# What is shown


def summary(name: str, tuning: Tuning, found: Found | None) -> str:
    """What a tuning did, in a line."""
    if found is None:
        return f"{name}: interrupted before anything was timed; nothing has changed"
    failed = f", of which {tuning.refused} did not work" if tuning.refused else ""
    return (
        f"{name}: {tuning.tried} options tried in {tuning.seconds:.1f} s{failed}; "
        f"{tuning.speed:.2f} times the default with {found.options}"
    )


def console(show: bool) -> Console:
    """Where people look on."""
    from rich.console import Console  # here: importing weft should not wait for it

    return Console(stderr=True, quiet=not show, soft_wrap=True, highlight=False)


def _bar(show: bool) -> Progress:
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    return Progress(
        TextColumn("tuning"),
        BarColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[speed]:.2f} times the default: {task.fields[best]}"),
        console=console(show),
        transient=True,
        disable=not console(show).is_terminal,
    )
