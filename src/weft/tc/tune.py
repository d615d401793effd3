"""Tuning: options are tried, checked against the answer of the default ones, and timed; the best so far is kept.

Each try changes one choice of the best so far. A candidate is first run once and compared with the default's answer;
only then its time counts. Candidates and the default are timed in turns, so that a busy machine slows both.
"""

from __future__ import annotations

import math
import os
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from weft.backends import Array
from weft.comprehension.flat import Step
from weft.errors import WeftError
from weft.schedule import Options
from weft.tc.call import Call
from weft.tc.tuned import Found

if TYPE_CHECKING:
    from rich.progress import Progress

_TILES = (8, 16, 32, 64, 128, 256)
#: Rounding differs with the order of sums: this much of the largest result, for a sum of many.
_CLOSE = 1e-3
#: What is better by less is chance.
_CLEARLY = 0.98
_TIMED_S = 0.02
#: So many candidates in a row that were tried before: then there is hardly a new one.
_ENOUGH = 200


@dataclass(slots=True)
class Tuning:
    """What to try on which arrays, how to compile a candidate, and the best so far."""

    make: Callable[[Options], Call]
    arrays: Sequence[Array]
    seed: int = 0
    best: Options = Options()  # noqa: RUF009 it is frozen
    quickest: float = math.inf
    default: float = math.inf

    def run(self, seconds: float, show: bool = True) -> Found:
        """The best options found in so many seconds. Ctrl-C ends it early and keeps the best."""
        plain = self.make(Options())
        expected = self._answer(plain)
        self.default = _time(plain, self.arrays)
        end = perf_counter() + seconds
        with _bar(show) as bar:
            task = bar.add_task("", total=seconds, speed=1.0, best=str(self.best))
            try:
                for candidate in self._candidates(plain):
                    left = end - perf_counter()
                    if left <= 0:
                        break
                    self._try(candidate, plain, expected)
                    speed = max(self.default / self.quickest, 1.0)
                    bar.update(task, completed=seconds - left, speed=speed, best=str(self.best))
            except KeyboardInterrupt:
                pass
        return Found(self.best, min(self.quickest, self.default), self.default)

    def _try(self, candidate: Options, plain: Call, expected: Sequence[Array]) -> None:
        """Compile a candidate, check its answer, and time it and the default in turns."""
        try:
            call = self.make(candidate)
            agrees = all(map(_agree, self._answer(call), expected))
        except WeftError:
            return
        if agrees:
            took = _time(call, self.arrays)
            self.default = min(self.default, _time(plain, self.arrays))
            if took < min(self.quickest, _CLEARLY * self.default):
                self.best, self.quickest = candidate, took

    def _answer(self, call: Call) -> list[Array]:
        return call(self.arrays, [None] * len(call.template.flat.results))

    def _candidates(self, call: Call) -> Iterator[Options]:
        """Options to try, each once: first those that change one choice, then changes of the best so far."""
        rng = random.Random(self.seed)
        knobs = _knobs(call)
        seen = {Options()}
        first = [candidate for knob in knobs for candidate in knob(Options())]
        misses = 0
        while first or misses < _ENOUGH:
            candidate = first.pop(0) if first else rng.choice(rng.choice(knobs)(self.best))
            misses += 1
            if candidate not in seen:
                seen.add(candidate)
                misses = 0
                yield candidate


def _time(call: Call, arrays: Sequence[Array]) -> float:
    """The best of some runs."""
    nothing = [None] * len(call.template.flat.results)
    best, spent = math.inf, 0.0
    while spent < _TIMED_S:
        start = perf_counter()
        call(arrays, nothing)
        took = perf_counter() - start
        best, spent = min(best, took), spent + took
    return best


#: The ways to change one choice.
Knob: TypeAlias = Callable[[Options], list[Options]]


def _knobs(call: Call) -> list[Knob]:
    extents = call.application.extents
    loops = [dict(extents.ranges(step)) for step in call.template.flat.steps if _is_large(step, call)]
    names = list(dict.fromkeys(name for ranges in loops for name in ranges))
    sizes = {name: max(ranges[name].size for ranges in loops if name in ranges) for name in names}
    processors = len(os.sched_getaffinity(0))
    knobs: list[Knob] = [
        _changing("threads", sorted({1, 2, processors} & set(range(1, processors + 1)))),
        _changing("unroll", (0, 2, 4, 8)),
        _changing("lanes", (0, 4, 8, 16)),
        _changing("order", _orders(names)),
        *(partial(_tiles, name, sizes[name]) for name in names),
    ]
    if "product of" in call.function.routine.show("kernels"):
        knobs += [_changing("rows", (0, 4, 6, 8, 12)), _changing("vectors", (0, 1, 2, 3, 4))]
    return knobs


def _changing(choice: str, values: Iterable[object]) -> Knob:
    return lambda options: [replace(options, **{choice: value}) for value in values]  # type: ignore[arg-type]


def _tiles(name: str, size: int, options: Options) -> list[Options]:
    others = tuple((other, of) for other, of in options.tiles if other != name)
    cut = [replace(options, tiles=(*others, (name, tile))) for tile in _TILES if tile < size]
    return [replace(options, tiles=others), *cut]


def _is_large(step: Step, call: Call) -> bool:
    """Is a step worth thinking about?"""
    ranges = call.application.extents.ranges(step)
    return int(np.prod([range.size for range in ranges.values()])) >= 1 << 10


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
    one, other = found.astype(np.float64), expected.astype(np.float64)
    scale = float(np.max(np.abs(other), initial=0.0, where=np.isfinite(other)))
    return bool(np.allclose(one, other, rtol=_CLOSE, atol=_CLOSE * scale, equal_nan=True))


def _bar(show: bool) -> Progress:
    from rich.console import Console  # here: importing weft should not wait for it
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    return Progress(
        TextColumn("tuning"),
        BarColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[speed]:.2f} times the default: {task.fields[best]}"),
        console=Console(stderr=True, quiet=not show),
        transient=True,
    )
