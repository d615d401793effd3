"""`routine.tune`: the best schedules that are found in some seconds, checked, timed, kept, and used from then on.

At the end of the search (`tuner.py`) the whole routine runs in turns with what it was: if it is not quicker, nothing
changes. What was found goes to a file that later processes read (`schedule/tuning/tuned.py`). Ctrl-C ends the search
early, and nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from time import perf_counter
from typing import TYPE_CHECKING

from weft.backends import Array
from weft.errors import WeftError
from weft.loops import Buffer
from weft.runtime import errors
from weft.runtime.compiled import Compiled
from weft.runtime.interleaved_timing import duel, rounds
from weft.runtime.tuner import Tuner
from weft.runtime.tuning_report import Display, TuningReport
from weft.runtime.values import read
from weft.schedule.tuning.tuned import Found, keep, tuned, tuned_file

if TYPE_CHECKING:
    from weft.runtime.routine import Routine

_FEW = 3


def tune_routine(
    routine: Routine, given: Mapping[str, int], handed: Mapping[Buffer, Array], seconds: float, show: bool
) -> TuningReport:
    """Tune a routine on what is in memory now, and on what is handed in."""
    _check(routine, seconds)
    start, compiled, layout = perf_counter(), routine.compiled, routine.engine.layout
    assert compiled.request is not None
    options, busy = compiled.request.options, busy_cores()
    needs = [one for one in routine.footprint.needs if layout.buffer(one) not in handed]
    values = {**handed, **{layout.buffer(one): read(routine.state, one) for one in needs}}
    with Display(seconds, show) as display:
        tuner = Tuner(compiled.request, values, given, tuned(options.tuned, options.timed_on))
        ended = tuner.search(seconds, display)
        outcome = _decided(tuner, compiled)
    kept = ""
    if outcome.found:
        routine.use(outcome.compiled)
        kept = str(tuned_file(options.tuned)) if keep(options.tuned, outcome.found) else ""
    spent = perf_counter() - start
    report = TuningReport(tuner.told(), outcome.before, outcome.after, spent, ended, kept, busy)
    display.say("\n".join([report.summary, *report.doubts]))
    return report


def busy_cores() -> float:
    """How many cores other programs kept busy in the last minute; 0 where the system does not say."""
    try:
        return os.getloadavg()[0]
    except (AttributeError, OSError):
        return 0.0


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What is to run from now on, what is to be kept of it, and how long the whole took before and takes now."""

    compiled: Compiled
    found: Sequence[Found]
    before: float
    after: float


def _decided(tuner: Tuner, old: Compiled) -> _Outcome:
    """The routine with what was found, if it is quicker than it was."""
    found, now = tuner.found(), tuner.whole(tuner.now)
    if not found:
        before = min(now() for _ in range(_FEW))
        return _Outcome(old, [], before, before)
    new = tuner.improved()
    count = rounds(now())
    against = duel(now, tuner.whole(new.stages.kernels), count)
    if against.challenger < against.champion and 2 * against.wins >= count:
        return _Outcome(new, found, against.champion, against.challenger)
    tuner.undo()
    return _Outcome(old, [], against.champion, against.champion)


def _check(routine: Routine, seconds: object) -> None:
    if not isinstance(seconds, Real) or isinstance(seconds, bool) or not 0 <= float(seconds) < float("inf"):
        raise WeftError(f"seconds={seconds!r} is no time to tune for", fix="give a number of seconds, such as 10")
    request = routine.compiled.request
    assert request is not None
    if not request.fuses:
        raise errors.not_in_kernels()
    if request.options.schedule.annotates:
        what = f"how loops run is chosen by hand: {request.options.schedule}"
        raise WeftError(what, fix="leave it to weft to tune it: wf.tc.Options(), or only order= and tiles=")
