"""Blocks run for all points at once only where that computes what one point after another does."""

from __future__ import annotations

from importlib import import_module
from math import prod

import numpy as np
import pytest

from schedule.kernels import add, at, loop, read, store
from weft.loops import Buffer, Let, Local, Program, Stmt, buffers_of, check, parse
from weft.loops.interp import run, run_scalar
from weft.loops.interp.blocks import run_block

module = import_module("weft.loops.interp.run")

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


#: A program of a GPU, or a thread's work, with memory of its own: in full before it is read, or in part.
OWN = """
h: private float64[3]
x: float64[4, 3]
z: float64[4, 3]
for i in range(4) on a grid by 1 with 4 warps:
    for k in range({}):
        h[k] = 2 * x[i, k]
    for k in range(3):
        z[i, k] = z[i, k] + h[2 - k]
"""


@pytest.mark.parametrize(("written", "at_once"), [(3, True), (2, False)])
def test_what_each_program_has_for_itself_every_point_has(
    written: int, at_once: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless it reads what the program before left there: then one comes after another."""
    ran = []
    monkeypatch.setattr(module, "run_block", lambda *given: ran.append(run_block(*given)) or ran[-1])
    program = parse(OWN.format(written))
    left = []
    for how in (run, run_scalar):
        memory = {one: np.arange(1.0, 1 + prod(one.shape)).reshape(one.shape) for one in buffers_of(program)}
        how(program, memory)
        left.append({one.name: values for one, values in memory.items()}["z"])
    np.testing.assert_array_equal(*left)
    assert any(ran) is at_once
