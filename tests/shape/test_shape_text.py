"""Shapes as people write them: text, numbers and tuples, and what is said about anything else."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import example, given, settings, strategies as st

from weft.errors import EinsumError, ShapeError, Span, WeftError
from weft.shape import Dim, Shape, as_shape
from weft.shape.nodes import MAX_RANK
from weft.shape.text import as_dim


def dims(*sizes: int) -> tuple[Dim, ...]:
    return tuple(map(Dim, sizes))


@pytest.mark.parametrize(("given", "shape"), [
    ("5", Shape(output=dims(5))),
    ("3,4", Shape(output=dims(3, 4))),
    ("2->5", Shape(input=dims(2), output=dims(5))),
    ("3|5", Shape(batch=dims(3), output=dims(5))),
    ("3,4|2->5", Shape(dims(3, 4), dims(2), dims(5))),
    ("3|2->", Shape(dims(3), dims(2), dims(1))),
    ("3|", Shape(batch=dims(3), output=dims(1))),
    ("|->", Shape(output=dims(1))),
    ("", Shape(output=dims(1))),
    ("  ", Shape(output=dims(1))),
    ("3,", Shape(output=dims(3))),
    (" 3 , 4 | 2 -> 5 ", Shape(dims(3, 4), dims(2), dims(5))),
    ("2 3|4->5 6", Shape(dims(2, 3), dims(4), dims(5, 6))),
    ("(2,3)|(4)->(5,6)", Shape(dims(2, 3), dims(4), dims(5, 6))),
    (" ( 2  3, ) | () -> 5\t6", Shape(dims(2, 3), (), dims(5, 6))),
    ("rgb = 3 4, x1 = 5", Shape(output=(Dim(3, "rgb"), Dim(4), Dim(5, "x1")))),
    ("rgb=3", Shape(output=(Dim(3, "rgb"),))),
    ("b = 2 | rgb=3, 4->x_1=5", Shape((Dim(2, "b"),), (Dim(3, "rgb"), Dim(4)), (Dim(5, "x_1"),))),
    ("007", Shape(output=dims(7))),
    (5, Shape(output=dims(5))),
    ((3, 4), Shape(output=dims(3, 4))),
    ([3, 4], Shape(output=dims(3, 4))),
    ((), Shape(output=dims(1))),
    (Shape(dims(2), (), dims(3), (1, 0, 0)), Shape(dims(2), (), dims(3), (1, 0, 0))),
])  # fmt: skip
def test_shapes(given: object, shape: Shape) -> None:
    assert as_shape(given) == shape  # type: ignore[arg-type]


@pytest.mark.parametrize(("given", "what", "start", "end"), [
    (",", "'' is not a size", 0, 1),
    ("3,,4", "'' is not a size", 2, 3),
    (",3", "'' is not a size", 0, 1),
    ("3,x", "'x' is not a size", 2, 3),
    ("3,4|2->five", "'five' is not a size", 7, 11),
    ("3, rgb=|2", "'rgb=' is not a size", 2, 7),
    ("=3", "'=3' is not a size", 0, 2),
    ("-1", "'-1' is not a size", 0, 2),
    ("3 x", "'x' is not a size", 2, 3),
    ("3 ,, 4", "'' is not a size", 3, 4),
    ("(3", "'(3' is not a size", 0, 2),
    ("(3) 4", "'(3) 4' is not a size", 0, 5),
    ("3.0", "'3.0' is not a size", 0, 3),
    ("3;4", "'3;4' is not a size", 0, 3),
    ("٣", "'٣' is not a size", 0, 1),
    ("é=3", "'é=3' is not a size", 0, 3),
    ("9" * 19, f"'{'9' * 19}' is not a size", 0, 19),
    ("3|4|5", "a shape is written batch|input->output", 1, 2),
    ("3->4|5", "a shape is written batch|input->output", 2, 3),
    ("3>4", "a shape is written batch|input->output", 1, 2),
])  # fmt: skip
def test_malformed_text_is_pointed_at(given: str, what: str, start: int, end: int) -> None:
    with pytest.raises(EinsumError) as caught:
        as_shape(given)
    error = caught.value
    assert error.what == f"cannot read the shape: {what}"
    assert (error.text, error.spans) == (given, (Span(start, end),))
    assert error.origin is not None
    assert error.origin.file == __file__
    assert error.fix == 'write it like "3,4|2->5"'


def test_the_whole_text_of_an_error() -> None:
    with pytest.raises(EinsumError) as caught:
        as_shape("3,4|two->5")
    error = caught.value
    assert str(error).splitlines() == [
        f"test_shape_text.py:{error.origin.line}: cannot read the shape: 'two' is not a size",
        '    as_shape("3,4|two->5")',
        "    3,4|two->5",
        "        ^^^",
        '  fix: write it like "3,4|2->5"',
    ]


@pytest.mark.parametrize(("given", "start"), [("0", 0), ("3,0", 2), ("3|rgb=0->1", 2)])
def test_a_size_of_zero_in_text_is_pointed_at(given: str, start: int) -> None:
    with pytest.raises(ShapeError, match="an axis cannot have size 0") as caught:
        as_shape(given)
    assert caught.value.text == given
    assert [span.start for span in caught.value.spans] == [start]


@pytest.mark.parametrize("given", [0, -2, (0,), (3, -1), [2, 0]])
def test_sizes_below_one(given: object) -> None:
    with pytest.raises(ShapeError, match="an axis cannot have size") as caught:
        as_shape(given)  # type: ignore[arg-type]
    assert caught.value.fix == "sizes are whole numbers from 1 on"


@pytest.mark.parametrize(
    "given", [None, True, 3.0, (True,), (3.0,), (3, "4"), b"3", {3: 4}, {3}, object, [[3]], [None]]
)
def test_what_is_not_a_shape_at_all(given: object) -> None:
    with pytest.raises(ShapeError, match="is not a shape") as caught:
        as_shape(given)  # type: ignore[arg-type]
    assert caught.value.origin is not None
    assert caught.value.origin.file == __file__


@pytest.mark.parametrize("given", [(1,) * (MAX_RANK + 1), "1," * (MAX_RANK + 1), "1," * (MAX_RANK + 1) + "|"])
def test_too_many_axes(given: str | tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match=f"a row cannot have {MAX_RANK + 1} axes"):
        as_shape(given)
    assert len(as_shape((1,) * MAX_RANK).output) == MAX_RANK


def test_sizes_one_at_a_time() -> None:
    assert as_dim(3, "`i`") == Dim(3)
    assert as_dim(Dim(3, "rgb"), "`i`") == Dim(3, "rgb")
    for wrong in (True, 3.0, "3", None):
        with pytest.raises(ShapeError, match="the size of `i` must be a whole number"):
            as_dim(wrong, "`i`")  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match="an axis cannot have size 0"):
        as_dim(0, "`i`")


def test_a_shape_prints_as_it_is_written_and_knows_its_array() -> None:
    shape = as_shape("3,4|rgb=2->5,6")
    assert str(shape) == "3,4|rgb=2->5,6"
    assert shape.array_shape == (3, 4, 5, 6, 2)
    assert shape.count == 3 * 4 * 5 * 6 * 2


some_dim = st.builds(Dim, st.integers(1, 10**6), st.none() | st.from_regex(r"\A[A-Za-z][A-Za-z0-9_]{0,4}\Z"))
row = st.lists(some_dim, max_size=3).map(tuple)


@given(st.builds(Shape, row, row, row.filter(len)))
def test_printed_shapes_read_back(shape: Shape) -> None:
    assert as_shape(str(shape)) == shape


def check(text: str) -> None:
    """Text is a shape, or a WeftError whose carets stay inside it."""
    try:
        shape = as_shape(text)
    except WeftError as caught:
        error = caught
    else:
        assert shape.output
        assert all(dim.size >= 1 for kind in ("batch", "input", "output") for dim in shape.row(kind))
        assert as_shape(str(shape)) == shape
        return
    assert all(0 <= span.start < max(span.end, 1) <= max(len(text), 1) for span in error.spans)
    assert error.origin is not None
    assert error.origin.file == __file__
    assert str(error).endswith("fix: " + error.fix)


@settings(max_examples=400)
@given(
    st.lists(st.sampled_from(["3", "12", "0", "rgb", "=", ",", "|", "->", "-", ">", " ", "_", "\n", "(", ")"])).map(
        "".join
    )
)
def test_any_arrangement_of_pieces(text: str) -> None:
    check(text)


@settings(max_examples=200)
@given(st.text() | st.text(st.characters()))
@example("\ud800")
@example("1\u00a0,2")
@example("->" * 2000)
@example("3," * 2000)
@example("9" * 5000)
@example("\0")
def test_any_text(text: str) -> None:
    check(text)


@settings(max_examples=100)
@given(st.recursive(st.none() | st.booleans() | st.floats() | st.integers() | st.text(), st.lists, max_leaves=4))
def test_any_value(value: object) -> None:
    with contextlib.suppress(WeftError):
        assert isinstance(as_shape(value), Shape)  # type: ignore[arg-type]
