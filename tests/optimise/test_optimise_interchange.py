"""Recurrences along the loop that walks memory best, before and after."""

from __future__ import annotations

from textwrap import dedent

import pytest

from loops.written import program, text
from weft.loops import For
from weft.optimise.interchange import interchanged

CASES = {
    "what is read lies along the loop that carries": (
        """
        for t in range(3):
            for i in range(3):
                a: float32 = Y[t, i] + X[i, t]
                Y[t + 1, i] = a
        """,
        """
        for i in range(3):
            for t in range(3):
                a: float32 = Y[t, i] + X[i, t]
                Y[t + 1, i] = a
        """,
    ),
}
STAYS = {
    "what is read lies along the inner loop": """
        for t in range(3):
            for i in range(3):
                Y[t + 1, i] = Y[t, i] + X[t, i]
        """,
    "as far from the one before along either": """
        for t in range(3):
            for i in range(3):
                Y[t + 1, i] = Y[t, i] + V[t] + V[i]
        """,
    "an iteration reads what another one of the inner loop wrote": """
        for t in range(3):
            for i in range(2):
                Y[t + 1, i] = Y[t, i + 1] + X[i, t]
        """,
    "rows and columns of one buffer": """
        for t in range(3):
            for i in range(3):
                Y[t + 1, i] = Y[i, t] + X[i, t]
        """,
    "more than one nest in a step": """
        for t in range(3):
            for i in range(3):
                Y[t + 1, i] = Y[t, i] + X[i, t]
            V[t] = 1.0
        """,
    "a loop that indexes no axis by itself": """
        for t in range(2):
            for j in range(1):
                for i in range(3):
                    Y[t + j + 1, i] = Y[t + j, i] + X[i, t]
        """,
    "what accumulates in memory": """
        for t in range(3):
            for i in range(3):
                Y[t + 1, i] += X[i, t]
        """,
}


def moved(before: str) -> str | None:
    (loop,) = program(before).body
    assert isinstance(loop, For)
    found = interchanged((loop.loop, loop.size), loop.body)
    return text(found) if found is not None else None


@pytest.mark.parametrize("name", CASES)
def test_before_and_after(name: str) -> None:
    before, after = CASES[name]
    assert moved(before) == dedent(after)


@pytest.mark.parametrize("name", STAYS)
def test_what_stays(name: str) -> None:
    assert moved(STAYS[name]) is None
