"""Text to nodes: every construct, the spans, and what is said about each mistake."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from unittest.mock import Mock

import pytest

from weft.einsum import (
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
    parse_spec,
)
from weft.errors import EinsumError, Span

EMPTY = Row()


def row(*items: Axis | RowVar) -> Row:
    """A Row from its items in the order written."""
    at = next((at for at, item in enumerate(items) if isinstance(item, RowVar)), None)
    axes = tuple(item for item in items if not isinstance(item, RowVar))
    if at is None:
        return Row((), None, axes)
    var = items[at]
    assert isinstance(var, RowVar)
    return Row(axes[:at], var, axes[at:])


def labels(names: str) -> Row:
    return row(*map(Label, names))


def shape(output: Row = EMPTY, input: Row = EMPTY, batch: Row = EMPTY) -> ShapeSpec:
    return ShapeSpec(batch, input, output)


def only_axis(text: str) -> Axis:
    """The one axis of the first operand of `text=>`."""
    (axis,) = parse_spec(text + "=>").operands[0].axes
    return axis


BATCH, INPUT, OUTPUT, V = row(RowVar("batch")), row(RowVar("input")), row(RowVar("output")), RowVar("v")
FULL = shape(OUTPUT, INPUT, BATCH)
ZERO = shape(row(Position(0)))

EXAMPLES = {
    "...|...->... => 0": ((FULL,), ZERO),
    "...|... => 0": ((shape(OUTPUT, batch=BATCH),), ZERO),
    "... => 0": ((shape(OUTPUT),), ZERO),
    "...|...->... => ...|...->...": ((FULL,), FULL),
    "...|...->... ; ...|...->... => ...|...->...": ((FULL, FULL), FULL),
    "...|...->... => ...->...": ((FULL,), shape(OUTPUT, INPUT)),
    "...->... => ...->...": ((shape(OUTPUT, INPUT),), shape(OUTPUT, INPUT)),
    "2...|...->... => ...|...->...": ((shape(OUTPUT, INPUT, row(Position(2), RowVar("batch"))),), FULL),
    "...|... => ...|...2": (
        (shape(OUTPUT, batch=BATCH),),
        shape(row(RowVar("output"), Position(2)), batch=BATCH),
    ),
    "ijk => kji": ((shape(labels("ijk")),), shape(labels("kji"))),
    "ijk => ki": ((shape(labels("ijk")),), shape(labels("ki"))),
    "..v..|ijk => ..v..kji": ((shape(labels("ijk"), batch=row(V)),), shape(row(V, *map(Label, "kji")))),
    "2..v..|... => ..v..": ((shape(OUTPUT, batch=row(Position(2), V)),), shape(row(V))),
}


@pytest.mark.parametrize("text", EXAMPLES)
def test_the_examples_of_the_notation(text: str) -> None:
    operands, result = EXAMPLES[text]
    assert parse_spec(text) == Spec(operands, result)
    assert parse_spec(text).text == text


Li, Lk, Lo = Label("i"), Label("k"), Label("o")

AXES = {
    "i": Li,
    "_": Hole(),
    "7": Position(7),
    "1*i": Li,
    "01*i+0": Li,
    "2*i": AffineAxis(2, Li, None, 0),
    "12*i": AffineAxis(12, Li, None, 0),
    "2*i+1": AffineAxis(2, Li, None, 1),
    "20*i+11": AffineAxis(20, Li, None, 11),
    "o<+k": AffineAxis(1, Lo, ConvKernel(Lk, 1, padded=False), 0),
    "o=+k": AffineAxis(1, Lo, ConvKernel(Lk, 1, padded=True), 0),
    "2*o<+3*k": AffineAxis(2, Lo, ConvKernel(Lk, 3, padded=False), 0),
    "2*o=+3*k+1": AffineAxis(2, Lo, ConvKernel(Lk, 3, padded=True), 1),
    "2 * o < + 3 * k": AffineAxis(2, Lo, ConvKernel(Lk, 3, padded=False), 0),
    " 2 * o = + 3 * k + 1 ": AffineAxis(2, Lo, ConvKernel(Lk, 3, padded=True), 1),
    " 2 * o =+ 3 * k + 1 ": AffineAxis(2, Lo, ConvKernel(Lk, 3, padded=True), 1),
    "i^k": ConcatAxis((Li, Lk)),
    "i&k": FlatAxis((Li, Lk)),
    "i & k & o": FlatAxis((Li, Lk, Lo)),
    "3^i^5": ConcatAxis((Skip(3), Li, Skip(5))),
    "12^i": ConcatAxis((Skip(12), Li)),
    "i^12": ConcatAxis((Li, Skip(12))),
    "i ^ 0 ^ k": ConcatAxis((Li, Skip(0), Lk)),
}


@pytest.mark.parametrize("text", AXES)
@pytest.mark.parametrize("comma", ["", ","])
def test_an_axis_reads_the_same_in_both_modes(text: str, comma: str) -> None:
    assert only_axis(text + comma) == AXES[text]


@pytest.mark.parametrize(
    ("text", "axes"),
    [
        ("12", (Position(1), Position(2))),
        ("i12k", (Li, Position(1), Position(2), Lk)),
        ("_1_k", (Hole(), Position(1), Hole(), Lk)),
        ("i 12*o", (Li, AffineAxis(12, Lo, None, 0))),
        ("1 2*o", (Position(1), AffineAxis(2, Lo, None, 0))),
        ("2*i+1 2", (AffineAxis(2, Li, None, 1), Position(2))),
        ("o<+k1", (AffineAxis(1, Lo, ConvKernel(Lk, 1, padded=False), 0), Position(1))),
        ("12i^k", (Position(1), Position(2), ConcatAxis((Li, Lk)))),
        ("i^12k", (ConcatAxis((Li, Skip(12))), Lk)),
        ("i^1k^2", (ConcatAxis((Li, Skip(1))), ConcatAxis((Lk, Skip(2))))),
    ],
)
def test_single_characters_beside_runs_of_digits(text: str, axes: tuple[Axis, ...]) -> None:
    assert parse_spec(text + "=>").operands[0].output == Row(trail=axes)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ho,", row(Label("ho"))),
        ("ho, w_2", row(Label("ho"), Label("w_2"))),
        ("a,12,_,", row(Label("a"), Position(12), Hole())),
        ("2*ho<+3*kh+1,", row(AffineAxis(2, Label("ho"), ConvKernel(Label("kh"), 3, padded=False), 1))),
        ("left^right^10, x", row(ConcatAxis((Label("left"), Label("right"), Skip(10))), Label("x"))),
        ("...,", OUTPUT),
        ("x,...", row(Label("x"), RowVar("output"))),
        ("x...,", row(Label("x"), RowVar("output"))),
        ("...,x", row(RowVar("output"), Label("x"))),
        ("x, ..rest.., y, z,", row(Label("x"), RowVar("rest"), Label("y"), Label("z"))),
        ("x, y..rest..z", row(Label("x"), Label("y"), RowVar("rest"), Label("z"))),
    ],
)
def test_names_between_commas(text: str, expected: Row) -> None:
    assert parse_spec(text + "=>").operands[0].output == expected


def test_one_comma_chooses_names_everywhere() -> None:
    spec = parse_spec("in->out;o,=>out")
    assert spec.operands[0] == shape(row(Label("out")), row(Label("in")))
    assert spec.result == shape(row(Label("out")))


@pytest.mark.parametrize("row_text", ["..vec..", ".. vec ..", "..\tvec.."])
def test_a_row_variable_has_a_long_name_in_both_modes(row_text: str) -> None:
    assert parse_spec(f"i{row_text}k=>").operands[0].output == row(Li, RowVar("vec"), Lk)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("b|i->o", shape(labels("o"), labels("i"), labels("b"))),
        ("b|->o", shape(labels("o"), batch=labels("b"))),
        ("b|o", shape(labels("o"), batch=labels("b"))),
        ("|i->", shape(input=labels("i"))),
        ("|->", shape()),
        ("", shape()),
    ],
)
def test_rows_may_be_left_out_or_empty(text: str, expected: ShapeSpec) -> None:
    assert parse_spec(f"{text}=>{text}") == Spec((expected,), expected)


@pytest.mark.parametrize(
    ("bracketed", "plain"),
    [
        ("(i, j) => (j, i)", "i, j => j, i"),
        ("(ij)=>(ji)", "ij=>ji"),
        ("(b,)|(i)->(o) => (b,)|(o)", "b,|i->o => b,|o"),
        ("( ..., x ) | () -> (..v..) ; y => (x)", "..., x|->..v..;y=>x"),
    ],
)
def test_brackets_enclose_a_row(bracketed: str, plain: str) -> None:
    assert parse_spec(bracketed) == parse_spec(plain)


def test_an_axis_may_be_called_like_what_no_name_was_written_for() -> None:
    assert parse_spec("batch, ...|output=>...|output,").operands[0] == shape(
        row(Label("output")), batch=row(Label("batch"), RowVar("batch"))
    )


def test_operands_may_be_empty_and_many() -> None:
    assert parse_spec(";i=>i").operands == (shape(), shape(labels("i")))
    assert len(parse_spec("a;b;c;d=>").operands) == 4
    assert parse_spec("=>") == Spec((shape(),), shape())


def test_whitespace_means_nothing() -> None:
    assert parse_spec(" i j\t| k ->\n_ ; => .. v .. ") == parse_spec("ij|k->_;=>..v..")


def test_the_same_text_gives_the_same_object() -> None:
    assert parse_spec("ij;jk=>ik") is parse_spec("ij;jk" + "=>ik")


def test_a_kind_of_str_is_a_str() -> None:
    class Loud(str):
        __hash__ = None  # type: ignore[assignment]

    assert parse_spec(Loud("ij=>ji")) == parse_spec("ij=>ji")


def spanned(value: object) -> Iterator[tuple[object, Span]]:
    """Every node below `value` that has a span, outermost first."""
    if isinstance(value, tuple):
        for item in value:
            yield from spanned(item)
    elif is_dataclass(value):
        if isinstance(span := getattr(value, "span", None), Span):
            yield value, span
        for field in fields(value):
            yield from spanned(getattr(value, field.name))


def test_spans_index_the_original_text() -> None:
    text = " b ..v..| 2*o <+ 3*k+1 -> _ 1* i;=>3^a ^b...7 "
    spec = parse_spec(text)
    assert [(type(node).__name__, text[span.start : span.end]) for node, span in spanned(spec)] == [
        ("ShapeSpec", "b ..v..| 2*o <+ 3*k+1 -> _ 1* i"),
        ("Label", "b"),
        ("RowVar", "..v.."),
        ("AffineAxis", "2*o <+ 3*k+1"),
        ("Label", "o"),
        ("Label", "k"),
        ("Hole", "_"),
        ("Label", "1* i"),
        ("ShapeSpec", ""),
        ("ShapeSpec", "3^a ^b...7"),
        ("ConcatAxis", "3^a ^b"),
        ("Skip", "3"),
        ("Label", "a"),
        ("Label", "b"),
        ("RowVar", "..."),
        ("Position", "7"),
    ]


def test_spans_with_names() -> None:
    text = "height, |in,->10, ...=>"
    spec = parse_spec(text)
    found = [text[span.start : span.end] for _, span in spanned(spec)]
    assert found == ["height, |in,->10, ...", "height", "in", "10", "...", ""]


def test_an_empty_shape_is_at_its_place() -> None:
    spec = parse_spec("; i ; =>")
    spans = [shape.span for shape in (*spec.operands, spec.result)]
    assert spans == [Span(0, 0), Span(2, 3), Span(5, 5), Span(8, 8)]
    assert parse_spec("|->=>").operands[0].span == Span(0, 3)


def test_the_grammar_waits_for_the_first_text() -> None:
    code = "import weft; from weft.notation import parser; print(bool(parser.cache_info().currsize))"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
    assert done.stdout.strip() == "False"


# Mistakes.


def said(text: object) -> EinsumError:
    with pytest.raises(EinsumError) as caught:
        parse_spec(text)  # type: ignore[arg-type]
    return caught.value


NO_ARROW = "there is no `=>`, so nothing says what comes out"
NUMPY = "the result comes after `=>`; `->` stands between the input and the output row of one shape"
SHAPE = "a shape is `batch|input->output`, the operands are separated by `;`, and `=>` comes before the result"
OFFSET = "an offset picks one of `stride` interleaved positions, so it must be smaller than the stride"
PART = "concatenate labels (`a^b`) or sizes to skip (`3^a`)"
LARGE = "a number is below 2**31"
LETTERS = "remove it; a label is made of the letters a-z and A-Z, a number of the digits 0-9"
GROUP = "brackets do not make one axis of several"
SPLIT = (
    "write `h&d`: it splits an operand's axis and joins in the result; "
    "brackets around a whole row have commas in them: `(h, d)`"
)
ROW = "write them around all axes of the row or leave them out; `a&b` is one axis of `a` and `b`"
FLAT = "its parts are labels: `a&b`"
RENAME = "give the row variable another name, for example `..ds..`"
COMMA = "two axes need a comma between them"

NO_POSITIONS = "remove `@v`, or write it at an operand"
MISTAKES = [
    # the whole
    ("ij;jk", "     ^", NO_ARROW, "end with `=>` and the axes of the result, for example `ij;jk=>...`"),
    (" b|i->2 ", "       ^", NO_ARROW, "end with `=>` and the axes of the result, for example `b|i->2=>...`"),
    ("ij,jk->ik", "     ^^", NUMPY, "write `ij;jk=>ik`"),
    ("...i, ...j -> ij", "           ^^", NUMPY, "write `...i; ...j => ij`"),
    (",ij->ij", "   ^^", NUMPY, "write `;ij=>ij`"),
    ("i=>j=>k", "    ^^", "a specification has one `=>`", "separate the operands with `;`, as in `a;b=>c`"),
    ("i=>j;k", "    ^", "a specification has one result", "write all operands before `=>`, as in `a;b=>c`"),
    # shapes and rows
    ("a|b|c=>", "   ^", "a shape has at most one `|`", SHAPE),
    ("a->b->c=>", "    ^^", "a shape has at most one `->`", SHAPE),
    ("x;a->b|c=>", "      ^", "the batch row and its `|` come before `->`", SHAPE),
    ("...i..v..=>", "    ^^^^^", "a row has at most one row variable", "remove this `..v..`"),
    ("a, ..., b, ...=>", "           ^^^", "a row has at most one row variable", "remove this `...`"),
    ("i..v=>", "    ^^", "`=>` cannot stand here", "write `..` here"),
    ("i..j=>", "    ^^", "`=>` cannot stand here", "write `..` here"),
    ("i.j=>", " ^", "a row variable is `...` or `..name..`", "write `...`"),
    ("....=>", "^^^^", "a row variable is `...` or `..name..`", "write `...`"),
    # commas and names
    ("a,,b=>", "  ^", "there is nothing between two commas", "remove one, or write `_` for an unnamed axis"),
    ("a,b|,c=>", "    ^", "a row cannot begin with a comma", "remove it, or write `_` before it"),
    ("a,b=> ,c", "      ^", "a row cannot begin with a comma", "remove it, or write `_` before it"),
    ("out dim, x=>", "^^^^^^^", COMMA, "write `out, dim`, or take the space out of the name"),
    ("x, 2d=>", "   ^^", "a name begins with a letter", "rename it, for example `d`"),
    ("x, _y=>", "   ^^", "a name begins with a letter", "rename it, for example `y`"),
    # brackets
    ("b (h d)=>bhd", "  ^^^^^", GROUP, SPLIT),
    ("(h d) => h d", "^^^^^", GROUP, SPLIT),
    ("b, (k h d), c=>b, c", "   ^^^^^^^", GROUP, SPLIT.replace("h&d", "k&h&d").replace("h, d", "k, h, d")),
    ("i(j)=>", " ^^^", "brackets enclose a whole row", ROW),
    ("(i)j=>", "^^^", "brackets enclose a whole row", ROW),
    ("a, (b, c)=>", "   ^^^^^^", "brackets enclose a whole row", ROW),
    ("(i=>i", "^^^^^", "brackets enclose a whole row", ROW),
    # names of two kinds
    ("d..d..=>d", "^^^^^^", "`d` names both an axis and a row variable", RENAME),
    (
        "a, ..dim..=>a, dim",
        "   ^^^^^^^     ^^^",
        "`dim` names both an axis and a row variable",
        RENAME.replace("ds", "dims"),
    ),
    ("..d..|2*d<+k=>", "^^^^^   ^", "`d` names both an axis and a row variable", RENAME),
    # affine axes
    ("o< + k = + j=>", "       ^^^^^", "an axis has at most one kernel", "remove `= + j`"),
    ("o+k=>o", "^^^", "`o+k` does not say what happens at the edge", "say `o<+k` (stay inside) or `o=+k` (pad)"),
    (
        "2*o+3*k=>o",
        "^^^^^^^",
        "`2*o+3*k` does not say what happens at the edge",
        "say `2*o<+3*k` (stay inside) or `2*o=+3*k` (pad)",
    ),
    ("i+1=>i", "  ^", OFFSET, "use a skipped part to shift: `1^i`"),
    ("o<+k+1=>i", "     ^", OFFSET, "remove the offset"),
    ("3*i+12=>i", "    ^^", OFFSET + ", 3", "use an offset below 3"),
    ("ji*2=>i", " ^^^", "a coefficient comes before its label", "write `2*i`"),
    ("width*2, i=>", "^^^^^^^", "a coefficient comes before its label", "write `2*width`"),
    ("i*j=>", " ^", "a coefficient is a number", "write a number before `*`: `2*j`"),
    ("0*i=>", "^", "a stride is at least 1", "write a larger number, or drop the `0*`"),
    ("o=+0*k=>", "   ^", "a dilation is at least 1", "write a larger number, or drop the `0*`"),
    ("o<+k=+j=>", "    ^^^", "an axis has at most one kernel", "remove `=+j`"),
    ("o<k=>", " ^", "`<` alone means nothing", "write `<+` before a kernel that stays inside"),
    ("i=j", " ^", "`=` alone means nothing", "write `=>` before the result, `=+` before a padded kernel"),
    ("i-o=>", " ^", "`-` alone means nothing", "write `->` between the input and the output row"),
    ("2*=>", "  ^^", "`=>` cannot stand here", "write a label here"),
    # concatenations
    ("a^_=>", "  ^", "`_` cannot be a part of a concatenation", PART),
    ("...^a=>", "^^^", "`...` cannot be a part of a concatenation", PART),
    ("b^2*a=>", "  ^^^", "`2*a` cannot be a part of a concatenation", PART),
    ("o<+3*k^a=>", "^^^^^^", "`o<+3*k` cannot be a part of a concatenation", PART),
    ("a^o+k=>", "  ^^^", "`o+k` cannot be a part of a concatenation", PART),
    ("3^4=>", "^^^", "a concatenation of skipped parts only has nothing to read", "name a part: `1^a`"),
    ("a^=>", "  ^^", "`=>` cannot stand here", "write a label or a number here"),
    ("=>a^", "    ^", "the specification ends too early", "write a label or a number here"),
    # flattened axes
    ("a&2=>", "  ^", "`2` cannot be a part of a flattened axis", FLAT),
    ("2&a=>", "^", "`2` cannot be a part of a flattened axis", FLAT),
    ("2*a&b=>", "^^^", "`2*a` cannot be a part of a flattened axis", FLAT),
    ("a&...=>", "  ^^^", "`...` cannot be a part of a flattened axis", FLAT),
    ("a&b^c=>", " ^^^", "an axis is flattened or concatenated, not both", "do it in two einsums"),
    ("row, a&b&a=>", "     ^   ^", "`a` stands twice in one axis", "name each part apart"),
    ("a&=>", "  ^^", "`=>` cannot stand here", "write a label here"),
    # positions
    (
        "v; b@w=>b",
        "     ^",
        "`@w` names no axis",
        "name an axis of another operand or of the result: `w, d; ...|@w => ...|d`",
    ),
    ("v;b@v=>b@v", "         ^", "the result holds values, and no positions", NO_POSITIONS),
    (
        "v;v@v=>v",
        "  ^ ^",
        "the positions along `v` have the axis `v`, which is looked up itself",
        "look them up first, in an operation of their own",
    ),
    (
        "v;b@v;c@v=>bc",
        "    ^   ^",
        "`v` has positions in two operands",
        "look up one after the other, in operations of their own",
    ),
    (
        "a^b; c@a => b",
        "^^^",
        "positions do not go together with a concatenation",
        "concatenate, or look up, in an operation of its own",
    ),
    ("v;b@=>b", "    ^^", "`=>` cannot stand here", "write a label here"),
    ("v;b@2=>b", "    ^", "`2` cannot stand here", "write a label here"),
    # numbers and characters
    ("a^2147483648=>", "  ^^^^^^^^^^", LARGE, "write a smaller number"),
    ("a, 2147483648=>", "   ^^^^^^^^^^", LARGE, "write a smaller number"),
    ("[i]=>", "^", "`[` has no meaning in a specification", LETTERS),
    ("i²=>", " ^", "`²` has no meaning in a specification", LETTERS),
    ("٣=>", "^", "`٣` has no meaning in a specification", LETTERS),
]


@pytest.mark.parametrize(("text", "marks", "what", "fix"), MISTAKES)
def test_a_mistake_is_shown_and_answered(text: str, marks: str, what: str, fix: str) -> None:
    first, code, *rest = str(said(text)).splitlines()
    assert first.startswith("test_einsum_parse.py:")
    assert first.endswith(": " + what)
    assert code.strip() == "parse_spec(text)  # type: ignore[arg-type]"
    assert rest == ["    " + text, "    " + marks, "  fix: " + fix]


@pytest.mark.parametrize("text", ["", "  ", "\n"])
def test_an_empty_specification(text: str) -> None:
    assert said(text).what == "the specification is empty"
    assert said(text).fix == "write operands and a result, for example `ij=>ji`"


@pytest.mark.parametrize("thing", [None, 3, b"i=>i", ["i=>i"], {}, pytest.param(Mock(spec=str), id="mock")])
def test_what_is_not_text(thing: object) -> None:
    error = said(thing)
    assert error.what == f"a specification is text, not {type(thing).__name__}"
    assert error.fix == 'pass a string such as "ij;jk=>ik"'
    assert error.origin is not None


def test_carets_stay_below_odd_characters() -> None:
    error = said("i\n\u2028j\0k")
    assert error.what == r"'\x00' has no meaning in a specification"
    assert str(error).splitlines()[2:4] == ["    i  j?k", "        ^"]


def test_the_origin_is_that_of_the_call_and_not_remembered() -> None:
    elsewhere = said("i*2=>").origin
    with pytest.raises(EinsumError) as caught:
        parse_spec("i*2=>")
    here = caught.value.origin
    assert here is not None
    assert here.code == 'parse_spec("i*2=>")'
    assert here != elsewhere


@pytest.mark.parametrize(
    "text",
    [
        "9" * 50_000 + "*i=>",
        "i" * 20_000,
        "a^" * 20_000 + "=>",
        "|" * 20_000,
        "->" * 20_000,
        "." * 20_000,
        "a " * 9_999 + ",",
    ],
)
def test_very_long_mistakes(text: str) -> None:
    assert said(text).spans
