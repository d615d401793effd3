"""`grad`: what it takes and gives. That gradients are right is shown in tests/comprehension."""

from __future__ import annotations

import numpy as np
import pytest

import weft as wf
from comprehension.running import assert_near, backends, definition

MM = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"
TWO = "def two(float(N) x, int32(N) n) -> (y, z, c) { y(i) = x(i) * x(i)\n z +=! 3 * x(i)\n c(i) = n(i) + 1 }"
A, B = np.arange(6, dtype="float32").reshape(2, 3), np.arange(12, dtype="float32").reshape(3, 4)
D = np.arange(8, dtype="float32").reshape(2, 4)
X, N = np.array([1, 2, 4], "float32"), np.array([1, 2, 3], "int32")


@backends
def test_by_every_parameter_of_floats(backend: str) -> None:
    by_a, by_b = definition(MM, backend).grad(A, B, d=D)
    assert_near(by_a, D @ B.T)
    assert_near(by_b, A.T @ D)


def test_by_some_parameters_in_the_order_asked() -> None:
    mm = definition(MM)
    assert_near(mm.grad(A, B, wrt="A", d=D), D @ B.T)
    by_b, by_a = mm.grad(A, B=B, wrt=("B", "A"), d=D)
    assert_near(by_b, A.T @ D)
    assert_near(by_a, D @ B.T)
    assert_near(mm.grad(A, B, wrt=["B"], d=[D]), A.T @ D)


def test_ones_where_no_gradient_is_given() -> None:
    assert_near(definition(MM).grad(A, B, wrt="A"), np.ones((2, 4)) @ B.T)
    assert_near(definition(TWO).grad(X, N), 2 * X + 3)


def test_gradients_of_several_results_and_of_some() -> None:
    two = definition(TWO)
    assert_near(two.grad(X, N, d=(X, np.array(2, "float32"), None)), 2 * X * X + 6)
    assert_near(two.grad(X, N, d=(None, np.array(2, "float32"), None)), [6, 6, 6])
    assert_near(two.grad(X, N, d=(None, None, None)), [0, 0, 0])


def test_a_number_for_the_gradient_of_a_number() -> None:
    dot = definition("def dot(float(N) x, float(N) y) -> (z) { z +=! x(i) * y(i) }")
    assert_near(dot.grad(X, X, wrt="x", d=3), 3 * X)


@backends
def test_of_what_is_accumulated_into(backend: str) -> None:
    f = definition("def f(float(N) x) -> (y) { y(i) += x(i) * x(i) }", backend)
    by_x, by_y = f.grad(X, X)
    assert_near(by_x, 2 * X)
    assert_near(by_y, [1, 1, 1])


def test_gradients_belong_to_the_caller() -> None:
    f = definition("def f(float(N) x) -> (y) { y(i) = x(i) }")
    seed = np.ones(3, "float32")
    found = f.grad(X, d=seed)
    found[:] = 5
    assert seed.tolist() == [1, 1, 1]
    assert f.grad(X, d=seed).tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("asked", "said", "fix"),
    [
        ({"wrt": "Q"}, "`mm` has no parameter `Q` to differentiate by", "use one of A, B"),
        (
            {"wrt": ("A", "A")},
            "`wrt` is a parameter of `mm` or several different ones, not ('A', 'A')",
            "use one of A, B",
        ),
        ({"wrt": ()}, "`wrt` is a parameter of `mm` or several different ones, not ()", "use one of A, B"),
        ({"wrt": 3}, "`wrt` is a parameter of `mm` or several different ones, not 3", "use one of A, B"),
        ({"d": D.T}, "`C` is float32[2, 4], and its gradient was given as float32[4, 2]", "pass an array of its shape"),
        ({"d": D.astype("float64")}, "its gradient was given as float64[2, 4]", "pass an array of its shape"),
        ({"d": (D, D)}, "`d` has 2 gradients, and `mm` has 1 results", "pass one for each of C"),
        ({"d": "D"}, "`d of C`: data must be numbers", "convert it first"),
    ],
)
def test_what_cannot_be_asked(asked: dict[str, object], said: str, fix: str) -> None:
    with pytest.raises(wf.WeftError) as error:
        definition(MM).grad(A, B, **asked)
    assert said in error.value.what
    assert fix in (error.value.fix or "")


def test_whole_numbers_have_no_gradient() -> None:
    with pytest.raises(wf.WeftError, match="`n` of `two` is int32: there is no gradient by whole numbers"):
        definition(TWO).grad(X, N, wrt="n")
    whole = definition("def f(int32(N) x) -> (y) { y(i) = x(i) }")
    for asked in (lambda: whole.grad(N), lambda: whole.show("gradient", N)):
        with pytest.raises(wf.WeftError, match="`f` has no floating-point parameter to differentiate by"):
            asked()
    with pytest.raises(wf.WeftError, match="no result of `f` is floating-point"):
        definition("def f(float(N) x) -> (y) { y(i) = int32(x(i)) }").grad(X)
    with pytest.raises(wf.WeftError, match="`f` has no floating-point parameter"):
        definition("def f() -> (y) { y(i) = 1.5 where i in 0:2 }").grad()
