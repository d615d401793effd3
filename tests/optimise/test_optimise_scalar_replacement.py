"""States of several numbers as variables of one number each, before and after."""

from __future__ import annotations

from textwrap import dedent

import pytest

from loops.written import program, text
from weft.optimise.scalar_replacement import replaced_aggregates

CASES = {
    "a state in a variable: all its numbers are computed before any is set": (
        """
        t: float32.float32 = pack2(float32(0.0), float32(0.0))
        for i in range(4):
            t = mean(t, pack2(V[i], float32(1.0)))
        W[0] = item0(t) / item1(t)
        """,
        """
        t_0: float32 = 0.0
        t_1: float32 = 0.0
        for i in range(4):
            state: float32 = t_0
            state_2: float32 = t_1
            state_3: float32 = V[i]
            state_4: float32 = state + state_3
            state_5: float32 = state_2 + 1.0
            t_0 = state_4
            t_1 = state_5
        W[0] = t_0 / t_1
        """,
    ),
    "what several numbers share is computed once": (
        """
        t: float32.float32 = pack2(float32(-inf), float32(0.0))
        t = logsumexp(t, pack2(V[0], float32(1.0)))
        W[0] = item0(t)
        """,
        """
        t_0: float32 = -inf
        t_1: float32 = 0.0
        state: float32 = t_0
        state_2: float32 = t_1
        state_3: float32 = V[0]
        state_4: float32 = where(eq(state, state_3), 1, exp(neg(abs((state - state_3)))))
        state_5: float32 = max(state, state_3)
        state_6: float32 = where((state < state_3), ((state_2 * state_4) + 1.0), (state_2 + (1.0 * state_4)))
        t_0 = state_5
        t_1 = state_6
        W[0] = t_0
        """,
    ),
    "a name that is taken": (
        """
        t_0: float32 = V[0]
        t: float32.float32 = pack2(t_0, float32(1.0))
        W[0] = item0(t) + t_0
        """,
        """
        t_0: float32 = V[0]
        t_2: float32 = t_0
        t_1: float32 = 1.0
        W[0] = t_2 + t_0
        """,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_before_and_after(name: str) -> None:
    before, after = CASES[name]
    assert text(replaced_aggregates(program(before).body)) == dedent(after)


def test_what_has_one_number_each_stays() -> None:
    body = program("t: float32 = V[0]\nfor i in range(4):\n    t = max(t, V[i])\nW[0] = t").body
    assert replaced_aggregates(body) == body
