"""What a buffer holds computed where it is read, before and after."""

from __future__ import annotations

from textwrap import dedent

import pytest

from loops.written import GIVEN, C, V, program, show
from weft.loops import Program, check
from weft.loops.nests import nests
from weft.optimise.inline import inlined

CASES = {
    "in the outermost loop that determines it": (
        """
        for i in range(4):
            V[i] = exp(W[i])
        for i in range(4):
            for j in range(3):
                X[i, j] = V[i] * Y[i, j]
        """,
        """
        for i in range(4):
            V: float32 = exp(W[i])
            for j in range(3):
                X[i, j] = V * Y[i, j]
        """,
    ),
    "a sum is run there and then": (
        """
        for i in range(4):
            V[i] = 0.0
        for i in range(4):
            for j in range(3):
                V[i] += X[i, j]
        for k in range(4):
            W[k] = V[k] * 2.0
        """,
        """
        for k in range(4):
            V: float32 = 0.0
            for j in range(3):
                V = V + X[k, j]
            W[k] = V * 2.0
        """,
    ),
    "cells that are not written hold zero": (
        """
        for i in range(3):
            V[i + 1] = W[i]
        for k in range(4):
            H[k] = V[k]
        """,
        """
        for k in range(4):
            V: float32 = 0
            if 0 <= k - 1 < 3:
                V = W[k - 1]
            H[k] = float16(V)
        """,
    ),
    "what a test reads is computed before it": (
        """
        for i in range(4):
            V[i] = W[i] + 1.0
        for i in range(4):
            for j in range(3):
                if 0 <= int64(V[i]) < 4:
                    X[int64(V[i]), j] += Y[i, j]
        """,
        """
        for i in range(4):
            V: float32 = W[i] + 1.0
            for j in range(3):
                if 0 <= int64(V) < 4:
                    X[int64(V), j] += Y[i, j]
        """,
    ),
    "and so is what the test of a writer reads": (
        """
        for i in range(4):
            V[i] = W[i] + 1.0
        for i in range(4):
            if 0 <= int64(V[i]) < 4:
                C[i] = W[i]
        for k in range(4):
            H[k] = C[k]
        """,
        """
        for k in range(4):
            C: float32 = 0
            V: float32 = W[k] + 1.0
            if 0 <= int64(V) < 4:
                C = W[k]
            H[k] = float16(C)
        """,
    ),
    "each cell that is read is computed, once": (
        """
        for i in range(4):
            V[i] = W[i] + 1.0
        for k in range(4):
            H[k] = V[3 - k] + V[s] * V[3 - k]
        """,
        """
        V_2: float32 = 0
        if 0 <= s < 4:
            V_2 = W[s] + 1.0
        for k in range(4):
            V: float32 = W[-k + 3] + 1.0
            H[k] = float16(V + (V_2 * V))
        """,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_before_and_after(name: str) -> None:
    before, after = map(dedent, CASES[name])
    done = check(inlined(nests(program(before)), {V, C}, GIVEN), GIVEN)
    body = tuple(inner for stmt in done.body for inner in stmt.body)  # type: ignore[union-attr]  # remarks
    assert show(Program(body)) == after.strip()


def test_what_is_stored_stays() -> None:
    before = program("for i in range(4):\n    V[i] = W[i]\nfor i in range(4):\n    H[i] = V[i]")
    assert [nest.stmt for nest in nests(inlined(nests(before), set()))] == list(before.body)
