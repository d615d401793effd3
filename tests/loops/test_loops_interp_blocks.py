"""Blocks run for all points at once only where no two points share a cell."""

from __future__ import annotations

import numpy as np

from schedule.kernels import add, floats, loop, read
from weft.affine import Affine
from weft.loops import Let, Local, Program, check
from weft.loops.interp import run, run_scalar

X, Y = floats(0, "x", 4, 3), floats(1, "y", 6)


def test_points_of_two_loops_that_meet_in_a_cell_are_not_run_at_once() -> None:
    """y[i + j] += x[i, j]: iterations of i are apart for one j, and those of j for one i, but not of both."""
    value = Local("value", "float32")
    block = (Let(value, read(X, "i", "j")), add(Y, (Affine(((1, "i"), (1, "j"))),), value))
    program = check(Program((loop("i", 4, loop("j", 3, *block)),)))
    left = []
    for how in (run, run_scalar):
        memory = {X: np.arange(12, dtype="float32").reshape(4, 3), Y: np.zeros(6, "float32")}
        how(program, memory)
        left.append(memory[Y])
    np.testing.assert_array_equal(*left)
