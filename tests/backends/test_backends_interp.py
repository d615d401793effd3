"""The oracle: whole nests at once must do what a walk cell by cell does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from effort import tries
from loops.programs import ACCUMULATING, GIVEN, Sample, samples
from weft.affine import Affine
from weft.loops import Buffer, Fill, For, If, Inside, Program, Read, Store, Update, check, show, typed
from weft.loops.interp import run, run_scalar
from weft.ops import Num, call

A, B = Buffer(0, "A", (4,), "int64"), Buffer(1, "B", (4,), "int64")
M = Buffer(2, "M", (3, 4), "float64")
AT_I, AT_J = Affine(((1, "i"),)), Affine(((1, "j"),))


def both(sample: Sample, static: int) -> tuple[dict[Buffer, np.ndarray], dict[Buffer, np.ndarray]]:
    whole, walked = sample.memory(), sample.memory()
    run(check(sample.program, GIVEN), whole, {"s": static})
    run_scalar(sample.program, walked, {"s": static})
    return whole, walked


@settings(max_examples=tries(100))
@given(samples(), st.integers(0, GIVEN["s"] - 1))
def test_whole_nests_equal_the_walk_on_whole_numbers(sample: Sample, static: int) -> None:
    whole, walked = both(sample, static)
    for buffer in sample.buffers:
        np.testing.assert_array_equal(whole[buffer], walked[buffer], err_msg=show(sample.program))


@settings(max_examples=tries(75))
@given(samples(ops=tuple(ACCUMULATING), dtypes=("float64",)), st.integers(0, GIVEN["s"] - 1))
def test_whole_nests_equal_the_walk_with_every_operation(sample: Sample, static: int) -> None:
    whole, walked = both(sample, static)
    for buffer in sample.buffers:
        np.testing.assert_allclose(whole[buffer], walked[buffer], rtol=1e-9, err_msg=show(sample.program))


# NumPy neither subtracts booleans nor turns what is not a number into an integer.
MIXED = ("add", "mul", "max", "min", "lt", "le", "eq", "ne", "or", "and", "arg1", "arg2", "relu_gate")


@settings(max_examples=tries(75))
@given(samples(ops=MIXED, dtypes=("float64", "int64", "bool"), values=MIXED), st.integers(0, GIVEN["s"] - 1))
def test_whole_nests_equal_the_walk_on_mixed_types(sample: Sample, static: int) -> None:
    whole, walked = both(sample, static)
    for buffer in sample.buffers:
        np.testing.assert_allclose(whole[buffer], walked[buffer], rtol=1e-9, err_msg=show(sample.program))


def line(*body: object, size: int = 4) -> Program:
    return typed(Program((For("i", size, body),)))  # type: ignore[arg-type]


def ran(program: Program, a: list[int], b: list[int] | None = None) -> tuple[list[int], list[int]]:
    """What both ways of running leave in A and B; they must agree."""
    results = []
    for how in (run, run_scalar):
        memory = {A: np.array(a), B: np.array(b or [0, 0, 0, 0])}
        how(check(program), memory)
        results.append((memory[A].tolist(), memory[B].tolist()))
    assert results[0] == results[1]
    return results[0]


def test_a_store_copies() -> None:
    assert ran(line(Store(B, (AT_I,), Read(A, (AT_I,)))), [1, 2, 3, 4]) == ([1, 2, 3, 4], [1, 2, 3, 4])


def test_a_store_that_reads_the_place_it_writes() -> None:
    assert ran(line(Store(A, (AT_I,), Read(A, (AT_I,)) * 2)), [1, 2, 3, 4])[0] == [2, 4, 6, 8]


def test_a_store_into_one_place_that_reads_it_runs_in_order() -> None:
    zero = Affine((), 0)
    assert ran(line(Store(B, (zero,), Read(B, (zero,)) * 2 + Read(A, (AT_I,)))), [1, 2, 3, 4])[1][0] == 26


def test_a_store_that_reads_the_place_before_runs_in_order() -> None:
    shifted = Affine(((1, "i"),), 1)
    prefix = line(Store(A, (shifted,), Read(A, (AT_I,)) + Read(A, (shifted,))), size=3)
    assert ran(prefix, [1, 2, 3, 4])[0] == [1, 3, 6, 10]


def test_repeated_stores_leave_the_last_value() -> None:
    assert ran(line(Store(B, (Affine((), 2),), Read(A, (AT_I,)))), [1, 2, 3, 4])[1] == [0, 0, 4, 0]


def test_an_update_accumulates_where_cells_repeat() -> None:
    at = call("mod", Read(A, (AT_I,)), 2)
    assert ran(line(Update(B, (at,), "add", Num(1))), [0, 1, 3, 5])[1] == [1, 3, 0, 0]


@pytest.mark.parametrize(("op", "left"), [("sub", -9), ("max", 4), ("min", 1), ("mul", 24), ("arg2", 4), ("arg1", 1)])
def test_updates_of_one_cell(op: str, left: int) -> None:
    assert ran(line(Update(B, (Affine((), 0),), op, Read(A, (AT_I,)))), [1, 2, 3, 4], [1, 0, 0, 0])[1][0] == left


def test_an_update_that_reads_its_own_buffer_runs_in_order() -> None:
    fibonacci = Update(A, (Affine(((1, "i"),), 2),), "add", Read(A, (AT_I,)) + Read(A, (Affine(((1, "i"),), 1),)))
    assert ran(line(fibonacci, size=2), [1, 1, 0, 0])[0] == [1, 1, 2, 3]


def test_a_guard_that_reads_what_the_nest_writes_runs_in_order() -> None:
    zero = Affine((), 0)
    count = If((Inside(Read(B, (zero,)), 2),), (Update(B, (zero,), "add", Num(1)),))
    assert ran(line(count), [0, 0, 0, 0])[1] == [2, 0, 0, 0]


def test_guarded_points_are_left_alone() -> None:
    before = Affine(((1, "i"),), -1)
    shift = If((Inside(before, 4),), (Store(B, (AT_I,), Read(A, (before,))),))
    assert ran(line(shift), [1, 2, 3, 4], [9, 9, 9, 9])[1] == [9, 1, 2, 3]


def test_a_guard_that_never_holds_writes_nothing() -> None:
    never = If((Inside(Affine(((1, "i"),), 9), 4),), (Store(B, (AT_I,), Num(1)),))
    assert ran(line(never), [1, 2, 3, 4], [5, 6, 7, 8])[1] == [5, 6, 7, 8]


def test_loops_with_several_statements_interleave() -> None:
    two = line(Store(B, (AT_I,), Read(A, (Affine((), 0),))), Update(A, (Affine((), 0),), "add", Num(1)))
    assert ran(two, [1, 0, 0, 0]) == ([5, 0, 0, 0], [1, 2, 3, 4])


def test_fill_writes_every_cell() -> None:
    assert ran(Program((Fill(B, 7),)), [0, 0, 0, 0])[1] == [7, 7, 7, 7]


def test_a_large_nest_is_cut_and_gives_the_same() -> None:
    update = Update(M, (AT_I, AT_J), "add", call("mul", AT_I, AT_J))
    nest = typed(Program((For("i", 3, (For("j", 4, (update,)),)),)))
    whole, cut = {M: np.ones(M.shape)}, {M: np.ones(M.shape)}
    run(nest, whole)
    run(nest, cut, most_points=5)
    np.testing.assert_array_equal(whole[M], cut[M])
    np.testing.assert_array_equal(cut[M], 1 + np.outer(np.arange(3), np.arange(4)))


def test_infinities_and_nan_are_values_not_warnings() -> None:
    row = (Affine((), 0), AT_I)
    program = line(Store(M, row, call("log", call("sub", Read(M, row), 1.0))))
    for how in (run, run_scalar):
        memory = {M: np.array([[1.0, 0.0, 2.0, np.inf]] * 3)}
        how(program, memory)
        np.testing.assert_array_equal(memory[M][0], [-np.inf, np.nan, 0.0, np.inf])


@pytest.mark.parametrize("how", [run, run_scalar])
@pytest.mark.parametrize("value", [4, -1])
def test_a_gather_outside_its_buffer_is_refused(how: object, value: int) -> None:
    program = line(Store(B, (AT_I,), Read(A, (Read(B, (AT_I,)),))))
    with pytest.raises(IndexError):
        how(check(program), {A: np.arange(4), B: np.array([0, 1, 2, value])})  # type: ignore[operator]
