"""Closing: what the constraints left open is decided in stages, parameters are never guessed."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from shape.pool import (
    blank,
    closed,
    compose,
    counted,
    einsum,
    first_at,
    kind_of,
    known,
    labels,
    number,
    param,
    pointwise,
    sliced,
    transpose,
    varying,
)
from weft.einsum import parse_spec
from weft.errors import ShapeError, UnderdeterminedShapeError
from weft.shape import ShapeVar, as_shape, close, infer
from weft.shape.logic import Counted, Einsum, Literal, Pointwise, Slice, mapped

Given = str | ShapeVar


def solved(spec: str, *operands: Given, result: str | None = None, **sizes: int) -> list[str]:
    """The closed shapes of an einsum, the result first; an operand is a shape as text or a ShapeVar."""
    shapes = [known(operand) if isinstance(operand, str) else operand for operand in operands]
    operation = einsum(spec, *shapes, result=None if result is None else known(result), sizes=sizes)
    return closed(*operation.slots)


# Leaves go to what their uses ask for.


def test_a_leaf_takes_all_rows_of_its_only_use() -> None:
    leaf = varying()
    pointwise(leaf, known("7|4->5,3"))
    assert closed(leaf) == ["7|4->5,3"]


def test_demands_reach_a_leaf_through_what_is_computed_from_it() -> None:
    leaf = varying()
    inner = pointwise(pointwise(leaf))
    pointwise(inner, known("3"))
    assert closed(leaf, inner) == ["3", "3"]


def test_demands_reach_a_leaf_through_another_leaf() -> None:
    """3 ≥ α ≥ β: both are asked to be 3."""
    alpha, beta = varying("α"), varying("β")
    pointwise(alpha, result=known("3"))
    pointwise(beta, result=alpha)
    assert closed(alpha, beta) == ["3", "3"]


def test_rank_demands_reach_a_leaf_through_what_is_computed_from_it() -> None:
    """As sizes do: `w + x` and `relu(w) + x` ask the same of `w`."""
    direct, through = param("direct"), param("through")
    pointwise(direct, known("4->5,3"))
    pointwise(pointwise(through), known("4->5,3"))
    assert closed(direct, through) == ["4->5,3", "4->5,3"]


def test_rank_demands_reach_a_weight_through_its_transpose() -> None:
    weight = param("w", output="2")
    compose(known("5,3->4"), transpose(weight))
    assert closed(weight) == ["5,3->2"]


def test_rank_demands_stop_at_what_has_a_rank_of_its_own() -> None:
    """In `(x + w) + y` it is `x` that `w` goes with; in `(w + v) + y` it is `y`."""
    weight, other, data = varying("w"), varying("v"), known("4,3")
    pointwise(pointwise(data, weight), known("5,4,3"))
    assert closed(weight) == ["4,3"]
    weight = varying("w")
    pointwise(pointwise(weight, other), known("5,4,3"))
    assert closed(weight, other) == ["5,4,3", "5,4,3"]


def test_rank_demands_reach_a_leaf_through_einsums_and_slices() -> None:
    """Each takes its own axes off or puts them on; what remains is asked for."""
    same, more, fewer, sliced = varying("same"), varying("more"), varying("fewer"), varying("sliced")
    pointwise(einsum("...|...->...=>...|...->...", same).result, known("7|4->5,3"))
    pointwise(einsum("...a|i=>...|i", more, sizes={"a": 2}).result, known("7|3"))
    pointwise(einsum("...|i=>...a|i", fewer, sizes={"a": 2}).result, known("7,2|3"))
    pointwise(infer(first_at("i", 9), [sliced]).result, known("7|3"))
    assert closed(same, more, fewer, sliced) == ["7|4->5,3", "7,2|3", "7|3", "9,7|3"]


def test_of_all_rank_demands_the_least_counts_however_far_it_comes() -> None:
    leaf = varying()
    far = pointwise(pointwise(leaf))
    pointwise(leaf, known("5,4,3"))
    pointwise(far, known("4,3"))
    assert closed(leaf, far) == ["4,3", "4,3"]


def test_rank_demands_go_round_in_circles_and_end() -> None:
    one, two = varying("one"), varying("two")
    pointwise(one, result=two)
    pointwise(two, result=one)
    pointwise(two, known("5,3"))
    assert closed(one, two) == ["5,3", "5,3"]


def test_a_leaf_gives_way_to_demands_that_only_meet_below_it() -> None:
    """3 ≥ α ≥ β ≤ 5: α may be 3, so β cannot be 5."""
    alpha, beta = varying("α"), varying("β")
    pointwise(beta, result=known("5"))
    pointwise(beta, result=alpha)
    pointwise(alpha, result=known("3"))
    assert closed(alpha, beta) == ["3", "1"]


def test_a_closed_leaf_sizes_what_is_above_it_before_that_is_decided() -> None:
    """The result of `c + 1` has no size of its own: it must wait for the leaf, not become 1 at the same time."""
    leaf, one = varying(), known("1")
    result = pointwise(leaf, one)
    pointwise(leaf, known("3"))
    doubled = pointwise(result, result)
    assert closed(leaf, result, doubled) == ["3", "3", "3"]


def test_what_a_closed_leaf_sizes_may_size_another_leaf() -> None:
    leaf, other = varying("leaf"), param("w", output="2")
    pointwise(leaf, known("3"))
    compose(other, pointwise(leaf))
    assert closed(other) == ["3->2"]


def test_what_a_closed_leaf_sizes_may_be_asked_of_another_leaf() -> None:
    leaf, other = varying("leaf"), varying("other")
    pointwise(leaf, known("3"))
    pointwise(leaf, other)
    assert closed(other) == ["3"]


def test_leaves_closed_together_that_clash_are_an_error_in_any_order() -> None:
    """Either leaf could be 1 to save the other; to choose one would be a guess. The leaves themselves are fine."""
    for swap in (False, True):
        one, two = varying("one"), varying("two")
        pointwise(one, known("3"))
        pointwise(two, known("5"))
        result = pointwise(*((two, one) if swap else (one, two)))
        assert kind_of(lambda result=result: close(result)) == "conflict"
        assert closed(one, two) == ["3", "5"]


def test_interiors_are_no_larger_than_they_must_be() -> None:
    inner = blank()
    pointwise(known("1"), result=inner)
    assert closed(inner) == ["1"]
    rows = blank()
    einsum("a...b=>", rows, sizes={"a": 2, "b": 3})
    assert str(rows) == "...|...->2,...,3"
    assert closed(rows) == ["2,3"]


def test_an_interior_does_not_grow_to_what_it_is_used_with() -> None:
    """`relu(2) + x` needs no more than the one number."""
    inner = pointwise(known("1"))
    result = pointwise(inner, known("7|3"))
    assert closed(inner, result) == ["1", "7|3"]


def test_what_only_a_one_can_be_below_is_one_at_once() -> None:
    leaf = varying()
    pointwise(leaf, result=known("1"))
    assert str(leaf.output) == "1"


def test_what_is_known_from_the_front_of_an_open_row_reaches_what_it_is_part_of() -> None:
    whole = blank("whole")
    rest = einsum("a...|=>...|", whole).result
    einsum("b...|=>", rest, sizes={"b": 3})
    assert str(whole.batch).startswith("?,3,...")


@pytest.mark.parametrize(("spec", "shapes"), [
    ("..v..|...=>..v..", ["5,6", "5,6|3"]),
    ("..v..|...=>..v..", ["1", "3"]),
    ("..v..->...=>..v..", ["1", "3"]),
    ("...=>", ["1", "3"]),
    ("...->...=>...->", ["4->1", "4->3"]),
])  # fmt: skip
def test_a_result_of_no_output_axes_is_a_scalar(spec: str, shapes: list[str]) -> None:
    assert solved(spec, *shapes[1:]) == shapes


def test_a_result_row_of_no_axes_has_size_one() -> None:
    """Einsum equates; it does not stretch the scalar of an empty row to whatever the result is."""
    assert kind_of(lambda: einsum("..v..|=>..v..", known("7"), result=known("3"))) == "conflict"
    assert solved("..v..|=>..v..", "7", result="1") == ["1", "7"]
    later = einsum("..v..|=>..v..", known("7")).result
    assert kind_of(lambda: einsum("i;i=>", later, known("3"))) == "conflict"


def test_a_result_row_that_is_not_a_scalar_has_an_axis_to_come_from() -> None:
    operand = blank()
    einsum("..v..|=>..v..", operand, result=known("3"))
    assert closed(operand) == ["3|1"]


def test_a_row_of_no_axes_and_a_scalar_are_found_backwards() -> None:
    """The result has one axis either way; that the operand's row is empty must not be ruled out."""
    operand = blank()
    einsum("..v..|=>..v..", operand, result=known("1"))
    assert str(operand.batch) == "..."
    pointwise(operand, result=known("7"))
    assert closed(operand) == ["1"]


def test_numbers_are_scalars_that_fit_anywhere() -> None:
    number = known("1", "2.0")
    results = [pointwise(number, known(shape)) for shape in ("3", "7|4->5", "2,2")]
    assert closed(number, *results) == ["1", "3", "7|4->5", "2,2"]


# Parameters are never guessed.


def test_a_weight_is_sized_by_what_it_maps_between() -> None:
    weight, bias = param("w"), param("b", output="8")
    result = pointwise(compose(weight, known("5|4")), bias)
    assert closed(weight, bias, result) == ["4->8", "8", "5|8"]


def test_a_forgotten_hidden_size_names_parameter_and_axis() -> None:
    first, second = param("w1"), param("w2", output="2")
    hidden = pointwise(compose(first, known("5|4")))
    result = compose(second, hidden)
    with pytest.raises(UnderdeterminedShapeError, match="nothing says how big the output axis of parameter `w1` is"):
        close(result)


def test_a_given_hidden_size_is_enough() -> None:
    first, second, bias = param("w1"), param("w2", output="2"), param("b", output="8")
    hidden = pointwise(compose(first, known("5|4")), bias)
    result = compose(second, pointwise(hidden))
    assert closed(first, second, hidden, result) == ["4->8", "8->2", "5|8", "5|2"]


@pytest.mark.parametrize("rows", [{"output": "8"}, {"input": "8"}])
def test_a_hidden_size_may_be_given_on_either_weight(rows: dict[str, str]) -> None:
    first = param("w1", **({"output": "8"} if "output" in rows else {}))
    second = param("w2", output="2", **({"input": "8"} if "input" in rows else {}))
    result = compose(second, pointwise(compose(first, known("5|4"))))
    assert closed(first, second, result) == ["4->8", "8->2", "5|2"]


@pytest.mark.parametrize(("spec", "axis"), [
    ("ij;jk=>ik", "output axis 0"),
    ("j->i;jk=>ik", "the output axis"),
    ("i->j;jk=>ik", "the input axis"),
])  # fmt: skip
def test_the_open_axis_is_named_by_row_and_place(spec: str, axis: str) -> None:
    weight = param("weight")
    einsum(spec, weight, known("3,4"))
    with pytest.raises(UnderdeterminedShapeError, match=f"how big {axis} of parameter `weight` is"):
        close(weight)


def test_a_parameter_of_no_use_is_underdetermined() -> None:
    with pytest.raises(UnderdeterminedShapeError, match="the output axis of parameter `w`"):
        close(param("w"))


def test_a_parameter_asked_for_two_sizes_is_one() -> None:
    """Demands that agree only on 1 leave no choice, so nothing is guessed."""
    weight = param("w")
    pointwise(weight, known("3"))
    pointwise(weight, known("5"))
    assert closed(weight) == ["1"]


def test_an_error_of_closing_decides_nothing() -> None:
    weight, leaf = param("w"), varying()
    pointwise(leaf, known("3"))
    result = compose(weight, leaf)
    before = [str(shape) for shape in (weight, leaf, result)]
    assert kind_of(lambda: close(result)) == "underdetermined"
    assert [str(shape) for shape in (weight, leaf, result)] == before
    pointwise(result, param("b", output="7"))
    assert closed(weight, leaf, result) == ["3->7", "3", "7"]


def test_only_who_needs_what_is_not_determined_is_refused() -> None:
    """The data is closed; the weight is not, nor what is computed from it, be that one number."""
    weight, data = param("w"), varying("data")
    pointwise(data, known("3"))
    result = compose(weight, data)
    total = einsum("...|...->...=>0", result).result
    assert closed(data) == ["3"]
    for shape in (weight, result, total):
        with pytest.raises(UnderdeterminedShapeError, match="the output axis of parameter `w`"):
            close(shape)


def test_a_written_one_is_a_claim_and_a_number_is_none() -> None:
    """Both broadcast; but where nothing else speaks of an axis, what somebody wrote is taken at their word."""
    bias, weight = param("b"), param("w", output="2")
    pointwise(bias, known("1"))
    compose(weight, known("1"))
    assert closed(bias, weight) == ["1", "1->2"]
    bias, weight = param("b"), param("w", output="2")
    pointwise(bias, number())
    compose(weight, number())
    assert [kind_of(lambda shape=shape: close(shape)) for shape in (bias, weight)] == ["underdetermined"] * 2
    hidden, bias = param("w"), param("b", output="1")
    assert closed(pointwise(compose(hidden, known("5|4")), bias), hidden) == ["5|1", "4->1"]


@pytest.mark.parametrize("one", [number, lambda: known("1")])
def test_a_claim_of_one_still_broadcasts(one: Callable[[], ShapeVar]) -> None:
    bias, scalar = param("b"), one()
    pointwise(pointwise(bias, scalar), known("3"))
    assert closed(bias, scalar) == ["3", "1"]


def test_a_parameter_has_no_batch_axes_unless_they_are_asked_for() -> None:
    data = known("5|4")
    for rows, weight in ({}, "4->3"), ({"batch": "5"}, "5|4->3"), ({"batch": None}, "5|4->3"):
        made = param("w", output="3", **rows)
        assert closed(made, compose(made, data)) == [weight, "5|3"]


def test_a_given_row_is_exact() -> None:
    with pytest.raises(ShapeError, match="cannot be both 4 and 5"):
        compose(param("w", input="4", output="3"), known("5"))
    with pytest.raises(ShapeError, match="at least 2 axes but can have at most 1 axis"):
        compose(param("w", input="4", output="3"), known("6,4"))
    assert closed(pointwise(known("3,4"), param("b", output="4"))) == ["3,4"]


# Input equals output.


def test_input_and_output_of_a_square_parameter_are_one_row() -> None:
    weight = param("w", square=True)
    assert closed(weight, compose(weight, known("5|rgb=4,3"))) == ["rgb=4,3->rgb=4,3", "5|rgb=4,3"]


def test_a_square_parameter_is_sized_from_either_side() -> None:
    weight = param("w", square=True)
    pointwise(transpose(weight), result=known("4->4"))
    assert closed(weight) == ["4->4"]
    assert closed(param("w", square=True, input="3,2")) == ["3,2->3,2"]


@pytest.mark.parametrize("rows", [{"input": "3", "output": "4"}, {"input": "3", "output": "3,3"}, {"input": ""}])
def test_a_square_parameter_that_is_not_square(rows: dict[str, str]) -> None:
    with pytest.raises(ShapeError):
        param("w", square=True, **rows)


# Data that knows only how much it is.


@pytest.mark.parametrize(("count", "use", "shape"), [
    (20, "5|4", "5|4"),
    (4, "5|4", "1|4"),
    (5, "5|4", "5|1"),
    (1, "5|4", "1|1"),
    (6, "7,2,3", "1,2,3"),
    (14, "7,2,3", "7,2,1"),
    (3, "rgb=3,4", "rgb=3,1"),
])  # fmt: skip
def test_counted_data_is_laid_out_by_its_use(count: int, use: str, shape: str) -> None:
    data = counted(count)
    assert closed(pointwise(data, known(use)), data) == [use, shape]


@pytest.mark.parametrize("count", [3, 40, 19])
def test_counted_data_that_no_layout_fits(count: int) -> None:
    data = counted(count)
    result = pointwise(data, known("5|4"))
    assert kind_of(lambda: close(result)) == "conflict"
    assert closed(data) == [str(count)]


def test_counted_data_alone_is_a_vector() -> None:
    assert closed(counted(6)) == ["6"]


def test_the_last_unknown_axis_of_counted_data_is_what_remains() -> None:
    data = counted(6)
    assert solved("ij=>ji", data, i=2) == ["3,2", "2,3"]
    with pytest.raises(ShapeError, match="has 6 elements, which cannot fill the shape"):
        solved("ij=>ji", counted(6), i=4)


def test_counted_data_with_two_unknown_axes_is_underdetermined() -> None:
    data = counted(6, "d")
    result = einsum("ij=>ji", data).result
    with pytest.raises(UnderdeterminedShapeError, match="`d` has 6 elements, and nothing says how they lie"):
        close(result)


def test_counted_data_with_all_axes_known_is_checked_at_once() -> None:
    infer(Counted(6), result=known("2,3"))
    infer(Counted(6), result=known("1|6->1"))
    for wrong in ("2,2", "6,6", "1"):
        with pytest.raises(ShapeError, match="has 6 elements, which cannot fill the shape"):
            infer(Counted(6), result=known(wrong))


def test_a_count_below_zero_is_an_error() -> None:
    assert kind_of(lambda: close(counted(-6))) == "conflict"


def test_data_mapped_from_a_file_has_as_many_elements_as_the_file_is_long(tmp_path: Path) -> None:
    file = tmp_path / "numbers.bin"
    file.write_bytes(bytes(24))
    assert mapped(file, 4) == mapped(str(file), 4) == Counted(6)
    data = infer(mapped(file, 4), name="data").result
    assert closed(pointwise(data, known("2,3")), data) == ["2,3", "2,3"]


@pytest.mark.parametrize(("length", "item"), [(24, 5), (0, 4), (3, 4)])
def test_a_file_of_the_wrong_length(tmp_path: Path, length: int, item: int) -> None:
    file = tmp_path / "numbers.bin"
    file.write_bytes(bytes(length))
    with pytest.raises(ShapeError) as caught:
        mapped(file, item)
    assert caught.value.what == f"file 'numbers.bin' has {length} bytes, not a positive multiple of {item}"
    assert caught.value.origin is not None
    assert caught.value.origin.file == __file__


@pytest.mark.parametrize("item", [0, -4])
def test_an_element_of_no_bytes(tmp_path: Path, item: int) -> None:
    file = tmp_path / "numbers.bin"
    file.write_bytes(bytes(24))
    with pytest.raises(ShapeError):
        mapped(file, item)


def test_what_is_no_file(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing.bin"):
        with pytest.raises(ShapeError, match="there is no file"):
            mapped(path, 1)


# Slices.


@pytest.mark.parametrize("logic", [first_at("i", 7), first_at("6")])
def test_a_slice_drops_the_leftmost_batch_axis(logic: Slice) -> None:
    assert closed(infer(logic, [known("7,rgb=3|4->5")]).result) == ["rgb=3|4->5"]


def test_a_slice_of_an_open_shape_keeps_it_open() -> None:
    whole = blank("whole")
    part = infer(first_at("i", 7), [whole]).result
    assert (str(whole), str(part)) == ("7,...|...->...,?", "...|...->...,?")
    pointwise(known("7,5|4->3"), result=whole)
    assert closed(whole, part) == ["7,5|4->3", "5|4->3"]


def test_a_slice_sizes_what_it_was_taken_from() -> None:
    whole = varying("whole")
    part = infer(first_at("3"), [whole]).result
    einsum("...|...->...;...|...->...=>", part, known("5|4->3"))
    assert closed(whole, part) == ["4,5|4->3", "5|4->3"]


def test_slicing_what_has_no_batch_axis() -> None:
    with pytest.raises(ShapeError, match="the batch row of `x` needs at least 1 axis but can have at most no axes"):
        infer(first_at("i", 3), [known("3")])


def test_slicing_outside_the_axis() -> None:
    with pytest.raises(ShapeError, match=r"position 2 is outside .*, which has size 2"):
        infer(first_at("2"), [known("2|3")])


def test_an_index_has_as_many_positions_as_the_axis() -> None:
    assert closed(infer(first_at("i", 7), [known("7|3")]).result) == ["3"]
    for size in (6, 8):
        with pytest.raises(ShapeError, match=f"cannot be both (7 and {size}|{size} and 7)"):
            infer(first_at("i", size), [known("7|3")])
    leaf, counted = varying(), infer(Counted(24)).result
    infer(first_at("i", 8), [leaf])
    assert closed(leaf) == ["8|1"]
    part = infer(first_at("i", 8), [counted]).result
    pointwise(part, known("3"))
    assert closed(counted, part) == ["8|3", "3"]


# Positions and labels of the result.


def test_a_position_on_the_result_is_just_large_enough() -> None:
    assert solved("i=>i2", "4") == ["4,3", "4"]
    assert solved("...|... => ...|...2", "5|7->9") == ["5|9,3", "5|7->9"]
    assert solved("... => 0", "3,4") == ["1", "3,4"]


def test_a_position_on_the_result_is_sized_by_other_uses() -> None:
    for use in (lambda shape: pointwise(shape, known("6")), lambda shape: einsum("ij;j=>i", shape, known("6"))):
        placed = einsum("i=>i2", known("4")).result
        use(placed)
        assert closed(placed) == ["4,6"]


def test_what_is_reduced_to_a_number_is_one_whatever_it_is_used_with() -> None:
    total = einsum("...|... => ...|0", known("5|4")).result
    assert str(total) == "5|1"
    pointwise(total, known("6"))
    with pytest.raises(ShapeError, match="`i` cannot be both 1 and 6"):
        einsum("...|i; i => ...|i", total, known("6"))
    assert solved("i => 0", "4", result="6") == ["6", "4"]  # what there is before is written at that position


def test_a_position_outside_a_known_axis() -> None:
    with pytest.raises(ShapeError, match="position 2 is outside the axis, which has size 2"):
        solved("i=>i2", "4", result="4,2")
    with pytest.raises(ShapeError, match="position 7 is outside the axis, which has size 7"):
        solved("7=>", "7")
    assert solved("7=>", "8") == ["1", "8"]


def test_a_position_makes_a_leaf_large_enough() -> None:
    leaf = varying()
    einsum("7=>", leaf)
    einsum("4=>", leaf)
    assert closed(leaf) == ["8"]


def test_a_position_and_a_demand_leave_no_choice() -> None:
    """Three or one, and at least two: it is three at once, without closing."""
    leaf = varying()
    pointwise(leaf, known("3"))
    einsum("1=>", leaf)
    assert str(leaf.output) == "...,3"


def test_a_label_only_the_result_has_is_underdetermined_unless_known() -> None:
    with pytest.raises(UnderdeterminedShapeError, match="nothing says how big `j` is"):
        solved("i=>ij", "4")
    assert solved("i=>ij", "4", j=2) == ["4,2", "4"]
    assert solved("i=>ij", "4", result="4,2") == ["4,2", "4"]
    later = einsum("i=>ij", known("4")).result
    einsum("ij;j=>i", later, known("6"))
    assert closed(later) == ["4,6"]


def test_a_label_may_have_size_zero() -> None:
    assert labels(einsum("i=>ij", known("3"), sizes={"j": 0})) == {"i": 3, "j": 0}


def test_a_demanded_label_takes_the_size_it_is_asked_for() -> None:
    later = einsum("i=>ij", known("4")).result
    pointwise(later, known("4,6"))
    assert closed(later) == ["4,6"]


# Affine axes: the size of any part from the others.

WINDOWS = [(stride, dilation, offset) for stride in (1, 2, 3) for dilation in (1, 2) for offset in range(stride)]


@pytest.mark.parametrize(("stride", "dilation", "offset"), WINDOWS)
def test_a_window_is_solved_in_every_direction(stride: int, dilation: int, offset: int) -> None:
    term = f"{stride}*o<+{dilation}*k" + (f"+{offset}" if offset else "")
    for over, kernel in itertools.product((1, 2, 5), (1, 3)):
        last = stride * (over - 1) + dilation * (kernel - 1) + offset
        axis = str(last + 1)
        assert solved(f"{term};k=>o", axis, str(kernel)) == [str(over), axis, str(kernel)]
        assert solved(f"{term};o=>k", axis, str(over)) == [str(kernel), axis, str(over)]
        assert solved(f"o;k=>{term}", str(over), str(kernel)) == [axis, str(over), str(kernel)]
        assert solved(f"{term};o;k=>", axis, str(over), str(kernel))[1:] == [axis, str(over), str(kernel)]
        leaf = varying()
        assert solved(f"{term};o;k=>", leaf, str(over), str(kernel))[1] == axis


@pytest.mark.parametrize("term", ["3*o", "3*o+2", "3*o=+k", "3*o=+2*k", "3*o=+k+1"])
def test_a_stride_alone_or_padded_is_a_multiple_in_both_directions(term: str) -> None:
    kernel = ["4"] if "k" in term else []
    more = ";k" if kernel else ""
    assert solved(f"{term}{more}=>o", "12", *kernel) == ["4", "12", *kernel]
    assert solved(f"o{more}=>{term}", "4", *kernel) == ["12", "4", *kernel]
    with pytest.raises(ShapeError, match="size 13 is not a multiple of the stride 3") as caught:
        solved(f"{term}{more}=>o", "13", *kernel)
    assert caught.value.fix == "make the axis 12 or 15 long"


def test_the_nearest_sizes_that_a_window_tiles_are_named_and_do_tile() -> None:
    with pytest.raises(ShapeError, match="10 - 3 is not a multiple of 2") as caught:
        solved("2*o<+k;k=>o", "10", "3")
    assert caught.value.what.startswith("windows of 3 with stride 2 do not tile an axis of 10")
    assert caught.value.fix.startswith("make the axis 9 or 11 long")
    assert solved("2*o<+k;k=>o", "9", "3") == ["4", "9", "3"]
    assert solved("2*o<+k;k=>o", "11", "3") == ["5", "11", "3"]


@pytest.mark.parametrize(("spec", "shapes", "what", "fix"), [
    ("o<+k;k=>o", ("2", "3"), "a window of 3 does not fit an axis of 2", "make the axis at least 3 long"),
    ("o<+2*k;k=>o", ("4", "3"), "a window of 5 does not fit an axis of 4", "make the axis at least 5 long"),
    ("o<+2*k;o=>k", ("10", "7"), "7 windows with stride 1 and dilation 2 do not tile an axis of 10", "the axis 9 long"),
    ("2*o<+k;o=>k", ("10", "7"), "7 windows with stride 2 and dilation 1 do not tile an axis of 10", "axis 13 long"),
    ("o<+k;o;k=>", ("9", "7", "4"), "7 windows of 4 with stride 1 need an axis of 10, not 9", "make it 10"),
])  # fmt: skip
def test_windows_that_do_not_fit(spec: str, shapes: tuple[str, ...], what: str, fix: str) -> None:
    with pytest.raises(ShapeError) as caught:
        solved(spec, *shapes)
    assert caught.value.what == what
    assert fix in caught.value.fix


def test_a_window_with_two_unknown_parts_is_underdetermined() -> None:
    for spec, operands in (("o<+k;k=>o", ["9", varying()]), ("o<+k=>o", ["9"]), ("o<+k=>ok", ["9"])):
        assert kind_of(lambda spec=spec, operands=operands: solved(spec, *operands)) == "underdetermined"
    assert solved("o<+k=>ok", "9", k=3) == ["7,3", "9"]


# Several axes as one: the size of any part from the others.


def test_a_flattened_axis_is_solved_in_every_direction() -> None:
    assert solved("a;b=>a&b", "3", "4") == ["12", "3", "4"]
    assert solved("a&b;a=>b", "12", "3") == ["4", "12", "3"]
    assert solved("a&b;b=>a", "12", "4") == ["3", "12", "4"]
    assert solved("a&b&c=>c", "30", a=3, c=2) == ["2", "30"]
    assert solved("a;b=>a&b", "3", param("w"), result="12")[2] == "4"
    assert solved("a&b=>ba", "1") == ["1,1", "1"]
    assert solved("..v.., a&b => ..v.., a", "5,6", b=2) == ["5,3", "5,6"]


def test_an_axis_that_cannot_be_split() -> None:
    with pytest.raises(ShapeError) as caught:
        solved("a&b&c=>abc", "25", b=2, c=3)
    assert caught.value.what == "an axis of 25 cannot be split into parts with `b` of 2, `c` of 3"
    assert caught.value.fix == "make the axis 24 or 30 long, or give the parts other sizes"
    with pytest.raises(ShapeError, match="an axis of 13 cannot be split into parts `a` of 3, `b` of 4") as caught:
        solved("a&b;a;b=>", "13", "3", "4")
    assert caught.value.fix == "make the axis 12 long, or give the parts other sizes"
    for spec in ("a&b=>ab", "a&b=>a"):
        assert kind_of(lambda spec=spec: solved(spec, "12")) == "underdetermined"


# Concatenation: the size of any part from the others.


def test_a_concatenation_is_solved_in_every_direction() -> None:
    assert solved("a;b=>a^b", "3", "4") == ["7", "3", "4"]
    assert solved("a^b;a=>b", "7", "3") == ["4", "7", "3"]
    assert solved("a^b;b=>a", "7", "4") == ["3", "7", "4"]
    assert solved("a;b;c=>a^b^c", "3", "4", "5") == ["12", "3", "4", "5"]
    assert solved("a;b=>a^b", "3", param("w"), result="7")[2] == "4"
    assert solved("a^b=>a", "7", b=2) == ["5", "7"]


def test_the_parts_of_a_concatenation_keep_other_axes_together() -> None:
    assert solved("..v..|ia;..v..|ib=>..v..|ia^b", "5|2,3", "5|2,4") == ["5|2,7", "5|2,3", "5|2,4"]
    with pytest.raises(ShapeError, match="`i` cannot be both 2 and 3"):
        solved("ia;ib=>ia^b", "2,3", "3,4")


def test_a_part_may_be_repeated() -> None:
    assert solved("a^a=>a", "8") == ["4", "8"]
    assert solved("a=>a^a", "4") == ["8", "4"]
    assert solved("a^b^a;b=>a", "9", "3") == ["3", "9", "3"]
    assert kind_of(lambda: solved("a^a=>a", "9")) == "conflict"


def test_a_repeated_part_that_does_not_divide_the_axis_says_so() -> None:
    with pytest.raises(ShapeError, match="the 2 equal parts of the axis cannot share 9 positions"):
        solved("a^a=>a", "9")
    with pytest.raises(ShapeError, match="the 2 equal parts of the axis cannot share 5 positions"):
        solved("a^4^a=>a", "9")


def test_a_number_is_a_part_of_that_size() -> None:
    assert solved("a^2=>a", "9") == ["7", "9"]
    assert solved("3^a^2=>a", "9") == ["4", "9"]
    assert solved("a=>1^a", "4") == ["5", "4"]
    with pytest.raises(ShapeError, match="the parts of the axis make 10, but the axis has size 9"):
        solved("a^10=>a", "9")


def test_a_part_may_be_empty() -> None:
    assert labels(einsum("a^b;a=>", known("9"), known("9"))) == {"a": 9, "b": 0}
    assert labels(einsum("a^b;a=>b", known("9"), known("9"))) == {"a": 9, "b": 0}
    assert labels(einsum("a^9=>a", known("9"))) == {"a": 0}


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_parts_that_are_one_axis_share_what_is_left(order: tuple[int, ...]) -> None:
    """`p` and `q` are made equal before or after they are laid end to end into something of known size."""
    p, q, joined = param("p"), param("q"), blank()
    says = [
        lambda: infer(Literal(as_shape(7)), result=joined),
        lambda: einsum("a;b;c=>a^b^c", p, q, known("3"), result=joined),
        lambda: einsum("i;i=>i", p, q),
    ]
    for at in order:
        says[at]()
    assert closed(p, q) == ["2", "2"]


def test_what_broadcasts_is_divided_among_equal_parts() -> None:
    part = param("p")
    total = pointwise(einsum("a;b=>a^b", part, part).result, known("4"))
    assert closed(total, part) == ["4", "2"]


def test_nothing_left_is_not_what_a_parameter_gets() -> None:
    with pytest.raises(ShapeError, match="the known parts of the axis leave nothing for the parameter beside them"):
        pointwise(einsum("a;b=>a^b", param("p"), known("3")).result, known("3"))


def test_windows_that_cannot_fit_are_refused_before_their_number_is_known() -> None:
    reads_cell_one = infer(Einsum(parse_spec("1=>")), [blank("o")]).slots[1]
    with pytest.raises(ShapeError, match="2 windows of 1 with stride 2 need an axis of 3, not 1"):
        einsum("2*o<+k; o=>k", known("1"), reads_cell_one)


def test_parts_that_are_too_large_together() -> None:
    with pytest.raises(ShapeError, match="the parts of the axis make 10, but the axis has size 9"):
        solved("a^b;a=>b", "9", "10")
    with pytest.raises(ShapeError, match="the parts of the axis make 9, but the axis has size 10"):
        solved("a;b=>a^b", "4", "5", result="10")


def test_two_unknown_parts_are_underdetermined() -> None:
    with pytest.raises(UnderdeterminedShapeError, match=r"nothing says how big `[ab]` is"):
        solved("a^b=>a", "9")


def test_a_concatenation_of_leaves_is_sized_by_their_other_uses() -> None:
    one, two = varying(), varying()
    whole = einsum("a;b=>a^b", one, two).result
    pointwise(one, known("3"))
    pointwise(two, known("4"))
    assert closed(whole, one, two) == ["7", "3", "4"]


# Derived sizes that are all open.


@pytest.mark.parametrize("make", [varying, blank])
def test_parts_left_open_are_closed_before_the_whole(make: type) -> None:
    """All of them at once would be 1, which contradicts the sum; there is a solution."""
    parts = [make(), make(), make()]
    einsum("a;b;a^b=>", *parts)
    assert closed(*parts) == ["1", "1", "2"]


@pytest.mark.parametrize("make", [varying, blank])
def test_what_a_stride_runs_over_is_closed_before_the_axis(make: type) -> None:
    over, axis = make(), make()
    einsum("o;2*o=>", over, axis)
    assert closed(over, axis) == ["1", "2"]


@pytest.mark.parametrize("spec", ["a^b;a;b=>", "o<+k;o;k=>"])
def test_a_whole_that_could_be_split_in_many_ways_is_underdetermined(spec: str) -> None:
    """That nothing says how is not a contradiction."""
    one, two = varying("one"), varying("two")
    einsum(spec, known("9"), one, two)
    assert kind_of(lambda: close(one)) == "underdetermined"


# Sizes computed from themselves.


@pytest.mark.parametrize("size", [1, 2, 5])
@pytest.mark.parametrize("turned", ["[::-1|]", "[0:|]", "ij|...=>ji|...", "a^a^a|...=>a^a^a|..."])
def test_a_size_that_is_computed_from_itself_is_no_larger_than_it_must_be(turned: str, size: int) -> None:
    """What broadcasts says nothing of a size, so a carry of size 1 hangs on itself alone."""
    rows = f"{size},{size}" if "ij" in turned else str(3 * size if "^" in turned else size)
    carry, first = blank("carry"), known(f"{rows}|4")
    pointwise(first, result=carry)
    again = (infer(sliced(turned), [carry]) if turned[0] == "[" else einsum(turned, carry)).result
    pointwise(again, result=carry)
    above = einsum("...|b=>...|b^2", again).result
    assert closed(carry, again, above) == [f"{rows}|4", f"{rows}|4", f"{rows}|6"]


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_of_sizes_that_hang_on_one_another_those_come_first_on_which_the_others_hang(order: tuple[int, ...]) -> None:
    carry, turned, twice, more = blank("carry"), blank("turned"), blank("twice"), blank("more")
    says = [
        lambda: (infer(sliced("[::-1|]"), [carry], result=turned), pointwise(turned, result=carry)),
        lambda: einsum("a|...;a|...;a^a|...=>", carry, turned, twice),
        lambda: pointwise(twice, result=more),
    ]
    for at in order:
        says[at]()
    assert closed(carry, turned, twice, more) == ["1|1", "1|1", "2|1", "2|1"]


def test_a_size_larger_than_itself_is_a_conflict() -> None:
    carry = blank("carry")
    pointwise(einsum("a|...=>a^a|...", carry).result, result=carry)
    assert kind_of(lambda: close(carry)) == "conflict"


# A graph is closed as a whole, once.


def test_closing_one_shape_closes_what_is_connected_and_nothing_else() -> None:
    near, far = varying("near"), varying("far")
    result = pointwise(near, known("3"))
    close(result)
    assert str(near) == "3"
    assert far.closed is None
    assert str(far) == "...|...->..."


def test_what_is_closed_can_still_be_used() -> None:
    leaf = varying()
    close(pointwise(leaf, known("3")))
    assert closed(pointwise(leaf, known("7,3"))) == ["7,3"]
    with pytest.raises(ShapeError, match="cannot be both"):
        pointwise(leaf, known("5"))
    fresh = param("w", output="2")
    assert closed(compose(fresh, leaf), fresh) == ["2", "3->2"]


def test_closing_twice_is_closing_once() -> None:
    result = infer(Pointwise(2), [varying(), known("3")]).result
    assert close(result) is not None
    assert close(result) == close(result)
