"""Code that nothing depends on, before and after."""

from __future__ import annotations

from textwrap import dedent

import pytest

from loops.written import program, text
from weft.optimise.dead_code import eliminate_dead_code

CASES = {
    "a variable nobody uses, and what only it was computed from": (
        """
        t: float32 = exp(V[0])
        u: float32 = t + 1.0
        W[0] = V[0]
        """,
        """
        W[0] = V[0]
        """,
    ),
    "loops and tests with nothing in them": (
        """
        t: float32 = 0.0
        for i in range(4):
            if 0 <= i - 1 < 3:
                t = t + V[i]
        W[0] = V[0]
        for i in range(0):
            W[i] = 0.0
        """,
        """
        W[0] = V[0]
        """,
    ),
    "what a test depends on is used": (
        """
        t: int64 = K[0]
        u: int64 = t + 1
        if 0 <= u < 4:
            W[0] = 1.0
        """,
        """
        t: int64 = K[0]
        u: int64 = t + 1
        if 0 <= u < 4:
            W[0] = 1.0
        """,
    ),
    "a variable that is set from itself and written": (
        """
        t: float32 = 0.0
        u: float32 = 0.0
        for i in range(4):
            t = t + V[i]
            u = u + t
        W[0] = t
        """,
        """
        t: float32 = 0.0
        for i in range(4):
            t = t + V[i]
        W[0] = t
        """,
    ),
}


def lines(text: str) -> str:
    return "\n" + dedent(text).strip() + "\n"


@pytest.mark.parametrize("name", CASES)
def test_before_and_after(name: str) -> None:
    before, after = CASES[name]
    done = eliminate_dead_code(program(before).body)
    assert text(done) == lines(after)
    assert eliminate_dead_code(done) is done
