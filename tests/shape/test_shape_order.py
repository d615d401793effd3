"""Solving is declarative: the same constraints in any order give the same shapes, or an error of the same kind."""

from __future__ import annotations

import itertools
import random
import time

import pytest
from hypothesis import given, settings, strategies as st

from effort import tries
from shape.pool import blank, closed, einsum, kind_of, known, pointwise, transpose
from shape.problems import Problem, problems
from weft.errors import ShapeError, UnderdeterminedShapeError
from weft.shape import ShapeVar, as_shape, close, infer
from weft.shape.logic import Compose, Literal


def check(problem: Problem, seed: int) -> None:
    forwards = tuple(range(len(problem.uses)))
    expected = problem.outcome(forwards)
    shuffle = random.Random(seed)
    for order in [forwards[::-1], *(tuple(shuffle.sample(forwards, len(forwards))) for _ in range(3))]:
        assert problem.outcome(order) == expected, order


@settings(max_examples=tries(100))
@given(problems("tttbbb"), st.integers(0, 99))
def test_broadcasting_in_any_order(problem: Problem, seed: int) -> None:
    check(problem, seed)


@settings(max_examples=tries(100))
@given(problems("tteee"), st.integers(0, 99))
def test_einsums_in_any_order(problem: Problem, seed: int) -> None:
    check(problem, seed)


@settings(max_examples=tries(100))
@given(problems("ttbbeesr"), st.integers(0, 99))
def test_everything_in_any_order(problem: Problem, seed: int) -> None:
    check(problem, seed)


@settings(max_examples=100)
@given(problems("bbeesr", most=12))
def test_every_set_of_constraints_terminates(problem: Problem) -> None:
    started = time.process_time()
    problem.outcome(tuple(range(len(problem.uses))))
    assert time.process_time() - started < 5


@settings(max_examples=100)
@given(problems("ttbbeesr"))
def test_closed_shapes_satisfy_every_constraint(problem: Problem) -> None:
    """Said again about the closed shapes, the same operations neither fail nor say anything new."""
    answer = problem.outcome(tuple(range(len(problem.uses))))
    if isinstance(answer, str):
        return
    pool = [infer(Literal(shape)).result for shape, _ in answer]
    for use in problem.uses:
        use.apply(pool)
    assert [close(shape) for shape in pool] == [shape for shape, _ in answer]


# Rows that must out-rank each other. `_` adds an axis and asks nothing of its size.


def outranks(big: ShapeVar, small: ShapeVar, spec: str = "..v..|=>..v.._|") -> None:
    """`big` has more batch axes than `small`, if only because it has those of `small` and one more."""
    above = einsum(spec, small).result
    pointwise(above, result=big)


SHIFTS = ["..v..|=>..v.._|", "..v..|=>_..v..|", "..v..|=>_..v.._|"]


@pytest.mark.parametrize("spec", SHIFTS)
@pytest.mark.parametrize("length", [1, 2, 3, 4, 10])
def test_rows_that_outrank_each_other_in_a_cycle_are_an_error_within_a_second(length: int, spec: str) -> None:
    rows = [blank(f"row{number}") for number in range(length)]
    started = time.perf_counter()
    for big, small in itertools.pairwise(rows):
        outranks(big, small, spec)
    with pytest.raises(ShapeError, match="rows that each out-rank the next form a cycle") as caught:
        outranks(rows[-1], rows[0], spec)
    assert time.perf_counter() - started < 1
    assert not isinstance(caught.value, UnderdeterminedShapeError)


@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_rows_that_equal_each_other_in_a_cycle_are_fine(length: int) -> None:
    rows = [blank(f"row{number}") for number in range(length)]
    for big, small in zip(rows, [*rows[1:], rows[0]], strict=True):
        pointwise(small, result=big)
    outranks(rows[0], blank())
    assert closed(*rows) == ["1|1"] * length


def test_a_row_cannot_hold_itself_and_one_more_axis() -> None:
    shape = blank()
    with pytest.raises(ShapeError, match="form a cycle"):
        einsum("..v..|=>..v.._|", shape, result=shape)


def test_a_row_that_is_its_own_remainder_closes() -> None:
    """`a v` and `v` at once, where a result without axes still has one: only the scalar fits."""
    shape = blank("shape", "leaf")
    einsum("a...=>...", shape, result=shape)
    pointwise(shape, known("3"))
    started = time.perf_counter()
    assert closed(shape) == ["1"]
    assert time.perf_counter() - started < 1


def test_a_cycle_of_equations_that_shrinks_and_grows_is_fine() -> None:
    one, two = blank("one"), blank("two")
    einsum("..v..|=>..v.._|", one, result=two)
    einsum("_..v..|=>..v..|", two, result=one)
    assert closed(one, two) == ["1", "1|1"]


def test_a_cycle_through_transposes() -> None:
    one, two = blank("one"), blank("two")
    transpose(one, result=two)
    transpose(two, result=one)
    with pytest.raises(ShapeError, match="form a cycle"):
        einsum("..u..->..v.. => ..u.._->..v..", one, result=two)


def test_a_row_reversed_onto_itself() -> None:
    """The row is `a b r` and `r b a` at once; sizes that repeat with the right period fit."""
    fits = known("3,5,3")
    pointwise(fits, einsum("ab...=>...ba", fits).result)
    unfit = known("3,5,4")
    with pytest.raises(ShapeError):
        pointwise(unfit, einsum("ab...=>...ba", unfit).result)


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_two_leaves_and_transitive_demands(order: tuple[int, ...]) -> None:
    """3 ≥ α ≥ β and 5 ≥ β: β must give up its 5 for α to be 3, whichever is said first."""
    alpha, beta, three, five = blank("α", "leaf"), blank("β", "leaf"), blank("3"), blank("5")
    says = [
        lambda: (infer(Literal(as_shape(3)), result=three), infer(Literal(as_shape(5)), result=five)),
        lambda: pointwise(alpha, result=three),
        lambda: pointwise(beta, result=alpha),
        lambda: pointwise(beta, result=five),
    ]
    for at in order:
        says[at]()
    assert closed(alpha, beta) == ["3", "1"]


def test_kinds_of_error_are_told_apart() -> None:
    assert kind_of(lambda: close(blank())) == "fine"
    assert kind_of(lambda: close(blank(role="param"))) == "underdetermined"
    assert kind_of(lambda: pointwise(known("2"), known("3"))) == "conflict"


@pytest.mark.parametrize("late", [False, True])
def test_an_axis_that_is_a_one_is_one_wherever_it_is_turned(late: bool) -> None:
    """What is below an unlabelled 1 is 1 also where nothing new is said about labels."""
    turned, shape = blank("t", "leaf"), blank("s")
    uses = [lambda: transpose(turned, turned), lambda: pointwise(turned, result=shape)]
    infer(Literal(as_shape("1->2")), result=shape)
    for use in reversed(uses) if late else uses:
        use()
    assert str(close(turned)) == "1->1"


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_a_written_one_borrows_no_label_whenever_it_is_written(order: tuple[int, ...]) -> None:
    square, below = blank("square", "leaf"), blank("below")
    uses = [
        lambda: infer(Literal(as_shape("rgb=1->1")), result=square),
        lambda: pointwise(below, result=square),
        lambda: infer(Compose(), [square, square], result=square),
    ]
    for at in order:
        uses[at]()
    assert str(close(square)) == "rgb=1->1"
