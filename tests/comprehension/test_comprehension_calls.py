"""Calls of other definitions: results that are not wanted, numbers and sizes, and what goes on from a tensor."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import weft as wf
from comprehension.running import backends, definition

X = np.array([1, -2, 3], "float32")
TWO = "def two(float(N) x) -> (a, b) { a(i) = 2 * x(i)  b +=! x(i) }\n"
SCALED = "def scaled(float(N) x, float s, int32 n) -> (y) { y(i) = s * x(i) + n }\n"
ADDED = "def added(float(N) x) -> (y) { y(i) += x(i) }\n"

CALLS = {
    TWO + "def f(float(N) x) -> (a) { a, _ = two(x) }": 2 * X,
    TWO + "def f(float(N) x) -> (b) { _, _ = two(x)  _, b = two(x) }": 2,
    SCALED + "def f(float(N) x) -> (y) { y = scaled(x, 2.0, 1) }": 2 * X + 1,
    SCALED + "def f(float(N) x) -> (y) { y = scaled(x, N, -N) }": 3 * X - 3,
    SCALED + "def f(float(N) x) -> (y) { y = scaled(x, 0.5 * x.0 + x(1), min(N, 2)) }": -0.5 * X + 2,
    SCALED + "def f(float(N) x) -> (y) { s +=! x(i) y = scaled(x, s * s, 0) }": 4 * X,
    ADDED + "def f(float(N) x) -> (y) { y(i) = 1.0 where exists x(i)  y = added(x) }": X + 1,
    ADDED + "def f(float(N) x) -> (y) { y(i) = x(i)  y = added(x)  y = added(y) }": 4 * X,
    "def into(float(N) x, float(N) y) -> (y) { y(i) += x(i) }\n"
    "def f(float(N) x) -> (z) { z(i) = x(i)  z = into(x, z)  z = into(x, z) }": 3 * X,
}


@backends
@pytest.mark.parametrize("text", CALLS)
def test_calls(text: str, backend: str) -> None:
    np.testing.assert_array_equal(definition(text, backend)(X), CALLS[text])


@backends
def test_a_definition_that_calls_one_that_accumulates_accumulates_too(backend: str) -> None:
    f = definition(ADDED + "def f(float(N) x) -> (y) { y = added(x) }", backend)
    assert f.params == ("x", "y")
    np.testing.assert_array_equal(f(X, np.ones(3, "float32")), X + 1)
    out = np.full(3, 10, "float32")
    f(X, outputs=(out,))
    np.testing.assert_array_equal(out, X + 10)


@backends
def test_gradients_go_through_numbers_that_are_passed(backend: str) -> None:
    text = SCALED + "def f(float(N) x) -> (y) { s +=! x(i)  y = scaled(x, s, N) }"
    np.testing.assert_allclose(definition(text, backend).grad(X), X.sum() + np.full(3, X.sum()))
    unwanted = TWO + "def f(float(N) x) -> (a) { a, _ = two(x) }"
    np.testing.assert_array_equal(definition(unwanted, backend).grad(X), [2, 2, 2])
    begun = ADDED + "def f(float(N) x) -> (y) { y(i) = x(i) * x(i)  y = added(x) }"
    np.testing.assert_array_equal(definition(begun, backend).grad(X), 2 * X + 1)


def test_shapes_of_tensors_flow_through_calls() -> None:
    f = definition(SCALED + "def f(float(B,N) x) -> (y) { s +=! x(b, n)  y(b, n) = x(b, n) * s }")
    assert str(f(wf.data(np.ones((2, 3), "float32"))).dims) == "2,3"
    g = definition(TWO + "def g(float(N) x) -> (a) { a, _ = two(x) }")
    w = wf.param("w")
    assert str((g(w) + wf.data(X)).dims) == "3"
    assert str(w.dims) == "3"


# Names


def test_names_that_tensor_comprehensions_leaves_free() -> None:
    relu = definition("def relu(float(B,M) I) -> (O) { O(b, m) = fmax(I(b, m), 0) }", name="relu")
    np.testing.assert_array_equal(relu(np.array([[-1, 2]], "float32")), [[0, 2]])
    mean = definition("def mean(float(N) x) -> (mean) { mean +=! x(i) / N }")
    np.testing.assert_allclose(mean(X), X.mean())
    text = "def sum(float(N) x) -> (s) { s +=! x(i) }\ndef f(float(N,G) x) -> (sum) { sum(n,g) = x(n,g) sum(n,g) += 1 }"
    np.testing.assert_array_equal(definition(text)(np.ones((2, 2), "float32")), [[2, 2], [2, 2]])


def test_an_own_definition_is_called_and_a_builtin_of_the_name_applied() -> None:
    text = "def relu(float(N) x) -> (y) { y(i) = -relu(x(i)) }\ndef f(float(N) x) -> (y) { y = relu(x) }"
    np.testing.assert_array_equal(definition(text)(X), [-1, 0, -3])


@pytest.mark.parametrize("name", ["relu", "sigmoid", "abs", "digamma", "half", "byte", "long", "int", "bfloat16"])
def test_names_of_weft_may_be_used_for_tensors(name: str) -> None:
    text = f"def f(float(N) {name}) -> (y) {{ {name}_(i) = {name}(i) * 2  y(i) = {name}_(i) + lgamma({name}(i) + 5) }}"
    f = definition(text)
    twice = definition(text.replace(name, "x"))
    np.testing.assert_array_equal(f(X), twice(X))
    gradient = definition(f.show("gradient", X))
    np.testing.assert_allclose(gradient(X, np.ones(3, "float32")), twice.grad(X))


@pytest.mark.parametrize("name", ["exp", "fmax", "min", "float", "int32", "float16"])
def test_names_of_the_language_may_not(name: str) -> None:
    with pytest.raises(wf.tc.ComprehensionError, match=f"`{name}` is a.* and cannot name a tensor"):
        wf.tc.define(f"def f(float(N) {name}) -> (y) {{ y = 1 }}")


# What is doubted


def warned(text: str) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        wf.tc.define(text)
    assert all(one.category is wf.WeftWarning and one.filename == __file__ for one in caught)
    return [str(one.message) for one in caught]


def test_what_nothing_uses_is_doubted() -> None:
    assert warned("def f(float(N) x) -> (y) {\n    y(i) = x(i)\n    t(i) = 2 * x(i)\n}") == [
        "line 3, column 5: nothing uses `t`\n    t(i) = 2 * x(i)\n    ^\n  fix: make it a result: `-> (…, t)`"
    ]
    assert warned(TWO + "def f(float(N) x) -> (a) { a, b = two(x) }") == [
        "line 2, column 31: nothing uses `b`\n    def f(float(N) x) -> (a) { a, b = two(x) }\n"
        "                                  ^\n  fix: write `_` for it"
    ]
    assert warned(TWO + "def f(float(N) x) -> (a) { a, _ = two(x) }") == []


def test_an_index_along_two_sizes_is_doubted() -> None:
    (said,) = warned("def f(float(N) x, float(M) w) -> (y) { y(i) = x(i) * w(i) }")
    assert said == (
        "line 1, column 49: `i` runs along axis 0 of `x`, which is `N`, and along axis 0 of `w`, which is `M`: "
        "as far as the shorter one\n"
        "    def f(float(N) x, float(M) w) -> (y) { y(i) = x(i) * w(i) }\n"
        "                                                    ^\n"
        "  fix: give both the same size, or say which: `where i in 0:N`"
    )
    (through,) = warned("def f(float(N) x, float(M) w) -> (y) { h(i) = x(i) + 1 y(i) = h(i) * w(i) }")
    assert "axis 0 of `h`, which is `N`" in through
    for fine in (
        "def f(float(N) x, float(M) w) -> (y) { y(i) = x(i) * w(i) where i in 0:N }",
        "def f(float(N) x, float(M) w) -> (y) { y(i) = i < N ? x(i) : w(i - N) }",
        "def f(float(N) x, float(M) w) -> (y) { y(i) +=! x(i + k) * w(k) }",
        "def f(float(N) x, float(3) w) -> (y) { y(i) = x(i) * w(i) }",
        "def f(float(N) x, float(M) w) -> (y, z) { y(i) = x(i) z(i) = w(i) }",
    ):
        assert warned(fine) == []
