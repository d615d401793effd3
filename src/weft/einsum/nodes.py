"""The einsum notation as a value.

    spec     = operand (";" operand)* "=>" result        result = shape
    operand  = shape ["@" name]                          holds values; with a name, positions along that axis
    shape    = [row "|"] [row "->"] row                  batch, input, output; brackets may enclose a row
    row      = axis*                                     the rightmost axes; further ones go untracked
             | axis* rowvar axis*                        rowvar tracks the axes between
    rowvar   = "..." | ".." name ".."                    "..." is "..batch..", "..input..", "..output.." by its row
    axis     = name                                      Label
             | "_"                                       Hole: aligns its neighbours, says nothing
             | number                                    Position: one fixed place in the axis
             | [s "*"] name [("<+" | "=+") [d "*"] name] ["+" number]       AffineAxis (with more than the name)
             | part ("^" part)+    part = name | number  ConcatAxis; a number is the size of a skipped part
             | name ("&" name)+                          FlatAxis: several axes as one, the last the fastest

A comma anywhere selects multi-character names; otherwise each letter or digit is an axis. A name is that of an axis or
of a row variable, not of both. Every axis knows its span in the text, which takes no part in equality.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeAlias, TypeVar

from weft.errors import Span

Kind: TypeAlias = Literal["batch", "input", "output"]
KINDS: tuple[Kind, ...] = ("batch", "input", "output")
NOWHERE = Span(0, 0)
R = TypeVar("R")


def by_kind(of: Callable[[Kind], R]) -> tuple[R, R, R]:
    """Something for each kind of row: batch, input, output."""
    batch, input, output = map(of, KINDS)
    return batch, input, output


class ThreeRows(Generic[R]):
    """What has something for each kind of row, in fields that are called so."""

    __slots__ = ()

    def row(self, kind: Kind) -> R:
        row: R = getattr(self, kind)
        return row

    @property
    def rows(self) -> tuple[R, R, R]:
        return self.batch, self.input, self.output  # type: ignore[attr-defined]


@dataclass(frozen=True, slots=True)
class Label:
    name: str
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Hole:
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Position:
    at: int
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class ConvKernel:
    """The window of an affine axis: read at `dilation * label`, staying inside (`<+`) or padded (`=+`)."""

    label: Label
    dilation: int
    padded: bool

    def left_of_axis(self, size: int) -> int:
        """How far a window of a kernel of this size begins before its place: half of its span, if it is padded."""
        span = self.dilation * (size - 1) + 1
        return max(span, 0) // 2 if self.padded else 0


@dataclass(frozen=True, slots=True)
class AffineAxis:
    """The axis position `stride * over + dilation * kernel + offset`."""

    stride: int
    over: Label
    kernel: ConvKernel | None
    offset: int
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Skip:
    """A part of a concatenation that is stepped over: `size` positions."""

    size: int
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class ConcatAxis:
    parts: tuple[Label | Skip, ...]
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class FlatAxis:
    """Several axes in one, in row-major order: `a&b` is at position `a * size of b + b`."""

    parts: tuple[Label, ...]
    span: Span = field(default=NOWHERE, compare=False)


#: An axis whose position is computed from those of labels.
DerivedAxis: TypeAlias = AffineAxis | ConcatAxis | FlatAxis
Axis: TypeAlias = Label | Hole | Position | DerivedAxis


@dataclass(frozen=True, slots=True)
class RowVar:
    name: str
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Row:
    """`lead var trail`; without a variable `lead` is empty and further axes go untracked on the left."""

    lead: tuple[Axis, ...] = ()
    var: RowVar | None = None
    trail: tuple[Axis, ...] = ()

    @property
    def axes(self) -> tuple[Axis, ...]:
        return self.lead + self.trail


@dataclass(frozen=True, slots=True)
class ShapeSpec(ThreeRows[Row]):
    batch: Row
    input: Row
    output: Row
    span: Span = field(default=NOWHERE, compare=False)
    #: The axis along which it holds positions, instead of values.
    along: Label | None = None

    @property
    def axes(self) -> tuple[Axis, ...]:
        return self.batch.axes + self.input.axes + self.output.axes

    @property
    def labels(self) -> list[Label]:
        """The labels that its axes mention, in the order written."""
        return [label for axis in self.axes for label in labels_in(axis)]

    @property
    def names(self) -> list[str]:
        """The labels and row variables, in the order written."""
        parts = (part for row in self.rows for part in (*row.lead, row.var, *row.trail) if part is not None)
        return [one.name for part in parts for one in ((part,) if isinstance(part, RowVar) else labels_in(part))]


@dataclass(frozen=True, slots=True)
class Spec:
    operands: tuple[ShapeSpec, ...]
    result: ShapeSpec
    text: str = field(default="", compare=False)

    @property
    def shapes(self) -> tuple[ShapeSpec, ...]:
        """By the number of their slot: the result, then the operands."""
        return (self.result, *self.operands)

    @property
    def axes(self) -> list[Axis]:
        """Those of all shapes."""
        return [axis for shape in self.shapes for axis in shape.axes]

    @property
    def positions(self) -> dict[int, Label]:
        """The operands that hold positions, by the number of their slot (the result's is 0), and along which axis."""
        return {slot: one.along for slot, one in enumerate(self.operands, 1) if one.along is not None}


def labels_in(axis: Axis) -> tuple[Label, ...]:
    """The labels an axis mentions, in the order written."""
    match axis:
        case Label():
            return (axis,)
        case AffineAxis(over=over, kernel=None):
            return (over,)
        case AffineAxis(over=over, kernel=ConvKernel(label=label)):
            return (over, label)
        case ConcatAxis(parts=parts):
            return tuple(part for part in parts if isinstance(part, Label))
        case FlatAxis(parts=labels):
            return labels
    return ()
