"""Text to Spec.

The grammar (grammar.lark) is the language and nothing more. What a grammar cannot say (offsets below the stride,
numbers that fit) is checked while the tree becomes nodes; what the parser stumbles over is looked up in diagnose.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from weft.einsum.check_positions import check_positions
from weft.einsum.diagnose import GROUP, NOTATION, grouped
from weft.einsum.nodes import (
    AffineAxis,
    Axis,
    ConcatAxis,
    ConvKernel,
    FlatAxis,
    Hole,
    Kind,
    Label,
    Position,
    Row,
    RowVar,
    ShapeSpec,
    Skip,
    Spec,
)
from weft.errors import EinsumError, Span
from weft.notation import Mistake, by_rule, one_line, span_of, subtrees, word_of

if TYPE_CHECKING:
    from weft.notation import Tree

TOO_LARGE = 2**31


def parse_spec(text: str) -> Spec:
    """The Spec that `text` writes; the same object each time. EinsumError when it writes none."""
    if not issubclass(type(text), str):  # isinstance would believe an object that only claims to be a str
        raise EinsumError(
            f"a specification is text, not {type(text).__name__}", fix='pass a string such as "ij;jk=>ik"'
        )
    text = str.__str__(text)  # whatever a subclass says about hashing
    try:
        return _parse(text)
    except Mistake as wrong:
        spans = (wrong.span, *wrong.also)
        raise EinsumError(wrong.what, text=one_line(text), spans=spans, fix=wrong.fix) from None


@lru_cache(maxsize=4096)
def _parse(text: str) -> Spec:
    if not text.strip():
        raise Mistake("the specification is empty", Span(0, 0), "write operands and a result, for example `ij=>ji`")
    if group := GROUP.search(text):
        raise grouped(group)
    mode = "names" if "," in text else "letters"
    tree = NOTATION[mode].tree(text, mode)
    _check_names(tree)
    spec = _spec(tree, text)
    check_positions(spec)
    return spec


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


def _check_names(tree: Tree) -> None:
    """Refuse a name that is both an axis and a row variable. `...` has a name of its own that nobody wrote."""
    labels = sorted(tree.find_data("label"), key=lambda label: -label.meta.start_pos)
    axes = {word_of(label): span_of(label) for label in labels}  # of each, the first
    for rowvar in tree.find_data("rowvar"):
        name = word_of(rowvar) if rowvar.children else ""
        if name in axes:
            fix = f"give the row variable another name, for example `..{name}s..`"
            what = f"`{name}` names both an axis and a row variable"
            raise Mistake(what, axes[name], fix, also=(span_of(rowvar),))


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
    rows = by_rule(tree)
    span = Span(place, place) if tree.meta.empty else span_of(tree)
    along = _label(rows["along"]) if "along" in rows else None
    return ShapeSpec(_row("batch", rows), _row("input", rows), _row("output", rows), span, along)


def _row(kind: Kind, rows: Mapping[str, Tree]) -> Row:
    trees = subtrees(rows[kind]) if kind in rows else []
    var = next((at for at, tree in enumerate(trees) if tree.data == "rowvar"), None)
    if var is None:
        return Row(trail=tuple(map(_axis, trees)))
    return Row(tuple(map(_axis, trees[:var])), _rowvar(trees[var], kind), tuple(map(_axis, trees[var + 1 :])))


def _rowvar(tree: Tree, kind: Kind) -> RowVar:
    return RowVar(word_of(tree) if tree.children else kind, span_of(tree))


def _axis(tree: Tree) -> Axis:
    return AXES[tree.data](tree)


def _position(tree: Tree) -> Position:
    return Position(_number(tree), span_of(tree))


def _label(tree: Tree) -> Label:
    return Label(word_of(tree), span_of(tree))


def _affine(tree: Tree) -> Label | AffineAxis:
    """`2*o<+3*k+1`; a label that nothing is done to is just that label."""
    parts = by_rule(tree)
    stride, over = _factor(parts, "stride"), _label(parts["label"])
    kernel = _kernel(parts["kernel"]) if "kernel" in parts else None
    offset = _number(parts["offset"]) if "offset" in parts else 0
    if offset >= stride:
        raise _large_offset(span_of(parts["offset"]), stride, f"{offset}^{over.name}" if kernel is None else "")
    if (stride, kernel, offset) == (1, None, 0):
        return Label(over.name, span_of(tree))
    return AffineAxis(stride, over, kernel, offset, span_of(tree))


def _large_offset(span: Span, stride: int, shifted: str) -> Mistake:
    what = "an offset picks one of `stride` interleaved positions, so it must be smaller than the stride"
    if stride > 1:
        return Mistake(f"{what}, {stride}", span, f"use an offset below {stride}")
    return Mistake(what, span, f"use a skipped part to shift: `{shifted}`" if shifted else "remove the offset")


def _kernel(tree: Tree) -> ConvKernel:
    parts = by_rule(tree)
    return ConvKernel(_label(parts["label"]), _factor(parts, "dilation"), padded=word_of(tree).startswith("="))


def _factor(parts: Mapping[str, Tree], rule: str) -> int:
    if rule not in parts:
        return 1
    factor = _number(parts[rule])
    if factor < 1:
        raise Mistake(f"a {rule} is at least 1", span_of(parts[rule]), "write a larger number, or drop the `0*`")
    return factor


def _concat(tree: Tree) -> ConcatAxis:
    parts = tuple(_label(part) if part.data == "label" else _skip(part) for part in subtrees(tree))
    if not any(isinstance(part, Label) for part in parts):
        raise Mistake("a concatenation of skipped parts only has nothing to read", span_of(tree), "name a part: `1^a`")
    return ConcatAxis(parts, span_of(tree))


def _flat(tree: Tree) -> FlatAxis:
    parts = tuple(map(_label, subtrees(tree)))
    for at, part in enumerate(parts):
        if part in parts[:at]:
            first = parts[parts.index(part)].span
            raise Mistake(f"`{part.name}` stands twice in one axis", first, "name each part apart", also=(part.span,))
    return FlatAxis(parts, span_of(tree))


def _skip(tree: Tree) -> Skip:
    return Skip(_number(tree), span_of(tree))


AXES: Mapping[str, Callable[[Tree], Axis]] = {
    "hole": lambda tree: Hole(span_of(tree)),
    "position": _position,
    "affine": _affine,
    "concat": _concat,
    "flat": _flat,
}


def _number(tree: Tree) -> int:
    digits = word_of(tree).lstrip("0") or "0"
    if len(digits) > len(str(TOO_LARGE)) or int(digits) >= TOO_LARGE:  # int() itself refuses thousands of digits
        raise Mistake("a number is below 2**31", span_of(tree), "write a smaller number")
    return int(digits)
