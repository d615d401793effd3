"""Elements in order: against NumPy on both backends, along any axis; gradients go to where they came from."""

from __future__ import annotations

import numpy as np
import pytest

import weft as wf

RNG = np.random.default_rng(3)


@pytest.mark.parametrize("backend", ["interp", "cc"])
def test_elements_are_in_order_along_any_axis(backend: str) -> None:
    array = RNG.integers(0, 12, (3, 4, 17)).astype(np.float32)
    array[1, 2, 3], array[0, 1, 4], array[2, 0, 0] = np.nan, np.inf, -np.inf
    whole = RNG.integers(-128, 128, (2, 9)).astype(np.int8)
    x, y = wf.data(array, batch=1, label="x"), wf.data(whole, label="y")
    cases = {
        wf.sort(x): np.sort(array),
        wf.sort(x, descending=True): np.sort(array)[..., ::-1],
        wf.sort(x, "...|td => ...|d"): np.sort(array, axis=1),
        wf.sort(x, "b|... => ..."): np.sort(array, axis=0),
        wf.argsort(x): np.argsort(array, kind="stable"),
        wf.sort(y): np.sort(whole),
        wf.argsort(y, "ij => j"): np.argsort(whole, axis=0, kind="stable"),
    }
    ctx = wf.Context(backend)
    ctx.compile(wf.seq(*(one.forward for one in cases)))()
    for found, wanted in cases.items():
        np.testing.assert_array_equal(ctx[found], wanted)
    assert ctx[wf.sort(y)].dtype == np.int8


def test_gradients_go_to_where_elements_came_from() -> None:
    array = RNG.standard_normal((3, 6))
    w = wf.require_grad(wf.data(array, batch=1, label="w"))
    weights = wf.data(np.arange(1.0, 7.0), label="weights")
    y = wf.sum(wf.sin(wf.sort(w)) * weights, "...|... => 0") + wf.sum(wf.top_k(w, 2)[0] ** 2, "...|... => 0")
    y = y + wf.sum(wf.einsum("b|v => b|k", w, accum=wf.top(2)) ** 3, "...|... => 0")
    wf.gradcheck(y, w)
    wf.gradcheck(wf.sum(wf.grad(y, w) ** 2, "...|... => 0"), w)


def test_there_is_one_axis_to_sort_along() -> None:
    x = wf.data(np.ones((2, 3), np.float32), label="x")
    with pytest.raises(wf.EinsumError, match="sort works along one axis, and the spec leaves out i, j"):
        wf.sort(x, "ij => 0")
    with pytest.raises(wf.EinsumError, match="top_k works along one axis"):
        wf.top_k(x, 2, "ij => ij")


@pytest.mark.parametrize("backend", ["interp", "cc"])
def test_more_of_the_largest_than_registers_hold(backend: str) -> None:
    array = np.random.default_rng(7).normal(size=(3, 50)).astype(np.float32)
    array[1, 7], array[2, 5] = np.nan, array[2, 9]
    x = wf.data(array, batch=1)
    ctx = wf.Context(backend)
    (many, where), (few, first) = wf.top_k(x, 40), wf.top_k(x, 3)
    assert np.array_equal(ctx[where][:, :3], ctx[first])
    assert np.array_equal(ctx[many][:, :3], ctx[few], equal_nan=True)
    assert np.array_equal(ctx[many][0], np.sort(array[0])[::-1][:40])
    with pytest.raises(wf.ShapeError, match="there are no 60 largest along `v`"):
        wf.top_k(x, 60)


@pytest.mark.parametrize("backend", ["interp", "cc"])
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int32", "int64", "uint64"])
@pytest.mark.parametrize("length", [5, 70])
def test_whole_numbers_of_any_type_at_any_length(backend: str, dtype: str, length: int) -> None:
    # What large unsigned numbers are compared in holds no position: these are compared by themselves.
    array = RNG.integers(0, np.iinfo(dtype).max if dtype != "bool" else 1, (3, length), np.uint64, endpoint=True)
    array = array.astype(dtype)
    x, ctx = wf.data(array, batch=1, label="x"), wf.Context(backend)
    assert ctx[wf.argmax(x)].ravel().tolist() == array.argmax(-1).tolist()
    assert ctx[wf.argmin(x)].ravel().tolist() == array.argmin(-1).tolist()
    np.testing.assert_array_equal(ctx[wf.sort(x)], np.sort(array))
    np.testing.assert_array_equal(ctx[wf.argsort(x)], np.argsort(array, kind="stable"))
    values, positions = wf.top_k(x, 3)
    np.testing.assert_array_equal(ctx[values], np.sort(array)[:, ::-1][:, :3])
    np.testing.assert_array_equal(ctx[values], np.take_along_axis(array, ctx[positions], -1))
    np.testing.assert_array_equal(ctx[values], ctx[wf.einsum("b|i => b|k", x, accum=wf.top(3))])
