"""Projections of operations that are no einsums: pointwise, compose, transpose, slice; rows that grow in the middle."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from shape.pool import first_at
from weft.affine import Affine
from weft.einsum import parse_spec
from weft.errors import ProjectionError
from weft.ops import OPS
from weft.project import project
from weft.project.coverage import is_injective, is_surjective
from weft.project.evaluate import evaluate
from weft.project.nodes import Projection
from weft.project.solve_projection import derive
from weft.shape.infer import infer
from weft.shape.logic import Compose, Einsum, Literal, Logic, Pointwise, Transpose
from weft.shape.nodes import Dim, Shape
from weft.shape.text import as_shape

ADD, MUL = OPS["add"], OPS["mul"]


def numbers(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-9, 10, shape)


def applied(logic: Logic, *operands: str | Shape) -> Projection:
    """The projection of the logic applied to operands of these shapes."""
    return project(infer(logic, [infer(Literal(as_shape(shape))).result for shape in operands]))


def operands(projection: Projection) -> list[np.ndarray]:
    return [numbers(shape.array_shape, at) for at, shape in enumerate(projection.shapes[1:])]


# Pointwise.


@pytest.mark.parametrize(
    ("first", "second", "result"),
    [
        ("2,3", "2,3", "2,3"),
        ("2,3", "3", "2,3"),
        ("2,3", "1,3", "2,3"),
        ("2,1", "1,3", "2,3"),
        ("1", "2,3", "2,3"),
        ("4,2,3", "2,1", "4,2,3"),
        ("1,1", "1", "1,1"),
    ],
)
def test_pointwise_broadcasts_like_numpy(first: str, second: str, result: str) -> None:
    projection = applied(Pointwise(2), first, second)
    a, b = operands(projection)
    assert str(projection.shapes[0]) == result
    np.testing.assert_array_equal(evaluate(projection, [a, b], ADD, MUL), a * b)
    assert (is_injective(projection), is_surjective(projection)) == (True, True)
    assert projection.reduced == ()


def test_pointwise_rows_broadcast_one_by_one() -> None:
    projection = applied(Pointwise(2), "2|3->4", "3->5,1")
    assert str(projection.shapes[0]) == "2|3->5,4"
    a, b = operands(projection)  # (2, 4, 3) and (5, 1, 3)
    np.testing.assert_array_equal(evaluate(projection, [a, b], ADD, MUL), a[:, None] * b)


def test_a_broadcast_axis_is_pinned_and_not_joined() -> None:
    projection = derive(Pointwise(2), tuple(map(as_shape, ("3,4", "3,4", "1,4"))))
    rows, columns = projection.maps[0]
    assert isinstance(rows, Affine)
    assert rows.only
    assert projection.maps[1:] == ((rows, columns), (Affine(), columns))


def test_pointwise_of_one_operand() -> None:
    projection = derive(Pointwise(1), (as_shape("2,3"), as_shape("3")))
    a = numbers((3,))
    np.testing.assert_array_equal(evaluate(projection, [a], ADD, MUL), np.broadcast_to(a, (2, 3)))


def test_pointwise_of_three_operands() -> None:
    projection = applied(Pointwise(3), "2,3", "3", "2,1")
    a, b, c = operands(projection)
    np.testing.assert_array_equal(evaluate(projection, [a, b, c], ADD, MUL), a * b * c)


@given(st.lists(st.tuples(st.integers(1, 3), st.booleans(), st.booleans()), min_size=1, max_size=4), st.integers(0, 3))
def test_pointwise_agrees_with_numpy(axes: list[tuple[int, bool, bool]], dropped: int) -> None:
    first = [1 if one else size for size, one, _ in axes]
    second = [1 if one else size for size, _, one in axes][min(dropped, len(axes) - 1) :]
    projection = applied(Pointwise(2), ",".join(map(str, first)), ",".join(map(str, second)))
    a, b = numbers(tuple(first)), numbers(tuple(second), 1)
    found = evaluate(projection, [a, b], ADD, MUL)
    assert found.shape == np.broadcast_shapes(a.shape, b.shape)
    np.testing.assert_array_equal(found, a * b)


# Compose.


def test_compose_is_the_matrix_product() -> None:
    projection = applied(Compose(), "3->2", "4->3")
    assert str(projection.shapes[0]) == "4->2"
    a, b = operands(projection)  # (2, 3), (3, 4)
    np.testing.assert_array_equal(evaluate(projection, [a, b], ADD, MUL), a @ b)
    assert [loop.size for loop in projection.reduced] == [3]


def test_compose_with_a_vector() -> None:
    projection = applied(Compose(), "3->2", "3")
    a, b = operands(projection)
    assert str(projection.shapes[0]) == "2"
    np.testing.assert_array_equal(evaluate(projection, [a, b], ADD, MUL), a @ b)


@pytest.mark.parametrize(("first", "second"), [("5|3->2", "5|4->3"), ("3->2", "5|4->3"), ("5|3->2", "4->3")])
def test_compose_broadcasts_over_batches(first: str, second: str) -> None:
    projection = applied(Compose(), first, second)
    assert str(projection.shapes[0]) == "5|4->2"
    a, b = operands(projection)
    np.testing.assert_array_equal(evaluate(projection, [a, b], ADD, MUL), a @ b)


def test_compose_contracts_several_axes() -> None:
    projection = applied(Compose(), "3,4->2", "5->3,4")
    a, b = operands(projection)  # (2, 3, 4), (3, 4, 5)
    np.testing.assert_array_equal(evaluate(projection, [a, b], ADD, MUL), np.einsum("oij,ijk->ok", a, b))


def test_compose_broadcasts_outputs_into_inputs() -> None:
    wide = applied(Compose(), "3,4->2", "4")
    a, b = operands(wide)  # (2, 3, 4), (4,)
    np.testing.assert_array_equal(evaluate(wide, [a, b], ADD, MUL), np.einsum("oij,j->o", a, b))
    ones = applied(Compose(), "3->2", "4->1")
    a, b = operands(ones)  # (2, 3), (1, 4)
    np.testing.assert_array_equal(evaluate(ones, [a, b], ADD, MUL), np.einsum("oi,zk->ok", a, b))


def test_compose_in_another_semiring() -> None:
    projection = applied(Compose(), "3->2", "4->3")
    a, b = operands(projection)
    np.testing.assert_array_equal(evaluate(projection, [a, b], OPS["max"], ADD), (a[:, :, None] + b).max(axis=1))


# Transpose.


def test_transpose_swaps_inputs_and_outputs() -> None:
    projection = applied(Transpose(), "5|3->2")
    assert str(projection.shapes[0]) == "5|2->3"
    (a,) = operands(projection)  # (5, 2, 3)
    np.testing.assert_array_equal(evaluate(projection, [a], ADD, MUL), a.transpose(0, 2, 1))
    assert (is_injective(projection), is_surjective(projection)) == (True, True)


def test_transpose_keeps_the_order_within_a_row() -> None:
    projection = applied(Transpose(), "3,4->5,2")
    assert str(projection.shapes[0]) == "5,2->3,4"
    (a,) = operands(projection)  # (5, 2, 3, 4)
    np.testing.assert_array_equal(evaluate(projection, [a], ADD, MUL), a.transpose(2, 3, 0, 1))


# Slice.


def test_slice_at_an_integer() -> None:
    projection = applied(first_at("3"), "4,2|3->5")
    assert str(projection.shapes[0]) == "2|3->5"
    assert projection.maps[1][0] == Affine((), 3)
    (a,) = operands(projection)
    np.testing.assert_array_equal(evaluate(projection, [a], ADD, MUL), a[3])
    assert (is_injective(projection), is_surjective(projection)) == (True, True)


@pytest.mark.parametrize("at", [0, 1, 3])
def test_slice_at_a_position_given_later(at: int) -> None:
    projection = applied(first_at("step", 4), "4,2|3->5")
    assert projection.maps[1][0] == Affine.of("step")
    assert [loop.size for loop in projection.loops] == [2, 5, 3]
    (a,) = operands(projection)
    np.testing.assert_array_equal(evaluate(projection, [a], ADD, MUL, {"step": at}), a[at])
    assert (is_injective(projection), is_surjective(projection)) == (True, True)


def test_slice_of_the_only_batch_axis() -> None:
    projection = applied(first_at("1"), "2|3")
    assert str(projection.shapes[0]) == "3"
    (a,) = operands(projection)
    np.testing.assert_array_equal(evaluate(projection, [a], ADD, MUL), a[1])


def test_gradient_of_a_slice_writes_where_it_read() -> None:
    projection = applied(first_at("step", 4), "4|3")
    view = projection.view(1, 0)
    assert is_injective(view)
    assert not is_surjective(view)
    g = numbers((3,))
    expected = np.zeros((4, 3), int)
    expected[2] = g
    np.testing.assert_array_equal(evaluate(view, [g], ADD, MUL, {"step": 2}), expected)


# A row with axes on both sides of its mark grows in the middle.


def marked(output: tuple[int, ...], mark: int) -> Shape:
    return Shape(output=tuple(map(Dim, output)), marks=(0, 0, mark))


def test_broadcasting_grows_the_row_at_its_mark() -> None:
    shapes = (as_shape("2,5,3"), marked((2, 3), 1), as_shape("2,5,3"))
    projection = derive(Pointwise(2), shapes)
    a, b = numbers((2, 3)), numbers((2, 5, 3), 1)
    np.testing.assert_array_equal(evaluate(projection, [a, b], ADD, MUL), a[:, None, :] * b)


def test_a_mark_at_the_right_end_aligns_on_the_left() -> None:
    projection = derive(Pointwise(1), (as_shape("2,3,4"), marked((2, 3), 2)))
    a = numbers((2, 3))
    expected = np.broadcast_to(a[:, :, None], (2, 3, 4))
    np.testing.assert_array_equal(evaluate(projection, [a], ADD, MUL), expected)


def test_the_mark_comes_from_the_lead_axes_of_an_einsum() -> None:
    inner = infer(Einsum(parse_spec("ij=>i...j")), [infer(Literal(as_shape("2,3"))).result]).result
    projection = project(infer(Pointwise(2), [inner, infer(Literal(as_shape("2,5,3"))).result]))
    a, b = numbers((2, 3)), numbers((2, 5, 3), 1)
    np.testing.assert_array_equal(evaluate(projection, [a, b], ADD, MUL), a[:, None, :] * b)


def test_sizes_that_cannot_share_a_loop_are_refused() -> None:
    with pytest.raises(ProjectionError, match="axes of sizes 2 and 3 cannot share a loop"):
        derive(Pointwise(1), (as_shape("3"), as_shape("2")))
