"""`wf.plan`: the worked examples, the list of einsum examples, and every family of specs, against plain NumPy.

In memory a shape lies batch first, then output, then input: `2|3->4` is an array of shape (2, 4, 3).
"""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st
from numpy.lib.stride_tricks import sliding_window_view

import weft as wf
from weft.affine import Affine
from weft.project.nodes import LoopVariable
from weft.shape.nodes import Dim, Shape


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-9, 10, shape)


def check(planned: wf.Plan, expected: np.ndarray, *arrays: np.ndarray, accum: str = "+", op: str = "*") -> None:
    found = planned.evaluate(*arrays, accum=accum, op=op)
    assert found.shape == planned.shapes[-1].array_shape == expected.shape
    np.testing.assert_array_equal(found, expected)


# The three worked examples.


def test_matrix_product() -> None:
    planned = wf.plan("ij;jk=>ik", (3, 4), (4, 5))
    i, j, k = LoopVariable("i", 3), LoopVariable("j", 4), LoopVariable("k", 5)
    assert set(planned.loops) == {(i,), (j,), (k,)}
    assert planned.maps == (
        (Affine.of("i"), Affine.of("j")),
        (Affine.of("j"), Affine.of("k")),
        (Affine.of("i"), Affine.of("k")),
    )
    assert planned.reduced == (j,)
    assert (planned.injective, planned.surjective) == (False, True)
    assert [str(shape) for shape in planned.shapes] == ["3,4", "4,5", "3,5"]
    a, b = numbers(3, 4), numbers(4, 5)
    check(planned, a @ b, a, b)


def test_pointwise_broadcast_of_a_scalar() -> None:
    planned = wf.plan(";pq=>pq", 1, (3, 4))
    assert planned.maps == ((Affine(),), (Affine.of("p"), Affine.of("q")), (Affine.of("p"), Affine.of("q")))
    assert planned.reduced == ()
    assert (planned.injective, planned.surjective) == (True, True)
    s, m = np.array([3]), numbers(3, 4)
    check(planned, 3 * m, s, m)


def test_summing_by_a_vector_of_ones() -> None:
    planned = wf.plan("pq;q=>p", (3, 4), 4)
    assert planned.reduced == (LoopVariable("q", 4),)
    assert planned.maps == ((Affine.of("p"), Affine.of("q")), (Affine.of("q"),), (Affine.of("p"),))
    assert (planned.injective, planned.surjective) == (False, True)
    m = numbers(3, 4)
    check(planned, m.sum(axis=1), m, np.ones(4, int))


# The list of examples, line by line.

FULL = "2,3|4->5,6"  # in memory 2, 3, 5, 6, 4
FULL_ARRAY = numbers(2, 3, 5, 6, 4)


@pytest.mark.parametrize("spec", ["...|...->... => 0", "...|... => 0", "... => 0"])
def test_reduce_everything(spec: str) -> None:
    planned = wf.plan(spec, FULL)
    assert str(planned.shapes[-1]) == "1"
    assert sorted(loop.size for loop in planned.reduced) == [2, 3, 4, 5, 6]
    check(planned, FULL_ARRAY.sum().reshape(1), FULL_ARRAY)


def test_pointwise_unary() -> None:
    planned = wf.plan("...|...->... => ...|...->...", FULL)
    assert str(planned.shapes[-1]) == FULL
    assert planned.reduced == ()
    check(planned, FULL_ARRAY, FULL_ARRAY)


def test_pointwise_binary() -> None:
    planned = wf.plan("...|...->... ; ...|...->... => ...|...->...", FULL, FULL)
    other = numbers(2, 3, 5, 6, 4, seed=1)
    assert (planned.injective, planned.surjective) == (True, True)
    check(planned, FULL_ARRAY * other, FULL_ARRAY, other)
    check(planned, FULL_ARRAY - other, FULL_ARRAY, other, op="-")


@pytest.mark.parametrize("spec", ["...|...->... => ...->...", "...->... => ...->..."])
def test_reduce_the_batch_axes(spec: str) -> None:
    planned = wf.plan(spec, FULL)
    assert str(planned.shapes[-1]) == "4->5,6"
    check(planned, FULL_ARRAY.sum(axis=(0, 1)), FULL_ARRAY)


def test_slice_the_leftmost_batch_axis() -> None:
    planned = wf.plan("2...|...->... => ...|...->...", "3,2|4->5")
    assert str(planned.shapes[-1]) == "2|4->5"
    assert planned.reduced == ()
    a = numbers(3, 2, 5, 4)
    check(planned, a[2], a)


def test_expand_by_a_new_rightmost_output_axis() -> None:
    planned = wf.plan("...|... => ...|...2", "2|3->4")
    assert str(planned.shapes[-1]) == "2|4,3"
    assert planned.reduced == (LoopVariable("k", 3),)
    assert (planned.injective, planned.surjective) == (False, False)
    a = numbers(2, 4, 3)
    expected = np.zeros((2, 4, 3), int)
    expected[:, :, 2] = a.sum(axis=2)
    check(planned, expected, a)


def test_the_new_axis_is_as_long_as_the_result_says() -> None:
    a = numbers(2, 4, 3)
    expected = np.zeros((2, 4, 7), int)
    expected[:, :, 2] = a.sum(axis=2)
    check(wf.plan("...|... => ...|...2", "2|3->4", result="2|4,7"), expected, a)


def test_other_cells_of_a_new_axis_are_neutral_to_the_accumulation() -> None:
    a = np.array([1.0, 2.0])
    planned = wf.plan("i=>i1", 2)
    np.testing.assert_array_equal(planned.evaluate(a, accum="max"), [[-np.inf, 1], [-np.inf, 2]])
    np.testing.assert_array_equal(planned.evaluate(a, accum="*"), [[1, 1], [1, 2]])


def test_reverse_the_three_rightmost_output_axes() -> None:
    planned = wf.plan("ijk => kji", "2|3->2,3,4,5")
    assert str(planned.shapes[-1]) == "5,4,3"
    a = numbers(2, 2, 3, 4, 5, 3)  # batch; output; input
    check(planned, a.sum(axis=(0, 1, 5)).transpose(2, 1, 0), a)


def test_reverse_and_reduce_one_more() -> None:
    planned = wf.plan("ijk => ki", "2|3->2,3,4,5")
    assert str(planned.shapes[-1]) == "5,3"
    a = numbers(2, 2, 3, 4, 5, 3)
    check(planned, a.sum(axis=(0, 1, 3, 5)).T, a)


def test_batch_axes_become_leftmost_output_axes() -> None:
    planned = wf.plan("..v..|ijk => ..v..kji", "2,3|2->7,3,4,5")
    assert str(planned.shapes[-1]) == "2,3,5,4,3"
    a = numbers(2, 3, 7, 3, 4, 5, 2)
    check(planned, a.sum(axis=(2, 6)).transpose(0, 1, 4, 3, 2), a)


def test_slice_reduce_and_keep_other_batch_axes_as_output() -> None:
    planned = wf.plan("2..v..|... => ..v..", "3,4,2|3->5")
    assert str(planned.shapes[-1]) == "4,2"
    a = numbers(3, 4, 2, 5, 3)
    check(planned, a[2].sum(axis=(2, 3)), a)


# Rows, holes, lead axes.


def test_input_axes_lie_last_in_memory() -> None:
    planned = wf.plan("b|i->o => b,i,o", "2|3->4")
    a = numbers(2, 4, 3)
    check(planned, a.transpose(0, 2, 1), a)


def test_a_matrix_product_written_with_input_rows() -> None:
    planned = wf.plan("...|j->i; ...|k->j => ...|k->i", "2|3->4", "2|5->3")
    assert str(planned.shapes[-1]) == "2|5->4"
    a, b = numbers(2, 4, 3), numbers(2, 3, 5)
    check(planned, a @ b, a, b)


def test_lead_axes_around_a_row_variable() -> None:
    planned = wf.plan("i..v..j=>j..v..i", (2, 3, 4, 5))
    a = numbers(2, 3, 4, 5)
    check(planned, a.transpose(3, 1, 2, 0), a)


def test_a_row_variable_twice_in_one_operand_is_a_diagonal() -> None:
    planned = wf.plan("..v..|..v..=>..v..", "2,3|2,3")
    a = numbers(2, 3, 2, 3)
    check(planned, np.einsum("ijij->ij", a), a)


def test_a_row_variable_of_no_axes() -> None:
    planned = wf.plan("...i=>i...", 3)
    a = numbers(3)
    check(planned, a, a)
    scalar = wf.plan("...|i => ...", "4")
    assert str(scalar.shapes[-1]) == "1"
    b = numbers(4)
    check(scalar, b.sum().reshape(1), b)


def test_holes_align_their_neighbours_and_are_reduced() -> None:
    a = numbers(3, 4, 5)
    check(wf.plan("i_k=>ik", (3, 4, 5)), a.sum(axis=1), a)


def test_a_hole_in_the_result_has_size_one_or_is_filled() -> None:
    a = numbers(3)
    check(wf.plan("i=>i_", 3), a[:, None], a)
    check(wf.plan("i=>i_", 3, result=(3, 4)), np.repeat(a[:, None], 4, axis=1), a)


def test_names_of_several_letters() -> None:
    planned = wf.plan("height, width; width, depth => depth, height", (2, 3), (3, 4))
    assert {loop.name for (loop,) in planned.loops} == {"height", "width", "depth"}
    a, b = numbers(2, 3), numbers(3, 4)
    check(planned, (a @ b).T, a, b)


def test_scalars() -> None:
    assert wf.plan(";=>", 1, 1).loops == ()
    check(wf.plan(";=>", 1, 1), np.array([6]), np.array([2]), np.array([3]))
    assert wf.plan(";=>", 1, 1).evaluate(2, 3).tolist() == [6]
    check(wf.plan("i;=>i", 3, 1), np.array([2, 4, 6]), np.array([1, 2, 3]), np.array([2]))


# Labels the operands do not have.


def test_a_result_label_is_sized_by_the_result_or_by_a_keyword() -> None:
    a = numbers(3)
    expected = np.repeat(a[:, None], 4, axis=1)
    check(wf.plan("i=>ij", 3, result=(3, 4)), expected, a)
    check(wf.plan("i=>ij", 3, j=4), expected, a)
    assert wf.plan("i=>ij", 3, j=4).injective


def test_a_keyword_may_repeat_a_known_size() -> None:
    assert wf.plan("ij=>ji", (2, 3), i=2, j=3).shapes == wf.plan("ij=>ji", (2, 3)).shapes


def test_a_keyword_may_carry_a_basis() -> None:
    assert wf.plan("i=>ij", 3, j=Dim(4, "rgb")).shapes[-1] == Shape(output=(Dim(3), Dim(4, "rgb")))


def test_a_basis_reaches_the_result() -> None:
    assert [str(shape) for shape in wf.plan("ij;i=>j", "rgb=3,4", 3).shapes] == ["rgb=3,4", "rgb=3", "4"]
    assert str(wf.plan("ij=>ji", "rgb=3,4").shapes[-1]) == "4,rgb=3"


def test_every_way_to_write_a_shape() -> None:
    shape = Shape(output=(Dim(3), Dim(4)))
    plans = [wf.plan("ij=>ji", given) for given in ("3,4", " 3 , 4 ", "3,4,", (3, 4), [3, 4], shape, "|3,4", "|->3,4")]
    assert {one.shapes for one in plans} == {(shape, Shape(output=(Dim(4), Dim(3))))}
    assert wf.plan("i=>i", 3).shapes == wf.plan("i=>i", "3").shapes
    assert str(wf.plan("=>", "").shapes[0]) == "1"


# Diagonals and positions.


def test_diagonals() -> None:
    a, square = numbers(3), numbers(3, 3)
    check(wf.plan("i=>ii", 3), np.diag(a), a)
    check(wf.plan("ii=>i", (3, 3)), np.diag(square), square)
    check(wf.plan("ii=>", (3, 3)), np.trace(square).reshape(1), square)
    assert (wf.plan("i=>ii", 3).injective, wf.plan("i=>ii", 3).surjective) == (True, False)
    assert (wf.plan("ii=>i", (3, 3)).injective, wf.plan("ii=>i", (3, 3)).surjective) == (True, True)


def test_positions_in_operands() -> None:
    a = numbers(3, 4)
    check(wf.plan("i1=>i", (3, 4)), a[:, 1], a)
    check(wf.plan("21=>", (3, 4)), a[2, 1].reshape(1), a)


def test_positions_in_results() -> None:
    a = numbers(3, 4)
    expected = np.zeros((3, 2, 4), int)
    expected[:, 1] = a
    check(wf.plan("ij=>i1j", (3, 4)), expected, a)
    assert (wf.plan("ij=>i1j", (3, 4)).injective, wf.plan("ij=>i1j", (3, 4)).surjective) == (True, False)
    check(wf.plan("i=>i0", 3), numbers(3)[:, None], numbers(3))
    assert wf.plan("i=>i0", 3).surjective


def test_a_position_of_several_digits() -> None:
    a = numbers(15)
    check(wf.plan("12,=>0", 15), a[12].reshape(1), a)


# Affine axes.


def windows(a: np.ndarray, size: int, stride: int = 1, dilation: int = 1) -> np.ndarray:
    span = dilation * (size - 1) + 1
    return sliding_window_view(a, span)[::stride, ::dilation]


@pytest.mark.parametrize(
    ("stride", "dilation", "kernel", "out"), [(1, 1, 3, 7), (2, 1, 3, 4), (1, 2, 3, 5), (3, 2, 2, 4)]
)
def test_convolution_that_stays_inside(stride: int, dilation: int, kernel: int, out: int) -> None:
    size = stride * (out - 1) + dilation * (kernel - 1) + 1
    a, k = numbers(size), numbers(kernel, seed=1)
    planned = wf.plan(f"{stride}*o<+{dilation}*k;k=>o", size, kernel)
    assert planned.shapes[-1].array_shape == (out,)
    assert "if" not in str(planned)
    check(planned, windows(a, kernel, stride, dilation) @ k, a, k)


@pytest.mark.parametrize("stride", [1, 2, 3, 4])
@pytest.mark.parametrize("dilation", [1, 2, 3])
@pytest.mark.parametrize("kernel", range(1, 7))
def test_padded_windows_reach_half_of_their_span_to_the_left(stride: int, dilation: int, kernel: int) -> None:
    """As with padding=k//2 elsewhere, whatever the stride; what is missing on the right is nothing, too."""
    out, span = 5, dilation * (kernel - 1) + 1
    size = stride * out
    a, k = numbers(size), numbers(kernel, seed=1)
    planned = wf.plan(f"{stride}*o=+{dilation}*k;k=>o", size, kernel)
    assert planned.shapes[-1].array_shape == (out,)
    padded = np.pad(a, (span // 2, span))
    check(planned, (windows(padded, kernel, stride, dilation) @ k)[:out], a, k)


def test_a_padded_window_with_a_stride() -> None:
    check(wf.plan("2*o=+k;k=>o", 6, 3), np.array([1, 6, 12]), np.arange(6), np.ones(3, int))


def test_same_convolution_of_odd_kernels_agrees_with_numpy() -> None:
    a, k = numbers(9), numbers(5, seed=1)
    check(wf.plan("o=+k;k=>o", 9, 5), np.correlate(a, k, "same"), a, k)
    check(wf.plan("o<+k;k=>o", 9, 5), np.correlate(a, k, "valid"), a, k)


def test_full_convolution_is_the_spread_in_the_result() -> None:
    a, k = numbers(5), numbers(3, seed=1)
    check(wf.plan("i;k=>i<+k", 5, 3), np.convolve(a, k), a, k)


def test_two_dimensional_convolution_with_channels() -> None:
    spec = "...|2*oh<+kh, ow=+kw, ic; kh, kw, ic -> oc => ...|oh, ow, oc"
    planned = wf.plan(spec, "2|7,5,3", "3,3,3->4")
    assert str(planned.shapes[-1]) == "2|3,5,4"
    a, k = numbers(2, 7, 5, 3), numbers(4, 3, 3, 3, seed=1)
    padded = np.pad(a, ((0, 0), (0, 0), (1, 1), (0, 0)))
    expected = np.zeros((2, 3, 5, 4), int)
    for oh, ow, kh, kw in np.ndindex(3, 5, 3, 3):
        expected[:, oh, ow] += padded[:, 2 * oh + kh, ow + kw] @ k[:, kh, kw].T
    check(planned, expected, a, k)


@pytest.mark.parametrize(("accum", "combine"), [("max", np.max), ("min", np.min), ("+", np.sum)])
def test_pooling(accum: str, combine: np.ufunc) -> None:
    a = numbers(8)
    check(wf.plan("2*o<+k=>o", 8, k=2), combine(a.reshape(4, 2), axis=1), a, accum=accum)
    check(wf.plan("2*o<+k=>o", 7, k=3), combine(windows(a[:7], 3, 2), axis=1), a[:7], accum=accum)


def test_padded_pooling_reads_nothing_outside() -> None:
    a = -1.0 - np.arange(4)
    planned = wf.plan("o=+k=>o", 4, k=3)
    np.testing.assert_array_equal(planned.evaluate(a, accum="max"), [-1, -1, -2, -3])
    np.testing.assert_array_equal(planned.evaluate(a, accum="*"), [2, -6, -24, 12])


def test_two_dimensional_max_pooling() -> None:
    a = numbers(4, 6, 2)
    planned = wf.plan("2*oh<+h, 2*ow<+w, c => oh, ow, c", (4, 6, 2), h=2, w=2)
    check(planned, a.reshape(2, 2, 3, 2, 2).max(axis=(1, 3)), a, accum="max")


def test_interleave_and_take_apart() -> None:
    a, b = numbers(4), numbers(4, seed=1)
    even, odd = wf.plan("i=>2*i", 4), wf.plan("i=>2*i+1", 4)
    assert (even.injective, even.surjective) == (True, False)
    both = even.evaluate(a) + odd.evaluate(b)
    assert both.tolist() == [value for pair in zip(a.tolist(), b.tolist(), strict=True) for value in pair]
    check(wf.plan("2*i=>i", 8), a, both)
    check(wf.plan("2*i+1=>i", 8), b, both)


def test_a_product_of_loops_lays_out_a_matrix_flat() -> None:
    planned = wf.plan("ij=>4*i<+j", (3, 4))
    assert (planned.injective, planned.surjective) == (True, True)
    a = numbers(3, 4)
    check(planned, a.ravel(), a)


def test_strides_that_leave_gaps_or_overlap() -> None:
    gaps, overlap = wf.plan("ij=>4*i<+j", (3, 3)), wf.plan("ij=>2*i<+j", (3, 3))
    assert (gaps.injective, gaps.surjective) == (True, False)
    assert (overlap.injective, overlap.surjective) == (False, True)


def test_sliding_windows_as_an_axis() -> None:
    a = numbers(9)
    check(wf.plan("o<+k=>ok", 9, k=3), sliding_window_view(a, 3), a)


# Concatenation.

A, B, C = numbers(2), numbers(3, seed=1), numbers(4, seed=2)
AB = np.concatenate([A, B])


def test_concatenate() -> None:
    planned = wf.plan("a;b=>a^b", 2, 3)
    assert planned.loops == ((LoopVariable("a", 2), LoopVariable("b", 3)),)
    assert planned.reduced == ()
    assert (planned.injective, planned.surjective) == (True, True)
    check(planned, AB, A, B)


@pytest.mark.parametrize(
    ("spec", "sizes", "expected"),
    [
        ("a^b=>a", {"a": 2}, A),
        ("a^b=>b", {"a": 2}, B),
        ("a^b=>a", {"b": 3}, A),
        ("a^b=>b^a", {"a": 2}, np.concatenate([B, A])),
        ("a^b^c=>b", {"a": 1, "b": 2}, AB[1:3]),
        ("1^a^2=>a", {}, AB[1:3]),
        ("3^a=>a", {}, AB[3:]),
        ("a^3=>a", {}, AB[:2]),
        ("0^a=>a", {}, AB),
        ("a^b=>", {"a": 2}, AB.sum().reshape(1)),
        ("a^b=>a^b", {"a": 2}, AB),
        ("a^b^c=>c^a", {"a": 2, "b": 1}, np.concatenate([AB[3:], AB[:2]])),
    ],
)
def test_parts_of_an_axis(spec: str, sizes: dict[str, int], expected: np.ndarray) -> None:
    check(wf.plan(spec, 5, **sizes), expected, AB)


@pytest.mark.parametrize(
    ("spec", "sizes", "expected"),
    [
        ("a=>a^b", {"b": 3}, [*A, 0, 0, 0]),
        ("b=>a^b", {"a": 3}, [0, 0, 0, *A]),
        ("b=>a^b^c", {"a": 1, "c": 2}, [0, *A, 0, 0]),
        ("a=>a^2", {}, [*A, 0, 0]),
        ("a=>1^a^2", {}, [0, *A, 0, 0]),
    ],
)
def test_writing_one_part(spec: str, sizes: dict[str, int], expected: list[int]) -> None:
    planned = wf.plan(spec, 2, **sizes)
    assert (planned.injective, planned.surjective) == (True, False)
    check(planned, np.array(expected), A)


def test_the_size_of_a_part_follows_from_the_result() -> None:
    check(wf.plan("a=>a^b", 2, result=5), np.array([*A, 0, 0, 0]), A)
    check(wf.plan("a=>a^b", 2, result=2), A, A)


def test_skipping_three_and_five() -> None:
    a = numbers(10)
    check(wf.plan("3^a^5=>a", 10), a[3:5], a)


def test_concatenate_three_along_the_first_axis() -> None:
    planned = wf.plan("x, ...; y, ...; z, ... => x^y^z, ...", (1, 4), (2, 4), (3, 4))
    a, b, c = numbers(1, 4), numbers(2, 4), numbers(3, 4)
    check(planned, np.concatenate([a, b, c]), a, b, c)


def test_concatenate_in_another_order_and_along_another_axis() -> None:
    a, b = numbers(4, 2), numbers(4, 3)
    check(wf.plan("ia;ib=>ib^a", (4, 2), (4, 3)), np.concatenate([b, a], axis=1), a, b)


def test_concatenate_transposed() -> None:
    a, b = numbers(2, 3), numbers(3, 4)
    check(wf.plan("a,b;b,c=>a^c,b", (2, 3), (3, 4)), np.concatenate([a, b.T]), a, b)


def test_a_product_with_an_operand_that_has_no_part() -> None:
    c = numbers(4)
    check(wf.plan("a,; b,; c, => a^b,c", 2, 3, 4), np.outer(AB, c), A, B, c)


def test_a_diagonal_of_concatenated_parts() -> None:
    check(wf.plan("a,;b,=>a^b,a^b", 2, 3), np.diag(AB), A, B)


def test_a_contraction_with_a_concatenated_axis() -> None:
    m = numbers(5, 4)
    check(wf.plan("a^b,; a^b,c => c", 5, (5, 4), a=2), AB @ m, AB, m)


# Other accumulations and operations, n operands.


@pytest.mark.parametrize(
    ("accum", "op", "combine"),
    [
        ("max", "+", lambda a, b: (a[:, :, None] + b).max(axis=1)),
        ("min", "+", lambda a, b: (a[:, :, None] + b).min(axis=1)),
        ("*", "+", lambda a, b: (a[:, :, None] + b).prod(axis=1)),
        ("+", "-", lambda a, b: (a[:, :, None] - b).sum(axis=1)),
        ("max", "min", lambda a, b: np.minimum(a[:, :, None], b).max(axis=1)),
        ("+", "max", lambda a, b: np.maximum(a[:, :, None], b).sum(axis=1)),
        ("add", "mul", lambda a, b: a @ b),
    ],
)
def test_semirings(accum: str, op: str, combine: object) -> None:
    a, b = numbers(3, 4), numbers(4, 5)
    check(wf.plan("ij;jk=>ik", (3, 4), (4, 5)), combine(a, b), a, b, accum=accum, op=op)  # type: ignore[operator]


def test_operands_combine_from_the_left() -> None:
    planned = wf.plan("i;i;i=>i", 3, 3, 3)
    a, b, c = numbers(3), numbers(3, seed=1), numbers(3, seed=2)
    check(planned, a - b - c, a, b, c, op="-")


def test_division_of_integers_is_exact() -> None:
    found = wf.plan("i;i=>i", 2, 2).evaluate([1, 2], [4, 4], op="/")
    assert found.tolist() == [0.25, 0.5]


def test_four_operands() -> None:
    arrays = [numbers(2, 3), numbers(3, 4), numbers(4, 2), numbers(2)]
    expected = np.einsum("ij,jk,kl,l->il", *arrays)
    check(wf.plan("ij;jk;kl;l=>il", (2, 3), (3, 4), (4, 2), 2), expected, *arrays)


def test_more_operands_than_letters() -> None:
    planned = wf.plan(";".join("i" * 30) + "=>i", *[2] * 30)
    np.testing.assert_array_equal(planned.evaluate(*[[1, 2]] * 30), [1, 2**30])
    assert "Z[i] * A1[i]" in str(planned)
    assert "Q[i] * S[i]" in str(planned)


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int64, np.float32, np.float64, np.complex64, np.bool_])
def test_the_dtype_of_the_operands_is_kept(dtype: type) -> None:
    ones = np.ones((2, 2), dtype)
    for accum in ("+", "*", "max", "min"):
        assert wf.plan("ij;jk=>ik", (2, 2), (2, 2)).evaluate(ones, ones, accum=accum).dtype == dtype


def test_a_mixture_of_dtypes_is_promoted() -> None:
    found = wf.plan("i;i=>i", 2, 2).evaluate(np.ones(2, np.int8), np.ones(2, np.float32))
    assert found.dtype == np.float32


@st.composite
def einsums(draw: st.DrawFn) -> tuple[str, list[tuple[int, ...]], str]:
    labels = draw(st.lists(st.lists(st.sampled_from("abcd"), max_size=3), min_size=1, max_size=3))
    sizes = {label: draw(st.integers(1, 4)) for label in "abcd"}
    used = sorted({label for one in labels for label in one})
    result = draw(st.permutations(used).flatmap(lambda order: st.integers(0, len(order)).map(lambda n: order[:n])))
    shapes = [tuple(sizes[label] for label in one) for one in labels]
    return ";".join(map("".join, labels)) + "=>" + "".join(result), shapes, "".join(result)


@settings(max_examples=200)
@given(einsums(), st.integers(0, 99))
def test_agreement_with_numpy_einsum(case: tuple[str, list[tuple[int, ...]], str], seed: int) -> None:
    spec, shapes, result = case
    planned = wf.plan(spec, *shapes)
    arrays = [numbers(*shape, seed=seed + at) for at, shape in enumerate(shapes)]
    expected = np.einsum(spec.replace(";", ",").replace("=>", "->"), *arrays)
    found = planned.evaluate(*(array.reshape(array.shape or 1) for array in arrays))
    np.testing.assert_array_equal(found, expected.reshape(expected.shape or 1))
    sizes = {
        label: size
        for one, shape in zip(spec.split("=>")[0].split(";"), shapes, strict=True)
        for label, size in zip(one, shape, strict=True)
    }
    assert {loop.name: loop.size for loop in planned.reduced} == {
        label: size for label, size in sizes.items() if label not in result and size > 1
    }
    assert planned.surjective
    assert planned.injective == (not planned.reduced)


@given(st.lists(st.integers(1, 3), min_size=1, max_size=3), st.data())
def test_agreement_with_numpy_sum(sizes: list[int], data: st.DataObject) -> None:
    kept = data.draw(st.sets(st.sampled_from(range(len(sizes)))))
    letters = "ijk"[: len(sizes)]
    a = numbers(*sizes)
    planned = wf.plan(f"{letters}=>" + "".join(letters[at] for at in sorted(kept)), tuple(sizes))
    expected = a.sum(axis=tuple(at for at in range(len(sizes)) if at not in kept))
    check(planned, np.asarray(expected).reshape(expected.shape or (1,)), a)


@given(st.integers(1, 12), st.integers(1, 4), st.integers(1, 3), st.integers(1, 3))
def test_agreement_with_sliding_windows(size: int, kernel: int, stride: int, dilation: int) -> None:
    span = dilation * (kernel - 1) + 1
    assume(size >= span and (size - span) % stride == 0)
    a, k = numbers(size), numbers(kernel, seed=1)
    check(wf.plan(f"{stride}*o<+{dilation}*k;k=>o", size, kernel), windows(a, kernel, stride, dilation) @ k, a, k)


def test_a_plan_is_a_value() -> None:
    assert wf.plan("ij=>ji", (2, 3)) == wf.plan("ij=>ji", (2, 3))
    assert wf.plan("ij=>ji", (2, 3)) != wf.plan("ij=>ji", (2, 4))
    assert hash(wf.plan("ij=>ji", (2, 3))) == hash(wf.plan("ij=>ji", (2, 3)))


def test_evaluating_leaves_the_operands_alone() -> None:
    a = numbers(3, 4)
    before = a.copy()
    wf.plan("ij=>ij", (3, 4)).evaluate(a)[:] = 0
    np.testing.assert_array_equal(a, before)


def test_sizes_beyond_memory_are_planned_all_the_same() -> None:
    planned = wf.plan("ij;jk=>ik", (10**9, 10**9), (10**9, 10**9))
    assert prod(planned.shapes[-1].array_shape) == 10**18
    assert (planned.injective, planned.surjective) == (False, True)
    concatenated = wf.plan("a;b=>a^b", 10**15, 10**15)
    assert (concatenated.injective, concatenated.surjective) == (True, True)


def test_comparisons_are_counted() -> None:
    found = wf.plan("i;i=>", 4, 4).evaluate([1, 2, 3, 4], [2, 3, 4, 4], op="<")
    assert found.tolist() == [3]


def test_short_floats_are_numbers() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    found = wf.plan("i=>", 3).evaluate(np.ones(3, ml_dtypes.bfloat16))
    assert found.astype(float).tolist() == [3]


@pytest.mark.parametrize("given_shape", [(np.int64(3),), np.int64(3), np.array([3])])
def test_whole_numbers_of_numpy_are_sizes(given_shape: object) -> None:
    assert wf.plan("i=>i", given_shape).shapes == wf.plan("i=>i", 3).shapes


def test_positions_outside_their_axis() -> None:
    spec, table, ids = "v, d; b|@v => b|d", numbers(3, 2), np.array([[2], [-1], [5]])
    for outside, expected in (("clip", table[[2, 0, 2]]), ("skip", np.array([table[2], [0, 0], [0, 0]]))):
        planned = wf.plan(spec, (3, 2), "3|1", outside=outside)  # type: ignore[arg-type]
        check(planned, expected, table, ids)
    with pytest.raises(wf.EinsumError, match="'wrap' is no such thing"):
        wf.plan(spec, (3, 2), "3|1", outside="wrap")  # type: ignore[arg-type]
    with pytest.raises(wf.EinsumError, match="speaks of positions, and no operand of the spec has any"):
        wf.plan("i => 0", 3, outside="clip")
