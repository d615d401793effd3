"""`wf.Context()`: the best backend that works, and one warning where that is the interpreter."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest

import weft as wf
from runtime.scripts import run_script
from weft import backends


@pytest.fixture(autouse=True)
def no_choice_made(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("WEFT_BACKEND")
    monkeypatch.delenv("WEFT_CC", raising=False)
    backends._interpreter_instead.cache_clear()
    yield
    backends._interpreter_instead.cache_clear()


def name(ctx: wf.Context) -> str:
    return repr(ctx).split(",")[0]


def test_compiled_code_where_there_is_a_compiler() -> None:
    assert name(wf.Context()) == "<context on cc"


def test_one_warning_where_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_CC", "no-such-compiler")
    with pytest.warns(wf.WeftWarning) as caught:
        made = [wf.Context() for _ in range(3)]
    assert {name(ctx) for ctx in made} == {"<context on interp"}
    (warning,) = caught
    text = str(warning.message)
    assert text.startswith("WEFT_CC names no compiler ('no-such-compiler'), so code is interpreted, which is slow")
    assert all(hint in text for hint in ("install gcc or clang", 'pip install "weft[cc]"', "set WEFT_CC"))
    assert warning.filename == __file__


def test_the_warning_where_nothing_was_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing() -> backends.Backend:
        raise wf.WeftError("no C compiler was found")

    monkeypatch.setattr(backends, "Cc", nothing)
    with pytest.warns(wf.WeftWarning, match="^no C compiler was found, so code is interpreted"):
        wf.Context()


def test_asking_for_the_interpreter_warns_of_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_CC", "no-such-compiler")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wf.Context("interp")
        monkeypatch.setenv("WEFT_BACKEND", "interp")
        assert name(wf.Context()) == "<context on interp"


def test_asking_for_compiled_code_without_a_compiler_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_CC", "no-such-compiler")
    for _ in range(2):
        with pytest.raises(wf.WeftError, match="WEFT_CC names no compiler: 'no-such-compiler'") as caught:
            wf.Context("cc")
        assert 'pip install "weft[cc]"' in caught.value.fix
    monkeypatch.setenv("WEFT_BACKEND", "cc")
    with pytest.raises(wf.WeftError, match="WEFT_CC names no compiler"):
        wf.Context()


def test_a_default_that_does_not_exist_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_BACKEND", "tpu")
    with pytest.raises(wf.WeftError) as caught:
        wf.Context()
    assert caught.value.what == "WEFT_BACKEND names no backend: 'tpu'"
    assert caught.value.fix == 'use one of "interp", "cc", "cuda"'


def test_the_warning_is_shown_once_in_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_CC", "no-such-compiler")
    done = run_script("for _ in range(3):\n    wf.Context()\nprint(wf.Context()[wf.number(2.0) + 1.0])\n")
    assert (done.returncode, done.stdout) == (0, "[3.]\n")
    assert done.stderr.count("WeftWarning") == 1
