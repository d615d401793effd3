"""Arrays of the real JAX: what goes in comes out."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import weft as wf

mm = wf.tc.define("def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }").mm
A, B = np.arange(6, dtype="float32").reshape(2, 3), np.ones((3, 4), "float32")


def test_jax_in_jax_out() -> None:
    found = mm(jnp.asarray(A), jnp.asarray(B))
    assert isinstance(found, jax.Array)
    np.testing.assert_allclose(np.asarray(found), A @ B)
    for gradient, wanted in zip(
        mm.grad(jnp.asarray(A), jnp.asarray(B)), (4 * np.ones((2, 3)), A.T @ np.ones((2, 4))), strict=True
    ):
        assert isinstance(gradient, jax.Array)
        np.testing.assert_allclose(np.asarray(gradient), wanted)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "int32", "uint8", "bool"])
def test_every_type_that_both_have(dtype: str) -> None:
    same = wf.tc.define(f"def f({dtype}(N) x) -> (y) {{ y(i) = x(i) }}").f
    given = jnp.asarray([0, 1, 1]).astype(dtype)
    found = same(given)
    assert (type(found), found.dtype) == (type(given), given.dtype)
    assert (found == given).all()


def test_outputs_of_jax_are_never_written() -> None:
    with pytest.raises(wf.WeftError, match="cannot be written"):
        mm(jnp.asarray(A), jnp.asarray(B), outputs=(jnp.zeros((2, 4)),))
