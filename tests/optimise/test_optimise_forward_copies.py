"""Copies that accumulations make up for."""

from __future__ import annotations

import numpy as np
import pytest

from weft.loops import Program, buffers_of, check, parse, show
from weft.loops.interp import run
from weft.loops.nests import nests
from weft.optimise.forward_copies import with_forwarded_copies

HEAD = "x: float32[4, 6]\ng: float32[4, 6]\nh: float32[4]\nb: float32[6]\n"
COPY = "for i in range(4):\n    for j in range(6):\n        g[i, j] = x[i, j]\n"
ADD = "for m in range(4):\n    for n in range(6):\n        g[m, n] += h[m] * 2.0\n"


def after(text: str) -> Program:
    return Program(tuple(one.stmt for one in with_forwarded_copies(nests(parse(HEAD + text)))))


def lines(program: Program) -> list[str]:
    return [line.strip() for line in show(program).splitlines() if "=" in line]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (COPY + ADD, ["g[m, n] = x[m, n] + (h[m] * 2.0)"]),
        (COPY.replace("x[i, j]", "b[j]") + ADD, ["g[m, n] = b[n] + (h[m] * 2.0)"]),
        (COPY + ADD + ADD, ["g[m, n] = x[m, n] + (h[m] * 2.0)", "g[m, n] += h[m] * 2.0"]),
        (
            COPY + "for i in range(4):\n    h[i] = x[i, 0]\n" + ADD,
            ["h[i] = x[i, 0]", "g[m, n] = x[m, n] + (h[m] * 2.0)"],
        ),
    ],
)
def test_before_and_after(text: str, wanted: list[str]) -> None:
    assert lines(after(text)) == wanted
    found = []
    for program in (parse(HEAD + text), after(text)):
        check(program)
        memory = {
            one: np.arange(np.prod(one.shape), dtype=np.float32).reshape(one.shape) for one in buffers_of(program)
        }
        run(program, memory, {})
        found.append(next(array for one, array in memory.items() if one.name == "g"))
    np.testing.assert_array_equal(*found)


UNTOUCHED = {
    "a sum": COPY + ADD.replace("g[m, n] += h[m]", "g[m, 0] += h[m]"),
    "some cells": COPY + ADD.replace("range(6)", "range(5)"),
    "read before": COPY + "for i in range(4):\n    h[i] = g[i, 0]\n" + ADD,
    "read by what is added": COPY + ADD.replace("h[m]", "g[m, 0]"),
    "the original changes": COPY + "for i in range(4):\n    x[i, 0] = 3.0\n" + ADD,
    "computed": COPY.replace("x[i, j]", "x[i, j] * 2.0") + ADD,
    "a part": COPY.replace("range(6)", "range(5)") + ADD,
}


@pytest.mark.parametrize("text", UNTOUCHED.values(), ids=UNTOUCHED)
def test_what_stays(text: str) -> None:
    before = nests(parse(HEAD + text))
    assert with_forwarded_copies(before) == before
