"""How kernels run, decided by a person."""

from __future__ import annotations

import numpy as np
import pytest

import weft as wf
from weft.loops import Parallel, Vector
from weft.schedule.decisions import Decisions


def summed() -> tuple[wf.Context, wf.Routine, wf.Tensor]:
    x = wf.data(np.arange(256, dtype=np.float32).reshape(4, 64), batch=1, label="x")
    y = (x * 2.0 + 1.0).named("y")
    ctx = wf.Context("cc")
    return ctx, ctx.compile(y.forward, keep=[y]), y


def test_what_is_decided_runs_and_is_told() -> None:
    ctx, routine, y = summed()
    before = routine.decisions()
    routine()
    expected = ctx[y]
    routine.decide({0: {"i0": "on threads by 2", "i1": "on vectors of 4"}})
    assert [str(one) for one in routine.decisions()] == ["i0 on threads by 2; i1 on vectors of 4"]
    assert "for i in range(4) on threads by 2:" in routine.show("kernels")
    routine()
    assert np.array_equal(ctx[y], expected)
    assert routine.bisect() is None
    routine.decide(dict(enumerate(before)))
    assert routine.decisions() == before


def test_decisions_are_values() -> None:
    _, routine, _ = summed()
    chosen = Decisions().with_how("i0", [Parallel(1)]).with_how("i1", [Vector(8)])
    routine.decide({0: chosen})
    assert routine.decisions() == (chosen,)


@pytest.mark.parametrize(
    ("given", "what", "fix"),
    [
        ({3: {}}, "there is no kernel 3", "kernels 0 to 0"),
        (
            {0: {"i7": "on vectors"}},
            "kernel 0 cannot run so: it has no loop `i7`, or it is a product's",
            "decisions()[0]",
        ),
        (
            {0: {"i0": "in lanes by 999999"}},
            "kernel 0 cannot run so: 'in lanes by 999999' is out of range",
            "decide says how",
        ),
        ({0: {"i0": "quickly"}}, "kernel 0 cannot run so: 'quickly' does not say how a loop runs", "decide says how"),
        ({0: "i0 on vectors"}, "decisions about kernel 0 are given as texts by loop, not as str", '{"i0": '),
        ({0: {"i0": "on vectors"}}, "kernel 0 cannot run so: ", "decisions()[0]"),
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(given: dict[int, dict[str, str]], what: str, fix: str) -> None:
    _, routine, _ = summed()
    before = routine.decisions()
    with pytest.raises(wf.WeftError) as caught:
        routine.decide(given)
    assert caught.value.what.startswith(what)
    assert fix in (caught.value.fix or "")
    assert routine.decisions() == before


def test_the_oracle_has_no_kernels_to_decide_about() -> None:
    x = wf.data(np.ones(3), label="x") * 2.0
    routine = wf.Context("interp").compile(x.forward)
    with pytest.raises(wf.WeftError, match="the routine is not cut into kernels"):
        routine.decide({0: {"i0": "on vectors"}})
