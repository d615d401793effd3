"""The solver against brute force: what it claims holds in every solution, and what it refuses has none."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given, settings, strategies as st

from effort import tries
from shape.pool import blank, einsum
from weft.einsum import Hole
from weft.errors import ShapeError
from weft.shape import Dim, ShapeVar, close, infer
from weft.shape.logic import Literal, Logic, Pointwise
from weft.shape.nodes import MAX_RANK, RowIs, RowRef, Shape

# One axis each: a solution gives every member of a pool a size and a basis.

ONE_AXIS = (RowIs(RowRef(0, "batch")), RowIs(RowRef(0, "input")), RowIs(RowRef(0, "output"), trail=(Hole(),)))
DOMAIN = [Dim(size, basis) for size in range(1, 7) for basis in (None, "rgb")]
Solution = Sequence[Dim]


@dataclass(frozen=True)
class Fact:
    """A constraint said twice: to the solver, and as a plain test of a solution."""

    name: str
    slots: tuple[int, ...]
    dim: Dim | None = None

    def apply(self, pool: Sequence[ShapeVar]) -> None:
        result, *operands = (pool[slot] for slot in self.slots)
        if self.dim is not None:
            infer(Literal(Shape(output=(self.dim,))), result=result)
        elif self.name == "pointwise":
            infer(Pointwise(len(operands)), operands, result=result)
        else:
            einsum(self.name, *operands, result=result)

    def holds(self, solution: Solution) -> bool:
        if self.dim is not None:
            axis = solution[self.slots[0]]
            return axis.size == self.dim.size and self.dim.basis in (None, axis.basis)
        return MEANINGS[self.name](*(solution[slot] for slot in self.slots))


def broadcasts(result: Dim, *operands: Dim) -> bool:
    return all(operand in (result, Dim(1)) for operand in operands)


def computed(whole: Dim, part: Dim) -> bool:
    """An axis read at strides of another means what that one means."""
    return whole.basis == part.basis


def joined(whole: Dim, *parts: Dim) -> bool:
    """What is joined means what its parts mean; a part may mean nothing in particular."""
    return all(part.basis in (None, whole.basis) for part in parts)


MEANINGS: dict[str, Callable[..., bool]] = {
    "pointwise": broadcasts,
    "i=>i": lambda result, operand: result == operand,
    "i;i=>": lambda result, one, other: one == other,
    "2*o=>o": lambda result, operand: operand.size == 2 * result.size and computed(operand, result),
    "o=+k;k=>o": lambda result, operand, kernel: operand.size == result.size and computed(operand, result),
    "o<+k;k=>o": lambda r, operand, kernel: operand.size == r.size + kernel.size - 1 and computed(operand, r),
    "2*o<+k+1;k=>o": lambda r, operand, kernel: operand.size == 2 * r.size + kernel.size - 1 and computed(operand, r),
    "a;b=>a^b": lambda result, one, other: result.size == one.size + other.size and joined(result, one, other),
    "a=>a^a": lambda result, operand: result.size == 2 * operand.size and joined(result, operand),
    "a=>1^a": lambda result, operand: result.size == 1 + operand.size and joined(result, operand),
    "i=>2": lambda result, operand: result.size >= 3,
    "3=>": lambda result, operand: operand.size >= 4,
}
ARITIES = {name: 2 if name == "pointwise" else name.split("=>")[0].count(";") + 1 for name in MEANINGS}
POOL = 3
member = st.integers(0, POOL - 1)
small_dim = st.builds(Dim, st.sampled_from([1, 1, 2, 3, 4]), st.sampled_from([None, None, "rgb"]))
name = st.sampled_from([*MEANINGS, *["pointwise"] * 8, *["i=>i"] * 2])
fact = st.one_of(
    st.builds(lambda at, dim: Fact("literal", (at,), dim), member, small_dim),
    st.builds(lambda at, one: Fact("pointwise", (at, one)), member, member),
    name.flatmap(lambda name: st.tuples(*[member] * (ARITIES[name] + 1)).map(lambda slots: Fact(name, slots))),
)
roles = st.tuples(*[st.sampled_from(["inner", "leaf"])] * POOL)


def pool_of(roles: Sequence[str]) -> list[ShapeVar]:
    pool = [blank(f"t{number}", role) for number, role in enumerate(roles)]  # type: ignore[arg-type]
    for shape in pool:
        infer(Pointwise(0), result=shape, also=ONE_AXIS)
    return pool


def solutions(facts: Sequence[Fact]) -> list[tuple[Dim, ...]]:
    return [each for each in itertools.product(DOMAIN, repeat=POOL) if all(fact.holds(each) for fact in facts)]


@settings(max_examples=tries(150))
@given(roles, st.lists(fact, min_size=1, max_size=6))
def test_axes_against_every_solution(roles: tuple[str, ...], facts: list[Fact]) -> None:
    pool = pool_of(roles)
    try:
        for fact in facts:
            fact.apply(pool)
    except ShapeError:
        assert solutions(facts) == []
        return
    cells = [shape.output.axes[0] for shape in pool if shape.output.axes]
    for solution in solutions(facts):
        for cell, dim in zip(cells, solution, strict=True):
            assert cell.size in (None, dim.size), "a size was guessed before it was forced"
            assert cell.basis in (None, dim.basis), "a basis was guessed before it was forced"
            assert cell.least <= dim.size
            assert cell.cap is None or dim == Dim(1) or cell.cap.size == dim.size
    try:
        answer = [close(shape).output[0] for shape in pool]
    except ShapeError:
        return  # leaves may ask for more than fits; that closing never guesses otherwise is for the next lines
    assert all(fact.holds(answer) for fact in facts)


# Ranks are difference constraints: the tightest bounds are shortest paths.


@dataclass(frozen=True)
class Shift:
    """`logic` says rank(result) - rank(operand) is `by`, or at least 0 when `by` is None."""

    spec: str
    by: int | None
    result: int
    operand: int


SHIFTS = {
    "..v..|=>..v..|": 0,
    "..v..|=>_..v..|": 1,
    "..v..|=>..v..__|": 2,
    "_..v.._|=>..v..|": -2,
    "..v.._|=>_..v..|": 0,
}
ROWS = 4
row = st.integers(0, ROWS - 1)
shift = st.one_of(
    st.builds(lambda result, operand: Shift("", None, result, operand), row, row),
    st.builds(lambda spec, one, two: Shift(spec, SHIFTS[spec], one, two), st.sampled_from(list(SHIFTS)), row, row),
)
ranks = st.dictionaries(row, st.integers(0, 4), max_size=1)


def bounds(shifts: Sequence[Shift], given_ranks: dict[int, int]) -> list[tuple[int, int]] | None:
    """The least and greatest rank of every row by relaxation, or None when there is none.

    The most axes a row can have is no claim about it, and is not passed on.
    """
    lo, hi = [0] * ROWS, [MAX_RANK] * ROWS
    for at, rank in given_ranks.items():
        lo[at] = hi[at] = rank
    edges: list[tuple[int, int, int]] = []  # rank(big) >= rank(small) + by
    for shift in shifts:
        flanks = shift.spec.split("=>")[-1].count("_"), shift.spec.split("=>")[0].count("_")
        lo[shift.result] = max(lo[shift.result], flanks[0])
        lo[shift.operand] = max(lo[shift.operand], flanks[1])
        edges.append((shift.result, shift.operand, shift.by or 0))
        if shift.by is not None:
            edges.append((shift.operand, shift.result, -shift.by))
    for _ in range(ROWS * (MAX_RANK + 2)):
        before = (lo[:], hi[:])
        for big, small, by in edges:
            lo[big] = max(lo[big], lo[small] + by)
            if hi[big] < MAX_RANK:
                hi[small] = min(hi[small], hi[big] - by)
        if any(low > high for low, high in zip(lo, hi, strict=True)):
            return None
        if before == (lo, hi):
            return list(zip(lo, hi, strict=True))
    raise AssertionError("the bounds did not settle")


@settings(max_examples=300)
@given(st.lists(shift, min_size=1, max_size=6), ranks)
def test_ranks_against_shortest_paths(shifts: list[Shift], given_ranks: dict[int, int]) -> None:
    pool = [blank(f"t{number}") for number in range(ROWS)]
    expected = bounds(shifts, given_ranks)
    try:
        for at, rank in given_ranks.items():
            infer(Literal(Shape(batch=(Dim(1),) * rank, output=(Dim(1),))), result=pool[at])
        for step in shifts:
            if step.spec:
                einsum(step.spec, pool[step.operand], result=pool[step.result])
            else:
                infer(Pointwise(1), [pool[step.operand]], result=pool[step.result])
    except ShapeError:
        assert expected is None
        return
    assert [(shape.batch.lo, shape.batch.hi) for shape in pool] == expected
    for shape, (least, _) in zip(pool, expected, strict=True):
        assert len(close(shape).batch) == least


@pytest.mark.parametrize("logic", [Pointwise(0), Literal(Shape(output=(Dim(2),)))])
def test_the_pool_can_be_told_its_ranks(logic: Logic) -> None:
    (shape,) = pool_of(["leaf"])[:1]
    infer(logic, result=shape)
    assert [len(close(shape).row(kind)) for kind in ("batch", "input", "output")] == [0, 0, 1]
