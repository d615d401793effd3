"""Sums with a one-hot as gathers, before and after."""

from __future__ import annotations

from textwrap import dedent

import numpy as np
import pytest

import weft as wf
from loops.written import V, program, text
from weft.optimise.gather import gathered

CASES = {
    "a sum in a variable": (
        """
        t: float32 = 0.0
        for k in range(4):
            t = t + where(eq(K[0], k), W[k], 0.0)
        V[0] = t
        """,
        """
        t: float32 = 0.0
        k_at: int64 = K[0]
        if 0 <= k_at < 4:
            t = t + W[k_at]
        V[0] = t
        """,
    ),
    "a sum in memory that is never -0.0": (
        """
        for i in range(4):
            for k in range(4):
                V[i] += where(eq(K[i], k), W[k], 0.0)
        """,
        """
        for i in range(4):
            k_at: int64 = K[i]
            if 0 <= k_at < 4:
                V[i] += W[k_at]
        """,
    ),
    "a scatter, in the loop that its index depends on": (
        """
        for k in range(4):
            for i in range(4):
                V[k] += where(eq(K[i], k), W[i], 0.0)
        """,
        """
        for i in range(4):
            k_at: int64 = K[i]
            if 0 <= k_at < 4:
                V[k_at] += W[i]
        """,
    ),
    "a product by a one-hot of what may be infinite stays": (
        """
        t: float32 = 0.0
        for k in range(4):
            t = t + (float32(eq(K[0], k)) * W[k])
        V[0] = t
        """,
        """
        t: float32 = 0.0
        for k in range(4):
            t = t + (float32(eq(K[0], k)) * W[k])
        V[0] = t
        """,
    ),
    "a sum that is used in the loop stays": (
        """
        t: float32 = 0.0
        for k in range(4):
            t = t + where(eq(K[0], k), W[k], 0.0)
            V[k] = t
        """,
        """
        t: float32 = 0.0
        for k in range(4):
            t = t + where(eq(K[0], k), W[k], 0.0)
            V[k] = t
        """,
    ),
}


def lines(text: str) -> str:
    return "\n" + dedent(text).strip() + "\n"


@pytest.mark.parametrize("name", CASES)
def test_before_and_after(name: str) -> None:
    before, after = CASES[name]
    assert text(gathered(program(before).body, positive={V})) == lines(after)


def test_a_sum_that_may_be_minus_zero_stays() -> None:
    before, after = CASES["a sum in memory that is never -0.0"]
    assert text(gathered(program(before).body)) == lines(before)
    assert text(gathered(program(before).body, fast=True)) == lines(after)


def test_a_product_under_fast_math() -> None:
    before, _ = CASES["a product by a one-hot of what may be infinite stays"]
    _, after = CASES["a sum in a variable"]
    assert text(gathered(program(before).body, fast=True)) == lines(after)


def test_the_point_that_counts_has_a_name_of_its_own() -> None:
    """A temporary called `k_at`, of the same type, is not taken for the point of `k`."""
    picked = wf.tc.define(
        """
        def picked(double(N) q, int32(N) ids, double(K) t) -> (y) {
            k_at(i) = int64(q(i))
            y(i) +=! ids(i) == k ? t(k) * double(k_at(i)) : 0
        }
        """
    ).picked
    q, ids, t = np.array([4.0, 9.0, 16.0]), np.array([2, 0, 1], "int32"), np.arange(1.0, 4.0)
    np.testing.assert_array_equal(picked(q, ids, t), q * t[ids])
