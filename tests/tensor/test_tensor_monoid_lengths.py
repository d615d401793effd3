"""Gradients of accumulations by monoids whose values are counted by a call, or differ from cell to cell."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft as wf

RNG = np.random.default_rng(11)
INTERP = wf.Context("interp")

PRODUCT = wf.monoid("product", start=1.0, combine=lambda a, b: a * b)
#: Not commutative, of two numbers: maps `t -> a t + b`, one after another.
AFFINE = wf.monoid(
    "affine",
    start=(1.0, 0.0),
    of=lambda x: (wf.cos(x), wf.sin(x)),
    combine=lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]),
    result=lambda state: state[0] + state[1],
)
#: A field that no value changes, and one that says where a value stands.
LATE_MEAN = wf.monoid(
    "late_mean",
    start=(0.0, 0),
    of=lambda x, position: (x * x * position, 1),
    combine=lambda a, b: (a[0] + b[0], a[1] + b[1]),
    result=lambda state: state[0] / state[1],
)


def total(x: wf.Tensor) -> wf.Tensor:
    return wf.einsum("...|... => 0", x)


def affine(values: Any) -> tuple[float, np.ndarray]:
    """What AFFINE makes of some values, and its gradient: a step back for each."""
    carried = [(1.0, 0.0)]
    for x in values:
        carried.append((carried[-1][0] * np.cos(x), carried[-1][1] * np.cos(x) + np.sin(x)))
    d, found = np.ones(2), np.zeros(len(values))
    for at in reversed(range(len(values))):
        (a, b), x = carried[at], values[at]
        found[at] = d @ [-a * np.sin(x), -b * np.sin(x) + np.cos(x)]
        d = d * np.cos(x)
    return sum(carried[-1]), found


@pytest.mark.parametrize("backend", ["interp", "cc"])
def test_a_call_decides_how_many_values_are_joined(backend: str) -> None:
    xs, p = wf.input("xs", b="batch", o=3), wf.param("p", o=3, init=1.0)
    y = wf.einsum("b|d => d", xs * p, accum=PRODUCT)
    slope = wf.Context(backend).function(xs, returns=(y, wf.grad(total(y), p)))
    for count in (2, 5, 1, 0):
        given = RNG.uniform(0.5, 1.5, (count, 3)).astype(np.float32)
        value, gradient = slope(given)
        np.testing.assert_allclose(value, given.prod(0), rtol=1e-5)
        np.testing.assert_allclose(gradient, count * given.prod(0), rtol=1e-5)


def test_their_order_counts_along_several_axes_of_any_length() -> None:
    xs = wf.input("xs", b=["time", "batch"], o=2, dtype="float64")
    w = wf.param("w", o=2, init=1.0, dtype="float64")
    y = wf.einsum("t, b|d => d", xs * w, accum=AFFINE)
    slope = INTERP.function(xs, returns=(y, wf.grad(total(y), w)))
    for shape in ((2, 3, 2), (4, 1, 2)):
        given = RNG.standard_normal(shape)
        by_column = [affine(given[..., at].ravel()) for at in range(2)]
        value, gradient = slope(given)
        np.testing.assert_allclose(value, [one for one, _ in by_column])
        np.testing.assert_allclose(gradient, [given[..., at].ravel() @ d for at, (_, d) in enumerate(by_column)])


def test_a_step_learns_from_them() -> None:
    xs, w = wf.input("xs", b="batch", o=2), wf.param("w", o=2, init=1.0)
    step = wf.Context("cc").function(
        xs, code=wf.grad_update(total(wf.einsum("...|d => ...|0", wf.einsum("b|d => d", xs * w, accum=PRODUCT)))),
        returns=w.grad,
    )  # fmt: skip
    given = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], np.float32)
    np.testing.assert_allclose(step(given), 3 * given.prod(0))
    np.testing.assert_allclose(step(given[:2]), 2 * given[:2].prod(0))


@pytest.mark.parametrize("accum", [PRODUCT, AFFINE, LATE_MEAN, wf.top(2)])
def test_places_at_which_nothing_is_read_are_no_values(accum: Any) -> None:
    """Padding, and positions that are skipped; of first and second order."""
    k = ", r" * (accum is wf.top(2))
    x = wf.require_grad(wf.data(RNG.uniform(0.5, 1.5, 6), label="x"))
    table = wf.require_grad(wf.data(RNG.uniform(0.5, 1.5, (3, 2)), label="table"))
    ids = wf.data(np.array([[2, 7, 0, 1], [1, -1, 1, 2]]), batch=1, label="ids")
    y = total(wf.sin(wf.einsum(f"2*o=+k => o{k}", x, accum=accum, k=3)))
    y = y + total(wf.sin(wf.einsum(f"v, d; b|s@v => b|d{k}", table, ids, accum=accum, outside="skip")))
    wf.gradcheck(y, (x, table), context=INTERP)
    wf.gradcheck(total(wf.sin(wf.grad(y, x))), x, context=INTERP)


def test_padding_of_what_is_computed_at_once() -> None:
    x, w = (wf.require_grad(wf.data(RNG.uniform(0.5, 1.5, size), label="x")) for size in (5, 3))
    y = total(wf.einsum("o=+k; k => o", x, w, accum=PRODUCT, op="-"))
    wf.gradcheck(y, (x, w), context=INTERP)


@pytest.mark.parametrize("backend", ["interp", "cc"])
def test_in_the_cell_of_a_scan_whose_carry_is_a_number(backend: str) -> None:
    array = RNG.uniform(0.5, 1.5, (4, 3))
    x = wf.require_grad(wf.data(array, batch=1, label="x"))
    _, last = wf.scan(lambda h, x: 0.5 * h + wf.einsum("d => 0", x + 0.1 * h, accum=PRODUCT), x, init=0.0)
    found = wf.Context(backend)[wf.grad(total(last), x)]
    carried = [0.0]
    for row in array:
        carried.append(0.5 * carried[-1] + np.prod(row + 0.1 * carried[-1]))
    d, wanted = 1.0, np.zeros_like(array)
    for at in reversed(range(4)):
        shifted = array[at] + 0.1 * carried[at]
        wanted[at] = d * shifted.prod() / shifted
        d *= 0.5 + 0.1 * (shifted.prod() / shifted).sum()
    np.testing.assert_allclose(found, wanted)


def test_in_cells_within_cells_over_lengths_that_calls_decide() -> None:
    """A loop of joins inside two others, each with an index of its own."""
    xs = wf.input("xs", b=["outer", "inner"], o="values", dtype="float64")
    w = wf.param("w", o=1, init=1.0, dtype="float64")

    def inner(h: wf.Tensor, x: wf.Tensor) -> wf.Tensor:
        return 0.5 * h + wf.einsum("d => 0", x * w, accum=AFFINE)

    def outer(h: wf.Tensor, x: wf.Tensor) -> wf.Tensor:
        return 0.5 * h + wf.scan(inner, x, init=0.0)[1]

    _, last = wf.scan(outer, xs, init=0.0)
    slope = INTERP.function(xs, returns=wf.grad(total(last), w))
    given = RNG.standard_normal((2, 3, 4))
    weights = np.outer(0.5 ** np.arange(2)[::-1], 0.5 ** np.arange(3)[::-1])
    wanted = sum(weights[at] * (given[at] @ affine(given[at])[1]) for at in np.ndindex(2, 3))
    np.testing.assert_allclose(slope(given), [wanted])


def test_forwards_too() -> None:
    x = wf.require_grad(wf.data(RNG.uniform(0.5, 1.5, 4), label="x"))
    v = wf.data(RNG.standard_normal(4), label="v")
    y = wf.einsum("o=+k => 0", x, accum=PRODUCT, k=3)
    (pushed, slope) = (INTERP[one] for one in (wf.jvp(y, x, v), wf.grad(y, x)))
    np.testing.assert_allclose(pushed, [slope @ INTERP[v]])


def test_rows_that_nothing_speaks_of_have_no_axes_once_differentiated() -> None:
    w = wf.param("w", o=3)
    y = wf.einsum("d => 0", w, accum=PRODUCT)
    assert str(w.shape) == "...->3"
    wf.grad(y, w)
    assert str(w.shape) == "3"
    with pytest.raises(wf.ShapeError, match="w"):
        w @ wf.data(np.ones(4), label="z")
