"""Choices about loops are names and numbers in range, or refused by the name of what is wrong; none changes a result.

Random values, of the right kind and of others, are given for every field. Options that are taken compile and give what
weft's own choices give; so do schedules as a tuner draws them.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import numpy as np

import weft as wf
from weft.loops import MalformedLoops
from weft.schedule.decisions import Decisions
from weft.schedule.options import RANGES
from weft.schedule.tuning.subjects import Subject, subjects
from weft.schedule.tuning.tuned import Tuned

EVIL = '2\nfor (;;) { int system(const char *); system("touch injected"); }\n#pragma GCC unroll 2'
WRONG = [EVIL, "2", -1, 10**9, 2.0, 2.5, True, None, [3], (3,), {"a": 1}, float("nan"), np.float32(2)]
LISTS = [EVIL, "ij", 5, None, True, {"i": 3}, [EVIL], [5], [None], [("i", 3, 4)]]
TEXTS = (
    "def f(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }",
    "def f(float(M,K) A, float(K,N) B) -> (C) { C(m) +=! exp(A(m,k)) * B(k,n) * A(m,k) }",
)


def check(rng: np.random.Generator) -> None:
    given, wrong = _draw(rng)
    options, refusal = _made(given)
    if options is None:
        assert wrong, f"{given} was refused: {refusal}"
        assert f": {wrong}=" in refusal, f"{given} was refused for something else: {refusal}"
        return
    assert not wrong, f"{wrong} was taken: {options!r}"
    assert hash(options) == hash(wf.tc.Options(**asdict(options)))
    if rng.random() < 0.15:
        _runs(rng, options)


def _made(given: dict[str, Any]) -> tuple[wf.tc.Options | None, str]:
    try:
        return wf.tc.Options(**given), ""
    except wf.WeftError as error:
        return None, error.what


def _draw(rng: np.random.Generator) -> tuple[dict[str, object], str]:
    """Values for some fields, and the field that is wrong, if one is."""
    given: dict[str, object] = {}
    for name, (least, most) in RANGES.items():
        if rng.random() < 0.5:
            given[name] = int(rng.choice([least, most, rng.integers(least, min(most, 12), endpoint=True)]))
    names = [str(one) for one in rng.permutation(["m", "k", "n"])]
    if rng.random() < 0.5:
        given["order"] = names[: int(rng.integers(0, 4))]
    if rng.random() < 0.5:
        given["tiles"] = [[name, int(rng.choice([1, 3, 8, 1000]))] for name in names[: int(rng.integers(0, 3))]]
    if rng.random() < 0.5:
        return given, ""
    wrong = str(rng.choice([*RANGES, "order", "tiles"]))
    values = WRONG if wrong in RANGES else LISTS
    return {**given, wrong: values[int(rng.integers(len(values)))]}, wrong


def _runs(rng: np.random.Generator, options: wf.tc.Options) -> None:
    text = str(rng.choice(TEXTS))
    a, b = (rng.uniform(-1, 1, shape).astype("float32") for shape in ((33, 40), (40, 35)))
    chosen, plain = (wf.tc.define(text, backend="cc").f for _ in range(2))
    if rng.random() < 0.5:
        chosen.options(a, b, choose=options)
        shown = repr(options)
    else:
        shown = _decide(rng, chosen, a, b)
    np.testing.assert_allclose(chosen(a, b), plain(a, b), rtol=1e-4, atol=1e-4, err_msg=f"{text} with {shown}")


def _decide(rng: np.random.Generator, definition: wf.tc.Definition, *arrays: np.ndarray) -> str:
    """Let a definition run as a tuner might decide."""
    with wf.config.using(machine=replace(wf.config.machine, cores=3)):
        routine = definition._call(arrays).function.routine
    request = routine.compiled.request
    assert request is not None
    loops, stage = request.undecided()
    found = {one.key: _drawn(rng, one) for one in subjects(stage, request.task)}
    routine.use(replace(request, tuned=Tuned(found)).decided(loops, stage))
    return str([*map(str, found.values())])


def _drawn(rng: np.random.Generator, subject: Subject) -> Decisions:
    """Decisions about a kernel that differ from weft's in a few choices."""
    found = subject.rules
    for _ in range(6):
        knob = subject.knobs[rng.integers(len(subject.knobs))]
        other = knob.write(found, knob.values[rng.integers(len(knob.values))])
        try:
            subject.made(other)
        except MalformedLoops:
            continue
        found = other
    return found
