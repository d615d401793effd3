"""Random operations on a pool of shapes, as values that can be applied in any order."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from shape.pool import blank, first_at, kind_of, sliced
from weft.einsum import Label, parse_spec
from weft.errors import ShapeError
from weft.shape import Dim, Shape, ShapeVar, close, infer
from weft.shape.cells import TensorRole
from weft.shape.logic import (
    Compose,
    Constant,
    Counted,
    Einsum,
    Literal,
    Logic,
    Parameter,
    Pointwise,
    Transpose,
    arity,
)
from weft.shape.nodes import AxisBelow, AxisIs, Constraint, ElementCount, RowRef, RowSame, Size

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
    pool: tuple[tuple[TensorRole, Marks], ...]
    uses: tuple[Use, ...]

    def shapes(self) -> list[ShapeVar]:
        return [blank(f"t{number}", role, marks) for number, (role, marks) in enumerate(self.pool)]

    def outcome(self, order: tuple[int, ...]) -> str | list[tuple[Shape, str]]:
        """The closed shapes, or the kind of error."""
        pool = self.shapes()
        try:
            for at in order:
                self.uses[at].apply(pool)
        except ShapeError:
            return "conflict"
        return settled(pool)


def settled(pool: list[ShapeVar]) -> str | list[tuple[Shape, str]]:
    """The closed shapes, or the kind of error; which shape a conflict is told of depends on what was said last."""
    kinds = {kind_of(lambda shape=shape: close(shape)) for shape in pool}
    for kind in ("conflict", "underdetermined"):
        if kind in kinds:
            return kind
    return [(close(shape), str(shape)) for shape in pool]  # closing others may have given one a label


ROLES: list[TensorRole] = ["inner", "inner", "leaf", "leaf", "param"]
sizes = st.sampled_from([1, 1, 2, 2, 3, 4])
bases = st.sampled_from([None, None, None, "rgb", "pos"])
some_dim = st.builds(Dim, sizes, bases)
row = st.lists(some_dim, max_size=2).map(tuple)
output_row = st.lists(some_dim, min_size=1, max_size=3).map(tuple)
some_shape = st.builds(Shape, row, row, output_row)
marks = st.sampled_from([(0, 0, 0), (0, 0, 0), (0, 0, 1), (1, 0, 0), (0, 1, 1), (0, 0, 2)])

terminals = st.one_of(
    some_shape.map(Literal),
    st.builds(Literal, some_shape, st.booleans()),
    st.sampled_from([1, 2, 4, 6, 8, 12]).map(Counted),
    st.builds(Parameter, st.none() | row, st.none() | row, st.none() | output_row, input_equals_output=st.booleans()),
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
    "a&b=>ba",
    "ab=>b&a",
    "a;b=>a&b",
    "a&b;a=>b",
    "a&b&c=>a&b",
    "..v..a;..v..b=>..v..a^b",
    "a...b;b...c=>a...c",
    "..u..|..v..;..v..|..u.. => ..u..|..v..",
    "i;j;k=>i^j^k",
    "ij;jk;kl=>il",
    "...|;...|;...=>...|...",
]

slices = st.one_of(
    st.sampled_from([("i", 2), ("i", 3), ("0",), ("2",)]).map(lambda index: first_at(*index)),
    st.sampled_from(["[::-1|]", "[1:|]", "[:2|]", "[::2|]", "[::-1]", "[..., :-1]"]).map(sliced),
)


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
    """A letter of `kinds` for each kind of use: terminal, broadcasting, einsum, slice, pointwise with a row claim."""
    match draw(st.sampled_from(kinds)):
        case "t":
            logic, also, given_sizes = draw(terminals), (), ()
        case "b":
            logic, also, given_sizes = draw(broadcasting), (), ()
        case "s":
            logic, also, given_sizes = draw(slices), (), ()
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
