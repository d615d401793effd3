"""Long recurrences and those of few bits: sums over steps are sums like others, whatever they are stored in."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import weft as wf

BACKENDS = pytest.mark.parametrize("backend", ["interp", "cc"])


def weighed(array: Any, **how: Any) -> wf.Tensor:
    """The gradient of a parameter that every step multiplies by its input."""
    p = wf.param("p", o=array.shape[-1], init=1.0)
    hs, _ = wf.scan(lambda h, x: h * 0.0 + p * x, wf.data(array, batch=1), init=0.0, **how)
    return wf.grad(wf.einsum("...|... => 0", hs), p)


@BACKENDS
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("recompute", [False, True])
def test_gradients_of_weights_are_rounded_when_all_steps_are_added_up(
    backend: str, dtype: str, recompute: bool
) -> None:
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    found = wf.Context(backend)[weighed(np.ones((2100, 2)).astype(kind), recompute=recompute)]
    assert found.dtype == kind
    np.testing.assert_array_equal(found, np.full(2, 2100.0).astype(kind))


@BACKENDS
def test_sums_over_steps_are_as_near_as_other_sums(backend: str) -> None:
    array = np.full((5000, 2), 0.1, "float32")
    exact = array.astype(np.float64).sum(0)
    np.testing.assert_allclose(wf.Context(backend)[weighed(array)], exact, rtol=2.0**-23)


@BACKENDS
@pytest.mark.parametrize(
    ("dtype", "stored"),
    [
        ("float16", "float16"),
        ("bfloat16", "bfloat16"),
        ("float8_e4m3fn", "float32"),
        ("int8", "int64"),
        ("uint8", "uint64"),
    ],
)
def test_running_totals_grow_as_sums_do(backend: str, dtype: str, stored: str) -> None:
    x = wf.data(np.ones((2, 2100)).astype(getattr(ml_dtypes, dtype, dtype)))
    totals = wf.cumsum(x)
    assert totals.dtype == wf.einsum("ij => i", x).dtype == stored
    expected = np.arange(1, 2101).astype(getattr(ml_dtypes, stored, stored))
    np.testing.assert_array_equal(wf.Context(backend)[totals][0], expected)


@BACKENDS
def test_gradients_of_running_totals_grow_as_sums_do(backend: str) -> None:
    x = wf.require_grad(wf.data(np.ones(2100, "float16")))
    found = wf.Context(backend)[wf.grad(wf.einsum("i => 0", wf.cumsum(x)), x)]
    np.testing.assert_array_equal(found, np.arange(2100, 0, -1).astype("float16"))
