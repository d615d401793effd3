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


#: Statements that reduce what cells before them hold, and NumPy's step from one row to the next.
REDUCING: dict[str, tuple[str, Callable[[Array, Array, Array], Array], bool]] = {
    "i > 0 ? w(j,k) * h(i - 1,k) + x(i,j) : x(i,j) * w(j,k)": (
        "+=!",
        lambda w, h, x: w @ h + len(w) * x if h is not None else w.sum(1) * x,
        False,
    ),
    "i < N - 1 ? tanh(h(i + 1,k)) * w(k,j) * x(i,k) : w(j,k)": (
        "+=!",
        lambda w, h, x: (np.tanh(h) * x) @ w if h is not None else w.sum(1),
        True,
    ),
    "i > 0 ? h(i - 1,k) + w(j,k) + x(i,j) : x(i,k)": (
        "max=!",
        lambda w, h, x: (w + h).max(1) + x if h is not None else np.full(len(x), x.max()),
        False,
    ),
    "i > 0 ? h(i - 1,j) * w(j,k) : x(i,j) + w(j,k)": (
        "+=!",
        lambda w, h, x: h * w.sum(1) if h is not None else len(w) * x + w.sum(1),
        False,
    ),
}


def rows_filled(step: Callable[[Array, Array, Array], Array], down: bool, x: Array, w: Array) -> Array:
    rows = [None]
    for row in x[:: -1 if down else 1]:
        rows.append(step(w, rows[-1], row))
    return np.array(rows[1:])[:: -1 if down else 1]


def reducing(dtype: str) -> list[Callable[..., Any]]:
    texts = [
        f"def f{number}({dtype}(N,M) x, {dtype}(M,M) w) -> (h) {{ h(i,j) {sign} {text} where k in 0:M }}"
        for number, (text, (sign, *_)) in enumerate(REDUCING.items())
    ]
    tc = wf.tc.define("\n".join(texts))
    return [getattr(tc, f"f{number}") for number in range(len(texts))]


def test_recurrences_that_reduce() -> None:
    w_array = np.random.default_rng(5).normal(size=(4, 4))
    x, w = (wf.require_grad(wf.data(one, label="x")) for one in (X, w_array))
    found = [one(x, w) for one in reducing("double")]
    for backend in ("interp", "cc"):
        ctx = wf.Context(backend)
        ctx.compile(wf.seq(*(one.forward for one in found)))()
        for one, (_, step, down) in zip(found, REDUCING.values(), strict=True):
            np.testing.assert_allclose(ctx[one], rows_filled(step, down, X, w_array), rtol=1e-12)
    loss = sum((wf.einsum("...|... => 0", wf.sin(one)) for one in found), wf.number(0.0))
    wf.gradcheck(loss, (x, w), context=wf.Context("interp"))
    gradient = wf.grad(wf.einsum("...|... => 0", wf.sin(found[1])), w)
    wf.gradcheck(wf.einsum("...|... => 0", wf.sin(gradient)), w, context=wf.Context("interp"))


def test_what_is_reduced_in_a_wide_type_is_read_as_it_is_stored() -> None:
    """The sums of a row are single precision, and the next row reads halves."""
    array, w = (np.random.default_rng(9).normal(size=shape).astype(np.float16) for shape in ((6, 40), (40, 40)))
    w /= np.float16(8)
    expected = rows_filled(
        lambda w, h, x: (w @ h.astype(np.float32) + 40 * x if h is not None else w.sum(1) * x).astype(np.float16),
        False, array.astype(np.float32), w.astype(np.float32),
    )  # fmt: skip
    given = wf.data(array, label="x"), wf.data(w, label="w")
    one, other = (wf.Context(backend)[reducing("half")[0](*given)] for backend in ("interp", "cc"))
    np.testing.assert_allclose(one.astype(float), expected.astype(float), rtol=4e-3, atol=0.02)
    assert np.array_equal(one, other)


def test_a_gradient_of_two_reads_that_are_reduced_is_not_derived() -> None:
    text = "i > 1 ? h(i - 1,k) * h(i - 2,j) : x(i,k)"
    tc = wf.tc.define(f"def f(double(N,M) x) -> (h) {{ h(i,j) +=! {text} where j in 0:M }}")
    x = wf.require_grad(wf.data(X, label="x"))
    with pytest.raises(wf.WeftError, match=r"it reduces, and reads `h\(i - 1, k\)` and `h\(i - 2, j\)`"):
        wf.grad(wf.einsum("...|... => 0", tc.f(x)), x)


def test_what_a_recurrence_begins_with_is_asked_for() -> None:
    for value, sign, fix in (
        ("h(t - 1) + x(t)", "=", "`h(t) = t > 0 ? … : …`"),
        ("h(t - 2) * x(t)", "=", "`h(t) = t >= 2 ? … : …`"),
        ("h(t - 1) * x(k) + x(t)", "+=!", "`h(t) +=! t > 0 ? … : …`"),
    ):
        with pytest.raises(ComprehensionError) as raised:
            wf.tc.define(f"def f(float(T) x) -> (h) {{ h(t) {sign} {value} }}")
        assert raised.value.fix == f"say what the first cells are: {fix}"


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
