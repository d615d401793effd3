"""Solving is declarative: the same constraints in any order give the same shapes, or an error of the same kind."""

from __future__ import annotations

import itertools
import random
import time
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shape.pool import blank, closed, einsum, kind_of, pointwise

from weft.einsum import Label, Position, parse_spec
from weft.errors import ShapeError, UnderdeterminedShapeError
from weft.shape import Dim, Shape, ShapeVar, as_shape, close, infer
from weft.shape.cells import Role
from weft.shape.logic import (
    Compose,
    Constant,
    Counted,
    Einsum,
    Literal,
    Logic,
    Parameter,
    Pointwise,
    Slice,
    Transpose,
    arity,
)
from weft.shape.nodes import AxisBelow, AxisIs, Bound, Constraint, ElementCount, RowRef, RowSame, Size

Marks = tuple[int, int, int]


@dataclass(frozen=True)
class Use:
    """An operation on members of a pool, the result first; applying it is the only thing permuted."""

    logic: Logic
    slots: tuple[int, ...]
    also: tuple[Constraint, ...] = ()
    sizes: tuple[tuple[str, Dim], ...] = ()

    def apply(self, pool: list[ShapeVar]) -> None:
        result, *operands = (pool[slot] for slot in self.slots)
        infer(self.logic, operands, result=result, also=self.also, sizes=dict(self.sizes))

    def __repr__(self) -> str:
        what = repr(self.logic.spec.text) if isinstance(self.logic, Einsum) else repr(self.logic)
        return f"Use({what}, {self.slots}, also={self.also}, sizes={self.sizes})"


@dataclass(frozen=True)
class Problem:
    pool: tuple[tuple[Role, Marks], ...]
    uses: tuple[Use, ...]

    def outcome(self, order: tuple[int, ...]) -> str | list[tuple[Shape, str]]:
        """The closed shapes, or the kind of error."""
        pool = [blank(f"t{number}", role, marks) for number, (role, marks) in enumerate(self.pool)]
        try:
            for at in order:
                self.uses[at].apply(pool)
            return [(close(shape), str(shape)) for shape in pool]
        except UnderdeterminedShapeError:
            return "underdetermined"
        except ShapeError:
            return "conflict"


ROLES: list[Role] = ["inner", "inner", "leaf", "leaf", "param"]
sizes = st.sampled_from([1, 1, 2, 2, 3, 4])
bases = st.sampled_from([None, None, None, "rgb", "pos"])
some_dim = st.builds(Dim, sizes, bases)
row = st.lists(some_dim, max_size=2).map(tuple)
output_row = st.lists(some_dim, min_size=1, max_size=3).map(tuple)
some_shape = st.builds(Shape, row, row, output_row)
marks = st.sampled_from([(0, 0, 0), (0, 0, 0), (0, 0, 1), (1, 0, 0), (0, 1, 1), (0, 0, 2)])

terminals = st.one_of(
    some_shape.map(Literal),
    some_shape.map(Literal),
    st.sampled_from([1, 2, 4, 6, 8, 12]).map(Counted),
    st.builds(
        Parameter, st.none() | row, st.none() | row, st.none() | output_row, input_equals_output=st.booleans()
    ),
    st.just(Constant()),
)
broadcasting = st.sampled_from([Pointwise(1), Pointwise(2), Pointwise(2), Pointwise(3), Compose(), Transpose()])

SPECS = [
    "...|...->... => ...|...->...",
    "...|... => 0",
    "... => ...",
    "ij=>ji",
    "ii=>i",
    "i=>ij",
    "ijk=>ki",
    "...|i->j=>...|j->i",
    "..v..|ij => ..v..ji",
    "2..v..|...=>..v..",
    "...|i=>...i|i",
    "a...=>...",
    "...=>a...",
    "a...b=>b...a",
    "a...b=>...",
    "ab...=>...ba",
    "..v..a=>a..v..",
    "_...|=>...|",
    "..v..|->..v.. => ..v..",
    "i=>i2",
    "1i=>i",
    "2*o=>o",
    "2*i+1=>i",
    "o=>2*o",
    "2*o<+k=>o",
    "o<+2*k=>ok",
    "o=+k=>o",
    "a^b=>a",
    "a=>a^1",
    "a^a=>a",
    "a,b=>a^b",
    "ij;jk=>ik",
    "...|i->j;...|->i=>...|->j",
    "...i;...i=>...",
    "o<+k;k=>o",
    "2*o+1;o=>o",
    "a;b=>a^b",
    "..v..a;..v..b=>..v..a^b",
    "a...b;b...c=>a...c",
    "..u..|..v..;..v..|..u.. => ..u..|..v..",
    "i;j;k=>i^j^k",
    "ij;jk;kl=>il",
    "...|;...|;...=>...|...",
]


@st.composite
def einsums(draw: st.DrawFn) -> tuple[Logic, tuple[Constraint, ...], tuple[tuple[str, Dim], ...]]:
    logic = Einsum(parse_spec(draw(st.sampled_from(SPECS))))
    names = sorted(infer(logic, [blank() for _ in logic.spec.operands]).labels)
    if not names:
        return logic, (), ()
    label = st.sampled_from(names).map(Label)
    also = draw(
        st.lists(
            st.one_of(
                st.builds(AxisIs, label, some_dim.map(Size)),
                st.builds(AxisBelow, label, some_dim.map(Size)),
                st.builds(AxisBelow, some_dim.map(Size), label),
                st.builds(AxisBelow, label, label),
                st.builds(AxisIs, label, label),
            ),
            max_size=1,
        )
    )
    given_sizes = draw(st.dictionaries(st.sampled_from(names), some_dim, max_size=1))
    return logic, tuple(also), tuple(given_sizes.items())


@st.composite
def uses(draw: st.DrawFn, pool: int, kinds: str) -> Use:
    match draw(st.sampled_from(kinds)):
        case "t":
            logic, also, given_sizes = draw(terminals), (), ()
        case "b":
            logic, also, given_sizes = draw(broadcasting), (), ()
        case "s":
            logic, also, given_sizes = Slice(draw(st.sampled_from([Bound("i"), Position(0), Position(2)]))), (), ()
        case "r":
            logic, given_sizes = Pointwise(1), ()
            ref = st.builds(RowRef, st.integers(0, 1), st.sampled_from(["batch", "input", "output"]))
            more = st.builds(RowSame, ref, ref) | st.builds(ElementCount, st.integers(0, 1), st.sampled_from([2, 4, 6]))
            also = (draw(more),)
        case _:
            logic, also, given_sizes = draw(einsums())
    count = arity(logic) + 1
    slots = draw(st.lists(st.integers(0, pool - 1), min_size=count, max_size=count))
    return Use(logic, tuple(slots), also, given_sizes)


@st.composite
def problems(draw: st.DrawFn, kinds: str, pool: int = 4, most: int = 6) -> Problem:
    members = draw(st.lists(st.tuples(st.sampled_from(ROLES), marks), min_size=2, max_size=pool))
    steps = draw(st.lists(uses(len(members), kinds), min_size=2, max_size=most))
    return Problem(tuple(members), tuple(steps))


def check(problem: Problem, seed: int) -> None:
    forwards = tuple(range(len(problem.uses)))
    expected = problem.outcome(forwards)
    shuffle = random.Random(seed)
    for order in [forwards[::-1], *(tuple(shuffle.sample(forwards, len(forwards))) for _ in range(3))]:
        assert problem.outcome(order) == expected, order


@settings(max_examples=250)
@given(problems("tttbbb"), st.integers(0, 99))
def test_broadcasting_in_any_order(problem: Problem, seed: int) -> None:
    check(problem, seed)


@settings(max_examples=250)
@given(problems("tteee"), st.integers(0, 99))
def test_einsums_in_any_order(problem: Problem, seed: int) -> None:
    check(problem, seed)


@settings(max_examples=250)
@given(problems("ttbbeesr"), st.integers(0, 99))
def test_everything_in_any_order(problem: Problem, seed: int) -> None:
    check(problem, seed)


@settings(max_examples=100)
@given(problems("bbeesr", most=12))
def test_every_set_of_constraints_terminates(problem: Problem) -> None:
    started = time.perf_counter()
    problem.outcome(tuple(range(len(problem.uses))))
    assert time.perf_counter() - started < 5


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
    with pytest.raises(ShapeError, match="form a cycle"):
        shape = blank()
        einsum("..v..|=>..v.._|", shape, result=shape)


def test_a_cycle_of_equations_that_shrinks_and_grows_is_fine() -> None:
    one, two = blank("one"), blank("two")
    einsum("..v..|=>..v.._|", one, result=two)
    einsum("_..v..|=>..v..|", two, result=one)
    assert closed(one, two) == ["1", "1|1"]


def test_a_cycle_through_compose_and_transpose() -> None:
    one, two = blank("one"), blank("two")
    infer(Transpose(), (one,), result=two)
    infer(Transpose(), (two,), result=one)
    with pytest.raises(ShapeError, match="form a cycle"):
        einsum("..u..->..v.. => ..u.._->..v..", one, result=two)


def test_a_row_reversed_onto_itself() -> None:
    """The row is `a b r` and `r b a` at once; sizes that repeat with the right period fit."""
    fits = infer(Literal(as_shape("3,5,3"))).result
    pointwise(fits, einsum("ab...=>...ba", fits).result)
    unfit = infer(Literal(as_shape("3,5,4"))).result
    with pytest.raises(ShapeError):
        pointwise(unfit, einsum("ab...=>...ba", unfit).result)


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_two_leaves_and_transitive_demands(order: tuple[int, ...]) -> None:
    """3 ≥ α ≥ β and 5 ≥ β: β must give up its 5 for α to be 3, whichever is said first."""
    alpha, beta, three, five = (blank(name, role) for name, role in zip("αβ35", ["leaf", "leaf"] + ["inner"] * 2))
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
    assert kind_of(lambda: pointwise(*(infer(Literal(as_shape(n))).result for n in (2, 3)))) == "conflict"
