"""What is computed twice is computed once, before and after."""

from __future__ import annotations

import pytest

from loops.written import program, text
from weft.optimise.cse import eliminate_common

CASES = {
    "within a statement": (
        "W[s] = exp(V[s]) + exp(V[s])",
        """
        exp: float32 = exp(V[s])
        W[s] = exp + exp
        """,
    ),
    "across statements, whatever the order of operands": (
        """
        W[0] = V[0] * V[1] + 1.0
        W[1] = V[1] * V[0] - 1.0
        """,
        """
        mul: float32 = V[0] * V[1]
        W[0] = mul + 1.0
        W[1] = mul - 1.0
        """,
    ),
    "the largest, and its parts where they occur alone": (
        """
        W[0] = exp(V[0] * V[1]) + 1.0
        W[1] = exp(V[0] * V[1]) + 2.0
        W[2] = V[0] * V[1]
        """,
        """
        mul: float32 = V[0] * V[1]
        exp: float32 = exp(mul)
        W[0] = exp + 1.0
        W[1] = exp + 2.0
        W[2] = mul
        """,
    ),
    "from a number that holds it": (
        """
        t: float32 = V[0] * V[1]
        W[0] = t
        W[1] = V[0] * V[1]
        """,
        """
        t: float32 = V[0] * V[1]
        W[0] = t
        W[1] = t
        """,
    ),
    "not from a number that has changed": (
        """
        t: float32 = V[0] * V[1]
        if 0 <= K[0] < 2:
            t = 1.0
        W[1] = V[0] * V[1]
        W[0] = t
        """,
        None,
    ),
    "not where a source is written in between": (
        """
        W[0] = exp(V[0])
        V[0] = 1.0
        W[1] = exp(V[0])
        """,
        None,
    ),
    "not where a loop or a test in between may write it": (
        """
        W[0] = exp(V[0])
        for i in range(4):
            if 0 <= K[i] < 2:
                V[i] += 1.0
        W[1] = exp(V[0])
        """,
        None,
    ),
    "not in a loop that writes it later": (
        """
        W[0] = exp(V[0])
        for i in range(4):
            X[i, 0] = exp(V[0])
            V[0] = 1.0
        """,
        None,
    ),
    "not where a number of it is set": (
        """
        t: float32 = V[0]
        for i in range(4):
            W[i] = exp(t)
            t = t + 1.0
            X[i, 0] = exp(t)
        """,
        None,
    ),
    "in inner blocks from outer ones": (
        """
        W[0] = exp(V[0])
        for i in range(4):
            if 0 <= K[i] < 2:
                X[i, 0] = exp(V[0])
        """,
        """
        exp: float32 = exp(V[0])
        W[0] = exp
        for i in range(4):
            if 0 <= K[i] < 2:
                X[i, 0] = exp
        """,
    ),
    "not between blocks side by side": (
        """
        if 0 <= K[0] < 2:
            W[0] = exp(V[0])
        if 0 <= K[1] < 2:
            W[1] = exp(V[0])
        for i in range(4):
            X[i, 0] = exp(V[i])
        for i in range(4):
            X[i, 1] = exp(V[i])
        """,
        None,
    ),
    "not between turns of a loop, nor out of it": (
        """
        for i in range(4):
            W[i] = exp(V[i])
        X[0, 0] = exp(V[0])
        """,
        None,
    ),
    "subscripts and conversions": (
        """
        V[mod(K[0], 4)] = float32(H[0])
        W[mod(K[0], 4)] = float32(H[0]) + 1.0
        """,
        """
        mod: int64 = mod(K[0], 4)
        H: float32 = float32(H[0])
        V[mod] = H
        W[mod] = H + 1.0
        """,
    ),
    "in a test what was computed before it": (
        """
        W[0] = float32(K[0] + K[1])
        if 0 <= K[0] + K[1] < 4 and 0 <= K[2] * 2 < 4:
            W[1] = float32(K[2] * 2)
        """,
        """
        add: int64 = K[0] + K[1]
        W[0] = float32(add)
        if 0 <= add < 4 and 0 <= (K[2] * 2) < 4:
            W[1] = float32(K[2] * 2)
        """,
    ),
    "not zeros of different sign": (
        """
        W[0] = V[0] / 0.0
        W[1] = V[0] / -0.0
        """,
        None,
    ),
    "nothing that is no work": (
        """
        W[0] = V[0]
        W[1] = V[0]
        K[0] = s
        K[1] = s
        """,
        None,
    ),
    "a sum keeps its form": (
        """
        t: float32 = 0.0
        for i in range(4):
            u: float32 = t + V[i]
            t = t + V[i]
            W[i] = u
        X[0, 0] = t
        """,
        None,
    ),
    "an operand that a rule would write twice gets a name": (
        "W[s] = pow(V[s] + 1.0, 2.0)",
        """
        add: float32 = V[s] + 1.0
        W[s] = pow(add, 2.0)
        """,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_before_and_after(name: str) -> None:
    before, after = CASES[name]
    shared = eliminate_common(program(before).body)
    assert text(shared) == text(program(before if after is None else after).body)
    assert eliminate_common(shared) == shared


def test_new_numbers_are_called_differently() -> None:
    before = """
        exp: float32 = 2.0
        V[0] = exp(V[s]) * exp(V[s]) * exp
        """
    after = """
        exp: float32 = 2.0
        exp_2: float32 = exp(V[s])
        V[0] = (exp_2 * exp_2) * exp
        """
    assert text(eliminate_common(program(before).body)) == text(program(after).body)
