"""Loops that run as one."""

from __future__ import annotations

import numpy as np
import pytest

import weft as wf
from loops.written import program, text
from weft.loops import Collapse
from weft.schedule import Kernel
from weft.schedule.annotate import annotate
from weft.schedule.nests.collapse import collapsed

NEST = """
for i in range(24):
    for j in range(40):
        {}
"""


def test_before_and_after() -> None:
    before = """
for i in range(24):
    for j in range(40):
        t: float32 = A[i, j] * 2
        B[i, j] = t
"""
    after = """
for i in range(24) collapsed by 2:
    for j in range(40):
        t: float32 = A[i, j] * 2
        B[i, j] = t
"""
    assert text(collapsed(program(before).body)) == after


@pytest.mark.parametrize(
    "stmt", ["D[0] += A[i, j]", "B[i, j] = 1", "A[i, j] += B[i, j]", "B[i, j] = B[i, j] * B[i, j]"]
)
def test_loops_whose_cells_follow_each_other_are_one(stmt: str) -> None:
    assert "for i in range(24) collapsed by 2:" in text(collapsed(program(NEST.format(stmt)).body))


@pytest.mark.parametrize(
    "stmt",
    [
        pytest.param("B[i, j] = C[j]", id="a row is read again"),
        pytest.param("C[j] += A[i, j]", id="a row is added to again"),
        pytest.param("B[i, 39 - j] = A[i, j]", id="one runs backwards"),
        pytest.param("B[i, j] = float32(i)", id="a position is a value"),
        pytest.param("B[i, j] = C[add(j, j)]", id="a subscript is computed"),
        pytest.param("if 0 <= j < 3:\n            B[i, j] = A[i, j]", id="a test knows one"),
    ],
)
def test_loops_that_stay_two(stmt: str) -> None:
    before = program(NEST.format(stmt)).body
    assert collapsed(before) == before
    with pytest.raises(
        wf.WeftError, match="loop `i` cannot run collapsed by 2: cells of `i` do not follow those of `j`"
    ):
        annotate(Kernel((), before), "i", Collapse(2))


def test_a_recurrence_stays_apart_from_a_loop_of_independent_iterations() -> None:
    """Each row is made from the one before: its cells can be computed at once, those of all rows cannot."""
    before = program("for i in range(23):\n    for j in range(40):\n        B[i + 1, j] = B[i, j]\n").body
    assert collapsed(before) == before


def test_the_inner_two_of_three() -> None:
    before = """
for s2 in range(3):
    for i in range(24):
        for j in range(40):
            A[i, j] += B[i, j]
"""
    assert text(collapsed(program(before).body)).splitlines()[1:3] == [
        "for s2 in range(3):",
        "    for i in range(24) collapsed by 2:",
    ]


def test_what_is_no_nest_is_refused() -> None:
    body = program("\nfor i in range(24):\n    t: float32 = C[i]\n    for j in range(40):\n        B[i, j] = t\n").body
    with pytest.raises(wf.WeftError, match="there are not 2 plain loops, each the whole body of the last"):
        annotate(Kernel((), body), "i", Collapse(2))


def test_the_numbers_are_the_same() -> None:
    numbers = np.random.default_rng(0).standard_normal((3, 5, 7, 11)).astype("float32")
    x = wf.data(numbers, label="x")
    row = wf.data(numbers[0, 0, 0], label="row")
    some = {
        "chain": wf.exp(x * 2.0 - 1.0),
        "rows": x * row + 1.0,
        "turned": wf.einsum("abcd => badc", wf.tanh(x)),
        "sums": wf.einsum("abcd => ab", x * x),
        "cut": wf.einsum("abcd => abc", wf.maximum(x, row)),
    }
    for name, tensor in some.items():
        found, meant = wf.Context("cc")[tensor], wf.Context("interp")[tensor]
        np.testing.assert_allclose(found, meant, rtol=1e-5, atol=1e-5, err_msg=name)
