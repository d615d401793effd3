"""Values followed along straight lines, before and after."""

from __future__ import annotations

from textwrap import dedent

import pytest

from loops.written import GIVEN, program, text
from weft.loops import Program
from weft.loops.names import distinct
from weft.optimise.dead_code import eliminate_dead_code
from weft.optimise.propagate import propagate

CASES = {
    "a number set again in its block is computed in one go": (
        """
        t: float32 = 0.0
        t = t + V[0]
        t = t + W[0]
        V[1] = t
        """,
        """
        t: float32 = (0.0 + V[0]) + W[0]
        V[1] = t
        """,
    ),
    "0.0 is not added to what is never -0.0": (
        """
        t: float32 = 0.0
        t = t + exp(V[0])
        t = t + W[0]
        u: float32 = 0.0
        for i in range(3):
            u = u + V[i]
        V[1] = t + 0.0
        V[2] = u + 0.0
        """,
        """
        t: float32 = exp(V[0]) + W[0]
        u: float32 = 0.0
        for i in range(3):
            u = u + V[i]
        V[1] = t
        V[2] = u
        """,
    ),
    "a value needed in between keeps its number": (
        """
        t: float32 = V[0] * 3.0
        W[0] = t
        t = t + 1.0
        W[1] = t
        """,
        """
        t: float32 = V[0] * 3.0
        W[0] = t
        t_2: float32 = t + 1.0
        W[1] = t_2
        """,
    ),
    "likewise if what follows does not need it": (
        """
        t: float32 = V[0] * 3.0
        W[0] = t
        t = V[1] * 2.0
        W[1] = t
        """,
        """
        t: float32 = V[0] * 3.0
        W[0] = t
        t_2: float32 = V[1] * 2.0
        W[1] = t_2
        """,
    ),
    "a value used twice keeps its number": (
        """
        t: float32 = exp(V[0])
        t = t * t
        W[0] = t
        """,
        """
        t: float32 = exp(V[0])
        t_2: float32 = t * t
        W[0] = t_2
        """,
    ),
    "a value whose source is written in between keeps its place": (
        """
        t: float32 = V[0] * 3.0
        V[0] = 1.0
        t = t + 1.0
        W[0] = t
        """,
        """
        t: float32 = V[0] * 3.0
        V[0] = 1.0
        t_2: float32 = t + 1.0
        W[0] = t_2
        """,
    ),
    "likewise where all of it is filled or a loop writes it": (
        """
        t: float32 = V[0] * 3.0
        u: float32 = W[0] * 3.0
        V[...] = 1.0
        for i in range(4):
            W[i] = 2.0
        t = t + 1.0
        u = u + 1.0
        X[0, 0] = t
        X[0, 1] = u
        """,
        """
        t: float32 = V[0] * 3.0
        u: float32 = W[0] * 3.0
        V[...] = 1.0
        for i in range(4):
            W[i] = 2.0
        t_2: float32 = t + 1.0
        u_2: float32 = u + 1.0
        X[0, 0] = t_2
        X[0, 1] = u_2
        """,
    ),
    "constants and copies disappear": (
        """
        t: float32 = 2.0
        u: float32 = V[0] * W[0]
        v: float32 = u
        V[1] = v * t
        """,
        """
        u: float32 = V[0] * W[0]
        V[1] = u * 2.0
        """,
    ),
    "a copy outlives its source": (
        """
        t: float32 = V[0] * W[0]
        for i in range(4):
            u: float32 = t
            t = t + V[i]
            W[i] = u
        """,
        """
        t: float32 = V[0] * W[0]
        for i in range(4):
            u: float32 = t
            t = t + V[i]
            W[i] = u
        """,
    ),
    "a copy of a number that a later loop changes": (
        """
        t: float32 = V[0] * W[0]
        u: float32 = t
        W[1] = u
        for i in range(4):
            t = t + V[i]
        W[0] = t
        W[2] = u
        """,
        """
        t: float32 = V[0] * W[0]
        u: float32 = t
        W[1] = t
        for i in range(4):
            t = t + V[i]
        W[0] = t
        W[2] = u
        """,
    ),
    "what a loop sets stays a variable": (
        """
        t: float32 = 0.0
        t = t + 1.0
        W[0] = t
        for i in range(4):
            t = t + V[i]
            W[i] = t
        t = t * 2.0
        W[1] = t
        """,
        """
        t: float32 = 1.0
        W[0] = 1.0
        for i in range(4):
            t = t + V[i]
            W[i] = t
        t_2: float32 = t * 2.0
        W[1] = t_2
        """,
    ),
    "what a test sets is known until it does": (
        """
        t: float32 = 0.0
        for i in range(4):
            u: float32 = 0.0
            if 0 <= i - 1 < 3:
                u = u + V[i - 1]
                W[i] = u
            t = t + u
        W[0] = t
        """,
        """
        t: float32 = 0.0
        for i in range(4):
            u: float32 = 0.0
            if 0 <= i - 1 < 3:
                u = 0.0 + V[i - 1]
                W[i] = u
            t = t + u
        W[0] = t
        """,
    ),
    "a number is not what a test may have set": (
        """
        t: float32 = 1.0
        if 0 <= K[0] < 3:
            t = 2.0
            W[0] = t
        W[1] = t
        """,
        """
        t: float32 = 1.0
        if 0 <= K[0] < 3:
            t = 2.0
            W[0] = 2.0
        W[1] = t
        """,
    ),
    "a number that grows by nothing does not grow": (
        """
        t: float32 = V[0]
        for i in range(4):
            t = t - 0.0
            t = max(t, V[i])
            t = t * 1.0
        W[0] = t
        """,
        """
        t: float32 = V[0]
        for i in range(4):
            t = max(t, V[i])
        W[0] = t
        """,
    ),
    "a sum keeps its form": (
        """
        t: float32 = 0.0
        for i in range(4):
            t = t + neg(V[i])
        W[0] = t
        """,
        """
        t: float32 = 0.0
        for i in range(4):
            t = t + neg(V[i])
        W[0] = t
        """,
    ),
    "a loop that runs once is taken away": (
        """
        for i in range(1):
            t: float32 = 0.0
            for j in range(1):
                t = t + X[i + 2, j]
            V[i] = t
        """,
        """
        t: float32 = 0.0 + X[2, 0]
        V[0] = t
        """,
    ),
    "a loop that never runs goes": (
        """
        for i in range(0):
            V[i] = 1.0
        W[0] = 1.0
        """,
        """
        W[0] = 1.0
        """,
    ),
    "tests that always hold go, tests that never hold go with all": (
        """
        for i in range(3):
            if 0 <= i + 1 < 4:
                V[i + 1] = 1.0
            if 0 <= i - 3 < 3:
                V[0] = 2.0
            if 0 <= i < 2 and 0 <= s < 9 and 0 <= i < 2:
                V[i] = 3.0
                if 0 <= i < 2:
                    V[i] = 4.0
        """,
        """
        for i in range(3):
            V[i + 1] = 1.0
            if 0 <= i < 2:
                V[i] = 3.0
                V[i] = 4.0
        """,
    ),
    "numbers nobody uses go, and loops and tests left empty": (
        """
        t: float32 = exp(V[0])
        u: float32 = t + 1.0
        for i in range(4):
            if 0 <= K[i] < 2:
                u = u + V[i]
        W[0] = 1.0
        """,
        """
        W[0] = 1.0
        """,
    ),
    "writes that change nothing go": (
        """
        V[0] = V[0]
        V[1] -= 0.0
        V[2] = arg2(V[2], 3.0)
        K[0] *= 0
        K[1] -= 0
        """,
        """
        V[2] = 3.0
        K[0] = 0
        """,
    ),
    "a number that holds a place is one where it is inside": (
        """
        t: int64 = s + 0 * K[0]
        V[t] = 1.0
        u: int64 = 2 * s
        V[u] = 2.0
        K[0] = u
        """,
        """
        V[s] = 1.0
        u: int64 = 2*s
        V[u] = 2.0
        K[0] = 2*s
        """,
    ),
    "a rule looks through a number used once": (
        """
        t: float32 = V[0] * V[1]
        u: float32 = neg(t)
        W[0] = W[1] - u
        """,
        """
        t: float32 = V[0] * V[1]
        W[0] = W[1] + t
        """,
    ),
    "but not where what it holds has changed": (
        """
        u: float32 = neg(V[0])
        V[0] = 2.0
        W[0] = W[1] - u
        """,
        """
        u: float32 = neg(V[0])
        V[0] = 2.0
        W[0] = W[1] - u
        """,
    ),
    "nor where it is used again": (
        """
        u: float32 = neg(exp(V[0]))
        W[0] = W[1] - u
        W[1] = u
        """,
        """
        u: float32 = neg(exp(V[0]))
        W[0] = W[1] - u
        W[1] = u
        """,
    ),
    "a narrow number is rounded when it is declared": (
        """
        t: float16 = V[0] * 3.0
        t = t + 1.0
        W[0] = t
        """,
        """
        t: float16 = float16(float32(float16(V[0] * 3.0)) + 1.0)
        W[0] = float32(t)
        """,
    ),
}


def lines(printed: str) -> str:
    return dedent(printed)


@pytest.mark.parametrize("name", CASES)
def test_before_and_after(name: str) -> None:
    before, after = CASES[name]
    straight = propagate(program(before).body, GIVEN)
    assert text(straight) == lines(after)
    assert propagate(straight, GIVEN) == straight


def test_under_fast_math() -> None:
    before = """
        t: float32 = sqrt(V[0])
        u: float32 = recip(t)
        for i in range(4):
            W[i] = W[i] * u + 1.0
        """
    after = """
        u: float32 = recip_sqrt(V[0])
        for i in range(4):
            W[i] = fma(W[i], u, 1.0)
        """
    assert text(propagate(program(before).body, GIVEN, fast=True)) == lines(after)


def test_sums_keep_their_form_under_fast_math() -> None:
    grows = """
        t: float32 = 0.0
        for i in range(4):
            t = t + (V[i] * W[i])
        W[0] = t
        """
    assert text(propagate(program(grows).body, GIVEN, fast=True)) == lines(grows)


def test_every_number_gets_a_name_of_its_own() -> None:
    before = """
        for i in range(4):
            t: float32 = V[i]
            t: float32 = t + 1.0
            W[i] = t
        for i in range(4):
            t: float32 = W[i]
            s_2: float32 = t
            t = s_2
            V[i] = t
        """
    after = """
        for i in range(4):
            t: float32 = V[i]
            t_2: float32 = t + 1.0
            W[i] = t_2
        for i in range(4):
            t_3: float32 = W[i]
            s_2: float32 = t_3
            t_3 = s_2
            V[i] = t_3
        """
    named = distinct(program(before).body, GIVEN)
    assert text(named) == lines(after)
    assert distinct(named, GIVEN) is named


def test_no_number_is_called_like_a_loop_or_an_index() -> None:
    named = distinct(program("i: float32 = V[s]\nfor i in range(4):\n    W[i] = 1.0\nW[0] = V[s]").body, {"s": 4})
    assert text(named).split() == text(named).replace("i: float32", "i_2: float32").split()


def test_idle_numbers_of_tests_and_loops() -> None:
    body = program("t: int64 = K[0]\nu: float32 = 0.0\nif 0 <= t < 4:\n    u = 1.0\nV[0] = u").body
    assert eliminate_dead_code(body) == body
    assert eliminate_dead_code(body[:3]) == ()
    assert eliminate_dead_code(Program(()).body) == ()
