"""Tuning: what is found is right, is kept, and is used later without asking."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.tc import Options, tune, tuning_store
from weft.tc.tune import Tuning
from weft.tc.tuning_store import Found, Subject

TEXT = "def scale(float(M,N) A, float(N) b) -> (C) { C(m,n) = tanh(A(m,n)) * b(n) }"
A, B = np.linspace(-1, 1, 64 * 48, dtype="float32").reshape(64, 48), np.ones(48, "float32")


def subject(text: str = TEXT, name: str = "scale", wrt: tuple[str, ...] = ()) -> Subject:
    return Subject(wf.tc.define(text)[name].template, (A.shape, B.shape), wrt)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path))
    return tmp_path / "tc" / "tuned.jsonl"


def tuning(monkeypatch: pytest.MonkeyPatch, made: dict[Options, tuple[float, float]], **given: Any) -> Tuning:
    """A tuning of these candidates: seconds and answer of each."""
    clock = [0.0]
    monkeypatch.setattr(tune, "perf_counter", lambda: clock[0])

    def make(options: Options) -> tune.TimedRun:
        seconds, answer = made[options]

        def run() -> list[np.ndarray]:
            clock[0] += seconds
            return [np.full(3, answer, "float32")]

        return run

    return Tuning(make, [lambda options: list(made)], **given)


def test_the_quickest_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    made = {Options(): (1.0, 1.0), Options(unroll=2): (0.5, 1.0), Options(unroll=4): (0.7, 1.0)}
    assert tuning(monkeypatch, made).run(100, show=False) == Found(Options(unroll=2), 0.5, 1.0)


def test_a_wrong_answer_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    made = {Options(): (1.0, 1.0), Options(unroll=2): (0.1, 1.01), Options(unroll=4): (0.7, 1.00001)}
    search = tuning(monkeypatch, made)
    found = search.run(100, show=False)
    assert found is not None
    assert (found.options, search.tried, search.refused) == (Options(unroll=4), 2, 1)
    assert tune.summary("scale", search, found) == (
        "scale: 2 options tried in 4.5 s, of which 1 did not work; 1.43 times the default with unroll 4"
    )


def test_what_is_hardly_better_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    made = {Options(): (1.0, 1.0), Options(unroll=2): (0.99, 1.0)}
    assert tuning(monkeypatch, made).run(100, show=False) == Found(Options(), 1.0, 1.0)


def test_it_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    made = {Options(unroll=count): (1.0 - count / 100, 1.0) for count in range(50)}
    found = tuning(monkeypatch, made).run(10, show=False)
    assert found is not None
    assert found.options.unroll in range(1, 10)


def test_it_begins_with_what_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """However little time there is, it does not end with something slower."""
    made = {Options(): (1.0, 1.0), **{Options(unroll=count): (0.9, 1.0) for count in range(1, 50)}}
    made[Options(unroll=7)] = (0.5, 1.0)
    for seconds in (0, 2.5):
        found = tuning(monkeypatch, made, known=Options(unroll=7)).run(seconds, show=False)
        assert found == Found(Options(unroll=7), 0.5, 1.0)


def test_several_choices_are_changed_together() -> None:
    """The best differs from the default in three choices, none of which is worth it alone."""
    wanted = {"unroll": 4, "lanes": 8, "threads": 2}

    def seconds(options: Options) -> float:
        right = sum(getattr(options, name) == value for name, value in wanted.items())
        return (0.010, 0.0099, 0.009, 0.001)[right]

    clock = [0.0]

    def make(options: Options) -> tune.TimedRun:
        def run() -> list[np.ndarray]:
            clock[0] += seconds(options)
            return [np.ones(1, "float32")]

        return run

    choices: list[tune.Knob] = [
        tune._changing("unroll", (0, 2, 4, 8)),
        tune._changing("lanes", (0, 4, 8, 16)),
        tune._changing("threads", (1, 2)),
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tune, "perf_counter", lambda: clock[0])
        found = Tuning(make, choices).run(100, show=False)
    assert found is not None
    assert found.options == Options(**wanted)


def test_an_interrupt_keeps_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    made = {Options(): (1.0, 1.0), Options(unroll=2): (0.5, 1.0), Options(unroll=4): (0.1, 1.0)}
    search = tuning(monkeypatch, made)
    make = search.make

    def interrupted(options: Options) -> tune.TimedRun:
        if options.unroll == 4:
            raise KeyboardInterrupt
        return make(options)

    search.make = interrupted
    assert search.run(100, show=False) == Found(Options(unroll=2), 0.5, 1.0)


def test_an_interrupt_before_anything_is_timed_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(options: Options) -> tune.TimedRun:
        raise KeyboardInterrupt

    search = Tuning(interrupted, [])
    assert search.run(100, show=False) is None
    assert tune.summary("f", search, None) == "f: interrupted before anything was timed; nothing has changed"


@pytest.mark.parametrize("error", [wf.WeftError("no"), OSError("no"), MemoryError(), ValueError("no")])
def test_a_candidate_that_fails_is_passed_over(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    made = {Options(): (1.0, 1.0), Options(unroll=2): (0.5, 1.0), Options(unroll=4): (0.1, 1.0)}
    search = tuning(monkeypatch, made)
    make = search.make

    def failing(options: Options) -> tune.TimedRun:
        if options.unroll == 4:
            raise error
        return make(options)

    search.make = failing
    found = search.run(100, show=False)
    assert found is not None
    assert (found.options, search.refused) == (Options(unroll=2), 1)


# The real thing


def test_a_definition_is_tuned_and_right(own_cache: Path) -> None:
    scale = wf.tc.define(TEXT, backend="cc").scale
    before = scale(A, B)
    found = scale.autotune(A, B, seconds=0.3, show=False)
    np.testing.assert_allclose(scale(A, B), before, rtol=1e-6)
    assert scale.options(A, B) == found
    (line,) = own_cache.read_text().splitlines()
    read = json.loads(line)
    assert read["definition"] == "scale"
    assert read["shapes"] == [[64, 48], [48]]
    assert read["seconds"] <= read["default"]


def test_what_was_found_is_used_later_without_asking() -> None:
    chosen = Options(tiles=(("m", 8),), unroll=2, order=("n", "m"))
    tuning_store.keep(subject(), Found(Options(unroll=8), 0.9, 1.0))
    tuning_store.keep(subject(), Found(chosen, 0.5, 1.0))
    tuning_store.keep(subject(), Found(Options(unroll=4), 0.7, 1.0))
    later = wf.tc.define(TEXT, backend="cc").scale
    assert later.options(A, B) == chosen
    np.testing.assert_allclose(later(A, B), np.tanh(A), rtol=1e-6)
    assert later.options(A[:3], B) == Options()
    other = wf.tc.define(TEXT.replace("tanh", "exp"), backend="cc").scale
    assert other.options(A, B) == Options()


def test_another_kind_of_machine_is_another_matter() -> None:
    tuning_store.keep(subject(), Found(Options(unroll=8), 0.5, 1.0))
    with wf.config.using(machine=replace(wf.Machine.here(), identity="another")):
        assert tuning_store.best(subject()) is None
    assert tuning_store.best(subject()) == Options(unroll=8)


@pytest.mark.parametrize("line", ["", "not json", "{}", "[1]", '{"options": 3}', "\x00\xff", '{"program": null}'])
def test_lines_that_cannot_be_read_are_passed_over(line: str, own_cache: Path) -> None:
    tuning_store.keep(subject(), Found(Options(unroll=8), 0.5, 1.0))
    with own_cache.open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")
    tuning_store.keep(subject(), Found(Options(unroll=4), 0.4, 1.0))
    assert tuning_store.best(subject()) == Options(unroll=4)


def test_a_file_of_others_is_not_read(own_cache: Path) -> None:
    tuning_store.keep(subject(), Found(Options(unroll=8), 0.5, 1.0))
    os.chmod(own_cache.parent, 0o777)
    assert tuning_store.best(subject()) is None


def test_options_by_hand() -> None:
    scale = wf.tc.define(TEXT, backend="cc").scale
    assert scale.options(A, B) == Options()
    assert scale.options(A, B, choose=Options(lanes=8)) == Options(lanes=8)
    assert "simdlen(8)" in scale.show("source", A, B)
    with pytest.raises(wf.WeftError, match="'fast' are no options"):
        scale.options(A, B, choose="fast")  # type: ignore[arg-type]


def test_loops_that_are_not_there_are_named() -> None:
    scale = wf.tc.define(TEXT, backend="interp").scale
    for wrong in (Options(order=("zzz",)), Options(tiles=(("zzz", 8),))):
        with pytest.raises(wf.WeftError, match="`scale` has no loop `zzz`") as raised:
            scale.options(A, B, choose=wrong)
        assert raised.value.fix == "its loops are m, n"
    assert scale.options(A, B, choose=Options(order=("n", "m"))).order == ("n", "m")


def test_gradients_have_options_of_their_own() -> None:
    scale = wf.tc.define(TEXT, backend="cc").scale
    before = scale.grad(A, B)
    assert scale.options(A, B, wrt="A", choose=Options(lanes=8)) == Options(lanes=8)
    assert scale.options(A, B, wrt="A") == Options(lanes=8)
    assert scale.options(A, B) == scale.options(A, B, wrt=["A", "b"]) == Options()
    np.testing.assert_allclose(scale.grad(A, B, wrt="A"), before[0], rtol=1e-6)
    with pytest.raises(wf.WeftError, match="`scale` has no loop `k`"):
        scale.options(A, B, wrt="A", choose=Options(order=("k",)))


def test_gradients_are_tuned_and_what_is_found_is_used_later(
    own_cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scale = wf.tc.define(TEXT, backend="cc").scale
    before = scale.grad(A, B, wrt="b")
    found = scale.autotune(A, B, wrt="b", seconds=0.2)
    assert capsys.readouterr().err.startswith("scale, by b: ")
    np.testing.assert_allclose(scale.grad(A, B, wrt="b"), before, rtol=1e-5)
    assert scale.options(A, B, wrt="b") == found
    assert wf.tc.define(TEXT, backend="cc").scale.options(A, B, wrt="b") == found
    (line,) = own_cache.read_text().splitlines()
    assert len(json.loads(line)["wrt"]) == 1


def test_what_is_known_is_not_forgotten_by_a_short_tuning() -> None:
    known = Options(unroll=4, lanes=8)
    tuning_store.keep(subject(), Found(known, 1e-9, 1.0))
    scale = wf.tc.define(TEXT, backend="cc").scale
    assert scale.options(A, B) == known
    scale.autotune(A, B, seconds=0.0, show=False)
    assert wf.tc.define(TEXT, backend="cc").scale.options(A, B) == known


RENAMED = "def other(float(X,Y) P, float(Y) q) -> (R) { R(i,j) = tanh(P(i,j)) * q(j) }"


def test_names_do_not_matter_to_what_is_known() -> None:
    tuning_store.keep(subject(), Found(Options(order=("n", "m"), tiles=(("m", 16),)), 0.5, 1.0))
    assert tuning_store.best(subject(RENAMED, "other")) == Options(order=("j", "i"), tiles=(("i", 16),))
    beside = TEXT + "\ndef unused(float(N) x) -> (y) { y(i) = x(i) + 1e-05 }"
    assert tuning_store.best(subject(beside)) == Options(order=("n", "m"), tiles=(("m", 16),))
    assert tuning_store.best(subject(wrt=("A",))) is None
    for changed in (TEXT.replace("* b", "+ b"), TEXT.replace("tanh", "exp"), TEXT.replace("float(N) b", "double(N) b")):
        assert tuning_store.best(subject(changed)) is None
