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
