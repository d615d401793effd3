"""What a text says to be the same, `… <=> f(…)`, is read, and tried where both sides can run."""

from __future__ import annotations

import numpy as np
import pytest

import weft as wf

SIGMOID = "def f(float(B,I,J) X) -> (Z) {{ Z(b, i, j) = {} <=> sigmoid(X(b, i, j)) }}"
MATMUL = "def matmul(float(M,K) P, float(K,N) Q) -> (R) {{ R(m,n) +=! P(m,k) * Q({}) }}\n"
PRODUCT = "def fun(float(X,Y) A, float(Y,Z) B) -> (O) { O(i,j) +=! A(i,k) * B(k,j) <=> matmul(A(i,k), B(k,j)) }"

FINE = {
    "a builtin": SIGMOID.format("1 / (1 + exp(-X(b, i, j)))"),
    "nothing of that name": PRODUCT,
    "a definition": MATMUL.format("k,n") + PRODUCT,
    "a definition after it": PRODUCT + MATMUL.format("k,n"),
    "after another statement": (
        "def f(float(N) x) -> (y) { t(i) = x(i) * 2  y(i) = t(i) > 0 ? t(i) : 0 <=> relu(t(i)) where i in 0:N }"
    ),
    "what begins with what the caller passes": "def f(float(N) x) -> (y) { y(i) += x(i) <=> relu(x(i)) }",
    "what cannot run": "def f(float(N) x, int32(N) i0) -> (y) { y(i) = x(i0(i) + 90) <=> exp(x(i)) }",
}


@pytest.mark.parametrize("name", FINE)
def test_what_is_the_same_or_nobody_can_tell(name: str) -> None:
    text = FINE[name]
    tc = wf.tc.define(text)
    assert "<=>" in str(tc)
    assert wf.tc.define(str(tc)).program.program == tc.program.program


def test_it_changes_nothing() -> None:
    x = np.array([[[0, 2]]], "float32")
    text = FINE["a builtin"]
    one = wf.tc.define(text, backend="interp").f
    other = wf.tc.define(text[: text.index("<=>")] + "}", backend="interp").f
    np.testing.assert_array_equal(one(x), other(x))
    np.testing.assert_array_equal(one.grad(x), other.grad(x))


WRONG = {
    SIGMOID.format("1 / (1 + exp(X(b, i, j)))"): "sigmoid(X(b, i, j))",
    MATMUL.format("k,n").replace("* Q", "+ Q") + PRODUCT: "matmul(A(i, k), B(k, j))",
    "def f(float(N) x) -> (y) { y +=! x(i) * x(i) <=> fmax(x(i), 0) }": "fmax(x(i), 0)",
}


@pytest.mark.parametrize("text", WRONG)
def test_what_is_not_the_same_is_refused(text: str) -> None:
    with pytest.raises(wf.tc.ComprehensionError) as raised:
        wf.tc.define(text)
    (mistake,) = raised.value.mistakes
    assert mistake.what.startswith(f"`{WRONG[text]}` is not the same: on random numbers it gives ")
    assert mistake.fix == "mend one of the two, or leave out what follows `<=>`"
    assert text[mistake.span.start : mistake.span.end].replace(" ", "") == WRONG[text].replace(" ", "")


def test_another_shape_is_not_the_same() -> None:
    text = "def g(float(N) x) -> (y) { y(i) = x(i + 1) }\ndef f(float(N) x) -> (y) { y(i) = x(i) <=> g(x(i)) }"
    with pytest.raises(wf.tc.ComprehensionError, match=r"is not the same: it has the shape \[\d\], not \[\d\]"):
        wf.tc.define(text)
