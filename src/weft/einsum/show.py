"""Spec to text that parses back to an equal Spec."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from weft.einsum.nodes import (
    KINDS,
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
    labels_in,
)


def show_spec(spec: Spec) -> str:
    """`ij;jk=>ik`; with commas only where single characters cannot say it."""
    shapes = [*spec.operands, spec.result]
    rows = [row for shape in shapes for row in (shape.batch, shape.input, shape.output)]
    along = [shape.along for shape in spec.operands if shape.along]
    if not any(map(_needs_names, rows)) and not any(map(_is_long, along)):
        return _assemble(_show_all(shapes, ""), ";", "=>")
    texts = _show_all(shapes, ", ")
    if not any("," in text for text in texts):
        items = ((at, item) for at, one in enumerate(shapes) for kind in KINDS for item in _items(one.row(kind), kind))
        at, first = next(items)
        texts[at] = texts[at].replace(first, first + ",", 1)  # only separators come before it
    return _assemble(texts, "; ", " => ")


def show_axis(axis: Axis) -> str:
    """One axis as written, for messages and for specs: `2*o<+3*k`, `a^3^b`, `a&b`, `_`, `2`."""
    match axis:
        case Label(name=name):
            return name
        case Hole():
            return "_"
        case Position(at=at):
            return str(at)
        case ConcatAxis(parts=parts):
            return "^".join(str(part.size) if isinstance(part, Skip) else part.name for part in parts)
        case FlatAxis(parts=labels):
            return "&".join(label.name for label in labels)
        case AffineAxis(stride=stride, over=over, kernel=kernel, offset=offset):
            return _scaled(stride, over) + _show_kernel(kernel) + (f"+{offset}" if offset else "")


def _show_kernel(kernel: ConvKernel | None) -> str:
    if kernel is None:
        return ""
    return ("=+" if kernel.padded else "<+") + _scaled(kernel.dilation, kernel.label)


def _scaled(factor: int, label: Label) -> str:
    return label.name if factor == 1 else f"{factor}*{label.name}"


def _show_all(shapes: Sequence[ShapeSpec], comma: str) -> list[str]:
    return [_show_shape(shape, comma) for shape in shapes]


def _assemble(shapes: Sequence[str], semicolon: str, arrow: str) -> str:
    *operands, result = shapes
    text = semicolon.join(operands) + arrow + result
    return " ".join(text.split())  # an empty shape leaves two spaces together


def _show_shape(shape: ShapeSpec, comma: str) -> str:
    batch, input, output = (comma.join(_items(shape.row(kind), kind)) for kind in KINDS)
    along = f"@{shape.along.name}" if shape.along else ""
    return (batch and batch + "|") + (input and input + "->") + output + (along and output and comma and " ") + along


def _items(row: Row, kind: Kind) -> list[str]:
    var = [_show_rowvar(row.var, kind)] if row.var else []
    return [*map(show_axis, row.lead), *var, *map(show_axis, row.trail)]


def _show_rowvar(var: RowVar, kind: Kind) -> str:
    return "..." if var.name == kind else f"..{var.name}.."


def _needs_names(row: Row) -> bool:
    """Whether a row has a name or a position of several characters, or digits that would run together."""
    beside = (*pairwise(row.lead), *pairwise(row.trail))
    return any(map(_is_long, row.axes)) or any(_merge(*pair) for pair in beside)


def _is_long(axis: Axis) -> bool:
    if isinstance(axis, Position):
        return axis.at > 9
    return any(len(label.name) > 1 for label in labels_in(axis))


def _merge(left: Axis, right: Axis) -> bool:
    """`1` before `2*i` would read `12*i`. Two positions do not merge: each takes one digit."""
    if isinstance(left, Position) and isinstance(right, Position):
        return False
    return show_axis(left)[-1].isdigit() and show_axis(right)[0].isdigit()
