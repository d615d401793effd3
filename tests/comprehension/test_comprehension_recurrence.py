"""Statements that read what they wrote: against NumPy's loops, with gradients of both orders, and refused otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.comprehension.mistakes import ComprehensionError

Array = Any
X = np.random.default_rng(3).normal(size=(5, 4))

#: Statements for a cell, the order in which they run, and the cell of NumPy.
RECURRENCES: dict[str, tuple[Callable[[Array, Array, int, int], float], bool]] = {
    "i > 0 ? tanh(h(i - 1,j) + x(i,j)) : x(i,j)": (
        lambda h, x, i, j: np.tanh(h[i - 1, j] + x[i, j]) if i else x[i, j],
        False,
    ),
    "i < N - 1 ? tanh(h(i + 1,j) * x(i,j)) : x(i,j)": (
        lambda h, x, i, j: np.tanh(h[i + 1, j] * x[i, j]) if i < 4 else x[i, j],
        True,
    ),
    "j > 0 ? h(i,j - 1) + x(i,j) : x(i,j)": (lambda h, x, i, j: (h[i, j - 1] if j else 0) + x[i, j], False),
    "i > 1 ? h(i - 1,j) * x(i,j) - 0.5 * h(i - 2,j) : x(i,j)": (
        lambda h, x, i, j: h[i - 1, j] * x[i, j] - 0.5 * h[i - 2, j] if i > 1 else x[i, j],
        False,
    ),
    "i > 0 && j > 0 ? fmax(h(i - 1,j), h(i,j - 1)) + x(i,j) : x(i,j)": (
        lambda h, x, i, j: max(h[i - 1, j], h[i, j - 1]) + x[i, j] if i and j else x[i, j],
        False,
    ),
    "i > 0 && j < M - 1 ? sin(h(i - 1,j + 1)) + x(i,j) : x(i,j)": (
        lambda h, x, i, j: np.sin(h[i - 1, j + 1]) + x[i, j] if i and j < 3 else x[i, j],
        False,
    ),
}


def filled(cell: Callable[[Array, Array, int, int], float], down: bool) -> Array:
    h = np.zeros_like(X)
    for i in range(5)[:: -1 if down else 1]:
        for j in range(4):
            h[i, j] = cell(h, X, i, j)
    return h


def test_recurrences() -> None:
    names = [f"f{number}" for number in range(len(RECURRENCES))]
    texts = zip(names, RECURRENCES, strict=True)
    tc = wf.tc.define("\n".join(f"def {name}(double(N,M) x) -> (h) {{ h(i,j) = {text} }}" for name, text in texts))
    x = wf.require_grad(wf.data(X, label="x"))
    found = [getattr(tc, name)(x) for name in names]
    expected = [filled(*one) for one in RECURRENCES.values()]
    for backend in ("interp", "cc"):
        ctx = wf.Context(backend)
        ctx.compile(wf.seq(*(one.forward for one in found)))()
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(ctx[one], other, rtol=1e-12)
    loss = sum((wf.einsum("...|... => 0", one * wf.sin(one)) for one in found[1:]), wf.number(0.0))
    wf.gradcheck(loss, x)
    gradient = wf.grad(sum((wf.einsum("...|... => 0", one * one) for one in found[:3]), wf.number(0.0)), x)
    wf.gradcheck(wf.einsum("...|... => 0", gradient * wf.sin(gradient)), x)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (
            "t > 0 && t < T - 1 ? h(t + 1) + h(t - 1) : x(t)",
            "no order of its loops writes every cell before it is read",
        ),
        ("t > 0 ? h(t / 2) : x(t)", "its subscripts are not sums of indices"),
        ("t > 0 ? h(T - 1 - t) : x(t)", "no order of its loops writes every cell before it is read"),
        ("t > 0 ? h(t + 1) : x(t)", "`t + 1` takes the values 2 to 4, and axis 0 of `h` is 4"),
        ("h(t - 1) + x(t)", "`t` begins at 1, so nothing defines `h` below 1"),
    ],
)
def test_what_cannot_be_shown_is_refused(value: str, said: str) -> None:
    with pytest.raises(ComprehensionError) as raised:
        wf.tc.define(f"def f(float(T) x) -> (h) {{ h(t) = {value} }}").f(np.ones(4, np.float32))
    assert said in str(raised.value)


def test_a_recurrence_is_a_loop_that_reads_itself() -> None:
    tc = wf.tc.define("def f(float(T) x) -> (h) { h(t) = t < T - 1 ? h(t + 1) + x(t) : x(t) }")
    assert "for t in range(4):\n    h[-t + 3] = " in tc.f.show("loops", np.ones(4, np.float32))


def test_a_gradient_that_is_not_derived_says_so() -> None:
    tc = wf.tc.define("def f(double(T) x) -> (h) { h(t) = 2 * t < T - 1 ? h(2 * t + 1) + x(t) : x(t) }")
    x = wf.require_grad(wf.data(X[0], label="x"))
    h = tc.f(x)
    assert wf.Context("interp")[h].shape == (4,)
    with pytest.raises(wf.WeftError, match="lies at no fixed distance"):
        wf.grad(wf.einsum("...|... => 0", h), x)
