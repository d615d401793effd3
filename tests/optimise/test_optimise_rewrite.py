"""Rewritten programs do what they did before, and rewriting them again changes nothing."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings, strategies as st

from effort import tries
from loops.blocks import MIXED, SMOOTH, Numbers, blocks
from loops.programs import GIVEN
from weft.loops import Buffer, Program, check, show
from weft.loops.interp import run, run_scalar
from weft.ops.dtypes import is_float
from weft.optimise.rewrite import rewrite

static = st.integers(0, GIVEN["s"] - 1)


def left_by(program: Program, sample: Numbers, at: int, how: object = run_scalar) -> dict[Buffer, np.ndarray]:
    memory = sample.memory()
    how(program, memory, {"s": at})  # type: ignore[operator]
    return memory


def assert_alike(sample: Numbers, new: Program, at: int, rtol: float, how: object = run_scalar) -> None:
    before, after = left_by(sample.program, sample, at), left_by(new, sample, at, how)
    for buffer in sample.buffers:
        text = f"{show(sample.program)}\n---\n{show(new)}\n---{buffer.name}"
        one, other = before[buffer], after[buffer]
        if is_float(buffer.dtype):
            np.testing.assert_allclose(np.float64(other), np.float64(one), rtol, 1e-30, err_msg=text)
        else:
            np.testing.assert_array_equal(other, one, err_msg=text)


def rewritten(sample: Numbers, fast: bool = False) -> Program:
    check(sample.program, GIVEN)
    new = Program(rewrite(sample.program.body, GIVEN, fast))
    assert rewrite(new.body, GIVEN, fast) == new.body, f"{show(sample.program)}\n---\n{show(new)}"
    return check(new, GIVEN)


@settings(max_examples=tries(60))
@given(blocks(), static)
def test_whole_numbers_to_the_bit(sample: Numbers, at: int) -> None:
    assert_alike(sample, rewritten(sample), at, 0)


@settings(max_examples=80)
@given(blocks(("float64",), SMOOTH), static)
def test_floats_with_infinities_and_nan(sample: Numbers, at: int) -> None:
    assert_alike(sample, rewritten(sample), at, 1e-11)


@settings(max_examples=80)
@given(blocks(MIXED), static)
def test_mixed_types(sample: Numbers, at: int) -> None:
    assert_alike(sample, rewritten(sample), at, 1e-5)


@settings(max_examples=50)
@given(blocks(("bool", "uint64", "uint8")), static)
def test_unsigned_numbers(sample: Numbers, at: int) -> None:
    assert_alike(sample, rewritten(sample), at, 0)


@settings(max_examples=50)
@given(blocks(("int64", "float64"), SMOOTH), static)
def test_rewritten_programs_run_all_points_at_once(sample: Numbers, at: int) -> None:
    assert_alike(sample, rewritten(sample), at, 1e-9, run)
