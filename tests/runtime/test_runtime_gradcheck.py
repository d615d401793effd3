"""Gradients against differences, as users check them."""

from __future__ import annotations

import numpy as np
import pytest

import weft as wf


@wf.operator
def halved(v, v1):  # type: ignore[no-untyped-def]
    v[:] = v1 * v1


@halved.gradient
def _(g, g1, v1):  # type: ignore[no-untyped-def]
    g1 += g * v1  # half of what it is


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_what_is_right_passes(dtype: str) -> None:
    w, b = wf.param("w", i=3, o=4, dtype=dtype), wf.param("b", o=4, dtype=dtype)
    x = wf.data(np.random.default_rng(0).normal(size=(5, 3)).astype(dtype), batch=1)
    y = wf.tanh(w @ x + b)
    wf.gradcheck(y, (w, b))
    wf.gradcheck(wf.einsum("...|i; ...|i => 0", y, y), {"w": w, "b": b})


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_what_is_wrong_is_named(dtype: str) -> None:
    x = wf.param("x", o=(2, 2), dtype=dtype, init=np.array([[0.0, 0.1], [2.0, 0.0]]))
    with pytest.raises(wf.WeftError) as caught:
        wf.gradcheck(wf.einsum("ij => 0", halved(x), label="loss"), x)
    text = str(caught.value)
    assert "the gradient of `loss` by `x` is " in text
    assert " at [1, 0], and differences say " in text
    assert "2 of the elements that were checked differ" in text
    assert "look at the gradient functions of operators between them" in text
    assert "test_runtime_gradcheck.py" in text


def test_the_values_are_those_of_a_context_which_stays_as_it_is() -> None:
    """A wrong gradient is right where everything is zero."""
    x = wf.param("x", o=2, dtype="float64", init=0.0)
    y, ctx = halved(x), wf.Context("interp")
    wf.gradcheck(y, x)
    ctx[x] = [1.0, 2.0]
    with pytest.raises(wf.WeftError, match=r"at \[1\]"):
        wf.gradcheck(y, x, context=ctx)
    assert ctx[x].tolist() == [1.0, 2.0]


def test_data_and_gradients_of_gradients() -> None:
    x = wf.require_grad(wf.data(np.array([0.5, 1.5])))
    wf.gradcheck(wf.grad(wf.einsum("i => 0", x**3), x), x)


def test_what_is_large_is_checked_at_some_elements() -> None:
    x = wf.param("x", o=5000, dtype="float64")
    wf.gradcheck(wf.einsum("i; i => 0", x, x), x)


def test_a_tolerance_of_ones_own() -> None:
    x = wf.param("x", o=2, dtype="float64", init=1.0)
    wf.gradcheck(halved(x), x, tolerance=0.6)


def test_what_rounding_hides_is_no_difference() -> None:
    """In float32 a large value leaves few digits to a small slope; a wrong slope of the size of others shows."""
    start = np.random.default_rng(0).normal(size=60)
    p = wf.param("p", o=60, init=start)
    wf.gradcheck(wf.einsum("i => 0", 9 * p**4), p)

    with pytest.raises(wf.WeftError, match="the gradient of `einsum` by `p` is"):
        wf.gradcheck(wf.einsum("i => 0", 9 * halved(p) ** 2), p)
