"""Exponentials of distances from the largest number of a row, as powers of two."""

from __future__ import annotations

from textwrap import dedent

import pytest

from weft.loops import Program, check, parse, show
from weft.schedule.gpu.stable_exponentials import with_powers_of_two

ROW = """
    x: float32[9, 500]
    z: float32[500]
    y: float32[500]
    m: float32 = -inf
    for j in range(500):
        m = max(m, x[3, j])
    s: float32 = 0.0
    for k in range(500):
        d: float32 = x[3, k] - m
        s = s + exp(d)
    for k in range(500):
        y[k] = exp(x[3, k] - m) / s
"""


def rewritten(text: str) -> str:
    return show(check(Program(with_powers_of_two(parse(dedent(text).lstrip()).body))))


def test_before_and_after() -> None:
    assert rewritten(ROW).splitlines()[4:] == [
        "for k in range(500):",
        "    d: float32 = x[3, k] - m",
        "    s = s + exp2((d * 1.4426950408889634))",
        "for k in range(500):",
        "    y[k] = exp2(((x[3, k] - m) * 1.4426950408889634)) / s",
    ]


@pytest.mark.parametrize(
    ("old", "new"),
    [("max(m", "min(m"), ("x[3, k] - m", "x[4, k] - m"), ("x[3, k] - m", "m - x[3, k]"), ("x[3, k] - m", "z[k] - m")],
)
def test_others_stay(old: str, new: str) -> None:
    text = ROW.replace(old, new).replace("-inf", "inf" if "min" in new else "-inf")
    assert "exp2" not in rewritten(text)
