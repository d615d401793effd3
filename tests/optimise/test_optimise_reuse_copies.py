"""Copies that a recurrence stores, read in place of what they are copies of: before and after."""

from __future__ import annotations

from textwrap import dedent

import pytest

from optimise.shared_loops import shown
from weft.loops import check, parse
from weft.loops.nests import nests
from weft.optimise.reuse_copies import reusing_copies

GIVEN = {"s": 4}
DECLARED = """\
x: float32[4, 3]
h: float32[5, 3]
y: float32[4, 3]
z: float32[4, 3]
w: float32[3]
"""
STEP = """
for t in range(4):
    for i in range(3):
        y[t, i] = h[t, i] + x[t, i]
    for i_2 in range(3):
        h[t + 1, i_2] = y[t, i_2]
"""
CASES = {
    "after the loop what is carried is read": (
        STEP + "for t in range(4):\n    for i in range(3):\n        w[i] += y[t, i]\n",
        STEP + "for t in range(4):\n    for i in range(3):\n        w[i] += h[t + 1, i]\n",
    ),
    "at any cells": (
        STEP + "for i in range(3):\n    w[i] = y[2, -i + 2]\n",
        STEP + "for i in range(3):\n    w[i] = h[3, -i + 2]\n",
    ),
    "a copy of a copy": (
        """
for t in range(4):
    for i in range(3):
        y[t, i] = h[t, i] + x[t, i]
    for i_2 in range(3):
        z[t, i_2] = y[t, i_2]
    for i_3 in range(3):
        h[t + 1, i_3] = z[t, i_3]
for i in range(3):
    w[i] = y[s, i]
""",
        """
for t in range(4):
    for i in range(3):
        y[t, i] = h[t, i] + x[t, i]
    for i_2 in range(3):
        z[t, i_2] = y[t, i_2]
    for i_3 in range(3):
        h[t + 1, i_3] = z[t, i_3]
for i in range(3):
    w[i] = h[s + 1, i]
""",
    ),
}
STAYS = {
    "what is read in the loop itself": STEP + "    for i_3 in range(3):\n        z[t, i_3] = y[t, i_3] * 2.0\n",
    "a copy that is overwritten": STEP
    + "for i in range(3):\n    h[2, i] = 0.0\nfor i in range(3):\n    w[i] = y[1, i]\n",
    "an original that is overwritten": STEP
    + "for i in range(3):\n    y[1, i] = 0.0\nfor i in range(3):\n    w[i] = y[1, i]\n",
    "a copy of something else by then": STEP.replace("= y[t, i_2]", "= y[t, i_2] * 2.0")
    + "for i in range(3):\n    w[i] = y[1, i]\n",
    "a copy that nothing carries": """
for t in range(4):
    for i in range(3):
        y[t, i] = x[t, i] * 2.0
    for i_2 in range(3):
        z[t, i_2] = y[t, i_2]
for i in range(3):
    w[i] = y[1, i]
""",
    "a copy of one cell at a static index": """
for t in range(4):
    for i in range(3):
        h[t + 1, i] = h[t, i] + z[s, i]
for i in range(3):
    w[i] = z[s, i]
""",
}


def reused(before: str, kept: str = "") -> str:
    found = nests(check(parse(DECLARED + dedent(before), (), GIVEN), GIVEN))
    buffers = {one.target for one in found if one.target.name in kept}
    return f"\n{shown(reusing_copies(found, buffers), GIVEN)}\n"


@pytest.mark.parametrize("name", CASES)
def test_before_and_after(name: str) -> None:
    before, after = CASES[name]
    assert reused(before) == after


@pytest.mark.parametrize("name", STAYS)
def test_what_stays_as_it_is(name: str) -> None:
    assert reused(STAYS[name]) == STAYS[name]


def test_what_is_kept_is_read_itself() -> None:
    before, _ = CASES["after the loop what is carried is read"]
    assert reused(before, kept="y") == before
