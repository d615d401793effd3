"""Fills that accumulations make up for."""

from __future__ import annotations

import numpy as np
import pytest

from weft.loops import Program, buffers_of, check, parse, show
from weft.loops.interp import run
from weft.loops.nests import nests
from weft.optimise.forward_fills import with_forwarded_fills, with_plain_copies

HEAD = "x: float32[4, 6]\ng: float32[4, 6]\nh: float32[4]\n"


def after(text: str) -> Program:
    return Program(tuple(one.stmt for one in with_forwarded_fills(nests(parse(HEAD + text)))))


def test_an_accumulation_into_every_cell_stores() -> None:
    text = """
g[...] = 0.0
for i in range(4):
    for j in range(6):
        g[i, j] += x[i, j] * 2.0
"""
    (line,) = (line.strip() for line in show(after(text)).splitlines() if "=" in line)
    assert line == "g[i, j] = 0.0 + (x[i, j] * 2.0)"


UNTOUCHED = {
    "a sum": "h[...] = 0.0\nfor i in range(4):\n    for j in range(6):\n        h[i] += x[i, j]",
    "some cells": "g[...] = 0.0\nfor i in range(4):\n    for j in range(5):\n        g[i, j] += x[i, j]",
    "a diagonal": "g[...] = 0.0\nfor i in range(4):\n    g[i, i] += x[i, i]",
    "under a test": (
        "g[...] = 0.0\nfor i in range(4):\n    for j in range(6):\n"
        "        if 0 <= i - 1 < 4:\n            g[i, j] += x[i, j]"
    ),
    "read before": (
        "g[...] = 0.0\nfor i in range(4):\n    h[i] = g[i, 0]\n"
        "for i in range(4):\n    for j in range(6):\n        g[i, j] += x[i, j]"
    ),
}


@pytest.mark.parametrize("text", UNTOUCHED.values(), ids=UNTOUCHED)
def test_what_leaves_cells_as_they_were_filled_stays(text: str) -> None:
    before = nests(parse(HEAD + text))
    assert with_forwarded_fills(before) == before


def test_the_second_accumulation_goes_on() -> None:
    again = "for i in range(4):\n    for j in range(6):\n        g[i, j] += x[i, j] * {}\n"
    text = "g[...] = 0.0\n" + again.format(2.0) + again.format(3.0)
    found = []
    for program in (parse(HEAD + text), after(text)):
        check(program)
        memory = {one: np.full(one.shape, 7.0, np.float32) for one in buffers_of(program)}
        run(program, memory, {})
        found.append(next(array for one, array in memory.items() if one.name == "g"))
    np.testing.assert_array_equal(*found)
    assert len(after(text).body) == 2


COPIED = """
g[...] = 0.0
for i in range(4):
    for j in range(6):
        g[i, j] += x[i, j] * 2.0
for i in range(4):
    for j in range(6):
        x[i, j] = 0.0 + g[i, j]
"""


def test_what_is_never_minus_zero_is_copied() -> None:
    lines = [
        show(Program((one.stmt,))).splitlines()[-1].strip() for one in with_plain_copies(nests(parse(HEAD + COPIED)))
    ]
    assert lines == ["g[i0, i1] = 0.0", "g[i, j] += x[i, j] * 2.0", "x[i, j] = g[i, j]"]


@pytest.mark.parametrize(("zero", "other"), [("[...] = 0.0", "[...] = -0.0"), ("= 0.0 +", "= 1.0 +")])
def test_what_may_change_a_number_stays(zero: str, other: str) -> None:
    before = nests(parse(HEAD + COPIED.replace(zero, other)))
    assert with_plain_copies(before) == before
