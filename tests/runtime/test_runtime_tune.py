"""Tuning a routine: what it finds, refuses, keeps and leaves alone. Times are those of a clock that tests turn."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft as wf
from runtime.scripts import run_script
from runtime.timed import Timed, on_clock, subjects_of
from weft.loops import For, Parallel, Vector
from weft.loops.walk import everything
from weft.runtime import tune, tuner
from weft.schedule import Kernel
from weft.schedule.decisions import read_decisions
from weft.schedule.tuning.tuned import Found, keep, machine_key, tuned

X = np.linspace(-1, 1, 40, dtype="float32")
BEST = {"i0": "on threads by 20, on vectors of 8"}


@pytest.fixture(autouse=True)
def own_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Everything is kept in a folder of the test's own, for a machine that has cores and is not measured."""
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path))
    machine = replace(wf.config.machine, cores=2, flops_per_s=1e13, cached_bytes_per_s=1e13)
    monkeypatch.setattr(type(machine), "measured", lambda self, *_: self)
    with wf.config.using(machine=machine, tuned="tuned.jsonl"):
        yield tmp_path / "tuned" / "tuned.jsonl"


def hows(kernel: Kernel) -> list[Any]:
    return [how for one in everything(kernel.body) if isinstance(one, For) for how in one.how]


def by_lanes(kernel: Kernel) -> float:
    """Vectors of 8 are best, and threads help only together with them."""
    found = hows(kernel)
    good, shared = Vector(8) in found, any(isinstance(one, Parallel) for one in found)
    return {(False, False): 1e-2, (True, False): 8e-3, (False, True): 1.2e-2, (True, True): 2e-3}[good, shared]


def updating(backend: Timed) -> tuple[wf.Context, wf.Tensor, Any]:
    """A context, a parameter that a routine changes, and the routine."""
    ctx, x, w = wf.Context(backend), wf.data(X, label="x"), wf.param("w", o=40, init=1.0)
    y = wf.tanh(x * w)

    @wf.cd
    def step(p: wf.Tensor) -> None:
        p -= 0.1 * y

    return ctx, w, ctx.compile(step(w))


def tuned_by(monkeypatch: pytest.MonkeyPatch, backend: Timed, **given: Any) -> tuple[Any, Any, wf.Context, wf.Tensor]:
    on_clock(monkeypatch, backend)
    ctx, w, routine = updating(backend)
    return routine.tune(**{"seconds": 1.0, "show": False, **given}), routine, ctx, w


def know(texts: dict[str, str], ratio: float = 0.2) -> None:
    """Write down that something was found."""
    key = subjects_of(updating(Timed(by_lanes))[2])[0].key
    keep("tuned.jsonl", [Found(key, machine_key(wf.config.machine), read_decisions(texts), ratio, 1.0)])


def test_choices_are_combined_and_values_stay(monkeypatch: pytest.MonkeyPatch, own_file: Path) -> None:
    report, routine, ctx, w = tuned_by(monkeypatch, Timed(by_lanes))
    assert (report.before, report.after) == pytest.approx((1e-2, 2e-3))
    assert by_lanes(routine.kernels[0]) == 2e-3, "it runs as was found"
    np.testing.assert_array_equal(ctx[w], np.ones(40))
    routine()
    np.testing.assert_allclose(ctx[w], 1 - 0.1 * np.tanh(X), rtol=1e-6)
    assert report.kept == str(own_file)
    (line,) = own_file.read_text().splitlines()
    said = json.loads(line)
    assert said["seconds"] / said["untuned"] == pytest.approx(0.2)
    assert "on vectors of 8" in str(report)
    assert f"{report.tried} schedules tried" in report.summary
    assert report.summary.endswith("10000.0 µs, now 2000.0 µs: 5.00 times as fast")


def test_who_compiles_it_later_gets_what_was_found() -> None:
    know(BEST)
    ctx, w, later = updating(Timed(by_lanes))
    assert "on threads by 20, on vectors of 8" in later.show("apply_tuned")
    assert later.show("kernels").endswith(later.show("apply_tuned")[-50:])
    later()
    np.testing.assert_allclose(ctx[w], 1 - 0.1 * np.tanh(X), rtol=1e-6)
    for setting in ({"tuned": ""}, {"machine": replace(wf.config.machine, identity="another")}):
        with wf.config.using(**setting):
            assert by_lanes(updating(Timed(by_lanes))[2].kernels[0]) != 2e-3
    with wf.config.using(schedule=wf.tc.Options(lanes=4)):
        assert Vector(4) in hows(updating(Timed(by_lanes))[2].kernels[0]), "who chooses by hand decides"


def test_what_does_not_fit_is_not_used() -> None:
    know({"i7": "on vectors"})
    with pytest.warns(
        wf.WeftWarning, match=r"does not fit it, and is not used: it has no loop `i7`, or it is a product's\n"
    ):
        _, _, routine = updating(Timed(by_lanes))
    assert by_lanes(routine.kernels[0]) == 1e-2


def test_it_begins_with_what_is_known_and_never_ends_with_less(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = Timed(by_lanes)
    on_clock(monkeypatch, backend)
    *_, before = updating(backend)
    know(BEST)
    assert before.tune(seconds=0.0, show=False).gain == pytest.approx(5.0), "what is known is tried, late as it may be"
    *_, after = updating(backend)
    assert after.tune(seconds=0.0, show=False).gain == 1.0
    assert by_lanes(after.kernels[0]) == 2e-3


def test_what_is_found_to_be_slow_is_not_used_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    know(BEST)
    report, *_ = tuned_by(monkeypatch, Timed(lambda kernel: 1e-2 if by_lanes(kernel) > 5e-3 else 0.1), seconds=0.0)
    assert report.gain == pytest.approx(10.0)
    assert tuned("tuned.jsonl", wf.config.machine).best == {}


def test_candidates_that_are_wrong_or_do_not_compile_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def spoils(kernel: Kernel) -> bool:
        if Vector(16) in hows(kernel):
            raise wf.WeftError("vectors are too long")
        return by_lanes(kernel) == 2e-3

    report, routine, *_ = tuned_by(monkeypatch, Timed(by_lanes, spoils))
    assert by_lanes(routine.kernels[0]) == 8e-3
    assert sorted(report.refused) == ["it fails: vectors are too long", "it gives other answers in `w`"]
    for why, count in report.refused.items():
        assert f"{count} refused: {why}" in report.summary


def interrupting(after: int) -> Callable[[Kernel], bool]:
    """Ctrl-C when so many kernels have been compiled."""
    left = [after]

    def spoils(kernel: Kernel) -> bool:
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt
        return False

    return spoils


def test_an_interrupt_keeps_the_best(monkeypatch: pytest.MonkeyPatch, own_file: Path) -> None:
    report, routine, *_ = tuned_by(monkeypatch, Timed(by_lanes, interrupting(60)), seconds=1e9)
    assert "when it was interrupted" in report.summary
    assert by_lanes(routine.kernels[0]) == pytest.approx(report.after)
    assert report.gain > 1
    assert own_file.exists()


def test_an_interrupt_before_anything_is_found_changes_nothing(monkeypatch: pytest.MonkeyPatch, own_file: Path) -> None:
    report, routine, ctx, w = tuned_by(monkeypatch, Timed(by_lanes, interrupting(4)))
    assert (report.gain, own_file.exists()) == (1.0, False)
    routine()
    np.testing.assert_allclose(ctx[w], 1 - 0.1 * np.tanh(X), rtol=1e-6)


def test_what_does_not_help_the_whole_is_not_taken(monkeypatch: pytest.MonkeyPatch, own_file: Path) -> None:
    """Kernels by themselves are quicker, the routine is not."""
    monkeypatch.setattr(tuner.Tuner, "whole", lambda self, compiled: lambda: 1e-2)
    report, routine, *_ = tuned_by(monkeypatch, Timed(by_lanes))
    assert (report.gain, own_file.exists(), by_lanes(routine.kernels[0])) == (1.0, False, 1e-2)
    assert [one.decisions for one in report.kernels] == [""]


def test_it_stops_at_the_roofline_or_when_all_was_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    report, *_ = tuned_by(monkeypatch, Timed(lambda kernel: 1e-2), seconds=1e9)
    assert (report.gain, report.ended) == (1.0, "when there was hardly anything left to try")
    with wf.config.using(machine=replace(wf.config.machine, flops_per_s=1e3)):
        report, *_ = tuned_by(monkeypatch, Timed(by_lanes))
    assert (report.tried, report.ended) == (0, "when the machine could do no more")


def test_it_says_what_it_does(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """In lines; in a terminal by a bar."""
    know(BEST)
    *_, routine = updating(backend := Timed(by_lanes))
    with wf.config.using(tuned=""):
        report, *_ = tuned_by(monkeypatch, Timed(by_lanes), show=True, seconds=0.5)
    *gains, last = capsys.readouterr().err.splitlines()
    assert last == report.summary
    assert gains
    assert all(line.startswith("tuning: ") and "mul =: x *. w" in line for line in gains)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    on_clock(monkeypatch, backend)
    report = routine.tune(seconds=0.0)
    shown = capsys.readouterr().err
    assert "━" in shown
    assert report.summary[-20:] in shown


def test_it_says_when_other_programs_were_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = Timed(by_lanes)
    on_clock(monkeypatch, backend)
    monkeypatch.setattr(tune, "busy_cores", lambda: 2.2)
    *_, routine = updating(backend)
    said = "other programs kept about 2 cores busy: tune once more when they are done"
    assert str(routine.tune(seconds=0.0, show=False)).splitlines()[-1] == said


def test_functions_are_tuned_on_the_arrays_of_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = Timed(by_lanes)
    on_clock(monkeypatch, backend)
    x = wf.input("x", o="length")
    double = wf.Context(backend).function(x, code=wf.seq(), returns=wf.tanh(x) * 2)
    assert double.tune(X, seconds=1.0, show=False).gain == pytest.approx(5.0)
    np.testing.assert_allclose(double(X), np.tanh(X) * 2, rtol=1e-6)


def test_what_cannot_be_tuned() -> None:
    *_, routine = updating(Timed(by_lanes))
    for wrong in (-1, float("nan")):
        with pytest.raises(wf.WeftError, match=rf"seconds={wrong} is no time to tune for"):
            routine.tune(seconds=wrong)
    with pytest.raises(wf.WeftError, match="is not cut into kernels"):
        wf.Context("interp").compile(routine.code).tune()
    with wf.config.using(schedule=wf.tc.Options(lanes=4)):
        *_, chosen = updating(Timed(by_lanes))
    with pytest.raises(wf.WeftError, match="how loops run is chosen by hand: lanes 4") as caught:
        chosen.tune()
    assert "wf.tc.Options()" in caught.value.fix


def test_memory_that_is_not_there_for_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    ctx, w, routine = updating(Timed(by_lanes))
    routine()
    with monkeypatch.context() as patch:
        patch.setattr(Timed, "view", refused_memory, raising=False)
        patch.setattr(Timed, "allocate", refused_memory)
        with pytest.raises(wf.OutOfMemory, match="no memory for a second copy of what the routine works on"):
            routine.tune(seconds=0.1, show=False)
    np.testing.assert_allclose(ctx[w], 1 - 0.1 * np.tanh(X), rtol=1e-6)


def refused_memory(*_: object) -> None:
    raise MemoryError


def test_another_process_uses_what_was_found(own_file: Path, tmp_path: Path) -> None:
    """And the real thing: compiled, checked, timed, kept. What was compiled untuned is not what is found again."""
    code = """
    x = wf.data(np.linspace(0, 1, 4096, dtype="float32"), label="x")
    y = (wf.exp(x) * 2.0).named("y")
    ctx = wf.Context("cc")
    routine = ctx.compile(y.forward, keep=[y])
    routine()
    """
    own: dict[str, Any] = {"np": np, "wf": wf}
    with wf.config.using(machine=wf.Machine.here()):
        exec("\n".join(line.strip() for line in code.splitlines()), own)
        report = own["routine"].tune(seconds=0.05, show=False)
        assert report.tried
        assert not report.refused
        key = subjects_of(own["routine"])[0].key
        chosen = read_decisions({"i0": "on vectors of 4"})
        keep("tuned.jsonl", [Found(key, machine_key(wf.config.machine), chosen, 1e-12, 1.0)])
    check = """
    assert "simdlen(4)" in routine.show("source")
    ran, shown = ([one.kernel for one in program.calls] for program in (routine.compiled.program, routine.executable))
    assert ran == shown, "it was compiled untuned"
    print(float(ctx[y].sum()))
    """
    done = run_script(code + check, WEFT_CACHE=str(tmp_path))
    assert (done.stdout, done.stderr) == (f"{float(own['ctx'][own['y']].sum())}\n", "")
    assert os.stat(own_file).st_mode & 0o077 == 0
