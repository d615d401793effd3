"""Wrong use of `wf.plan` and `Plan.evaluate`: always a WeftError that says what, where and how to mend it."""

from __future__ import annotations

import inspect
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import weft as wf
from project.brute import execute
from weft.einsum import parse_spec


def here() -> int:
    """The line of the caller."""
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno


def message(error: wf.WeftError) -> str:
    """The text without its first lines' place and code, which depend on this file."""
    first, *lines = str(error).splitlines()
    assert error.origin is not None
    assert first == f"{error.origin}: {error.what}"
    assert lines[0] == "    " + error.origin.code
    return "\n".join([error.what, *lines[1:]])


def refused(spec: Any, *shapes: Any, **given_: Any) -> wf.WeftError:
    with pytest.raises(wf.WeftError) as caught:
        wf.plan(spec, *shapes, **given_)
    error = caught.value
    assert error.origin is not None
    assert error.origin.file == __file__
    assert isinstance(error, ValueError)
    return error


def test_the_origin_is_the_users_line() -> None:
    with pytest.raises(wf.ShapeError) as caught:
        wf.plan("ij;jk=>ik", (3, 4), (5, 6))
    assert caught.value.origin is not None
    assert caught.value.origin.file == __file__
    assert caught.value.origin.line == here() - 3
    assert caught.value.origin.code == 'wf.plan("ij;jk=>ik", (3, 4), (5, 6))'


def test_the_origin_of_evaluate_is_the_users_line() -> None:
    planned = wf.plan("i=>i", 3)
    for wrong in ((), (np.ones(4),), (np.ones(3), np.ones(3)), (["a", "b", "c"],)):
        with pytest.raises(wf.ShapeError) as caught:
            planned.evaluate(*wrong)
        assert caught.value.origin is not None
        assert (caught.value.origin.file, caught.value.origin.line) == (__file__, here() - 2)


# Kinds.


@pytest.mark.parametrize(
    "spec",
    ["", " ", "ij", "ij->ji", "i=>j=>k", "i=>j;k", "i|j|k=>", "i->j->k=>", "i......=>i", "i^_=>i", "i^2*j=>i", "i+j=>i",
     "i*2=>i", "i*j=>i", "i,,j=>i", ",i=>i", "2i,=>i", "i j,=>i", "i..=>i", "i=i", "i<j=>i", "i-j=>i", "0*i=>i",
     "2*i+2=>i", "3^4=>i", "99999999999^i=>i", "é=>i", "(i=>i", "(i j)=>i", "i..i..=>i", "i<+j<+k=>i",
     "i=>i<+", "\0=>i"],
)  # fmt: skip
def test_malformed_specs_point_at_the_place(spec: str) -> None:
    error = refused(spec, 3)
    assert isinstance(error, wf.EinsumError)
    assert len(error.text) == len(spec)
    assert error.spans
    assert error.fix


@pytest.mark.parametrize("spec", [None, 3, b"i=>i", ["i=>i"], parse_spec("i=>i")])
def test_specs_that_are_no_text(spec: object) -> None:
    with pytest.raises(wf.ArgumentError, match="`plan` takes text for `spec`, not "):
        wf.plan(spec, 3)  # type: ignore[arg-type]


@pytest.mark.parametrize(("spec", "shapes"), [("i=>i", ()), ("i=>i", (3, 3)), ("i;j=>i", (3,)), ("=>", ())])
def test_the_wrong_number_of_operands(spec: str, shapes: tuple[int, ...]) -> None:
    error = refused(spec, *shapes)
    assert isinstance(error, wf.EinsumError)
    assert f"was given {len(shapes)} shapes" in error.what
    assert error.text == spec
    assert error.spans


@pytest.mark.parametrize("shape", [0, -1, (3, 0), (0,), "0", "3,0", "3|0->2", [2, -2], (10**18, 0), "rgb=0"])
def test_sizes_below_one(shape: object) -> None:
    error = refused("...=>...", shape)
    assert isinstance(error, wf.ShapeError)
    assert "an axis cannot have size" in error.what
    if isinstance(shape, str):
        assert error.text == shape
        assert error.spans


@pytest.mark.parametrize(
    "shape", ["x", "3;4", "3,,4", ",3", "3->4->5", "3|4|5", "3->4|5", "-1", "1.5", "=3", "3=3", "٣", "9" * 19]
)
def test_shapes_that_cannot_be_read(shape: str) -> None:
    error = refused("...=>...", shape)
    assert isinstance(error, wf.EinsumError)
    assert error.what.startswith("cannot read the shape: ")
    assert error.text == shape
    assert error.spans


@pytest.mark.parametrize("shape", [None, True, 3.0, (3.0,), (True,), {3}, {"a": 3}, object(), ((3,),), ("3",), b"3"])
def test_shapes_that_are_none(shape: object) -> None:
    error = refused("...=>...", shape)
    assert isinstance(error, wf.ShapeError)
    assert error.what.endswith("is not a shape")
    assert isinstance(refused("i=>i", 3, result=shape if shape is not None else (None,)), wf.ShapeError)


def test_too_many_axes() -> None:
    assert refused("...=>...", (1,) * 65).what == "a row cannot have 65 axes"


@pytest.mark.parametrize(
    ("spec", "shapes", "label"),
    [
        ("ii=>i", ((3, 4),), "i"),
        ("i;i=>i", (3, 4), "i"),
        ("ij;jk=>ik", ((3, 4), (1, 5)), "j"),
        ("i|i=>i", ("2|3",), "i"),
    ],
)
def test_a_label_with_two_sizes(spec: str, shapes: tuple[object, ...], label: str) -> None:
    error = refused(spec, *shapes)
    assert isinstance(error, wf.ShapeError)
    assert error.what.startswith(f"`{label}` cannot be both ")
    assert {spec[span.start : span.end] for span in error.spans} == {label}
    assert len(error.spans) == 2


@pytest.mark.parametrize("size", [0, -3, 2.5, "3", None, True, np.float64(3)])
def test_wrong_sizes_of_labels(size: object) -> None:
    assert isinstance(refused("i=>ij", 3, j=size), wf.ShapeError)


@pytest.mark.parametrize(("spec", "label"), [("i=>i", "j"), ("=>", "j"), ("_=>0", "_"), ("...=>...", "output")])
def test_sizes_of_unknown_labels(spec: str, label: str) -> None:
    error = refused(spec, 3, **{label: 3})
    assert isinstance(error, wf.EinsumError)
    assert error.what == f"the spec has no label `{label}`"
    assert error.text == spec


@pytest.mark.parametrize(
    ("spec", "shapes", "label"),
    [("i=>j", (3,), "j"), ("i=>ij", (3,), "j"), ("o<+k=>o", (9,), "o"), ("a^b=>a", (5,), "a"), ("a=>a^b", (5,), "b")],
)
def test_sizes_that_nothing_gives(spec: str, shapes: tuple[int, ...], label: str) -> None:
    error = refused(spec, *shapes)
    assert isinstance(error, wf.UnderdeterminedShapeError)
    assert error.what == f"nothing says how big `{label}` is"
    assert [spec[span.start : span.end] for span in error.spans] == [label]


@pytest.mark.parametrize(
    ("spec", "shapes", "sizes"),
    [
        ("ij=>i", (3,), {}),
        ("...;...=>...", ((3, 4), 3), {}),
        ("i5=>i", ((3, 4),), {}),
        ("2*o=>o", (7,), {}),
        ("2*o<+k;k=>o", (8, 3), {}),
        ("o<+k;k=>o", (3, 5), {}),
        ("a^b=>a", (5,), {"a": 6}),
        ("3^a=>a", (2,), {}),
        ("a;b=>a^b", (2, 3), {"result": 6}),
        ("i=>i", (3,), {"i": 4}),
        ("i=>i", (3,), {"result": 4}),
        ("i=>i3", (3,), {"result": "3,2"}),
        ("i;i=>i", ("rgb=3", "hue=3"), {}),
    ],
)
def test_impossible_sizes(spec: str, shapes: tuple[object, ...], sizes: dict[str, Any]) -> None:
    error = refused(spec, *shapes, **sizes)
    assert isinstance(error, wf.ShapeError)
    assert error.text == spec
    assert error.fix


# Exact text.


@pytest.mark.parametrize(
    ("spec", "shapes", "sizes", "text"),
    [
        (
            "ij->ji", ("3,4",), {},
            "the result comes after `=>`; `->` stands between the input and the output row of one shape\n"
            "    ij->ji\n"
            "      ^^\n"
            "  fix: write `ij=>ji`",
        ),
        (
            "ij;jk=>ik", ("3,4",), {},
            "the spec has 2 operands and was given 1 shapes\n"
            "    ij;jk=>ik\n"
            "    ^^ ^^\n"
            "  fix: give one operand for each part between `;`",
        ),
        (
            "i=>i", (3,), {"z": 3},
            "the spec has no label `z`\n"
            "    i=>i\n"
            "  fix: its labels are i",
        ),
        (
            "i=>i", ("3,x",), {},
            "cannot read the shape: 'x' is not a size\n"
            "    3,x\n"
            "      ^\n"
            '  fix: write it like "3,4|2->5"',
        ),
        (
            "i=>i", ("3,0",), {},
            "an axis cannot have size 0\n"
            "    3,0\n"
            "      ^\n"
            "  fix: sizes are whole numbers from 1 on",
        ),
        (
            "i=>i", (None,), {},
            "None is not a shape\n"
            '  fix: write a string such as "3,4|2->5" (batch|input->output) or a tuple of output sizes such as (3, 4)',
        ),
        (
            "i=>j", (3,), {},
            "nothing says how big `j` is\n"
            "    i=>j\n"
            "       ^\n"
            "  A is 3\n"
            "  solved so far: i=3\n"
            "  fix: give its size, j=…, or the result's shape",
        ),
        (
            "i=>i", (3,), {"i": 2.5},
            "the size of `i` must be a whole number, not 2.5",
        ),
    ],
)  # fmt: skip
def test_text(spec: str, shapes: tuple[object, ...], sizes: dict[str, Any], text: str) -> None:
    assert message(refused(spec, *shapes, **sizes)) == text


@pytest.mark.parametrize(
    ("spec", "shapes", "lines"),
    [
        (
            "ij;jk=>ik", ((3, 4), (5, 6)),
            ["`j` cannot be both 4 and 5", "    ij;jk=>ik", "     ^ ^", "  A is 3,4", "  B is 5,6",
             "  solved so far: i=3 k=6", "  fix: make both 4 or both 5; only an unlabelled 1 broadcasts"],
        ),
        (
            "i5=>i", ("3,4",),
            ["position 5 is outside the axis, which has size 4", "    i5=>i", "     ^", "  A is 3,4",
             "  fix: name a position from 0 to 3"],
        ),
        (
            "2*o=>o", (7,),
            ["size 7 is not a multiple of the stride 2", "    2*o=>o", "    ^^^", "  A is 7",
             "  fix: make the axis 6 or 8 long"],
        ),
        (
            "o<+k;k=>o", (3, 5),
            ["a window of 5 does not fit an axis of 3", "    o<+k;k=>o", "    ^^^^", "  A is 3", "  B is 5",
             "  solved so far: k=5", "  fix: make the axis at least 5 long, or pad: `o=+k`"],
        ),
        (
            "3^a=>a", (2,),
            ["the parts of the axis make 3, but the axis has size 2", "    3^a=>a", "    ^^^", "  A is 2",
             "  fix: the parts of a concatenation must add up to the whole axis"],
        ),
        (
            "i;i=>i", ("rgb=3", "hue=3"),
            ["`i` cannot be labelled both 'rgb' and 'hue'", "    i;i=>i", "    ^ ^", "  A is rgb=3", "  B is hue=3",
             "  solved so far: i=rgb=3", "  fix: use one label for both, or leave one side unlabelled"],
        ),
        (
            "row col => col row", ((3, 4),),
            ["the output row of `A` needs at least 6 axes but can have at most 2 axes", "    row col => col row",
             "  A is 3,4", "  fix: without a comma each letter is an axis: write `row, col => col, row`"],
        ),
        (
            "hidden=>0", (3,),
            ["the output row of `A` needs at least 6 axes but can have at most 1 axis", "    hidden=>0", "  A is 3",
             "  fix: without a comma each letter is an axis: if `hidden` is the name of one, write `hidden,`"],
        ),
    ],
)  # fmt: skip
def test_text_apart_from_the_lines_of_code(spec: str, shapes: tuple[object, ...], lines: list[str]) -> None:
    error = refused(spec, *shapes)
    assert [line for line in message(error).splitlines() if "comes from" not in line] == lines


def test_both_sides_name_the_line_they_come_from() -> None:
    error = refused("ij;jk=>ik", (3, 4), (5, 6))
    assert error.origin is not None
    sides = [note for note in error.notes if "comes from" in note]
    assert sides == [f"{size} comes from {error.origin}: {error.origin.code}" for size in (4, 5)]


def test_an_ambiguous_concatenation_points_at_the_part() -> None:
    with pytest.raises(wf.ProjectionError) as caught:
        wf.plan("a;a^b=>a^b", 2, 5)
    assert caught.value.spans


def test_the_suggested_padding_keeps_the_stride() -> None:
    with pytest.raises(wf.ShapeError) as caught:
        wf.plan("2*o<+3*k;k=>o", 10, 3)
    assert "`2*o=+3*k`" in caught.value.fix


# Evaluating.


def failing(planned: wf.Plan, *arrays: Any, **how: Any) -> wf.WeftError:
    with pytest.raises(wf.WeftError) as caught:
        planned.evaluate(*arrays, **how)
    assert caught.value.origin is not None
    assert caught.value.origin.file == __file__
    return caught.value


MATMUL = wf.plan("ij;jk=>ik", (3, 4), (4, 5))
A, B = np.ones((3, 4)), np.ones((4, 5))


def test_the_wrong_number_of_arrays() -> None:
    assert message(failing(MATMUL, A)) == "the plan takes 2 arrays and was given 1\n    ij;jk=>ik"
    assert isinstance(failing(MATMUL), wf.ShapeError)
    assert isinstance(failing(MATMUL, A, B, B), wf.ShapeError)


@pytest.mark.parametrize("wrong", [B, A.ravel(), A[None], A[:, :, None], np.float64(3), [], np.ones((3, 5))])
def test_arrays_of_another_shape(wrong: object) -> None:
    assert isinstance(failing(MATMUL, wrong, B), wf.ShapeError)


def test_the_memory_order_is_told() -> None:
    error = failing(wf.plan("i->o=>o", "3->4"), np.ones((3, 4)))
    assert message(error) == (
        "array A has shape (3, 4), but 3->4 lies in memory as (4, 3)\n"
        "  fix: axes lie batch first, then output, then input"
    )


@pytest.mark.parametrize(
    "wrong", [np.full((3, 4), "x"), np.full((3, 4), None), np.zeros((3, 4), "M8[s]"), np.zeros((3, 4), [("f", int)])]
)
def test_arrays_that_hold_no_numbers(wrong: np.ndarray) -> None:
    error = failing(MATMUL, wrong, B)
    assert isinstance(error, wf.ShapeError)
    assert error.what.startswith("array A holds ")


@pytest.mark.parametrize("name", [3, None])
def test_operations_are_named_by_text(name: object) -> None:
    for option in ("accum", "op"):
        assert failing(MATMUL, A, B, **{option: name}).what == f"`evaluate` takes text for `{option}`, not {name!r}"


@pytest.mark.parametrize("name", ["foo", "", " + ", "exp", "where"])
def test_unknown_operations(name: object) -> None:
    assert failing(MATMUL, A, B, accum=name).what == f"there is no accumulation {name!r}"
    error = failing(MATMUL, A, B, op=name)
    assert error.what == f"there is no binary operation {name!r}"
    assert "add" in error.fix


@pytest.mark.parametrize("name", ["-", "/", "pow", "<"])
def test_operations_that_cannot_accumulate(name: str) -> None:
    error = failing(MATMUL, A, B, accum=name)
    assert error.what == f"{name!r} cannot accumulate: it has no neutral element"
    assert "max" in error.fix


@pytest.mark.parametrize(
    ("a", "b", "op"),
    [
        ([[1, 2], [3]], [1, 2], "*"),
        ([True, False], [True, True], "-"),
        ([1j, 2], [1, 2], "%"),
        ([1, 2], [1, 2], []),
    ],
)
def test_what_numpy_refuses_is_a_weft_error(a: list[object], b: list[object], op: str) -> None:
    with pytest.raises(wf.WeftError):
        wf.plan("i;i=>i", 2, 2).evaluate(a, b, op=op)


# Anything at all.

AXES = ["i", "j", "k", "a^b", "_", "0", "1", "2*i", "i<+k", "2*i=+j", "2*i+1", "...", "..v..", "|", "->"]
SIGNS = [";", "=>", ",", "^", "+", "*", "<", "=", "-", " ", ".", "é", "b", "3^"]
SHAPES = ["1", "3", "2,3", "3,3", "2|3", "2|3->2", "3->3", "", "4,2,3", "0", "x", "rgb=3"]


def attempt(text: str, shapes: list[str], sizes: dict[str, int]) -> None:
    """Whatever comes of it: a plan that prints and runs, or a WeftError that prints."""
    planned = planned_or_error(text, shapes, sizes)
    if isinstance(planned, wf.WeftError):
        assert planned.what in str(planned)
        assert planned.origin is not None
        assert all(0 <= span.start <= span.end <= len(planned.text) for span in planned.spans)
        return
    printed = str(planned)
    if prod(loop.size for factor in planned.loops for loop in factor) <= 20_000:
        arrays = [np.arange(shape.count).reshape(shape.array_shape) for shape in planned.shapes[:-1]]
        found = planned.evaluate(*arrays)
        assert found.shape == planned.shapes[-1].array_shape
        if len(arrays) <= 7:
            np.testing.assert_array_equal(execute(printed, planned, arrays), found)
        if planned.injective and planned.surjective:
            assert planned.reduced == () or all(loop.size == 1 for loop in planned.reduced)


def planned_or_error(text: str, shapes: list[str], sizes: dict[str, int]) -> wf.Plan | wf.WeftError:
    try:
        return wf.plan(text, *shapes, **sizes)
    except wf.WeftError as error:
        return error


sizes = st.dictionaries(st.sampled_from("ijkabz"), st.integers(-1, 4), max_size=2)


@settings(max_examples=400)
@given(
    st.lists(st.lists(st.sampled_from([*AXES, ","]), max_size=4).map("".join), min_size=1, max_size=3),
    st.lists(st.sampled_from(AXES), max_size=3).map("".join),
    st.lists(st.sampled_from(SHAPES), min_size=3, max_size=3),
    sizes,
)
def test_specs_from_the_pieces_of_the_notation(
    operands: list[str], result: str, shapes: list[str], given_sizes: dict[str, int]
) -> None:
    attempt(";".join(operands) + "=>" + result, shapes[: len(operands)], given_sizes)


@settings(max_examples=300)
@given(
    st.lists(st.sampled_from(AXES + SIGNS), max_size=12).map("".join),
    st.lists(st.sampled_from(SHAPES), max_size=3),
    sizes,
)
def test_specs_from_any_signs(text: str, shapes: list[str], given_sizes: dict[str, int]) -> None:
    attempt(text, shapes, given_sizes)


@settings(max_examples=100)
@given(st.text("0123456789,|->= ab", max_size=12))
def test_any_shape_text(shape: str) -> None:
    attempt("...|...->...=>0", [shape], {})


@pytest.mark.parametrize(
    ("spec", "shapes", "word", "fix"),
    [
        ("t, c; h, d, c => th, d", ((5, 6), (2, 3, 6)), "th", "write `t, h`, or give the size: th=…"),
        ("abc => c, a, b", ((2, 3, 4),), "abc", "write `a, b, c`, or give the size: a=…, b=…, c=…"),
        ("abc => c&a, b", ((2, 3, 4),), "abc", "write `a, b, c`, or give the size: a=…, b=…, c=…"),
    ],
)
def test_letters_run_together_in_a_spec_with_commas(
    spec: str, shapes: tuple[tuple[int, ...], ...], word: str, fix: str
) -> None:
    with pytest.raises(wf.EinsumError) as caught:
        wf.plan(spec, *shapes)
    assert caught.value.what == f"`{word}` is one axis: in a spec with commas, names have several letters"
    assert caught.value.fix == fix
    assert [spec[span.start : span.end] for span in caught.value.spans] == [word]


def test_names_made_of_letters_that_are_axes_too() -> None:
    assert str(wf.plan("t, h; th => t, h, th", (2, 3), (4,)).shapes[-1]) == "2,3,4"
    assert str(wf.plan("t, h => t, th", (2, 3), th=4).shapes[-1]) == "2,4"
