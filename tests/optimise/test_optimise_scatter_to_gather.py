"""Contractions that accumulate into windows, for each cell."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from weft.loops import Program, buffers_of, check, parse, show
from weft.loops.interp import run
from weft.loops.nests import nests
from weft.optimise.scatter_to_gather import gathering

DECLARED = "dx: float32[{cells}, 2]\ndy: float32[{long}, 3]\nw: float32[{short}, 2, 3]\n"
SCATTER = """
for o in range({long}):
    for k in range({short}):
        for c in range(2):
            for d in range(3):
                {test}dx[{window}, c] += dy[o, d] * w[k, c, d]
"""


def scattering(long: int, short: int, window: str, cells: int, test: str = "") -> Program:
    text = DECLARED + SCATTER
    inner = f"if {test}:\n                    " if test else ""
    return check(parse(text.format(long=long, short=short, window=window, cells=cells, test=inner)))


def gathered(program: Program, points: int = 1) -> Program:
    return check(Program(tuple(one.stmt for one in gathering(nests(program), points))))


def test_a_window_of_stride_one() -> None:
    assert (
        show(gathered(scattering(28, 3, "o + k", 30)))
        == """\
for o in range(30):
    for k in range(3):
        for c in range(2):
            for d in range(3):
                if 0 <= o - k < 28:
                    dx[o, c] += dy[o - k, d] * w[k, c, d]"""
    )


def test_a_padded_window_loses_its_test() -> None:
    found = gathered(scattering(28, 3, "o + k - 1", 28, "0 <= o + k - 1 < 28"))
    assert "for o in range(28)" in show(found)
    assert "if 0 <= o - k + 1 < 28:" in show(found)


def test_strides_by_their_phases() -> None:
    assert (
        show(gathered(scattering(14, 3, "2*o + k", 29)))
        == """\
for o in range(15):
    for k in range(2):
        for c in range(2):
            for d in range(3):
                if 0 <= o - k < 14:
                    dx[2*o, c] += dy[o - k, d] * w[2*k, c, d]
for o in range(14):
    for k in range(1):
        for c in range(2):
            for d in range(3):
                dx[2*o + 1, c] += dy[o - k, d] * w[2*k + 1, c, d]"""
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("+= dy[o, d] * w[k, c, d]", "max= dy[o, d] * w[k, c, d]"),  # no sum
        ("+= dy[o, d] * w[k, c, d]", "+= dy[o, d]"),  # no contraction
        ("dx[o + k, c]", "dx[29 - o - k, c]"),  # backwards
    ],
)
def test_what_is_no_such_contraction_stays(old: str, new: str) -> None:
    text = show(scattering(28, 3, "o + k", 30))
    assert old in text
    program = check(parse(DECLARED.format(long=28, short=3, cells=30) + text.replace(old, new)))
    assert gathered(program) == program
    few = scattering(28, 3, "o + k", 30)
    assert gathered(few, points=1 << 20) == few


@given(
    st.integers(1, 9), st.integers(1, 6), st.integers(1, 4), st.integers(1, 4), st.integers(-4, 4), st.integers(1, 20)
)
def test_each_term_is_added_to_its_cell(long: int, short: int, stride: int, step: int, offset: int, cells: int) -> None:
    """Whatever the strides are, and wherever the cells end."""
    window = f"{stride}*o + {step}*k + {offset}"
    before = scattering(long, short, window, cells, f"0 <= {window} < {cells}")
    after = gathered(before)
    found = []
    for program in (before, after):
        memory = {one: np.zeros(one.shape, "float32") for one in buffers_of(before)}
        random = np.random.default_rng(0)
        for one, values in memory.items():
            values[...] = random.integers(-9, 10, one.shape)
        run(program, memory)
        found.append({one.name: values for one, values in memory.items()})
    np.testing.assert_array_equal(found[0]["dx"], found[1]["dx"])


# Rows that values say

ROWS = """\
dt: float32[9, 4]
ids: int64[12]
dy: float32[12, 5]
w: float32[4, 5]
for b in range(12):
    for d in range(4):
        for n in range(5):
            if 0 <= ids[b] < 9:
                dt[ids[b], d] += dy[b, n] * w[d, n]
"""


def summed(text: str, points: int = 1) -> tuple[Program, Program]:
    program = check(parse(text))
    return program, check(Program(tuple(one.stmt for one in gathering(nests(program), points, rows=True))))


def test_rows_are_summed_up_before_they_are_scattered() -> None:
    assert (
        show(summed(ROWS)[1])
        == """\
for b in range(12):
    for d in range(4):
        dt.sums0[b, d] = 0
for b in range(12):
    for d in range(4):
        for n in range(5):
            dt.sums0[b, d] += dy[b, n] * w[d, n]
for b in range(12):
    for d in range(4):
        if 0 <= ids[b] < 9:
            dt[ids[b], d] += dt.sums0[b, d]"""
    )


def test_terms_that_a_test_guards_are_summed_under_it() -> None:
    """Padded windows: nothing beyond the edges is read."""
    text = """\
dt: float32[9, 4]
ids: int64[12]
dy: float32[12, 5]
w: float32[4, 5]
for b in range(12):
    for k in range(3):
        for d in range(4):
            for n in range(5):
                if 0 <= ids[b] < 9 and 0 <= b + k - 1 < 12:
                    dt[ids[b], d] += dy[b + k - 1, n] * w[d, n]
"""
    assert (
        show(summed(text)[1])
        == """\
for b in range(12):
    for k in range(3):
        for d in range(4):
            dt.sums0[b, k, d] = 0
for b in range(12):
    for k in range(3):
        for d in range(4):
            for n in range(5):
                if 0 <= b + k - 1 < 12:
                    dt.sums0[b, k, d] += dy[b + k - 1, n] * w[d, n]
for b in range(12):
    for k in range(3):
        for d in range(4):
            if 0 <= ids[b] < 9 and 0 <= b + k - 1 < 12:
                dt[ids[b], d] += dt.sums0[b, k, d]"""
    )


@pytest.mark.parametrize("op", ["+=", "max="])
def test_rows_that_meet_are_all_added(op: str) -> None:
    """Some of them stray: nothing is added of these."""
    before, after = summed(ROWS.replace("+=", op))
    assert before != after
    rng = np.random.default_rng(0)
    memory = {one: rng.integers(-4, 5, one.shape).astype(one.dtype) for one in buffers_of(after)}
    memory |= {one: rng.integers(-3, 12, 12) for one in memory if one.name == "ids"}
    found = {one: np.copy(values) for one, values in memory.items()}
    run(before, memory, {})
    run(after, found, {})
    for one in buffers_of(before):
        np.testing.assert_array_equal(found[one], memory[one])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("dy[b, n] * w[d, n]", "dy[b, n] * dt[n, d]"),  # what is scattered is read
        ("dy[b, n]", "dy[max(min(ids[b], 11), 0), n]"),  # rows are gathered: they may be where the test holds alone
        ("0 <= ids[b] < 9", "0 <= ids[b] - n < 9"),  # a test differs from sum to sum
        ("ids[b], d] +=", "b - 3, d] +="),  # values say nothing
        ("dy[b, n] * w[d, n]", "dy[b, n]"),  # no contraction
    ],
)
def test_what_is_scattered_term_by_term(old: str, new: str) -> None:
    text = ROWS.replace("if 0 <= ids[b] < 9", "if 0 <= b - 3 < 9") if "b - 3" in new else ROWS
    before, after = summed(text.replace(old, new))
    assert "sums" not in show(after)
    assert show(before) == show(after)
