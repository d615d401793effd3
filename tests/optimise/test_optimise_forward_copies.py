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


def after(text: str, operations: int = 0) -> Program:
    return Program(tuple(one.stmt for one in with_forwarded_copies(nests(parse(HEAD + text)), operations)))


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
    _assert_the_same(parse(HEAD + text), after(text))


def _assert_the_same(*programs: Program) -> None:
    found = []
    for program in programs:
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


DOUBLED = COPY.replace("x[i, j]", "x[i, j] * b[j]")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (DOUBLED + ADD, ["g[m, n] = (x[m, n] * b[n]) + (h[m] * 2.0)"]),
        (DOUBLED.replace("b[j]", "h[i]") + ADD, ["g[m, n] = (x[m, n] * h[m]) + (h[m] * 2.0)"]),
    ],
)
def test_what_few_operations_make_of_one_buffer_is_like_a_copy_where_memory_is_dear(
    text: str, wanted: list[str]
) -> None:
    assert lines(after(text, 4)) == wanted
    _assert_the_same(parse(HEAD + text), after(text, 4))


DEAR = {
    "many operations": COPY.replace("x[i, j]", "erf(exp(x[i, j]) * b[j])") + ADD,
    "what it is made of changes": DOUBLED + "for i in range(6):\n    b[i] = 3.0\n" + ADD,
    "two as large": COPY.replace("x[i, j]", "x[i, j] * y[i, j]") + ADD,
    "across memory": COPY.replace("x[i, j]", "t[j, i] * 2.0") + ADD,
    "of nothing": COPY.replace("x[i, j]", "1.0") + ADD,
}


@pytest.mark.parametrize("text", DEAR.values(), ids=DEAR)
def test_what_is_computed_stays(text: str) -> None:
    before = nests(parse(HEAD + "y: float32[4, 6]\nt: float32[6, 4]\n" + text))
    assert with_forwarded_copies(before, 4) == before
