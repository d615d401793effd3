"""Speeds of a machine, as compiled code reaches them."""

from __future__ import annotations

from pathlib import Path

import pytest

import weft as wf
from weft.backends.cc import Cc
from weft.backends.interp import Interp
from weft.loops import Parallel, Product
from weft.runtime import speeds

SPEEDS = ("flops_per_s", "bytes_per_s", "cached_bytes_per_s", "last_cached_bytes_per_s")


class Refusing:
    """A backend that places products and compiles none."""

    places = frozenset([Product, Parallel])

    def __getattr__(self, name: str) -> object:
        raise wf.WeftError("it compiles nothing")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path))


def test_they_are_the_best_that_is_reached_and_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    here = wf.Machine.here()
    found, numpys = speeds.with_measured_speeds(here, Cc()), here.measured()
    assert all(getattr(found, one) >= getattr(numpys, one) for one in SPEEDS)
    assert all(getattr(found, one) != getattr(here, one) for one in ("function_ns", "round_ns"))
    monkeypatch.setattr(speeds, "_best_seconds", lambda *_: pytest.fail("it was measured again"))
    assert speeds.with_measured_speeds(here, Cc()) == found
    assert here.measured() == numpys


def test_they_are_numpy_s_where_nothing_is_compiled() -> None:
    here = wf.Machine.here()
    assert speeds.with_measured_speeds(here, Interp()) == here.measured()


def test_they_are_numpy_s_where_compiling_fails() -> None:
    here = wf.Machine.here()
    assert speeds.with_measured_speeds(here, Refusing()) == here.measured()  # type: ignore[arg-type]


def test_kernels_are_held_against_all_cores() -> None:
    """Of a machine that is given, twice as many take half the time."""
    x = wf.param("x", o=(64, 64))
    step = wf.Context("cc").compile(wf.seq(), keep=[wf.einsum("ij; jk => ik", x, x)])
    one, two = (
        sum(each.bound for each in step.profile(times=1, machine=wf.Machine(cores=cores)).kernels) for cores in (1, 2)
    )
    assert one == 2 * two


@pytest.mark.parametrize("times", [0, -3])
def test_a_profile_runs_once_at_least(times: int) -> None:
    x = wf.data([1.0, 2.0])
    step = wf.Context("cc").compile(wf.seq(), keep=[x + 1])
    with pytest.raises(wf.WeftError, match=f"`profile` runs a routine once at least, not {times} times") as caught:
        step.profile(times=times)
    assert caught.value.fix == "routine.profile(times=20)"
