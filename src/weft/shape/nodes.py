"""Shapes, and what an operation says about them.

    dim        = size [basis]                             3, rgb=3
    shape      = [dims "|"] [dims "->"] dims              closed: batch | input -> output

An operation has slots: 0 is the result, 1, 2, … are the operands. What it claims is a list of constraints over
the rows of its slots and over names local to it, the same list whichever tensors fill the slots:

    constraint = RowIs(row, lead, middle, trail)          row = lead middle trail, no broadcasting
               | RowSame(first, second)                   two rows of one shape are equal
               | RowBelow(operand, result)                operand broadcasts to result, axis by axis and in rank
               | AxisIs(left, right)                      two axis terms have one size
               | AxisBelow(operand, result)               one axis broadcasts to the other
               | ElementCount(slot, count)                all axes of a shape multiply to count
               | Computed(label, of, size, needs)         a size computed from others by somebody else
               | Positions(slot, label)                   a tensor holds positions along an axis, which has no loop
    middle     = RowVar                                   the axes this row variable stands for
               | Rest.UNTRACKED                           any axes, unrelated to anything
               | Rest.NOTHING                             no further axes
    term       = einsum axis | Size(dim)
               | OpenSize(name)                           a size of an input, which each call decides
               | AxisPoint | AxisRange                    read where a subscript says (subscripts.py)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from math import prod
from typing import NamedTuple, NoReturn, Protocol, TypeAlias

from weft.einsum.nodes import KINDS, Axis, Kind, Label, RowVar, ThreeRows, by_kind
from weft.errors import ShapeError
from weft.public import public
from weft.shape.named_sizes import NamedSize
from weft.shape.subscripts import AxisPoint, AxisRange

#: Axes lie in memory batch first, then output, then input.
MEMORY_ORDER: tuple[Kind, ...] = ("batch", "output", "input")

#: NumPy's own limit on the number of axes; it also makes rank inference finite.
MAX_RANK = 64


@dataclass(frozen=True, slots=True)
class Dim:
    """How big one axis is, and optionally what it means; `named` is the size as a person gave it, for errors alone."""

    size: int
    basis: str | None = None
    named: NamedSize | None = field(default=None, compare=False, repr=False, kw_only=True)

    def __str__(self) -> str:
        return f"{self.basis}={self.size}" if self.basis else str(self.size)


@dataclass(frozen=True, slots=True)
class Shape(ThreeRows[tuple[Dim, ...]]):
    """A closed shape. `marks` counts, for each kind, the axes that stay left of where broadcasting grows the row."""

    batch: tuple[Dim, ...] = ()
    input: tuple[Dim, ...] = ()
    output: tuple[Dim, ...] = ()
    marks: tuple[int, int, int] = (0, 0, 0)

    def mark(self, kind: Kind) -> int:
        return self.marks[KINDS.index(kind)]

    @property
    def array_shape(self) -> tuple[int, ...]:
        """Sizes in memory order: batch, output, input."""
        return tuple([dim.size for dim in (*self.batch, *self.output, *self.input)])

    @property
    def count(self) -> int:
        return prod(self.array_shape)

    def __bool__(self) -> bool:
        return True

    @public
    def __getitem__(self, *picked: object) -> NoReturn:
        raise ShapeError(
            f"the shape {self} has three rows of axes, not one",
            fix="pick a row: .batch[0].size, .input[0].size, .output[0].size; .array_shape has all sizes as in memory",
        )

    __iter__ = __len__ = __getitem__

    def __str__(self) -> str:
        return show_rows(*by_kind(lambda kind: show_row(self.row(kind), self.mark(kind))))


def show_row(axes: Sequence[object], mark: int) -> str:
    """Axes with commas between them; a row that does not grow on its left has `...` where it grows."""
    lead, trail = (",".join(map(str, part)) for part in (axes[:mark], axes[mark:]))
    return f"{lead}...{trail}" if lead else trail


def show_rows(batch: str, input: str, output: str) -> str:
    """`batch|input->output`, leaving out what is empty."""
    return (f"{batch}|" if batch else "") + (f"{input}->" if input else "") + output


class RowRef(NamedTuple):
    """One row of one slot."""

    slot: int
    kind: Kind


class Rest(Enum):
    UNTRACKED = "untracked"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Size:
    """An axis somebody wrote. A written 1 broadcasts, but it is a claim: what only it speaks of has size 1 too."""

    dim: Dim
    claim: bool = True


@dataclass(frozen=True, slots=True)
class OpenSize:
    """The size of an axis of an input, which is open until a call decides it; calls give equal names equal sizes."""

    name: str

    def __str__(self) -> str:
        return self.name


Term: TypeAlias = Axis | Size | OpenSize | AxisPoint | AxisRange
Middle: TypeAlias = RowVar | Rest


@dataclass(frozen=True, slots=True)
class RowIs:
    """`or_scalar`: should that be no axes at all, the row is one axis of size 1, since every output row has an axis."""

    row: RowRef
    lead: tuple[Term, ...] = ()
    middle: Middle = Rest.NOTHING
    trail: tuple[Term, ...] = ()
    or_scalar: bool = False


@dataclass(frozen=True, slots=True)
class RowSame:
    first: RowRef
    second: RowRef


@dataclass(frozen=True, slots=True)
class RowBelow:
    operand: RowRef
    result: RowRef


@dataclass(frozen=True, slots=True)
class AxisIs:
    left: Term
    right: Term


@dataclass(frozen=True, slots=True)
class AxisBelow:
    operand: Term
    result: Term


@dataclass(frozen=True, slots=True)
class ElementCount:
    slot: int
    count: int


class SizeRule(Protocol):
    """How a size follows from others."""

    def size(self, of: Mapping[str, int]) -> int | None:
        """The size, for those of the others by name; None if some that are left out are needed after all."""
        ...


@dataclass(frozen=True, slots=True)
class Computed:
    """The size of a label follows from those of others, once those that it needs are known."""

    label: Label
    of: tuple[Label, ...]
    size: SizeRule
    needs: frozenset[str]


@dataclass(frozen=True, slots=True)
class Positions:
    """The tensor in a slot holds positions along a label: no size follows from that, only where others are read."""

    slot: int
    label: Label


Constraint: TypeAlias = RowIs | RowSame | RowBelow | AxisIs | AxisBelow | ElementCount | Computed | Positions
