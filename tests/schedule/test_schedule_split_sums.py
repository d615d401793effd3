"""Long sums among the programs of a GPU, before and after: a partial sum for each strip, and the sum of those."""

from __future__ import annotations

from dataclasses import replace
from textwrap import dedent

import numpy as np
import pytest

from weft.loops import Program, buffers_of, check, parse, show
from weft.loops.interp import run
from weft.schedule.gpu.split_sums import split_sums
from weft.schedule.gpu_model import USUAL_GPU

#: A GPU to which short sums are long.
SMALL = replace(USUAL_GPU, strip_points=8, launch_ns=0.01)

ONE_SUM = """
x: float32[64]
y: float32[1]
t: float32 = 1
for i in range(64):
    t = t + x[i]
y[0] = t
"""
SUMS_OF_COLUMNS = """
x: float32[20, 4]
y: float32[4]
for j in range(4):
    t: float32 = 1
    for i in range(20):
        t = t + x[i, j]
    y[j] = t * 2
"""
EXTREMA = SUMS_OF_COLUMNS.replace("t + x[i, j]", "max(t, x[i, j])")
UNEVEN = SUMS_OF_COLUMNS.replace("20", "23")
SUMS_OF_BATCHES = """
x: float32[3, 23, 4]
y: float32[4]
for j in range(4):
    t: float32 = 1
    for b in range(3):
        for i in range(23):
            t = t + x[b, i, j]
    y[j] = t * 2
"""
TWO_AT_ONCE = """
x: float32[23, 4]
y: float32[4]
z: float32[4]
for j in range(4):
    t: float32 = 1
    u: float32 = 0
    for i in range(23):
        a: float32 = x[i, j] * 2
        t = t + a
        u = max(u, a * x[i, j])
    y[j] = t * 2
    z[j] = u - t
"""
A_CARRIED_CELL = """
x: float32[64]
y: float32[64]
for i in range(63):
    y[i + 1] = y[i] + x[i]
"""


def split(text: str) -> tuple[Program, Program]:
    program = check(parse(text.lstrip()))
    return program, check(Program(split_sums(program.body, SMALL, False)))


def test_a_sum_of_all() -> None:
    wanted = """
        t: float32 = 1
        for strip in range(8):
            t_own: float32 = 0
            for i in range(8):
                t_own = t_own + x[8*strip + i]
            t_part[strip] = t_own
        t_all: float32 = 0
        for strip in range(8):
            t_all = t_all + t_part[strip]
        t = t + t_all
        y[0] = t
    """
    assert show(split(ONE_SUM)[1]) == dedent(wanted).strip()


def test_sums_of_columns() -> None:
    wanted = """
        for strip in range(2):
            for j in range(4):
                t_own: float32 = 0
                for i in range(10):
                    t_own = t_own + x[10*strip + i, j]
                t_part[strip, j] = t_own
        for j in range(4):
            t: float32 = 1
            for strip in range(2):
                t = t + t_part[strip, j]
            y[j] = t * 2
    """
    assert show(split(SUMS_OF_COLUMNS)[1]) == dedent(wanted).strip()


def test_the_longest_loop_of_a_sum_is_cut() -> None:
    """Else there would be no more strips than examples in a batch."""
    wanted = """
        for strip in range(7):
            for j in range(4):
                t_own: float32 = 0
                for b in range(3):
                    for i in range(4):
                        if 0 <= 4*strip + i < 23:
                            t_own = t_own + x[b, 4*strip + i, j]
                t_part[strip, j] = t_own
    """
    assert show(split(SUMS_OF_BATCHES)[1]).startswith(dedent(wanted).strip())


def test_several_sums_of_a_loop() -> None:
    """Each has its own partial sums: a loop of two would else be left to as few programs as there are columns."""
    wanted = """
        for strip in range(2):
            for j in range(4):
                t_own: float32 = 0
                u_own: float32 = -inf
                for i in range(12):
                    if 0 <= 12*strip + i < 23:
                        a: float32 = x[12*strip + i, j] * 2
                        t_own = t_own + a
                        u_own = max(u_own, (a * x[12*strip + i, j]))
                t_part[strip, j] = t_own
                u_part[strip, j] = u_own
        for j in range(4):
            t: float32 = 1
            u: float32 = 0
            for strip in range(2):
                t = t + t_part[strip, j]
                u = max(u, u_part[strip, j])
            y[j] = t * 2
            z[j] = u - t
    """
    assert show(split(TWO_AT_ONCE)[1]) == dedent(wanted).strip()


@pytest.mark.parametrize("text", [ONE_SUM, SUMS_OF_COLUMNS, UNEVEN, EXTREMA, SUMS_OF_BATCHES, TWO_AT_ONCE])
def test_the_sum_is_the_same(text: str) -> None:
    before, after = split(text)
    assert before != after
    rng = np.random.default_rng(7)
    memory = {one: rng.integers(-4, 5, one.shape).astype(np.float32) for one in buffers_of(after)}
    found = {one: values.copy() for one, values in memory.items()}
    run(before, memory, {})
    run(after, found, {})
    for one in buffers_of(before):
        np.testing.assert_array_equal(found[one], memory[one])


def test_what_one_iteration_hands_to_the_next_is_no_sum() -> None:
    before, after = split(A_CARRIED_CELL)
    assert before == after


def test_short_sums_stay() -> None:
    program = check(parse(SUMS_OF_COLUMNS.lstrip()))
    assert Program(split_sums(program.body, USUAL_GPU, False)) == program
