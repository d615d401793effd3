"""Blocks run for all points at once only where that computes what one point after another does."""

from __future__ import annotations

import numpy as np
import pytest

from schedule.kernels import add, at, loop, read, store
from weft.loops import Buffer, Let, Local, Program, Stmt, check
from weft.loops.interp import run, run_scalar

#: Sums of single precision would grow in double precision.
X, Y, Z = (
    Buffer(number, name, shape, "float64")
    for number, (name, shape) in enumerate({"x": (4, 3), "y": (6,), "z": (4, 3)}.items())
)
VALUE = Local("value", "float64")
#: Iterations of i are apart for one j, and those of j for one i, but not of both.
MEETING = at("i+j")
GIVEN = Let(VALUE, read(X, "i", "j"))


@pytest.mark.parametrize(
    "block",
    [
        pytest.param((GIVEN, add(Y, MEETING, VALUE)), id="accumulated"),
        pytest.param((GIVEN, add(Y, MEETING, VALUE), add(Y, at(2), VALUE)), id="by two statements"),
        pytest.param((add(Y, MEETING, read(X, "i", "j")), store(Z, at("i", "j"), read(Y, "i+j"))), id="and read"),
        pytest.param((GIVEN, loop("k", 2, add(Y, MEETING, VALUE))), id="in a loop inside"),
    ],
)
def test_points_that_meet_in_a_cell_come_one_after_another(block: tuple[Stmt, ...]) -> None:
    program = check(Program((loop("i", 4, loop("j", 3, *block)),)))
    left = []
    for how in (run, run_scalar):
        memory = {X: 10.0 ** -(2.0 * np.arange(12)).reshape(4, 3), Y: np.ones(6), Z: np.zeros((4, 3))}
        how(program, memory)
        left.append((memory[Y], memory[Z]))
    np.testing.assert_array_equal(left[0][0], left[1][0])
    np.testing.assert_array_equal(left[0][1], left[1][1])
