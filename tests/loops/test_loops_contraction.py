"""What a nest contracts: told by its maps as enumeration tells it, in any order of loops and axes, in any semiring."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from weft.affine import Affine
from weft.loops import Buffer, Inside, Program, Read, Update
from weft.loops.contraction import Contraction, contraction_of
from weft.loops.interp import run_scalar
from weft.loops.nests import Nest
from weft.ops import OPS, Call, Scalar

PAIRS = [(accumulate, one.name) for one in OPS.values() for accumulate in one.over]
NAMES = "abcde"


def test_the_table_marks_semirings() -> None:
    assert set(PAIRS) >= {("add", "mul"), ("max", "add"), ("min", "add"), ("or", "and")}


@pytest.mark.parametrize(("accumulate", "combine"), PAIRS)
def test_what_is_marked_distributes(accumulate: str, combine: str) -> None:
    """x * (y + z) = x * y + x * z, and likewise from the other side."""
    values = [0, 1] if OPS[combine].truth else [-2, -1, 0, 1, 3]
    plus, times = OPS[accumulate].meaning, OPS[combine].meaning
    for x, y, z in product(np.array(values), repeat=3):
        assert times(x, plus(y, z)) == plus(times(x, y), times(x, z))
        assert times(plus(y, z), x) == plus(times(y, x), times(z, x))


@dataclass(frozen=True)
class Sample:
    nest: Nest
    memory: dict[Buffer, np.ndarray]


@st.composite
def indices(draw: st.DrawFn, names: list[str], sizes: dict[str, int], most: int) -> tuple[Affine, ...]:
    """Subscripts that mention just these loops, up to so many in one of them, in any order."""
    rest, found = list(draw(st.permutations(names))), []
    while rest:
        here = [rest.pop() for _ in range(min(len(rest), draw(st.sampled_from([1, 1, 1, most]))))]
        found.append(Affine(tuple((draw(st.sampled_from([1, 1, 2])), name) for name in here), draw(st.integers(0, 1))))
    return tuple(found) or (Affine(()),)


@st.composite
def samples(draw: st.DrawFn) -> Sample:
    loops = [(name, draw(st.integers(2, 3))) for name in NAMES[: draw(st.integers(2, 5))]]
    sizes = dict(loops)
    accumulate, combine = draw(st.sampled_from(PAIRS))
    dtype = "bool" if OPS[combine].truth else draw(st.sampled_from(["float32", "float64", "int64"]))
    some = st.lists(st.sampled_from([name for name, _ in loops]), unique=True)
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    memory: dict[Buffer, np.ndarray] = {}
    reads = []
    for number, most in enumerate((1 + draw(st.booleans()), 2, 2)):
        at = draw(indices(draw(some), sizes, most))
        shape = tuple(1 + one.offset + sum(factor * (sizes[name] - 1) for factor, name in one.terms) for one in at)
        buffer = Buffer(number, "cxy"[number], shape, dtype)
        memory[buffer] = rng.integers(-3, 4, shape).astype(dtype) if dtype != "bool" else rng.random(shape) < 0.4
        reads.append(Read(buffer, at))
    target, *factors = reads
    tests = tuple(Inside(Affine(((1, name),), -1), sizes[name]) for name in draw(some)[:1] if draw(st.booleans()))
    core = Update(target.buffer, target.at, accumulate, Call(combine, tuple(factors)))
    return Sample(Nest(tuple(draw(st.permutations(loops))), tests, core), memory)


def cell(at: tuple[Scalar, ...], point: dict[str, int]) -> tuple[int, ...]:
    return tuple(one.value(point) for one in at)  # type: ignore[attr-defined]


def moves(at: tuple[Scalar, ...], name: str, sizes: dict[str, int]) -> bool:
    """Does a loop change which cell is meant, somewhere?"""
    points = (dict(zip(sizes, values, strict=True)) for values in product(*map(range, sizes.values())))
    return any(cell(at, point) != cell(at, {**point, name: 0}) for point in points)


def groups_of(found: Contraction) -> dict[str, str]:
    groups = {"batch": found.batch, "left": found.left, "right": found.right, "sums": found.sums}
    return {loop: name for name, loops in groups.items() for loop, _ in loops}


@settings(max_examples=150)
@given(samples())
def test_loops_are_told_as_enumeration_tells_them(sample: Sample) -> None:
    nest, sizes = sample.nest, dict(sample.nest.loops)
    one, other = nest.core.value.args  # type: ignore[attr-defined]
    meant = {}
    for name in sizes:
        result, left, right = (moves(at, name, sizes) for at in (nest.core.at, one.at, other.at))
        meant[name] = "sums" if not result else "batch" if left == right else "left" if left else "right"
    found = contraction_of(nest)
    if found is None:
        scattered = any(len(place.terms) > 1 for place in nest.core.at)  # type: ignore[attr-defined]
        assert not {"left", "right"} & set(meant.values()) or not ("sums" in meant.values() or scattered)
        return
    assert groups_of(found) == meant
    assert found.ops == (nest.core.op, nest.core.value.op)  # type: ignore[union-attr, attr-defined]
    assert bool(found.windows) == any(len(place.terms) > 1 for read in (one, other) for place in read.at)


@settings(max_examples=150)
@given(samples(), st.integers(0, 99))
def test_run_as_a_product_it_computes_what_the_nest_does(sample: Sample, seed: int) -> None:
    """For each batch, a table of one factor over left and sums, and one of the other over right and sums, combined."""
    nest, found, rng = sample.nest, contraction_of(sample.nest), np.random.default_rng(seed)
    if found is None:
        return
    ours = {buffer: array.copy() for buffer, array in sample.memory.items()}
    run_scalar(Program((nest.stmt,)), sample.memory, {})
    accumulate, combine = (OPS[name].meaning for name in found.ops)

    def anywhere(known: dict[str, int]) -> dict[str, int]:
        return {name: known.get(name, int(rng.integers(size))) for name, size in nest.loops}

    def points(loops: tuple[tuple[str, int], ...]) -> list[dict[str, int]]:
        names = [name for name, _ in loops]
        return [dict(zip(names, values, strict=True)) for values in product(*(range(size) for _, size in loops))]

    result = ours[nest.target]
    one, other = found.factors
    for batch, left, right in product(points(found.batch), points(found.left), points(found.right)):
        for sums in points(found.sums):
            here = {**batch, **left, **right, **sums}
            if all(0 <= test.index.value(here) < test.size for test in found.tests):  # type: ignore[attr-defined]
                first = ours[one.buffer][cell(one.at, anywhere({**batch, **left, **sums}))]  # type: ignore[attr-defined]
                second = ours[other.buffer][cell(other.at, anywhere({**batch, **right, **sums}))]  # type: ignore[attr-defined]
                at = cell(nest.core.at, anywhere({**batch, **left, **right}))
                result[at] = accumulate(result[at], combine(first, second))
    np.testing.assert_array_equal(result, sample.memory[nest.target])
    assert prod(size for _, size in nest.loops) == found.points * prod(size for _, size in found.batch)


I, J, K = (Affine.of(name) for name in "ijk")  # noqa: E741 these are their names
LOOPS = (("i", 4), ("j", 5), ("k", 3))
A, B, C = Buffer(0, "a", (4, 3), "float32"), Buffer(1, "b", (3, 5), "float32"), Buffer(2, "c", (4, 5), "float32")


def nest(accumulate: str, combine: str, a: Read, b: Read, tests: tuple[Inside, ...] = ()) -> Nest:
    return Nest(LOOPS, tests, Update(C, (I, J), accumulate, Call(combine, (a, b))))


def test_what_backends_decline_is_described_and_says_why() -> None:
    a, b = Read(A, (I, K)), Read(B, (K, J))
    cells = Update(replace(C, dtype="int32"), (I, J), "max", Call("add", (a, b)))
    found = contraction_of(Nest(LOOPS, (), cells))
    assert found is not None
    assert str(found) == "left i; right j; sums k"
    assert found.why == "no backend has tiles for max of add in int32"
    other = contraction_of(Nest(LOOPS, (), replace(cells, buffer=replace(C, dtype="float64"))))
    assert other is not None
    assert other.why == "what it accumulates is of another type"
    window = contraction_of(nest("max", "add", a, b, (Inside(I + K - 1, 4),)))
    assert window is not None
    assert window.why == "it runs under tests"
    guarded = contraction_of(nest("add", "mul", a, b, (Inside(Affine(((1, "i"), (1, "k")), -1), 4),)))
    assert guarded is not None
    assert (str(guarded), guarded.why) == ("left i; right j; sums k", "it runs under tests")
    window = contraction_of(nest("add", "mul", Read(Buffer(0, "a", (6,), "float32"), (I + K,)), b))
    assert window is not None
    assert (str(window), window.why, window.windows) == ("left i; right j; sums k", "", (I + K,))


@pytest.mark.parametrize(("accumulate", "combine"), [("add", "add"), ("mul", "mul"), ("max", "mul"), ("add", "min")])
def test_what_does_not_distribute_is_a_contraction_where_both_factors_are_reused(accumulate: str, combine: str) -> None:
    found = contraction_of(nest(accumulate, combine, Read(A, (I, K)), Read(B, (K, J))))
    assert found is not None
    assert (str(found), found.why, found.ops) == ("left i; right j; sums k", "", (accumulate, combine))
    one = Nest(
        (("i", 4), ("k", 3)),
        (),
        Update(C, (I, Affine(())), accumulate, Call(combine, (Read(A, (I, K)), Read(B, (K, Affine(())))))),
    )
    assert contraction_of(one) is None


@pytest.mark.parametrize(("accumulate", "combine"), [("sub", "mul"), ("add", "div"), ("max", "pow"), ("arg2", "mul")])
def test_what_has_no_neutral_element_or_takes_long_is_no_contraction(accumulate: str, combine: str) -> None:
    assert contraction_of(nest(accumulate, combine, Read(A, (I, K)), Read(B, (K, J)))) is None
