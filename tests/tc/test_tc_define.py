"""`wf.tc.define`: the object it gives, and the definitions on it."""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import weft as wf
from comprehension.test_comprehension_fuzz import TOKENS

TEXT = """
def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }
def stats(float(N) x, float(N) y) -> (s, m) { s +=! x(i) * y(i)
    m max=! x(i) }
"""
A, B = np.ones((2, 3), "float32"), np.ones((3, 4), "float32")


def test_every_definition_is_an_attribute_and_an_item() -> None:
    tc = wf.tc.define(TEXT)
    assert [one.name for one in tc] == ["mm", "stats"]
    assert tc.mm is tc["mm"]
    assert {"mm", "stats"} <= set(dir(tc))
    assert tc.mm.params == ("A", "B")
    assert tc.stats.results == ("s", "m")


def test_it_prints_as_the_language_and_says_what_it_is() -> None:
    tc = wf.tc.define(TEXT)
    assert str(wf.tc.define(str(tc))) == str(tc)
    assert repr(tc) == "<comprehensions mm, stats>"
    assert repr(tc.stats) == "<comprehension stats(x, y) -> (s, m)>"
    assert str(tc.mm) in str(tc)


def test_names_that_cannot_be_attributes_are_items() -> None:
    tc = wf.tc.define("def for(float(N) x) -> (y) { y(i) = x(i) }\ndef program(float(N) x) -> (y) { y(i) = 2 * x(i) }")
    assert tc["for"](A[0]).tolist() == [1, 1, 1]
    assert tc["program"](A[0]).tolist() == [2, 2, 2]


def test_a_name_that_is_not_there() -> None:
    tc = wf.tc.define(TEXT)
    assert not hasattr(tc, "nn")
    for asked in (lambda: tc.nn, lambda: tc["nn"]):
        with pytest.raises(wf.WeftError) as error:
            asked()
        assert error.value.what == "there is no definition `nn`"
        assert error.value.fix == "there are: mm, stats"


@pytest.mark.parametrize("text", [3, None, b"def f"])
def test_what_is_not_text(text: object) -> None:
    with pytest.raises(wf.WeftError, match="`define` takes text for `text`, not "):
        wf.tc.define(text)  # type: ignore[arg-type]


def test_mistakes_are_told_together() -> None:
    with pytest.raises(wf.tc.ComprehensionError) as error:
        wf.tc.define("def f(float(N) x) -> (y) { y(i) = x(i) + z(j) }")
    assert "2 mistakes" in str(error.value)
    assert str(error.value).count("fix:") == 2


def test_a_backend_that_is_not_there() -> None:
    with pytest.raises(wf.WeftError, match="there is no backend 'nope'"):
        wf.tc.define(TEXT, backend="nope").mm(A, B)


def test_names_of_values_do_not_explode() -> None:
    doubling = ", ".join(f"a{n + 1} = a{n} + a{n}" for n in range(40))
    with pytest.raises(wf.tc.ComprehensionError, match="with the names of `where` put in, the right side has"):
        wf.tc.define(f"def f(float(N) x) -> (y) {{ y(i) = a40 where a0 = x(i), {doubling} }}")
    chain = ", ".join(f"a{n + 1} = a{n} + 1" for n in range(400))
    with pytest.raises(wf.tc.ComprehensionError, match="levels deep"):
        wf.tc.define(f"def f(float(N) x) -> (y) {{ y(i) = a400 where a0 = x(i), {chain} }}")


# Stages


def test_stages(golden: Callable[..., None]) -> None:
    tc = wf.tc.define(TEXT, backend="interp")
    assert tc.mm.show("text") == str(tc.mm)
    for stage in ("ranges", "gradient", "assign", "loops"):
        golden(tc.stats.show(stage, A[0], A[1]), name=stage)


def test_stages_of_compiled_code() -> None:
    tc = wf.tc.define(TEXT, backend="cc")
    assert "kernel 0" in tc.mm.show("kernels", A, B)
    assert "C" in tc.mm.show("virtual", A=A, B=B)
    assert "C(m, n) +=! A(m, k) * B(k, n)" in tc.mm.show("source", A, B)


def test_a_stage_that_is_not_there() -> None:
    with pytest.raises(wf.WeftError) as error:
        wf.tc.define(TEXT).mm.show("assembly", A, B)
    assert error.value.what == "there is no stage 'assembly'"
    assert '"loops"' in (error.value.fix or "")


# Any text


@settings(max_examples=50)
@given(st.lists(st.sampled_from(TOKENS), max_size=25))
def test_any_text_is_defined_or_refused(tokens: list[str]) -> None:
    for text in (" ".join(tokens), f"def f(float(N,M) A, int32(N) B) -> (C) {{ C(i) = {' '.join(tokens)} }}"):
        with contextlib.suppress(wf.WeftError):
            for one in wf.tc.define(text):
                assert one.template.flat.results


def test_definitions_pickle_by_their_text() -> None:
    tc = wf.tc.define("def f(float(N) x) -> (y) { y(i) = 2 * x(i) }", backend="interp", unchecked=True)
    x = np.ones(3, "float32")
    again, alone = pickle.loads(pickle.dumps((tc, tc.f)))
    for one in (again.f, alone):
        np.testing.assert_array_equal(one(x), tc.f(x))
        assert one.source == tc.f.source == (tc.f.template.program.program.text, "f", True, "interp")
