"""Tuning: what is found is right, is kept, and is used later without asking."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import weft as wf
from weft.tc import Options, tune, tuned
from weft.tc.tune import Tuning
from weft.tc.tuned import Found

TEXT = "def scale(float(M,N) A, float(N) b) -> (C) { C(m,n) = tanh(A(m,n)) * b(n) }"
A, B = np.linspace(-1, 1, 64 * 48, dtype="float32").reshape(64, 48), np.ones(48, "float32")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path))
    return tmp_path / "tc" / "tuned.jsonl"


class Candidate:
    """A call that takes as long as it is told, and answers as it is told."""

    def __init__(self, options: Options, clock: list[float], seconds: float, answer: float = 1.0) -> None:
        self.options = options
        self.clock, self.seconds, self.answer = clock, seconds, answer
        self.template = wf.tc.define(TEXT).scale.template

    def __call__(self, arrays: Sequence[np.ndarray], into: Sequence[None]) -> list[np.ndarray]:
        self.clock[0] += self.seconds
        return [np.full(3, self.answer, "float32")]


def tuning(monkeypatch: pytest.MonkeyPatch, made: dict[Options, tuple[float, float]]) -> Tuning:
    """A tuning of these candidates: seconds and answer of each."""
    clock = [0.0]
    monkeypatch.setattr(tune, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(tune, "_knobs", lambda call: [lambda options: list(made)])
    return Tuning(lambda options: Candidate(options, clock, *made[options]), ())  # type: ignore[arg-type, return-value]


def test_the_quickest_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    made = {Options(): (1.0, 1.0), Options(unroll=2): (0.5, 1.0), Options(unroll=4): (0.7, 1.0)}
    assert tuning(monkeypatch, made).run(100, show=False) == Found(Options(unroll=2), 0.5, 1.0)


def test_a_wrong_answer_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    made = {Options(): (1.0, 1.0), Options(unroll=2): (0.1, 1.01), Options(unroll=4): (0.7, 1.00001)}
    assert tuning(monkeypatch, made).run(100, show=False).options == Options(unroll=4)


def test_what_is_hardly_better_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    made = {Options(): (1.0, 1.0), Options(unroll=2): (0.99, 1.0)}
    assert tuning(monkeypatch, made).run(100, show=False) == Found(Options(), 1.0, 1.0)


def test_it_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    made = {Options(unroll=count): (1.0 - count / 100, 1.0) for count in range(50)}
    search = tuning(monkeypatch, made)
    assert search.run(10, show=False).options.unroll in range(1, 10)


def test_an_interrupt_keeps_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    made = {Options(): (1.0, 1.0), Options(unroll=2): (0.5, 1.0), Options(unroll=4): (0.1, 1.0)}
    search = tuning(monkeypatch, made)
    make = search.make

    def interrupted(options: Options) -> object:
        if options.unroll == 4:
            raise KeyboardInterrupt
        return make(options)

    search.make = interrupted  # type: ignore[assignment]
    assert search.run(100, show=False) == Found(Options(unroll=2), 0.5, 1.0)


def test_a_candidate_that_does_not_compile_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    made = {Options(): (1.0, 1.0), Options(unroll=2): (0.5, 1.0), Options(unroll=4): (0.1, 1.0)}
    search = tuning(monkeypatch, made)
    make = search.make

    def failing(options: Options) -> object:
        if options.unroll == 4:
            raise wf.WeftError("no")
        return make(options)

    search.make = failing  # type: ignore[assignment]
    assert search.run(100, show=False).options == Options(unroll=2)


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
    template = wf.tc.define(TEXT).scale.template
    chosen = Options(tiles=(("m", 8),), unroll=2, order=("n", "m"))
    tuned.keep(template, [A.shape, B.shape], Found(Options(unroll=8), 0.9, 1.0))
    tuned.keep(template, [A.shape, B.shape], Found(chosen, 0.5, 1.0))
    tuned.keep(template, [A.shape, B.shape], Found(Options(unroll=4), 0.7, 1.0))
    later = wf.tc.define(TEXT, backend="cc").scale
    assert later.options(A, B) == chosen
    np.testing.assert_allclose(later(A, B), np.tanh(A), rtol=1e-6)
    assert later.options(A[:3], B) == Options()
    other = wf.tc.define(TEXT.replace("tanh", "exp"), backend="cc").scale
    assert other.options(A, B) == Options()


def test_another_kind_of_machine_is_another_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    template = wf.tc.define(TEXT).scale.template
    tuned.keep(template, [A.shape, B.shape], Found(Options(unroll=8), 0.5, 1.0))
    monkeypatch.setattr(tuned, "machine", lambda: "another")
    assert tuned.best(template, [A.shape, B.shape]) is None


@pytest.mark.parametrize("line", ["", "not json", "{}", "[1]", '{"options": 3}', "\x00\xff", '{"program": null}'])
def test_lines_that_cannot_be_read_are_passed_over(line: str, own_cache: Path) -> None:
    template = wf.tc.define(TEXT).scale.template
    tuned.keep(template, [A.shape, B.shape], Found(Options(unroll=8), 0.5, 1.0))
    with own_cache.open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")
    tuned.keep(template, [A.shape, B.shape], Found(Options(unroll=4), 0.4, 1.0))
    found = tuned.best(template, [A.shape, B.shape])
    assert found is not None
    assert found.options == Options(unroll=4)


def test_a_file_of_others_is_not_read(own_cache: Path) -> None:
    template = wf.tc.define(TEXT).scale.template
    tuned.keep(template, [A.shape, B.shape], Found(Options(unroll=8), 0.5, 1.0))
    os.chmod(own_cache.parent, 0o777)
    assert tuned.best(template, [A.shape, B.shape]) is None


def test_options_by_hand() -> None:
    scale = wf.tc.define(TEXT, backend="cc").scale
    assert scale.options(A, B) == Options()
    assert scale.options(A, B, choose=Options(lanes=8)) == Options(lanes=8)
    assert "simdlen(8)" in scale.show("source", A, B)
    with pytest.raises(wf.WeftError, match="'fast' are no options"):
        scale.options(A, B, choose="fast")  # type: ignore[arg-type]
