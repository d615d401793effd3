"""What does not change in a loop is computed in front of it, before and after."""

from __future__ import annotations

import pytest

from loops.written import program, text
from weft.optimise.hoist import hoist

CASES = {
    "a call": (
        """
        for i in range(4):
            for j in range(3):
                Y[i, j] = X[i, j] * exp(V[i])
        """,
        """
        for i in range(4):
            exp: float32 = exp(V[i])
            for j in range(3):
                Y[i, j] = X[i, j] * exp
        """,
    ),
    "out of all loops it does not know": (
        """
        for i in range(4):
            for j in range(3):
                Y[i, j] = X[i, j] * exp(V[s])
        """,
        """
        exp: float32 = exp(V[s])
        for i in range(4):
            for j in range(3):
                Y[i, j] = X[i, j] * exp
        """,
    ),
    "a number, and what it is computed from": (
        """
        for i in range(4):
            for j in range(3):
                t: float32 = V[i]
                u: float32 = t * 2.0
                Y[i, j] = X[i, j] * u
        """,
        """
        for i in range(4):
            t: float32 = V[i]
            u: float32 = t * 2.0
            for j in range(3):
                Y[i, j] = X[i, j] * u
        """,
    ),
    "not what it writes": (
        """
        for i in range(4):
            t: float32 = exp(V[0])
            V[i] = t + exp(W[0])
        """,
        """
        exp: float32 = exp(W[0])
        for i in range(4):
            t: float32 = exp(V[0])
            V[i] = t + exp
        """,
    ),
    "not what an inner loop writes": (
        """
        for i in range(4):
            W[i] = exp(V[0])
            for j in range(3):
                V[j] = 1.0
        """,
        None,
    ),
    "not numbers it sets": (
        """
        t: float32 = V[0]
        for i in range(4):
            u: float32 = 1.0
            W[i] = exp(t) + exp(u)
            t = t + 1.0
            for j in range(3):
                u = u + X[i, j]
            W[i] += u
        """,
        None,
    ),
    "not out of a test": (
        """
        for i in range(4):
            if 0 <= K[i] < 4:
                W[i] = exp(V[0])
                for j in range(3):
                    X[i, j] = exp(V[1])
        """,
        """
        for i in range(4):
            if 0 <= K[i] < 4:
                W[i] = exp(V[0])
                exp: float32 = exp(V[1])
                for j in range(3):
                    X[i, j] = exp
        """,
    ),
    "a test that all of a loop is under": (
        """
        for i in range(4):
            for j in range(3):
                if 0 <= K[i] < 4 and 0 <= j - 1 < 2:
                    X[K[i], j] += Y[i, j]
        """,
        """
        for i in range(4):
            if 0 <= K[i] < 4:
                for j in range(3):
                    if 0 <= j - 1 < 2:
                        X[K[i], j] += Y[i, j]
        """,
    ),
    "no test of what the loop writes": (
        """
        for i in range(4):
            if 0 <= K[0] < 4:
                K[i] = 9
        """,
        None,
    ),
    "not out of a loop that never runs": (
        """
        for i in range(0):
            W[0] = exp(V[0])
        """,
        None,
    ),
    "reads alone stay": (
        """
        for i in range(4):
            for j in range(3):
                Y[i, j] = V[i]
        """,
        None,
    ),
    "the parts of a sum": (
        """
        t: float32 = 0.0
        for i in range(4):
            t = t + (V[i] * (W[0] * W[1]))
        V[0] = t
        """,
        """
        t: float32 = 0.0
        mul: float32 = W[0] * W[1]
        for i in range(4):
            t = t + (V[i] * mul)
        V[0] = t
        """,
    ),
    "subscripts and conversions": (
        """
        for j in range(3):
            X[mod(K[0], 4), j] = float32(H[0])
        """,
        """
        mod: int64 = mod(K[0], 4)
        H: float32 = float32(H[0])
        for j in range(3):
            X[mod, j] = H
        """,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_before_and_after(name: str) -> None:
    before, after = CASES[name]
    hoisted = hoist(program(before).body)
    assert text(hoisted) == text(program(before if after is None else after).body)
    assert hoist(hoisted) == hoisted


def test_quotients_under_fast_math() -> None:
    before = """
        for i in range(4):
            W[i] = V[i] / (V[0] + 1.0) + V[1] / V[i] + V[i] / 3.0
        """
    after = """
        recip: float32 = recip((V[0] + 1.0))
        for i in range(4):
            W[i] = ((V[i] * recip) + (V[1] / V[i])) + (V[i] / 3.0)
        """
    hoisted = hoist(program(before).body, fast=True)
    assert text(hoisted) == text(program(after).body)
    assert hoist(hoisted, fast=True) == hoisted
