"""Tensors made by formulas of their positions, and elements moved along an axis: against NumPy, on both backends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from tensor.differences import check_gradient, double
from tensor.together import together

BACKENDS = pytest.mark.parametrize("backend", ["interp", "cc"])


@BACKENDS
def test_ranges(backend: str) -> None:
    ctx = wf.Context(backend)
    np.testing.assert_array_equal(ctx[wf.arange(1)], [0])
    for dtype in ("int32", "int64", "float32", "float64", "uint8"):
        found = ctx[wf.arange(7, dtype=dtype)]
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, np.arange(7))
    used = wf.arange(3) * wf.data(np.ones((2, 3), "float64"), batch=1)
    assert (used.dtype, ctx[used].tolist()) == ("float64", [[0, 1, 2], [0, 1, 2]])
    wide = wf.arange(300) + wf.data(np.zeros(300, "uint8"))
    np.testing.assert_array_equal(ctx[wf.cast(wide, "int32")], np.arange(300))


@BACKENDS
@pytest.mark.parametrize("n", [1, 2, 7, 50])
def test_equal_distances(n: int, backend: str) -> None:
    found = wf.Context(backend)[wf.cast(wf.linspace(-0.3, 1.7, n), "float64") + wf.data(np.zeros(n))]
    np.testing.assert_allclose(found, np.linspace(-0.3, 1.7, n), rtol=2e-6, atol=1e-7)
    exact = wf.Context(backend)[wf.linspace(-0.3, 1.7, n) + wf.data(np.zeros(n))]
    np.testing.assert_allclose(exact, np.linspace(-0.3, 1.7, n), rtol=1e-14, atol=1e-15)
    assert exact[0] == -0.3
    assert n == 1 or exact[-1] == 1.7


@BACKENDS
def test_the_identity(backend: str) -> None:
    ctx, x = wf.Context(backend), np.random.default_rng(0).normal(size=(2, 3))
    assert str(wf.eye(3).dims) == "3->3"
    np.testing.assert_array_equal(ctx[wf.eye(3)], np.eye(3))
    np.testing.assert_array_equal(ctx[wf.eye(3) @ wf.data(x, batch=1)], x)
    assert ctx[wf.eye(2, dtype="int8")].dtype == "int8"


@BACKENDS
@pytest.mark.parametrize("k", [-3, -1, 0, 1, 5])
@pytest.mark.parametrize("name", ["tril", "triu"])
def test_triangles(name: str, k: int, backend: str) -> None:
    x = np.random.default_rng(0).normal(size=(2, 3, 4))
    function, expected = getattr(wf, name), getattr(np, name)
    cases = {
        "matrix": (function(wf.data(x[0]), k), expected(x[0], k)),
        "matrices": (function(wf.data(x), k), expected(x, k)),
        "examples": (function(wf.data(x, batch=1), k), expected(x, k)),
        "maps": (function(wf.data(x, batch=1, input=1), k, "...|j->i => i, j"), expected(x, k)),
        "scores": (
            function(wf.data(x, batch=2), k, "...s|t => s, t", fill=-np.inf),
            np.where(expected(np.ones_like(x), k), x, -np.inf),
        ),
        "turned": (
            function(wf.data(x), k, "a, i, j => j, i"),
            expected(x.transpose(0, 2, 1), k).transpose(0, 2, 1),
        ),
    }
    for case, found in together(backend, {case: tensor for case, (tensor, _) in cases.items()}).items():
        np.testing.assert_array_equal(found, cases[case][1], case)


def test_the_gradient_of_a_triangle() -> None:
    x = double("x", b=2, o=[3, 4])
    check_gradient(wf.tril(x, 1))
    check_gradient(wf.softmax(wf.triu(x, -1, fill=-np.inf), "...|i, j => ...|i"))


@BACKENDS
def test_a_causal_mask_hides_what_comes_later(backend: str) -> None:
    x = np.random.default_rng(0).normal(size=(2, 3, 3))
    scores = wf.tril(wf.data(x, batch=2), spec="...s|t => s, t", fill=-np.inf)
    found = wf.Context(backend)[wf.softmax(scores)]
    shown = np.exp(x) * np.tril(np.ones((3, 3)))
    np.testing.assert_allclose(found, shown / shown.sum(2, keepdims=True), rtol=1e-12)


# Moving

#: By the kind of axis: an array as a tensor of three rows, and which axis of the array is the first of that kind.
KINDS = {"batch": 0, "output": 1, "input": 3}
EACH_KIND = pytest.mark.parametrize("kind", KINDS)


def rows(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(4, 4, 2, 4))


def tensor(x: np.ndarray) -> wf.Tensor:
    return wf.data(x, batch=1, input=1)


MOVED: dict[str, tuple[Callable[..., Any], Callable[[np.ndarray, int], np.ndarray]]] = {
    "repeat": (lambda x, **kind: wf.repeat(x, 3, **kind), lambda x, axis: np.repeat(x, 3, axis)),
    "flip": (lambda x, **kind: wf.flip(x, **kind), np.flip),
    "repeat once": (lambda x, **kind: wf.repeat(x, 1, **kind), lambda x, axis: x),
    **{
        f"roll by {k}": (lambda x, k=k, **kind: wf.roll(x, k, **kind), lambda x, axis, k=k: np.roll(x, k, axis))
        for k in (0, 1, 3, -1, 4, 9, -6)
    },
    "pad": (
        lambda x, **kind: wf.pad(x, 1, 2, **kind),
        lambda x, axis: np.pad(x, [(1, 2) if at == axis else (0, 0) for at in range(x.ndim)]),
    ),
    "pad with a value": (
        lambda x, **kind: wf.pad(x, 0, 2, fill=-2.5, **kind),
        lambda x, axis: np.pad(x, [(0, 2) if at == axis else (0, 0) for at in range(4)], constant_values=-2.5),
    ),
    "pad nothing": (lambda x, **kind: wf.pad(x, 0, 0, **kind), lambda x, axis: x),
    "the first part": (
        lambda x, **kind: wf.split(x, [3, None], **kind)[0],
        lambda x, axis: np.split(x, [3], axis)[0],
    ),
    "the last part": (
        lambda x, **kind: wf.split(x, [1, 2, 1], **kind)[2],
        lambda x, axis: np.split(x, [1, 3], axis)[2],
    ),
    "half": (lambda x, **kind: wf.split(x, 2, **kind)[1], lambda x, axis: np.split(x, 2, axis)[1]),
    "interleave": (
        lambda x, **kind: wf.interleave(x, 10 * x, -x, **kind),
        lambda x, axis: np.stack([x, 10 * x, -x], axis + 1).reshape(
            *(size * 3 if at == axis else size for at, size in enumerate(x.shape))
        ),
    ),
}


@BACKENDS
@EACH_KIND
def test_moving(kind: str, backend: str) -> None:
    tensors = {name: function(tensor(rows()), kind=kind) for name, (function, _) in MOVED.items()}
    for name, found in together(backend, tensors).items():
        np.testing.assert_array_equal(found, MOVED[name][1](rows(), KINDS[kind]), name)


@EACH_KIND
@pytest.mark.parametrize("name", MOVED)
def test_gradients_of_moving(name: str, kind: str) -> None:
    x = double("x", b=4, o=[4, 2], i=4)
    check_gradient(MOVED[name][0](x, kind=kind))


def test_a_split_of_what_is_inferred_later() -> None:
    w = wf.param("w", o=6)
    left, right = wf.split(w @ wf.data(np.ones((5, 3)), batch=1), [2, None])
    assert (str(left.dims), str(right.dims)) == ("5|2", "5|4")
    x = wf.param("x")
    with pytest.raises(
        wf.ShapeError, match="`x` cannot be split into 2 equal parts: its first output axis is not known"
    ):
        wf.split(x, 2)


@pytest.mark.parametrize("backend", ["interp", "cc"])
def test_a_range_of_nothing(backend: str) -> None:
    nothing = wf.arange(0, dtype="int32", label="nothing")
    ctx = wf.Context(backend)
    assert (nothing.label, ctx[nothing].shape, ctx[nothing].dtype) == ("nothing", (0,), np.int32)
    assert ctx[wf.sum(nothing)].tolist() == [0]


X = wf.data(np.ones((2, 3, 4)), batch=1, label="x")
MISTAKES: dict[str, tuple[Callable[[], object], str, str]] = {
    "no distances": (lambda: wf.linspace(0, 1, 0), "an axis cannot have size 0", ""),
    "a range of a fraction": (lambda: wf.arange(2.5), "the size of `n` must be a whole number, not 2.5", ""),  # type: ignore[arg-type]
    "distances of text": (lambda: wf.linspace("a", 1, 3), "`linspace` takes a number for `low`, not 'a'", ""),  # type: ignore[arg-type]
    "an identity of a tensor": (lambda: wf.eye(X), "the size of `n` must be a whole number", ""),  # type: ignore[arg-type]
    "half a diagonal": (lambda: wf.tril(X, 0.5), "a diagonal is counted by a whole number, not 0.5", ""),  # type: ignore[arg-type]
    "a triangle of one axis": (
        lambda: wf.triu(X, 0, "...|i, j => i"),
        "triu is about rows and columns, and the spec does not result in two axes",
        'write "...|...->...i, j => i, j", or others by name',
    ),
    "an uneven split": (
        lambda: wf.split(X, 2),
        "`x` cannot be split into 2 equal parts: its first output axis has 3 elements",
        "give the sizes of the parts: wf.split(x, [3, None])",
    ),
    "two open parts": (
        lambda: wf.split(X, [None, None]),
        "parts are split off by their sizes, of which one may be None, not by [None, None]",
        "write wf.split(x, [3, None])",
    ),
    "parts of nothing": (lambda: wf.split(X, [0, 3]), "`a part` is a whole number from 1 on, not 0", ""),
    "parts that do not add up": (lambda: wf.split(X, [1, 1]), "the axis cannot be both 2 and 3", "make both 2"),
    "no repetition": (lambda: wf.repeat(X, 0), "`n` is a whole number from 1 on, not 0", ""),
    "half a step": (lambda: wf.roll(X, 0.5), "`k` is a whole number, not 0.5", ""),  # type: ignore[arg-type]
    "less than no padding": (lambda: wf.pad(X, 1, -1), "`after` is a whole number from 0 on, not -1", ""),
    "a kind of axis that is none": (
        lambda: wf.roll(X, 1, kind="time"),  # type: ignore[arg-type]
        "`roll` takes one of 'batch', 'input', 'output' for `kind`, not 'time'",
        "",
    ),
    "nothing to interleave": (lambda: wf.interleave(), "interleave needs at least one tensor", ""),
    "unlike shapes": (
        lambda: wf.interleave(X, wf.data(np.ones(3))),
        "interleaved tensors must have one shape",
        "make them alike",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_wrong_use(name: str) -> None:
    mistake, what, fix = MISTAKES[name]
    with pytest.raises(wf.WeftError) as caught:
        mistake()
    assert caught.value.what.startswith(what), caught.value.what
    assert (caught.value.fix or "").startswith(fix), caught.value.fix
    assert caught.value.origin is not None
    assert caught.value.origin.file == __file__
