"""Text to Spec.

The grammar (grammar.lark) is the language and nothing more. What a grammar cannot say (offsets below the stride,
numbers that fit) is checked while the tree becomes nodes; what the parser stumbles over is looked up in `MISTAKES`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Literal, TypeAlias

import lark

from weft.einsum.nodes import (
    Affine,
    Axis,
    Concat,
    Hole,
    Kernel,
    Kind,
    Label,
    Position,
    Row,
    RowVar,
    ShapeSpec,
    Skip,
    Spec,
)
from weft.errors import EinsumError, Span, user_origin
from weft.grammar import parser

Tree: TypeAlias = lark.Tree[lark.Token]

Mode: TypeAlias = Literal["letters", "names"]
TOO_LARGE = 2**31


def parse_spec(text: str) -> Spec:
    """The Spec that `text` writes; the same object each time. EinsumError when it writes none."""
    if not issubclass(type(text), str):  # isinstance would believe an object that only claims to be a str
        raise EinsumError(
            f"a specification is text, not {type(text).__name__}",
            origin=user_origin(),
            fix='pass a string such as "ij;jk=>ik"',
        )
    text = str.__str__(text)  # whatever a subclass says about hashing
    try:
        return _parse(text)
    except _Wrong as wrong:
        raise EinsumError(
            wrong.what, origin=user_origin(), text=_one_line(text), spans=wrong.spans, fix=wrong.fix
        ) from None


@lru_cache(maxsize=4096)
def _parse(text: str) -> Spec:
    if not text.strip():
        raise _Wrong("the specification is empty", Span(0, 0), "write operands and a result, for example `ij=>ji`")
    if group := GROUP.search(text):
        raise _grouped(group)
    mode: Mode = "names" if "," in text else "letters"
    try:
        tree = parser("weft.einsum", mode).parse(text)
    except lark.UnexpectedInput as error:
        raise _diagnose(text, mode, error) from None
    _check_names(tree)
    return _spec(tree, text)


# Words side by side, one of them long: names of several letters, without the comma that says so.
NAMES_APART = re.compile(r"(?<![\w.])(?=[A-Za-z\s]*?[A-Za-z]{2})[A-Za-z]+(?:\s+[A-Za-z]+)+(?![\w.])")


def text_with_commas(text: str) -> str:
    """`row, col => col, row` for `row col => col row`; empty for a text that does not look like a lack of commas."""
    found = "" if "," in text else NAMES_APART.sub(lambda words: ", ".join(words[0].split()), text)
    return found if found != text else ""


def long_word(text: str) -> str:
    """A word in a text without commas that looks like the name of one axis; empty if there is none."""
    found = None if "," in text else re.search(r"(?<![\w.])[A-Za-z]{4,}(?![\w.])", text)
    return found[0] if found else ""


class _Wrong(Exception):
    """The inside of an EinsumError, before anyone looked whose line of code it answers."""

    def __init__(self, what: str, span: Span, fix: str, *more: Span) -> None:
        super().__init__(what)
        self.what, self.spans, self.fix = what, (span, *more), fix


def _check_names(tree: Tree) -> None:
    """Refuse a name that is both an axis and a row variable. `...` has a name of its own that nobody wrote."""
    labels = sorted(tree.find_data("label"), key=lambda label: -label.meta.start_pos)
    axes = {_word(label): _span(label) for label in labels}  # of each, the first
    for rowvar in tree.find_data("rowvar"):
        name = _word(rowvar) if rowvar.children else ""
        if name in axes:
            fix = f"give the row variable another name, for example `..{name}s..`"
            raise _Wrong(f"`{name}` names both an axis and a row variable", axes[name], fix, _span(rowvar))


def _one_line(text: str) -> str:
    """`text` with a space or a question mark for each character that would move the carets below it."""
    return "".join(c if c.isprintable() else " " if c.isspace() else "?" for c in text)


# Tree to nodes. Every child of a tree is a tree named by its rule, except the one token of a leaf, the two signs of
# a kernel, and the separators between shapes.


def _spec(tree: Tree, text: str) -> Spec:
    shapes: list[ShapeSpec] = []
    place = 0
    for child in tree.children:
        if isinstance(child, str):
            place = child.end_pos or 0
        else:
            shapes.append(_shape(child, place))
    return Spec(tuple(shapes[:-1]), shapes[-1], text)


def _shape(tree: Tree, place: int) -> ShapeSpec:
    """A shape; `place` is where it is when its text is empty."""
    rows = _by_rule(tree)
    span = Span(place, place) if tree.meta.empty else _span(tree)
    return ShapeSpec(_row("batch", rows), _row("input", rows), _row("output", rows), span)


def _row(kind: Kind, rows: Mapping[str, Tree]) -> Row:
    trees = _subtrees(rows[kind]) if kind in rows else []
    var = next((at for at, tree in enumerate(trees) if tree.data == "rowvar"), None)
    if var is None:
        return Row(trail=tuple(map(_axis, trees)))
    return Row(tuple(map(_axis, trees[:var])), _rowvar(trees[var], kind), tuple(map(_axis, trees[var + 1 :])))


def _rowvar(tree: Tree, kind: Kind) -> RowVar:
    return RowVar(_word(tree) if tree.children else kind, _span(tree))


def _axis(tree: Tree) -> Axis:
    return AXES[tree.data](tree)


def _position(tree: Tree) -> Position:
    return Position(_number(tree), _span(tree))


def _label(tree: Tree) -> Label:
    return Label(_word(tree), _span(tree))


def _affine(tree: Tree) -> Label | Affine:
    """`2*o<+3*k+1`; a label that nothing is done to is just that label."""
    parts = _by_rule(tree)
    stride, over = _factor(parts, "stride"), _label(parts["label"])
    kernel = _kernel(parts["kernel"]) if "kernel" in parts else None
    offset = _number(parts["offset"]) if "offset" in parts else 0
    if offset >= stride:
        raise _large_offset(_span(parts["offset"]), stride, f"{offset}^{over.name}" if kernel is None else "")
    if (stride, kernel, offset) == (1, None, 0):
        return Label(over.name, _span(tree))
    return Affine(stride, over, kernel, offset, _span(tree))


def _large_offset(span: Span, stride: int, shifted: str) -> _Wrong:
    what = "an offset picks one of `stride` interleaved positions, so it must be smaller than the stride"
    if stride > 1:
        return _Wrong(f"{what}, {stride}", span, f"use an offset below {stride}")
    return _Wrong(what, span, f"use a skipped part to shift: `{shifted}`" if shifted else "remove the offset")


def _kernel(tree: Tree) -> Kernel:
    parts = _by_rule(tree)
    return Kernel(_label(parts["label"]), _factor(parts, "dilation"), padded=_word(tree).startswith("="))


def _factor(parts: Mapping[str, Tree], rule: str) -> int:
    if rule not in parts:
        return 1
    factor = _number(parts[rule])
    if factor < 1:
        raise _Wrong(f"a {rule} is at least 1", _span(parts[rule]), "write a larger number, or drop the `0*`")
    return factor


def _concat(tree: Tree) -> Concat:
    parts = tuple(_label(part) if part.data == "label" else _skip(part) for part in _subtrees(tree))
    if not any(isinstance(part, Label) for part in parts):
        raise _Wrong("a concatenation of skipped parts only has nothing to read", _span(tree), "name a part: `1^a`")
    return Concat(parts, _span(tree))


def _skip(tree: Tree) -> Skip:
    return Skip(_number(tree), _span(tree))


AXES: Mapping[str, Callable[[Tree], Axis]] = {
    "hole": lambda tree: Hole(_span(tree)),
    "position": _position,
    "affine": _affine,
    "concat": _concat,
}


def _number(tree: Tree) -> int:
    digits = _word(tree).lstrip("0") or "0"
    if len(digits) > len(str(TOO_LARGE)) or int(digits) >= TOO_LARGE:  # int() itself refuses thousands of digits
        raise _Wrong("a number is below 2**31", _span(tree), "write a smaller number")
    return int(digits)


def _word(tree: Tree) -> str:
    return str(tree.children[0])


def _span(tree: Tree) -> Span:
    return Span(tree.meta.start_pos, tree.meta.end_pos)


def _subtrees(tree: Tree) -> list[Tree]:
    return [child for child in tree.children if not isinstance(child, str)]


def _by_rule(tree: Tree) -> dict[str, Tree]:
    return {child.data: child for child in _subtrees(tree)}


# What the parser stumbled over, said in words.


@dataclass(frozen=True, slots=True)
class Mistake:
    """A known way to go wrong. `pattern` covers the place where the parser stopped; its group `at` gets the carets.

    In a pattern a space stands for any whitespace or none, and the words of `WORDS` for what they say.
    """

    pattern: str
    what: str
    fix: str


SHAPE_FIX = "a shape is `batch|input->output`, the operands are separated by `;`, and `=>` comes before the result"
ROW_WHAT = "brackets enclose a whole row"
ROW_FIX = (
    "write them around all axes of the row or leave them out; `n*a<+b` is one axis of `a` and `b`, with n places of `b`"
)
PART_FIX = "concatenate labels (`a^b`) or sizes to skip (`3^a`)"

MISTAKES: tuple[Mistake, ...] = (
    Mistake(r"=>.*(?P<at>=>)", "a specification has one `=>`", "separate the operands with `;`, as in `a;b=>c`"),
    Mistake(r"=>.*(?P<at>;)", "a specification has one result", "write all operands before `=>`, as in `a;b=>c`"),
    Mistake(r"\|SHAPE(?P<at>\|)", "a shape has at most one `|`", SHAPE_FIX),
    Mistake(r"->SHAPE(?P<at>\|)", "the batch row and its `|` come before `->`", SHAPE_FIX),
    Mistake(r"->SHAPE(?P<at>->)", "a shape has at most one `->`", SHAPE_FIX),
    Mistake(r"VARROW(?P<at>VAR)", "a row has at most one row variable", "remove this `{at}`"),
    Mistake(r"(?P<at>NOPART) \^", "`{at}` cannot be a part of a concatenation", PART_FIX),
    Mistake(r"\^ (?P<at>NOPART)", "`{at}` cannot be a part of a concatenation", PART_FIX),
    Mistake(r"[<=] \+ TERM (?P<at>[<=]? \+ TERM)", "an axis has at most one kernel", "remove `{at}`"),
    Mistake(
        r"(?P<at>(?P<a>TERM) \+ (?P<b>TERM))",
        "`{a}+{b}` does not say what happens at the edge",
        "say `{a}<+{b}` (stay inside) or `{a}=+{b}` (pad)",
    ),
    Mistake(r"(?P<at>(?P<a>NAME) \* (?P<n>INT))", "a coefficient comes before its label", "write `{n}*{a}`"),
    Mistake(r"NAME (?P<at>\*) (?P<b>NAME)", "a coefficient is a number", "write a number before `*`: `2*{b}`"),
    Mistake(r"(?P<at>\([^()]*\)?|\))", ROW_WHAT, ROW_FIX),
    Mistake(r"(?P<at>\([^()]*\)) [\w.]", ROW_WHAT, ROW_FIX),
    Mistake(r", (?P<at>,)", "there is nothing between two commas", "remove one, or write `_` for an unnamed axis"),
    Mistake(r"(?:^|[|;>]) (?P<at>,)", "a row cannot begin with a comma", "remove it, or write `_` before it"),
    Mistake(
        r"(?<!\w)(?P<at>[0-9_]+(?P<rest>NAME))",
        "a name begins with a letter",
        "rename it, for example `{rest}`",
    ),
    Mistake(
        r"(?P<at>(?P<a>\w+)\s+(?P<b>\w+))",
        "two axes need a comma between them",
        "write `{a}, {b}`, or take the space out of the name",
    ),
    Mistake(r"(?P<at>\.+)", "a row variable is `...` or `..name..`", "write `...`"),
    Mistake(
        r"(?P<at>=)(?!>| \+)", "`=` alone means nothing", "write `=>` before the result, `=+` before a padded kernel"
    ),
    Mistake(r"(?P<at><)(?! \+)", "`<` alone means nothing", "write `<+` before a kernel that stays inside"),
    Mistake(r"(?P<at>-)(?!>)", "`-` alone means nothing", "write `->` between the input and the output row"),
)

# Later words may be used by earlier ones.
WORDS: tuple[tuple[str, str], ...] = (
    ("NOPART", r"_|VAR|INT \* NAME(?: [<=]? \+ (?:TERM|INT))*|NAME(?: [<=]? \+ (?:TERM|INT))+"),
    ("VAR", r"(?:\.\.\.|\.\. [A-Za-z]\w* \.\.)"),
    ("SHAPE", r"(?:(?!;|=>).)*"),
    ("ROW", r"(?:(?![|;]|->|=>).)*"),
    ("TERM", r"(?:INT \* )?NAME"),
    ("INT", r"[0-9]+"),
    (" ", r"\s*"),
)
NAMES: Mapping[Mode, str] = {"letters": "[A-Za-z]", "names": "[A-Za-z][A-Za-z0-9_]*"}

# How far around the stop a mistake is looked for; keeps the patterns cheap on absurdly long texts.
REACH = 200

# Axes set side by side in brackets, as einops writes one axis made of several.
GROUP = re.compile(r"\(\s*(?:[A-Za-z]\w*\s+)*(?P<outer>[A-Za-z]\w*)\s+(?P<inner>[A-Za-z]\w*)\s*\)", re.ASCII)
NUMPY = re.compile(r"(?P<operands>[A-Za-z.,;\s]*)(?P<arrow>->)(?P<result>[A-Za-z.\s]*)")
SIGN = re.compile(r"=>|->|<\+|=\+|\.\.\.?|[0-9]+|.", re.DOTALL)
TERMINALS: Mapping[str, str] = {
    "LETTER": "a label",
    "NAME": "a label",
    "DIGIT": "a number",
    "INT": "a number",
    "COEFFICIENT": "a number",
    "SIZE": "a number",
    "INSIDE": "`<+`",
    "PADDED": "`=+`",
}


def _diagnose(text: str, mode: Mode, error: lark.UnexpectedInput) -> _Wrong:
    if numpy := NUMPY.fullmatch(text):
        return _from_numpy(numpy)
    if not isinstance(error, lark.UnexpectedToken):
        return _known(text, mode, error.pos_in_stream or 0) or _unreadable(text, error.pos_in_stream or 0)
    if error.token.type == "$END":
        return _ended(text, mode, error.accepts)
    return _known(text, mode, error.token.start_pos or 0) or _misplaced(text, mode, error)


def _grouped(found: re.Match[str]) -> _Wrong:
    outer, inner = found["outer"], found["inner"]
    fix = (
        f"write `4*{outer}<+{inner}` where `{inner}` has 4 places: it splits an operand's axis and joins in the result"
        f"; brackets around a whole row have commas in them: `({outer}, {inner})`"
    )
    return _Wrong("brackets do not make one axis of several", Span(*found.span()), fix)


def _from_numpy(found: re.Match[str]) -> _Wrong:
    weft = found["operands"].replace(",", ";") + "=>" + found["result"]
    what = "the result comes after `=>`; `->` stands between the input and the output row of one shape"
    return _Wrong(what, Span(*found.span("arrow")), f"write `{_one_line(weft).strip()}`")


def _known(text: str, mode: Mode, stop: int) -> _Wrong | None:
    for mistake, pattern in _patterns(mode):
        for found in pattern.finditer(text, max(stop - REACH, 0), stop + REACH):
            if found.start() <= stop < found.end():
                words = {name: _one_line(word) for name, word in found.groupdict().items()}
                return _Wrong(mistake.what.format(**words), Span(*found.span("at")), mistake.fix.format(**words))
    return None


@cache
def _patterns(mode: Mode) -> tuple[tuple[Mistake, re.Pattern[str]], ...]:
    return tuple((mistake, re.compile(_spelled_out(mistake.pattern, mode), re.DOTALL)) for mistake in MISTAKES)


def _spelled_out(pattern: str, mode: Mode) -> str:
    for word, meaning in WORDS:
        pattern = pattern.replace(word, meaning)
    return pattern.replace("NAME", NAMES[mode])


def _ended(text: str, mode: Mode, accepts: set[str]) -> _Wrong:
    end = len(text.rstrip())
    span = Span(end, end)
    if "ARROW" in accepts:
        fix = f"end with `=>` and the axes of the result, for example `{_one_line(text).strip()}=>...`"
        return _Wrong("there is no `=>`, so nothing says what comes out", span, fix)
    return _Wrong("the specification ends too early", span, _go_on(mode, accepts))


def _unreadable(text: str, at: int) -> _Wrong:
    shown = f"`{text[at]}`" if text[at].isprintable() else ascii(text[at])
    fix = "remove it; a label is made of the letters a-z and A-Z, a number of the digits 0-9"
    return _Wrong(f"{shown} has no meaning in a specification", Span(at, at + 1), fix)


def _misplaced(text: str, mode: Mode, error: lark.UnexpectedToken) -> _Wrong:
    at = error.token.start_pos or 0
    sign = SIGN.match(text, at)
    span = Span(*sign.span()) if sign else Span(at, at)
    return _Wrong(f"`{text[span.start : span.end]}` cannot stand here", span, _go_on(mode, error.accepts))


def _go_on(mode: Mode, accepts: set[str]) -> str:
    """What could come next, in words."""
    names = (terminal for terminal in accepts if terminal != "$END")
    spelled = parser("weft.einsum", mode).get_terminal
    words = sorted({TERMINALS.get(name) or f"`{spelled(name).pattern.value}`" for name in names})
    return "write " + " or ".join(filter(None, (", ".join(words[:-1]), words[-1]))) + " here"
