"""Whole numbers of NumPy's are whole numbers wherever one is taken, and truths and fractions are none."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import weft as wf
from weft.arguments import whole_number


def accumulated(every: int) -> wf.Code:
    w = wf.param("w", o=3)
    loss = wf.sum(w * w)
    return wf.optim.accumulate(loss, wf.optim.adamw(loss), every=every, step=wf.counter("n"))


def counted(run: int) -> int:
    n, ctx = wf.counter("n"), wf.Context("interp")
    ctx[n] = run
    return ctx[n]


TAKING: dict[str, Callable[[int], object]] = {
    "devices": lambda count: len(wf.Context("interp", devices=count).devices),
    "device": lambda index: wf.Context("interp", devices=8).device(index) is not None,
    "counter": counted,
    "every": lambda every: str(accumulated(every)),
    "steps": lambda steps: str(wf.optim.muon_one(wf.param("w", o=3, i=3), steps=steps)),
    "runs": lambda runs: str(wf.optim.cosine(wf.counter("n"), 0.1, runs).forward),
    "few": lambda k: str(wf.top_k(wf.data(np.ones((2, 80), np.float32), batch=1), k)[0].dims),
    "many": lambda k: str(wf.top_k(wf.data(np.ones((2, 80), np.float32), batch=1), 64 + k)[0].dims),
}


@pytest.mark.parametrize("name", TAKING)
@pytest.mark.parametrize("kind", [np.int64, np.uint8])
def test_those_of_numpy_are_taken_for_what_they_are(name: str, kind: type[np.integer]) -> None:
    taking = TAKING[name]
    assert taking(kind(3)) == taking(3)


@pytest.mark.parametrize("name", sorted(TAKING.keys() - {"many"}))
@pytest.mark.parametrize("other", [True, 2.0, np.float32(2), -1, np.int64(-1)])
def test_what_is_none_is_refused(name: str, other: int) -> None:
    with pytest.raises(wf.WeftError):
        TAKING[name](other)


def test_a_whole_number_is_python_s() -> None:
    assert [whole_number(one) for one in (3, np.int64(3), np.bool_(True), "3", None)] == [3, 3, None, None, None]
    assert type(whole_number(np.uint8(3))) is int
    assert (whole_number(0, 1), whole_number(1, 1)) == (None, 1)
