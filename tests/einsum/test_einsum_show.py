"""Nodes to text that parses back."""

from __future__ import annotations

import string
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from weft.einsum import (
    KINDS,
    AffineAxis,
    Axis,
    ConcatAxis,
    ConvKernel,
    FlatAxis,
    Hole,
    Label,
    Position,
    Row,
    RowVar,
    ShapeSpec,
    Skip,
    Spec,
    labels_in,
    parse_spec,
    show_axis,
    show_spec,
)
from weft.einsum.check_positions import check_positions
from weft.notation import Mistake


@pytest.mark.parametrize(
    ("axis", "text"),
    [
        (Label("row"), "row"),
        (Hole(), "_"),
        (Position(12), "12"),
        (AffineAxis(2, Label("i"), None, 1), "2*i+1"),
        (AffineAxis(1, Label("o"), ConvKernel(Label("k"), 1, padded=True), 0), "o=+k"),
        (AffineAxis(2, Label("o"), ConvKernel(Label("k"), 3, padded=False), 0), "2*o<+3*k"),
        (AffineAxis(2, Label("o"), ConvKernel(Label("k"), 3, padded=False), 1), "2*o<+3*k+1"),
        (ConcatAxis((Label("a"), Skip(3), Label("b"))), "a^3^b"),
        (FlatAxis((Label("a"), Label("b"), Label("c"))), "a&b&c"),
    ],
)
def test_an_axis(axis: Axis, text: str) -> None:
    assert show_axis(axis) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("i j ; j k => i k", "ij;jk=>ik"),
        ("..batch..|..input..->..output.. => ..output..|", "...|...->...=>..output..|"),
        ("|->i=>|", "i=>"),
        ("b|->=>|i->", "b|=>i->"),
        ("a,b;c=>", "ab;c=>"),
        ("12 3^a=>0", "1, 2, 3^a => 0"),
        ("10,=>", "10, =>"),
        ("1,2,=>", "12=>"),
        ("2*i+1 2=>", "2*i+1, 2 =>"),
        ("a^1 2*b;=>", "a^1, 2*b; =>"),
        ("1...2*b=>", "1...2*b=>"),
        ("out,=>out", "out, => out"),
        ("o;...|=>out,", "o,; ...| => out"),
        (";...|=>out,", "; ...,| => out"),
        ("=>left^right,", "=> left^right,"),
        ("a & b 1 => ab", "a&b1=>ab"),
        ("ab, c => c&ab", "ab, c => c&ab"),
        ("v, d; ... | @v => ...|d", "vd;...|@v=>...|d"),
        ("b,t,@v; v => b,t", "bt@v;v=>bt"),
        ("row; b, t @ row => b, t", "row; b, t @row => b, t"),
        ("@word; word, => 0", "@word; word, => 0"),
    ],
)
def test_a_spec_in_its_shortest_mode(text: str, shown: str) -> None:
    assert show_spec(parse_spec(text)) == shown
    assert parse_spec(shown) == parse_spec(text)


LETTERS = st.sampled_from(string.ascii_letters)
LONG = st.from_regex(r"[A-Za-z][A-Za-z0-9_]{0,5}", fullmatch=True)
NUMBERS = st.integers(0, 9) | st.integers(0, 2**31 - 1)
FACTORS = st.integers(1, 3) | st.integers(1, 2**31 - 1)


def affines(label: st.SearchStrategy[Label]) -> st.SearchStrategy[AffineAxis]:
    kernel = st.none() | st.builds(ConvKernel, label, FACTORS, st.booleans())
    parts = FACTORS.flatmap(lambda stride: st.tuples(st.just(stride), label, kernel, st.integers(0, stride - 1)))
    return parts.map(lambda parts: AffineAxis(*parts)).filter(
        lambda axis: (axis.stride, axis.kernel, axis.offset) != (1, None, 0)
    )


def concats(label: st.SearchStrategy[Label]) -> st.SearchStrategy[ConcatAxis]:
    part = label | st.builds(Skip, NUMBERS)
    parts = st.tuples(st.lists(part, max_size=2), label, st.lists(part, max_size=2))
    several = parts.map(lambda p: (*p[0], p[1], *p[2])).filter(lambda parts: len(parts) > 1)
    return several.map(ConcatAxis)


def flats(label: st.SearchStrategy[Label]) -> st.SearchStrategy[FlatAxis]:
    parts = st.lists(label, min_size=2, max_size=3, unique_by=lambda one: one.name)
    return parts.map(lambda labels: FlatAxis(tuple(labels)))


def specs(name: st.SearchStrategy[str], place: st.SearchStrategy[int]) -> st.SearchStrategy[Spec]:
    label = st.builds(Label, name)
    axis = label | st.just(Hole()) | st.builds(Position, place) | affines(label) | concats(label) | flats(label)
    axes = st.lists(axis, max_size=3).map(tuple)
    var = st.builds(RowVar, st.sampled_from(["batch", "input", "output", "v", "long_1"]))
    row = st.builds(lambda trail: Row((), None, trail), axes) | st.builds(Row, axes, var, axes)
    shape = st.builds(ShapeSpec, row, row, row)
    plain = st.builds(Spec, st.lists(shape, min_size=1, max_size=3).map(tuple), shape).filter(told_apart)
    return st.builds(with_positions, plain, st.integers(0, 2), st.integers(0, 9))


def with_positions(spec: Spec, operand: int, axis: int) -> Spec:
    """A spec in which an operand holds positions along some axis, if there can be such a one."""
    labels = [label for shape in (*spec.operands, spec.result) for one in shape.axes for label in labels_in(one)]
    if operand >= len(spec.operands) or axis >= len(labels):
        return spec
    operands = list(spec.operands)
    operands[operand] = replace(operands[operand], along=labels[axis])
    made = replace(spec, operands=tuple(operands))
    try:
        check_positions(made)
    except Mistake:
        return spec
    return made


def told_apart(spec: Spec) -> bool:
    """Is no axis called like a row variable?"""
    shapes = (*spec.operands, spec.result)
    axes = {label.name for shape in shapes for axis in shape.axes for label in labels_in(axis)}
    return not axes & {row.var.name for shape in shapes for row in map(shape.row, KINDS) if row.var}


@given(specs(LETTERS, st.integers(0, 9)) | specs(LONG, NUMBERS))
def test_what_is_shown_parses_back(spec: Spec) -> None:
    assert parse_spec(show_spec(spec)) == spec


@given(specs(LETTERS, st.integers(0, 9)) | specs(LONG, NUMBERS))
def test_showing_is_stable(spec: Spec) -> None:
    assert show_spec(parse_spec(show_spec(spec))) == show_spec(spec)
