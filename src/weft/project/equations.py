"""The second reading of an operation's constraints: the order on sizes becomes an equivalence on axes.

    RowIs       each axis is its term; two places of one row variable co-iterate axis by axis
    RowBelow    aligned axes co-iterate, except a size-1 operand axis, which is pinned to 0
    Positions   the axis is pinned to what a tensor holds, by the name of its label
    every axis iterates unless something pins it

Axis identities are minted here, per operation, from closed shapes: equal sizes elsewhere cannot fuse loops here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from weft.affine import Affine
from weft.einsum.nodes import KINDS, AffineAxis, ConcatAxis, DerivedAxis, FlatAxis, Kind, Label, Position, RowVar
from weft.shape.logic import Logic, elaborate
from weft.shape.nodes import Positions, RowBelow, RowIs, RowRef, Shape, Term
from weft.shape.subscripts import AxisPoint, AxisRange, labels_of


class AxisId(NamedTuple):
    """One axis of one slot; counted within its row."""

    slot: int
    kind: Kind
    at: int


class LabelId(NamedTuple):
    """A label of the operation's own notation."""

    name: str


Id: TypeAlias = AxisId | LabelId
#: What a position is computed by from those of labels.
DerivedTerm: TypeAlias = DerivedAxis | AxisRange


@dataclass(frozen=True, slots=True)
class Eq:
    """Two axes are driven by one loop."""

    left: Id
    right: Id


@dataclass(frozen=True, slots=True)
class Pin:
    """The axis is read at a position that does not come from a loop of this operation."""

    axis: Id
    index: Affine


@dataclass(frozen=True, slots=True)
class Iterate:
    """The axis needs a loop of its own if nothing else drives it."""

    axis: Id


@dataclass(frozen=True, slots=True)
class Derive:
    """The axis is read at a position computed from other loops."""

    axis: Id
    term: DerivedTerm


Equation: TypeAlias = Eq | Pin | Iterate | Derive


def equations(logic: Logic, shapes: tuple[Shape, ...]) -> tuple[Equation, ...]:
    """Everything the operation says about loops."""
    found: list[Equation] = [
        Iterate(AxisId(slot, kind, at))
        for slot, shape in enumerate(shapes)
        for kind in KINDS
        for at in range(len(shape.row(kind)))
    ]
    rows: dict[str, list[AxisId]] = {}
    for constraint in elaborate(logic):
        match constraint:
            case RowIs():
                found += _row_is(constraint, shapes, rows)
            case RowBelow():
                found += _row_below(constraint, shapes)
            case Positions(label=label):
                found.append(Pin(LabelId(label.name), Affine.of(label.name)))
    return tuple(found)


def _row_is(constraint: RowIs, shapes: tuple[Shape, ...], rows: dict[str, list[AxisId]]) -> Iterator[Equation]:
    axes = _axes(constraint.row, shapes)
    lead, trail = len(constraint.lead), len(constraint.trail)
    middle = axes[lead : len(axes) - trail]
    for axis, term in zip(axes[:lead] + axes[len(axes) - trail :], constraint.lead + constraint.trail, strict=True):
        yield from _term(axis, term, shapes[axis.slot].row(axis.kind)[axis.at].size)
    if isinstance(constraint.middle, RowVar):
        twins = rows.setdefault(constraint.middle.name, middle)
        if twins or not constraint.or_scalar:
            for axis, twin in zip(middle, twins, strict=True):
                yield Eq(axis, twin)


def _term(axis: AxisId, term: Term, size: int) -> Iterator[Equation]:
    match term:
        case Label(name=name):
            yield Eq(axis, LabelId(name))
        case Position(at=at):
            yield Pin(axis, Affine((), at))
        case AxisPoint():
            yield Pin(axis, term.first(size))
        case AffineAxis() | ConcatAxis() | FlatAxis() | AxisRange():
            yield Derive(axis, term)
            for label in labels_of(term):
                yield Iterate(LabelId(label.name))


def _row_below(constraint: RowBelow, shapes: tuple[Shape, ...]) -> Iterator[Equation]:
    operand, result = constraint.operand, constraint.result
    below, above = _axes(operand, shapes), _axes(result, shapes)
    dims, mark = shapes[operand.slot].row(operand.kind), shapes[operand.slot].mark(operand.kind)
    partners = above[:mark] + above[len(above) - (len(below) - mark) :]
    for axis, partner, dim in zip(below, partners, dims, strict=True):
        yield Pin(axis, Affine()) if dim.size == 1 else Eq(axis, partner)


def _axes(ref: RowRef, shapes: tuple[Shape, ...]) -> list[AxisId]:
    return [AxisId(ref.slot, ref.kind, at) for at in range(len(shapes[ref.slot].row(ref.kind)))]
