"""The broadcast order: NumPy's rule for plain sizes, labels that do not stretch, rows that grow in the middle."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from shape.pool import closed, compose, einsum, first_at, known, param, pointwise, transpose, varying
from weft.errors import ShapeError
from weft.shape import Dim, Shape, ShapeVar, close, infer
from weft.shape.logic import Constant, Literal, Pointwise

row = st.lists(st.sampled_from([1, 1, 2, 3]), max_size=3).map(tuple)
output = row.filter(len)
rows = st.tuples(row, row, output)
size = st.integers(1, 3)
Rows = tuple[tuple[int, ...], ...]
KINDS = ("batch", "input", "output")


def literal(sizes: Rows) -> Shape:
    return Shape(*(tuple(map(Dim, row)) for row in sizes))


def numpy_result(*operands: Rows) -> Shape | None:
    try:
        return literal(tuple(np.broadcast_shapes(*together) for together in zip(*operands, strict=True)))
    except ValueError:
        return None


def weft_result(*operands: Rows) -> Shape | None:
    shapes = [infer(Literal(literal(sizes))).result for sizes in operands]
    try:
        result = pointwise(*shapes)
    except ShapeError:
        return None
    assert close(result) == result.closed
    assert [close(shape) for shape in shapes] == [literal(sizes) for sizes in operands]
    return close(result)


@settings(max_examples=300)
@given(st.lists(rows, min_size=1, max_size=3))
def test_pointwise_agrees_with_numpy(operands: list[Rows]) -> None:
    assert weft_result(*operands) == numpy_result(*operands)


@given(rows, st.data())
def test_shapes_with_axes_left_off_or_made_one_always_fit(big: Rows, data: st.DataObject) -> None:
    small = []
    for kind, sizes in zip(KINDS, big, strict=True):
        kept = sizes[data.draw(st.integers(0, len(sizes) - (kind == "output"))) :]
        small.append(tuple(data.draw(st.sampled_from([1, size])) for size in kept))
    assert weft_result(big, tuple(small)) == numpy_result(big, tuple(small)) == literal(big)


@settings(max_examples=200)
@given(row, size, size.map(lambda size: size + 1), row, size, size.map(lambda size: size + 1))
def test_compose_agrees_with_matmul(
    left: tuple[int, ...], n: int, k: int, right: tuple[int, ...], m: int, same: int
) -> None:
    """A matrix is `columns->rows`; stacks of matrices broadcast. So would an inner size of 1, which is kept out."""
    try:
        expected = np.matmul(np.ones((*left, n, k)), np.ones((*right, same, m))).shape
    except ValueError:
        expected = None
    one = infer(Literal(literal((left, (k,), (n,))))).result
    two = infer(Literal(literal((right, (m,), (same,))))).result
    try:
        answer = close(compose(one, two)).array_shape
    except ShapeError:
        answer = None
    assert answer == expected


def test_compose_feeds_many_outputs_to_many_inputs() -> None:
    assert closed(compose(known("2,3->4"), known("5|6->2,3"))) == ["5|6->4"]


@pytest.mark.parametrize(("left", "right"), [("2,3->4", "3"), ("2,3->4", "1,3"), ("2,3->4", "2,1"), ("2,3->4", "1")])
def test_compose_broadcasts_the_right_to_the_inputs_of_the_left(left: str, right: str) -> None:
    assert closed(compose(known(left), known(right))) == ["4"]


@pytest.mark.parametrize(("left", "right"), [("3->4", "2,3"), ("3->4", "2"), ("4", "4"), ("1->4", "3")])
def test_compose_never_stretches_the_inputs_of_the_left(left: str, right: str) -> None:
    with pytest.raises(ShapeError):
        compose(known(left), known(right))


def test_transpose_swaps_inputs_and_outputs() -> None:
    assert closed(transpose(known("7|2,3->4,5"))) == ["7|4,5->2,3"]


def test_transposing_what_has_no_inputs_leaves_an_output_of_one() -> None:
    assert closed(transpose(known("3"))) == ["3->1"]


# A size of one, three ways.


def test_a_written_one_without_a_label_broadcasts() -> None:
    assert closed(pointwise(known("1,4"), known("3,4"))) == ["3,4"]


@pytest.mark.parametrize("wide", ["3", "mono=3", "rgb=3"])
@pytest.mark.parametrize("swap", [False, True])
def test_a_labelled_one_does_not_broadcast(wide: str, swap: bool) -> None:
    operands = [known("mono=1"), known(wide)]
    with pytest.raises(ShapeError):
        pointwise(*(operands[::-1] if swap else operands))


def test_ones_inserted_to_make_up_rank_make_no_claim() -> None:
    """The label of the axis that has no partner reaches the result and nothing else."""
    small, big = known("4", "small"), known("mono=1,rgb=3,4", "big")
    assert closed(pointwise(small, big), small) == ["mono=1,rgb=3,4", "4"]


@pytest.mark.parametrize("swap", [False, True])
def test_a_one_may_stand_beside_a_labelled_one(swap: bool) -> None:
    operands = [known("1", "plain"), known("mono=1", "mono")]
    result = pointwise(*(operands[::-1] if swap else operands))
    assert closed(result, *operands) == ["mono=1", "1", "mono=1"]


def test_in_an_einsum_a_one_is_a_size_like_any_other() -> None:
    with pytest.raises(ShapeError, match="cannot be both 1 and 3"):
        einsum("i;i=>i", known("1"), known("3"))


# Labels.


@pytest.mark.parametrize("swap", [False, True])
def test_a_label_is_inferred_from_operand_to_operand_and_to_the_result(swap: bool) -> None:
    operands = [known("rgb=3", "a"), known("3", "b")]
    result = pointwise(*(operands[::-1] if swap else operands))
    assert closed(result, *operands) == ["rgb=3"] * 3


def test_a_label_is_inferred_backwards_from_the_result() -> None:
    operand, result = known("3"), known("rgb=3")
    pointwise(operand, result=result)
    assert closed(operand) == ["rgb=3"]


def test_a_label_given_later_reaches_what_was_inferred_before() -> None:
    first, second = known("3"), known("3")
    middle = pointwise(first, second)
    last = pointwise(middle)
    assert str(last) == "3"
    pointwise(last, known("rgb=3"))
    assert closed(first, second, middle, last) == ["rgb=3"] * 4


def test_a_label_stays_off_what_broadcasts() -> None:
    one = known("1")
    assert closed(pointwise(one, known("rgb=3")), one) == ["rgb=3", "1"]
    with pytest.raises(ShapeError, match="is labelled 'mono', so its size 1 does not broadcast"):
        pointwise(one, known("mono=1"), result=one)


@pytest.mark.parametrize(
    "operation",
    [
        pointwise,
        lambda one, two: einsum("i;i=>i", one, two),
        lambda one, two: pointwise(one, result=two),
        lambda one, two: compose(transpose(one), two),
    ],
)
def test_two_labels_are_an_error(operation: Callable[[ShapeVar, ShapeVar], object]) -> None:
    one, two = known("rgb=3"), known("pos=3")
    with pytest.raises(ShapeError, match="cannot be labelled both"):
        operation(one, two)


def test_labels_follow_axes_through_compose_transpose_and_einsum() -> None:
    weight = param("w", output="heads=2")
    result = compose(weight, known("5|rgb=3"))
    assert closed(weight, result, transpose(weight)) == ["rgb=3->heads=2", "5|heads=2", "heads=2->rgb=3"]
    assert closed(einsum("ij=>ji", known("a=2,b=3")).result) == ["b=3,a=2"]


def test_a_leaf_takes_size_and_label_from_its_use() -> None:
    leaf = varying()
    pointwise(leaf, known("rgb=3"))
    assert closed(leaf) == ["rgb=3"]


# What a leaf is asked for.


@pytest.mark.parametrize(("one", "two", "leaf"), [
    ("3", "3", "3"),
    ("3", "5", "1"),
    ("3,4", "5,4", "1,4"),
    ("3,4", "4", "4"),
    ("rgb=3", "pos=3", "1"),
    ("7|2->3", "7|2->5", "7|2->1"),
    ("mono=1", "3", "1"),
])  # fmt: skip
def test_incompatible_demands_make_a_leaf_one(one: str, two: str, leaf: str) -> None:
    for first, second in ((one, two), (two, one)):
        number = varying()
        results = [pointwise(number, known(use)) for use in (first, second)]
        assert closed(number, *results) == [leaf, first, second]


def test_an_unlabelled_one_demands_nothing() -> None:
    number = varying()
    results = [pointwise(number, known(use)) for use in ("1", "3")]
    assert closed(number, *results) == ["3", "3", "3"]


def test_a_demand_with_a_label_and_one_without_agree() -> None:
    number = varying()
    results = [pointwise(number, known(use)) for use in ("rgb=3", "3")]
    assert closed(number, *results) == ["rgb=3"] * 3


def test_a_leaf_that_must_be_one_may_not_be_labelled() -> None:
    number = varying()
    pointwise(number, known("3"))
    pointwise(number, known("5"))
    pointwise(number, result=known("mono=1"))
    with pytest.raises(ShapeError, match="is labelled 'mono', so its size 1 does not broadcast"):
        einsum("i;i=>", number, known("mono=1"))


def test_a_demand_is_not_a_size() -> None:
    """Three or one: to settle it before closing would be a guess."""
    number = varying()
    pointwise(number, known("3"))
    assert number.closed is None
    assert str(number) == "...|...->...,?"
    with pytest.raises(ShapeError, match="cannot be both 3 and 2"):
        einsum("i;i=>", number, known("2"))
    einsum("i;i=>", number, known("1"))
    assert closed(number) == ["1"]


# Rows that grow in the middle.


def test_lead_axes_align_on_the_left_and_the_rest_on_the_right() -> None:
    lead = einsum("a...b=>a...b", known("3,5")).result
    assert lead.marks == (0, 0, 1)
    result = pointwise(lead, known("3,7,5"))
    assert closed(lead, result) == ["3...5", "3,7,5"]
    assert close(lead).marks == (0, 0, 1)
    assert close(result).marks == (0, 0, 0)


def test_without_lead_axes_the_same_sizes_do_not_fit() -> None:
    with pytest.raises(ShapeError, match="cannot be both"):
        pointwise(known("3,5"), known("3,7,5"))


@pytest.mark.parametrize(("spec", "small", "big"), [
    ("ab...=>ab...", "3,5", "3,5,7"),
    ("ab...=>ab...", "3,5", "3,5,7,9"),
    ("a...bc=>a...bc", "3,5,7", "3,2,2,5,7"),
    ("a...|i=>a...|i", "3|4", "3,7|4"),
    ("a...->...=>a...->...", "3->1", "3,7->1"),
    ("a...b=>a...b", "1,5", "3,7,5"),
])  # fmt: skip
def test_rows_grow_at_their_mark(spec: str, small: str, big: str) -> None:
    lead = einsum(spec, known(small)).result
    assert closed(pointwise(lead, known(big))) == [big]


@pytest.mark.parametrize("big", ["7,3,5", "3,5,7", "2,7,5", "3,7,4"])
def test_lead_axes_that_do_not_fit(big: str) -> None:
    lead = einsum("a...b=>a...b", known("3,5")).result
    with pytest.raises(ShapeError, match="cannot be both"):
        close(pointwise(lead, result=known(big)))


def test_a_row_may_grow_past_both_of_two_operands_that_grow_at_different_places() -> None:
    """On the left 3 against 7 would clash, were there no room for both."""
    lead = einsum("a...b=>a...b", known("3,5")).result
    assert closed(pointwise(lead, known("7,3,5"), result=known("3,7,3,5"))) == ["3,7,3,5"]


def test_equality_of_rows_ignores_where_they_grow() -> None:
    lead = einsum("a...b=>a...b", known("3,5")).result
    assert closed(einsum("...;...=>...", lead, known("3,5")).result) == ["3,5"]
    with pytest.raises(ShapeError):
        einsum("...;...=>...", lead, known("3,7,5"))


def test_a_slice_takes_a_lead_axis_away() -> None:
    stack = einsum("ab...|=>ab...|", known("3,5|2")).result
    assert stack.marks == (2, 0, 0)
    one = infer(first_at("i", 3), [stack]).result
    assert one.marks == (1, 0, 0)
    assert closed(pointwise(one, known("5,7|2"))) == ["5,7|2"]
    assert infer(first_at("i", 3), [known("3|2")]).result.marks == (0, 0, 0)


def test_a_closed_shape_keeps_its_marks_as_a_literal() -> None:
    lead = close(einsum("a...b=>a...b", known("3,5")).result)
    assert closed(pointwise(infer(Literal(lead)).result, known("3,7,5"))) == ["3,7,5"]


def test_a_leaf_without_any_use_is_a_scalar() -> None:
    assert closed(infer(Constant()).result, infer(Pointwise(0)).result) == ["1", "1"]
