"""`routine.decisions` and `routine.decide`: how kernels run, as values that a person reads and gives.

The language is the tuner's and that of the passes that decide (`schedule/decisions.py`); what is given is put in place
by the same functions, with the same proofs that it is legal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from weft.errors import WeftError
from weft.loops import MalformedLoops
from weft.runtime import errors
from weft.schedule.canonical import systematic
from weft.schedule.decisions import Decisions, decisions_of, read_decisions
from weft.schedule.nodes import Kernel
from weft.schedule.tuning.subjects import Subject, subjects

if TYPE_CHECKING:
    from weft.runtime.build import Request
    from weft.runtime.routine import Routine


def decisions_about(routine: Routine, kernels: Sequence[Kernel]) -> tuple[Decisions, ...]:
    """How the loops and products of each kernel run, by the names that they have before anything is decided."""
    request = _request(routine)
    _, stage = request.undecided()
    at, best = _by_number(subjects(stage, request.task)), request.tuned.best
    runs = [decisions_of(systematic(one.body).body) for one in kernels]  # one that did not compile runs as written
    return tuple(best.get(at[number].key, at[number].rules) if one.texts else one for number, one in enumerate(runs))


def decide_routine(routine: Routine, given: Mapping[int, Decisions | Mapping[str, str]]) -> None:
    """Run kernels of a routine, by number, as is decided from now on; refused if that is not legal of one of them."""
    request = _request(routine)
    loops, stage = request.undecided()
    at = _by_number(subjects(stage, request.task))
    chosen: dict[str, Decisions] = {}
    for number, said in given.items():
        if number not in at:
            raise WeftError(f"there is no kernel {number!r}", fix=f"the routine has kernels 0 to {len(at) - 1}")
        chosen[at[number].key] = _legal(number, at[number], said)
    routine.use(replace(request, tuned=request.tuned.but(chosen)).decided(loops, stage))


def _request(routine: Routine) -> Request:
    request = routine.compiled.request
    assert request is not None
    if not request.fuses:
        raise errors.not_in_kernels()
    return request


def _by_number(found: Sequence[Subject]) -> dict[int, Subject]:
    return {number: one for one in found for number in one.positions}


def _legal(number: int, subject: Subject, said: object) -> Decisions:
    """What is said of a kernel, if it may run so."""
    if not isinstance(said, Decisions | Mapping):
        what = f"decisions about kernel {number} are given as texts by loop, not as {type(said).__name__}"
        raise WeftError(what, fix='write {"i0": "on threads by 64", "i1": "on vectors"}')
    try:
        chosen = said if isinstance(said, Decisions) else read_decisions(said)
        subject.made(chosen)
    except (ValueError, MalformedLoops) as problem:
        why = problem.what if isinstance(problem, WeftError) else str(problem)
        named = systematic(subject.kernel.body).bound
        loops = ", ".join(f"{new} is `{old}`" for new, old in named.items() if new.startswith("i"))
        notes = [f"its loops: {loops}", f"weft decides: {subject.rules}"]
        fix = f"routine.decisions()[{number}] is how it runs now; wf.Routine.decide says how to write it"
        raise WeftError(f"kernel {number} cannot run so: {why}", notes=notes, fix=fix) from None
    return chosen
