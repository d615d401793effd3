"""Scalars as isl and intervals see them, against every value they take: random ones, at every point of small ranges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from hypothesis import given, strategies as st

from weft.affine import Affine
from weft.comprehension.intervals import interval
from weft.comprehension.piecewise import Piecewise, Range
from weft.comprehension.scalars import Known, cell, reads
from weft.loops import Cast, Local
from weft.loops.intervals import inside
from weft.loops.walk import children
from weft.ops import Call, Num, Scalar, call, fold_tree, where

RANGES = {"i": Range(-2, 2), "k": Range(1, 4)}
KNOWN = Known({"A": (5,)}, {"N": 3})
#: What a tensor may hold: the ends of its type, and between.
HELD = (-128, -3, 0, 2, 127)
READ = cell("t", "int8", (Affine.of("i"),))
PLAIN = [Affine.of("i"), Affine.of("k"), Affine(((2, "i"), (-1, "k")), 1), Num(2), Num(-3), Local("N", "int32")]
LEAVES = [*PLAIN, Local("A.0", "int32")]


def scalars(leaves: Sequence[Scalar]) -> st.SearchStrategy[Scalar]:
    """Whole numbers made of some leaves."""

    def larger(inner: st.SearchStrategy[Scalar]) -> st.SearchStrategy[Scalar]:
        names = st.sampled_from(["add", "sub", "mul", "floordiv", "mod", "min", "max"])
        pairs = st.builds(call, names, inner, inner)
        tests = st.builds(call, st.sampled_from(["lt", "le", "eq", "ne"]), inner, inner)
        choices = st.builds(
            where, st.one_of(tests, st.builds(call, st.sampled_from(["and", "or"]), tests, tests)), inner, inner
        )
        casts = st.builds(Cast, st.sampled_from(["int32", "int64", "uint8"]), inner)
        return st.one_of(pairs, choices, casts, st.builds(call, st.sampled_from(["neg", "abs"]), inner))

    return st.recursive(st.sampled_from(list(leaves)), larger, max_leaves=6)


class Undefined(Exception):
    """A division by zero."""


def points(value: Scalar) -> Iterator[Mapping[str, int]]:
    """Every point, with every value of what is read."""
    held = HELD if next(reads(value), None) is not None else (0,)
    for i, k, t in product(range(-2, 2), range(1, 4), held):
        yield {"i": i, "k": k, "t": t}


def evaluated(value: Scalar, at: Mapping[str, int]) -> int:
    def combine(one: Scalar, parts: Sequence[int]) -> int:
        match one:
            case Num(value=number):
                return int(number)
            case Local(name=name):
                return KNOWN.number(name)
            case Affine():
                return one.value(at)
            case Cast(dtype=dtype):
                bits = int(dtype.removeprefix("u").removeprefix("int"))
                found = parts[0] % 2**bits
                return found - 2**bits if dtype[0] == "i" and found >= 2 ** (bits - 1) else found
            case Call(op=op):
                return int(_called(op, parts))
        return at["t"]

    return fold_tree(value, combine, lambda one: children(one) if one != READ else ())


def _called(op: str, parts: Sequence[int]) -> int:
    one, *rest = parts
    match op:
        case "neg" | "abs":
            return -one if op == "neg" else abs(one)
        case "where":
            return rest[0] if one else rest[1]
        case "floordiv" | "mod":
            if not rest[0]:
                raise Undefined
            return one // rest[0] if op == "floordiv" else one % rest[0]
    (other,) = rest
    table = {"add": one + other, "sub": one - other, "mul": one * other, "min": min(parts), "max": max(parts)}
    table |= {"lt": one < other, "le": one <= other, "eq": one == other, "ne": one != other}
    table |= {"and": one and other, "or": one or other}
    return table[op]


@given(scalars([*LEAVES, READ]))
def test_an_interval_holds_every_value(value: Scalar) -> None:
    low, high = interval(value, RANGES, KNOWN.number)
    for at in points(value):
        try:
            assert low <= evaluated(value, at) <= high
        except Undefined:
            continue


@given(scalars(LEAVES))
def test_what_isl_makes_of_a_scalar_is_its_value_everywhere(value: Scalar) -> None:
    seen = Piecewise(tuple(RANGES), KNOWN.number)
    found = seen.value(value)
    if found is None:
        return
    for at in points(value):
        here = seen.box({name: Range(at[name], at[name] + 1) for name in RANGES})
        try:
            assert found.intersect_domain(here).max_val().to_python() == evaluated(value, at)
        except Undefined:
            continue


def test_remainders_and_ends_of_types_bound_what_is_read() -> None:
    number = KNOWN.number
    assert interval(READ, RANGES, number) == (-128, 127)
    assert interval(call("mod", READ, Local("N", "int32")), RANGES, number) == (0, 2)
    assert inside(interval(call("max", call("min", READ, 4), 0), RANGES, number), (0, 4))
    assert not inside(interval(READ + 1, RANGES, number), (0, 127))
    assert interval(call("mul", READ, Num(2**60)), RANGES, number) == (float("-inf"), float("inf"))  # it may wrap


def test_what_depends_on_data_or_is_no_sum_isl_does_not_know() -> None:
    seen = Piecewise(tuple(RANGES), KNOWN.number)
    for value in (READ, call("mul", Affine.of("i"), Affine.of("k")), call("mod", Affine.of("i"), Affine.of("k"))):
        assert seen.value(value) is None
    assert seen.holds(call("lt", READ, 2)) is None
    assert seen.holds(call("not", call("lt", Affine.of("i"), 0))) is not None
