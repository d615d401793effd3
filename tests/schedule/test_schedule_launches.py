"""Kernels as launches, before and after: each a nest of its own, which compute together what the kernel does."""

from __future__ import annotations

from textwrap import dedent

import numpy as np
import pytest

from weft.loops import Program, buffers_of, check, parse, show
from weft.loops.interp import run
from weft.schedule.gpu.launches import launches

DECLARED = """
b: float32[4]
s: float32[1]
x: float32[8]
y: float32[8]
"""
SAMPLES = {
    "a variable that anybody may compute again": (
        """
        a: float32 = b[0] * 2
        for i in range(8):
            x[i] = a
        for j in range(8):
            y[j] = x[j] + a
        """,
        """
        for i in range(8):
            a: float32 = b[0] * 2
            x[i] = a
        --
        for j in range(8):
            a: float32 = b[0] * 2
            y[j] = x[j] + a
        """,
    ),
    "a variable that is accumulated": (
        """
        t: float32 = 0
        for i in range(8):
            t = t + x[i]
        s[0] = t
        for j in range(8):
            y[j] = x[j] * t
        """,
        """
        t: float32 = 0
        for i in range(8):
            t = t + x[i]
        s[0] = t
        for j in range(8):
            y[j] = x[j] * t
        """,
    ),
    "a variable of what is written afterwards": (
        """
        a: float32 = x[0] * 2
        for i in range(8):
            x[i] = 1
        for j in range(8):
            y[j] = a
        """,
        """
        a: float32 = x[0] * 2
        for i in range(8):
            x[i] = 1
        for j in range(8):
            y[j] = a
        """,
    ),
    "a buffer that is filled": (
        """
        y[...] = 3
        s[0] = 1
        b[1] = 2
        """,
        """
        for i in range(8):
            y[i] = 3
        --
        s[0] = 1
        b[1] = 2
        """,
    ),
}


def read(text: str) -> Program:
    return check(parse(DECLARED.lstrip() + dedent(text).lstrip()))


@pytest.mark.parametrize("name", SAMPLES)
def test_before_and_after(name: str) -> None:
    before, after = SAMPLES[name]
    found = [show(check(Program(one))) for one in launches(read(before).body)]
    assert "\n--\n".join(found) == dedent(after).strip()


@pytest.mark.parametrize("name", SAMPLES)
def test_launches_compute_what_the_kernel_does(name: str) -> None:
    program = read(SAMPLES[name][0])
    rng = np.random.default_rng(7)
    start = {one: rng.normal(size=one.shape).astype(np.float32) for one in buffers_of(program)}
    wanted, found = ({one: values.copy() for one, values in start.items()} for _ in range(2))
    run(program, wanted, {})
    for one in launches(program.body):
        run(Program(one), found, {})
    for one in start:
        np.testing.assert_array_equal(found[one], wanted[one])
