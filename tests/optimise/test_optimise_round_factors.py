"""Factors of contractions that are rounded, and what is not."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import weft as wf
from weft.loops import parse, show
from weft.optimise.round_factors import with_rounded_factors

HEAD = "a: float32[4, 6]\nb: float32[6, 5]\nc: float32[4, 5]\nn: float32[4]\nh: float16[4, 6]\n"


def after(text: str, dtype: str = "bfloat16") -> str:
    return show(with_rounded_factors(parse(HEAD + text), dtype)).strip()


def test_both_factors_of_a_contraction_are_rounded() -> None:
    before = """
for i in range(4):
    for j in range(5):
        for k in range(6):
            c[i, j] += a[i, k] * b[k, j]
"""
    last = after(before).splitlines()[-1].strip()
    assert last == "c[i, j] += float32(bfloat16(a[i, k])) * float32(bfloat16(b[k, j]))"


def test_a_sum_of_squares_is_no_contraction() -> None:
    before = "for i in range(4):\n    for k in range(6):\n        n[i] += a[i, k] * a[i, k]"
    assert after(before) == before


@pytest.mark.parametrize("sizes", [(1, 5, 6), (4, 5, 1), (1, 1, 6), (1, 1, 1), (4, 1, 6)])
def test_a_contraction_adds_up_several_products_and_uses_a_factor_again(sizes: tuple[int, int, int]) -> None:
    """However it is written: a comprehension has loops over axes of 1, an einsum has none."""
    rows, columns, terms = sizes
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((rows, terms), np.float32), rng.standard_normal((terms, columns), np.float32)
    contracts = terms > 1 and rows * columns > 1
    meant = rounded(a, "bfloat16" if contracts else "float32") @ rounded(b, "bfloat16" if contracts else "float32")
    text = "def f(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"
    x, y = wf.data(a), wf.data(b)
    for product in (wf.einsum("ik;kj=>ij", x, y), wf.tc.define(text).f(x, y)):
        for backend in ("interp", "cc"):
            ctx = wf.Context(backend)
            ctx.compile(wf.seq(), keep=[product], options=wf.CompileOptions(products="bfloat16"))()
            np.testing.assert_allclose(ctx[product], meant, rtol=1e-5, atol=1e-6)


def test_what_is_narrow_is_not_rounded_twice() -> None:
    before = """
for i in range(4):
    for j in range(5):
        for k in range(6):
            c[i, j] += float32(h[i, k]) * b[k, j]
"""
    last = after(before).splitlines()[-1].strip()
    assert last == "c[i, j] += float32(h[i, k]) * float32(bfloat16(b[k, j]))"


def rounded(array: np.ndarray, dtype: str) -> np.ndarray:
    return array.astype(np.dtype(getattr(ml_dtypes, dtype, dtype))).astype(np.float64)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@given(rows=st.integers(2, 20), columns=st.integers(2, 20), sums=st.integers(2, 40), optimise=st.booleans())
@settings(max_examples=15)
def test_it_is_what_numpy_makes_of_rounded_factors(
    dtype: str, rows: int, columns: int, sums: int, optimise: bool
) -> None:
    rng = np.random.default_rng(rows + columns + sums)
    a, b = rng.standard_normal((rows, sums), np.float32), rng.standard_normal((sums, columns), np.float32)
    product = wf.einsum("ik;kj=>ij", wf.data(a), wf.data(b))
    wanted = rounded(a, dtype) @ rounded(b, dtype)
    for backend in ("interp", "cc"):
        ctx = wf.Context(backend)
        ctx.compile(wf.seq(), keep=[product], options=wf.CompileOptions(products=dtype, optimise=optimise))()
        np.testing.assert_allclose(ctx[product], wanted, rtol=1e-5, atol=1e-5)


def losses(products: str) -> list[float]:
    """Of a perceptron that is trained on a circle."""
    wf.seed(3)
    rng = np.random.default_rng(3)
    points = rng.uniform(-1, 1, (64, 2)).astype(np.float32)
    x = wf.data(points, batch=1)
    y = wf.data((np.sum(points**2, axis=1, keepdims=True) < 0.5).astype(np.float32), batch=1)
    loss = wf.nn.mse(wf.nn.mlp(hid_dims=[32, 32], o=1)(x), y)
    ctx, options = wf.Context("cc"), wf.CompileOptions(products=products)
    step = ctx.compile(wf.seq(wf.grad_update(loss), wf.optim.adam(loss, lr=0.01)), keep=[loss], options=options)
    found = []
    for _ in range(60):
        step()
        found.append(float(ctx[loss].item()))
    return found


@pytest.mark.parametrize("products", ["bfloat16", "float16", "tf32"])
def test_training_with_rounded_products_follows_that_in_single_precision(products: str) -> None:
    wide, narrow = losses("float32"), losses(products)
    assert narrow[-1] < 0.5 * narrow[0]
    assert max(abs(one - other) for one, other in zip(wide, narrow, strict=True)) < 0.05 * wide[0]


def test_there_is_no_other_type_of_products() -> None:
    with pytest.raises(wf.WeftError, match=r"config\.products is one of 'float32', .*, not 8"):
        wf.CompileOptions(products=8)
