"""Projections against the meaning of the notation, computed point by point (brute.py) on random specifications."""

from __future__ import annotations

import operator
from itertools import product
from random import Random

import numpy as np
import pytest
from hypothesis import assume, example, given, settings, strategies as st

import weft as wf
from effort import tries
from project.brute import Meaning, Run, execute, run
from project.generate import Case, cases
from weft.affine import Affine
from weft.einsum import parse_spec
from weft.einsum.nodes import Label
from weft.errors import ProjectionError
from weft.ops import OPS
from weft.project import Plan, plan, project
from weft.project.coverage import is_injective, is_surjective
from weft.project.equations import equations
from weft.project.evaluate import evaluate
from weft.project.nodes import Concat, IndexExpr, LoopVariable, Projection
from weft.project.show import show_nest
from weft.project.solve_projection import build_projection, derive
from weft.shape.close import close
from weft.shape.infer import infer
from weft.shape.logic import Einsum, Literal, Logic, Parameter, Pointwise
from weft.shape.nodes import Dim, Shape
from weft.shape.text import as_shape

ADD, MUL = OPS["add"], OPS["mul"]
CONCATENATIONS = "llccc_ps"
SEMIRINGS = {
    ("+", "*"): (operator.add, operator.mul, 0),
    ("max", "+"): (max, operator.add, np.iinfo(np.int64).min),
    ("min", "max"): (min, max, np.iinfo(np.int64).max),
    ("*", "-"): (operator.mul, operator.sub, 1),
}


def plan_of(case: Case) -> Plan:
    """The plan, told only the sizes of labels that no operand has as an axis of its own."""
    owned = {axis.name for one in parse_spec(case.text).operands for axis in one.axes if isinstance(axis, Label)}
    return plan(case.text, *case.operands, **{label: size for label, size in case.labels if label not in owned})


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(1, 9, shape)


def arrays_for(planned: Plan, seed: int = 0) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    return [random.integers(1, 9, shape.array_shape) for shape in planned.shapes[:-1]]


def meaning(case: Case, planned: Plan, accum: str = "+", op: str = "*") -> tuple[list[np.ndarray], Run]:
    arrays = arrays_for(planned)
    return arrays, run(case.text, planned.shapes, case.sizes, arrays, *SEMIRINGS[accum, op])


@given(cases(), st.sampled_from(sorted(SEMIRINGS)))
def test_the_numbers_are_those_of_the_notation(case: Case, how: tuple[str, str]) -> None:
    planned = plan_of(case)
    arrays, expected = meaning(case, planned, *how)
    np.testing.assert_array_equal(planned.evaluate(*arrays, accum=how[0], op=how[1]), expected.result)


@settings(max_examples=tries(75))
@given(cases())
@example(Case("i, => i,i,", ("3",), (("i", 3),)))
@example(Case("i, => 3*i+2,", ("3",), (("i", 3),)))
@example(Case("i, => i<+j,", ("3",), (("i", 3), ("j", 2))))
@example(Case("i,j, => 2*i<+j,", ("3,2",), (("i", 3), ("j", 2))))
@example(Case("i,j, => 3*i<+j,", ("3,2",), (("i", 3), ("j", 2))))
@example(Case("i=+j, => i,j,", ("3",), (("i", 3), ("j", 3))))
@example(Case("i, => i=+i,", ("5",), (("i", 5),)))
@example(Case("i=+j, => 0", ("1",), (("i", 1), ("j", 2))))
@example(Case("i, => i=+j,", ("1",), (("i", 1), ("j", 2))))
def test_injective_and_surjective_are_exact(case: Case) -> None:
    planned = plan_of(case)
    _, expected = meaning(case, planned)
    assert (planned.injective, planned.surjective) == (expected.injective, expected.surjective)


@given(cases(points=400))
def test_the_printed_nest_runs_inside_every_tensor(case: Case) -> None:
    planned = plan_of(case)
    arrays, expected = meaning(case, planned)
    np.testing.assert_array_equal(execute(str(planned), planned, arrays), expected.result)


@settings(max_examples=tries(120))
@given(cases(kinds=CONCATENATIONS, points=300))
def test_any_concatenations(case: Case) -> None:
    known = Meaning(case.text, shapes_of(case), case.sizes)
    planned = plan_or_none(case)
    assert (planned is None) == (known.ambiguous or known.unread)
    if planned is not None:
        arrays, expected = meaning(case, planned)
        np.testing.assert_array_equal(planned.evaluate(*arrays), expected.result)
        np.testing.assert_array_equal(execute(str(planned), planned, arrays), expected.result)
        assert (planned.injective, planned.surjective) == (expected.injective, expected.surjective)


def plan_or_none(case: Case) -> Plan | None:
    try:
        return plan_of(case)
    except ProjectionError:
        return None


def shapes_of(case: Case) -> list[Shape]:
    """The operands' shapes and the result's, whether or not there are loops for them."""
    sizes = {label: Dim(size) for label, size in case.labels}
    operands = [infer(Literal(as_shape(shape))).result for shape in case.operands]
    applied = infer(Einsum(parse_spec(case.text)), operands, sizes=sizes)
    result, *others = (close(shape) for shape in applied.slots)
    return [*others, result]


# Canonicity: the answer does not depend on the order in which the equations are met.


def canonical(projection: Projection) -> tuple[object, ...]:
    """Loops and maps with each loop called by the first place that mentions it, and in no order."""
    names: dict[str, str] = {}

    def name(loop: str) -> str:
        return names.setdefault(loop, f"loop {len(names)}")

    def show(index: IndexExpr) -> object:
        match index:
            case Affine(terms=terms, offset=offset):
                return sorted((name(loop), coefficient) for coefficient, loop in terms), offset
            case Concat(parts=parts):
                return [(name(loop), offset) for loop, offset in parts]
        return index

    maps = [[show(index) for index in one] for one in projection.maps]
    factors = sorted(sorted((name(loop.name), loop.size) for loop in factor) for factor in projection.factors)
    return maps, factors


@settings(max_examples=tries(75))
@given(st.one_of(cases(), cases(kinds=CONCATENATIONS)), st.randoms(use_true_random=False))
def test_equations_in_any_order_give_the_same_loops_and_maps(case: Case, random: Random) -> None:
    planned = plan_or_none(case)
    assume(planned is not None)
    assert planned is not None
    shapes = planned.projection.shapes
    found = list(equations(Einsum(parse_spec(case.text)), shapes))
    random.shuffle(found)
    _, again = build_projection(tuple(found), shapes, case.sizes)
    assert canonical(again) == canonical(planned.projection)
    assert {(loop.name, loop.size) for loop in again.loops if loop.name in case.sizes} == {
        (loop.name, loop.size) for loop in planned.projection.loops if loop.name in case.sizes
    }


@given(st.randoms(use_true_random=False))
def test_pointwise_equations_in_any_order(random: Random) -> None:
    shapes = (as_shape("2|3->4,5"), as_shape("2|1->4,5"), as_shape("3->5"))
    found = list(equations(Pointwise(2), shapes))
    random.shuffle(found)
    assert canonical(build_projection(tuple(found), shapes, {})[1]) == canonical(derive(Pointwise(2), shapes))


# Sizes are global, identities local.


def test_axes_made_equal_elsewhere_keep_two_loops_here() -> None:
    p = infer(Parameter(input=()), name="p").result
    q = infer(Parameter(input=()), name="q").result
    three = infer(Literal(as_shape("3"))).result
    infer(Einsum(parse_spec("i;i=>i")), [p, q])  # elsewhere: p and q run together
    infer(Einsum(parse_spec("i;i=>i")), [q, three])
    here = project(infer(Einsum(parse_spec("i;j=>ij")), [p, q]))
    assert [loop.size for loop in here.loops] == [3, 3]
    assert here.maps == ((Affine.of("i"), Affine.of("j")), (Affine.of("i"),), (Affine.of("j"),))
    a, b = np.arange(1, 4), np.arange(5, 8)
    np.testing.assert_array_equal(evaluate(here, [a, b], ADD, MUL), np.outer(a, b))


def test_one_tensor_in_two_slots_of_an_outer_product() -> None:
    x = infer(Literal(as_shape("3"))).result
    outer = project(infer(Einsum(parse_spec("i;j=>ij")), [x, x]))
    a = np.arange(1, 4)
    np.testing.assert_array_equal(evaluate(outer, [a, a], ADD, MUL), np.outer(a, a))


def test_one_square_matrix_times_itself() -> None:
    x = infer(Literal(as_shape("3,3"))).result
    product_ = project(infer(Einsum(parse_spec("ij;jk=>ik")), [x, x]))
    assert [str(loop) for loop in product_.loops] == ["i:3", "k:3", "j:3"]
    a = np.arange(9).reshape(3, 3)
    np.testing.assert_array_equal(evaluate(product_, [a, a], ADD, MUL), a @ a)


def test_one_tensor_times_itself_pointwise() -> None:
    x = infer(Literal(as_shape("2,3"))).result
    square = project(infer(Pointwise(2), [x, x]))
    a = np.arange(6).reshape(2, 3)
    assert square.maps[1] == square.maps[2] == square.maps[0]
    np.testing.assert_array_equal(evaluate(square, [a, a], ADD, MUL), a * a)


def test_a_square_shape_does_not_fuse_its_axes() -> None:
    assert plan("ij=>ij", (4, 4)).projection.maps == (
        (Affine.of("i"), Affine.of("j")),
        (Affine.of("i"), Affine.of("j")),
    )
    assert len(plan("...=>...", (4, 4)).loops) == 2
    assert len(plan("=>", (4, 4)).loops) == 2


# Loops of size one.


def test_axes_of_size_one_get_no_loop() -> None:
    planned = plan("ij;jk=>ik", (1, 1), (1, 5))
    assert planned.loops == ((LoopVariable("k", 5),),)
    assert planned.maps == ((Affine(), Affine()), (Affine(), Affine.of("k")), (Affine(), Affine.of("k")))
    assert planned.injective
    assert planned.surjective


def test_a_part_of_size_one_keeps_its_loop() -> None:
    planned = plan("a;b;c=>a^b^c", 1, 2, 1)
    assert planned.loops == ((LoopVariable("a", 1), LoopVariable("b", 2), LoopVariable("c", 1)),)
    assert planned.maps[-1] == (Concat((("a", 0), ("b", 1), ("c", 3))),)
    np.testing.assert_array_equal(planned.evaluate([7], [8, 9], [10]), [7, 8, 9, 10])


@given(cases())
def test_every_loop_is_longer_than_one_unless_it_is_a_part(case: Case) -> None:
    planned = plan_of(case)
    assert all(loop.size > 1 for (loop,) in planned.loops)
    assert len({loop.name for (loop,) in planned.loops}) == len(planned.loops)


@given(cases())
def test_reduced_loops_are_those_the_result_forgot(case: Case) -> None:
    planned = plan_of(case)
    shape, grid = planned.shapes[-1], [range(loop.size) for (loop,) in planned.loops]
    assume(np.prod([len(one) for one in grid], dtype=object) <= 3000)
    for at, (loop,) in enumerate(planned.loops):
        moved = any(
            place(planned, point, at, 0) != place(planned, point, at, 1)
            for point in product(*(one if number != at else range(1) for number, one in enumerate(grid)))
        )
        assert (loop not in planned.reduced) == moved, (loop, shape)


def place(planned: Plan, point: tuple[int, ...], at: int, value: int) -> list[int]:
    """Where the result is written when the loops stand at `point`, loop number `at` at `value`."""
    names = [loop.name for (loop,) in planned.loops]
    values = dict(zip(names, (*point[:at], value, *point[at + 1 :]), strict=True))
    found = []
    for index in planned.maps[-1]:
        assert isinstance(index, Affine)
        found.append(index.value(values))
    return found


# Gradients read the same record with the slots in other roles.


def forward(text: str, *operands: str, **sizes: int) -> Projection:
    return plan(text, *operands, **sizes).projection


def test_gradients_of_a_matrix_product() -> None:
    record = forward("ij;jk=>ik", "2,3", "3,4")
    g, a, b = (np.random.default_rng(1).integers(-5, 5, size) for size in ((2, 4), (2, 3), (3, 4)))
    for_a, for_b = record.view(1, 0, 2), record.view(2, 1, 0)
    assert [loop.name for loop in record.reduced] == ["j"]
    assert [loop.name for loop in for_a.reduced] == ["k"]
    assert [loop.name for loop in for_b.reduced] == ["i"]
    assert for_a.factors == for_b.factors == record.factors
    np.testing.assert_array_equal(evaluate(for_a, [g, b], ADD, MUL), g @ b.T)
    np.testing.assert_array_equal(evaluate(for_b, [a, g], ADD, MUL), a.T @ g)


def test_gradient_of_a_broadcast_sums_over_what_was_broadcast() -> None:
    record = derive(Pointwise(2), (as_shape("2,3"), as_shape("2,3"), as_shape("1,3")))
    g, a = np.random.default_rng(1).integers(-5, 5, (2, 2, 3))
    view = record.view(2, 0, 1)
    assert not is_injective(view)
    np.testing.assert_array_equal(evaluate(view, [g, a], ADD, MUL), (g * a).sum(axis=0, keepdims=True))


@pytest.mark.parametrize("sign", ["<+", "=+"])
def test_gradients_of_a_convolution(sign: str) -> None:
    record = forward(f"o{sign}k;k=>o", "6", "3")
    left = 1 if sign == "=+" else 0
    out = record.shapes[0].array_shape[0]
    a, k, g = (np.random.default_rng(1).integers(-5, 5, size) for size in (6, 3, out))
    for_a, for_k = np.zeros(6, int), np.zeros(3, int)
    for o, at in product(range(out), range(3)):
        if 0 <= o + at - left < 6:
            for_a[o + at - left] += g[o] * k[at]
            for_k[at] += g[o] * a[o + at - left]
    np.testing.assert_array_equal(evaluate(record.view(1, 0, 2), [g, k], ADD, MUL), for_a)
    np.testing.assert_array_equal(evaluate(record.view(2, 1, 0), [a, g], ADD, MUL), for_k)


def test_gradient_of_a_concatenation_is_a_split() -> None:
    record = forward("a;b=>a^b", "2", "3")
    g = np.arange(10, 15)
    for slot, expected in ((1, g[:2]), (2, g[2:])):
        view = record.view(slot, 0)
        assert (is_injective(view), is_surjective(view)) == (True, True)
        np.testing.assert_array_equal(evaluate(view, [g], ADD, MUL), expected)


def test_gradient_of_a_concatenation_of_sums_is_spread() -> None:
    record = forward("a,c; b,d => a^b", "2,4", "3,5")
    g = np.arange(10, 15)
    for_a, for_b = record.view(1, 0, 2), record.view(2, 1, 0)
    np.testing.assert_array_equal(evaluate(for_a, [g, numbers(3, 5)], ADD, MUL), np.repeat(g[:2, None], 4, axis=1))
    np.testing.assert_array_equal(evaluate(for_b, [numbers(2, 4), g], ADD, MUL), np.repeat(g[2:, None], 5, axis=1))


def test_gradient_of_a_split_is_placed_back() -> None:
    view = forward("a^b=>b", "5", b=3).view(1, 0)
    assert (is_injective(view), is_surjective(view)) == (True, False)
    np.testing.assert_array_equal(evaluate(view, [np.arange(1, 4)], ADD, MUL), [0, 0, 1, 2, 3])


def test_gradient_of_a_diagonal_goes_to_the_diagonal() -> None:
    view = forward("ii=>i", "3,3").view(1, 0)
    assert (is_injective(view), is_surjective(view)) == (True, False)
    g = np.arange(1, 4)
    np.testing.assert_array_equal(evaluate(view, [g], ADD, MUL), np.diag(g))


@given(cases(operands=2, points=200))
def test_the_gradient_is_the_derivative(case: Case) -> None:
    """The result is linear in each operand: <G, R(A)> == <A, view(G)> for every G."""
    planned = plan_of(case)
    record, arrays = planned.projection, arrays_for(planned)
    result = planned.evaluate(*arrays)
    g = np.random.default_rng(3).integers(-5, 5, result.shape)
    for slot in range(1, len(record.maps)):
        slots = [0 if other == slot else other for other in range(1, len(record.maps))]
        operands = [g if other == 0 else arrays[other - 1] for other in slots]
        gradient = evaluate(record.view(slot, *slots), operands, ADD, MUL)
        assert (g * result).sum() == (arrays[slot - 1] * gradient).sum()


# Concatenations that could be read in two ways are refused.


@pytest.mark.parametrize(
    ("text", "operands", "sizes"),
    [
        ("a;a^b=>a^b", ("2", "5"), {}),
        ("a^b;a=>a^b", ("5", "2"), {}),
        ("a^b;b^c=>a^b^c", ("5", "5"), {"a": 2}),
        ("a^b;a^c=>a^b", ("5", "4"), {"a": 2}),
        ("a;a;b=>a^b", ("2", "2", "3"), {}),
        ("a^b;a^b;a=>a^b", ("5", "5", "2"), {}),
        ("a^b;a=>", ("5", "2"), {}),
    ],
)
def test_a_part_two_operands_could_fill_is_an_error(
    text: str, operands: tuple[str, ...], sizes: dict[str, int]
) -> None:
    with pytest.raises(ProjectionError, match=r"part `[ab]` of a concatenation could come from operand 1 or operand 2"):
        plan(text, *operands, **sizes)


def test_parts_may_be_filled_by_products_when_every_operand_has_every_part() -> None:
    planned = plan("a^b;b^a=>a^b", 5, 5, a=2)
    x, y = np.arange(1, 6), np.arange(11, 16)
    np.testing.assert_array_equal(planned.evaluate(x, y), x * np.concatenate([y[3:], y[:3]]))


def test_the_error_of_an_ambiguous_concatenation_points_at_the_users_line() -> None:
    with pytest.raises(wf.ProjectionError) as caught:
        wf.plan("a;a^b=>a^b", 2, 5)
    assert caught.value.origin is not None
    assert caught.value.origin.file == __file__
    assert caught.value.text == "a;a^b=>a^b"
    assert isinstance(caught.value, ValueError)


LOGICS: list[tuple[Logic, tuple[str, ...]]] = [
    (Pointwise(1), ("2|3->4", "2|3->4")),
    (Pointwise(2), ("2|3->4", "3->1", "2|4")),
]


@pytest.mark.parametrize(("logic", "shapes"), LOGICS)
def test_the_same_operation_has_the_same_projection(logic: Logic, shapes: tuple[str, ...]) -> None:
    closed = tuple(map(as_shape, shapes))
    assert derive(logic, closed) == derive(logic, closed)


# Two concatenated axes at once.


def test_a_block_matrix() -> None:
    planned = wf.plan("i,j; i,l; k,j; k,l => i^k, j^l", (2, 3), (2, 4), (3, 3), (3, 4))
    a, b, c, d = numbers(2, 3), numbers(2, 4), numbers(3, 3), numbers(3, 4)
    assert (planned.injective, planned.surjective) == (True, True)
    np.testing.assert_array_equal(planned.evaluate(a, b, c, d), np.block([[a, b], [c, d]]))


def test_a_block_diagonal() -> None:
    planned = wf.plan("i,j; k,l => i^k, j^l", (2, 3), (3, 4))
    a, b = numbers(2, 3), numbers(3, 4)
    expected = np.block([[a, np.zeros((2, 4), int)], [np.zeros((3, 3), int), b]])
    np.testing.assert_array_equal(planned.evaluate(a, b), expected)
    assert (planned.injective, planned.surjective) == (True, False)
    np.testing.assert_array_equal(execute(str(planned), planned, [a, b]), expected)


# A loop of an operand that is absent does not run for the others.


def test_concatenation_of_sums() -> None:
    a, b = numbers(2, 3), numbers(4, 5)
    expected = np.concatenate([a.sum(axis=1), b.sum(axis=1)])
    np.testing.assert_array_equal(plan("a,c; b,d => a^b", (2, 3), (4, 5)).evaluate(a, b), expected)


def test_concatenation_with_an_untracked_axis() -> None:
    a, b = numbers(2, 3), numbers(2)
    expected = np.concatenate([a.sum(axis=0), b])
    np.testing.assert_array_equal(plan("a;b=>a^b", (2, 3), 2).evaluate(a, b), expected)


@pytest.mark.parametrize(("text", "shapes"), [("a=>a^a", [2]), ("a^a=>a", [4]), ("a;a=>a^a", [2, 2])])
def test_a_label_twice_in_one_concatenation_is_refused(text: str, shapes: list[int]) -> None:
    with pytest.raises(ProjectionError, match="part `a` stands twice in one concatenation") as caught:
        plan(text, *shapes)
    assert [text[span.start : span.end] for span in caught.value.spans] == ["a", "a"]


# An operand that is never read is a mistake.


@pytest.mark.parametrize(
    ("spec", "shapes", "sizes"),
    [
        ("a^b=>ab", [5], {"a": 2}),
        ("ab=>a^b", [(2, 3)], {}),
        ("a^b;a=>b", [5, 2], {}),
        ("a;b=>aa^b", [2, 3], {}),
    ],
)
def test_an_operand_that_is_never_read_is_refused(spec: str, shapes: list[object], sizes: dict[str, int]) -> None:
    with pytest.raises(ProjectionError, match=r"operand [12] is never read"):
        wf.plan(spec, *shapes, **sizes)


# A view in which the result is absent from some parts.


def test_the_view_of_a_concatenation_reduces_nothing_and_prints() -> None:
    view = wf.plan("a;b=>a^b", 2, 3).projection.view(1, 0)
    assert is_injective(view)
    assert view.reduced == ()
    assert show_nest(view, OPS["add"], OPS["mul"]) == "for a in range(2):\n    R[a] = A[a]"


def test_the_view_of_a_swap_prints() -> None:
    view = wf.plan("a^b=>a", 5, a=2).projection.view(1, 0)
    expected = "R[:] = 0  # some cells are never written\nfor a in range(2):\n    R[a] = A[a]"
    assert show_nest(view, OPS["add"], OPS["mul"]) == expected


def test_the_view_of_a_concatenation_of_an_axis_prints() -> None:
    view = wf.plan("a,c; b,c => a^b,c", (2, 4), (3, 4)).projection.view(2, 0, 1)
    expected = "for b in range(3):\n    for c in range(4):\n        R[b, c] = A[b + 2, c]"
    assert show_nest(view, OPS["add"], OPS["mul"]) == expected
