"""What each kind of operation says about shapes: `elaborate` turns its logic into constraints.

The constraints do not mention any tensor, only slots, so they are computed once per logic. Shape inference reads
them as an order on sizes, projection inference reads the very same list as an equivalence on loops; neither can
drift from the other.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal as TypingLiteral, TypeAlias

from weft.einsum.nodes import KINDS, Kind, Label, Row, RowVar, Spec, ThreeRows, by_kind
from weft.errors import ShapeError
from weft.shape.nodes import (
    MEMORY_ORDER,
    Constraint,
    Dim,
    ElementCount,
    OpenSize,
    Positions,
    Rest,
    RowBelow,
    RowIs,
    RowRef,
    RowSame,
    Shape,
    Size,
)
from weft.shape.subscripts import NO_SUBSCRIPTS, AxisPoint, SlicedRow, Subscript, kept_axes


@dataclass(frozen=True, slots=True)
class Pointwise:
    """Every operand broadcasts to the result, row by row."""

    arity: int


@dataclass(frozen=True, slots=True)
class Compose:
    """`a @ b`: the inputs of the left take the outputs of the right; a matrix product is a case."""


@dataclass(frozen=True, slots=True)
class Transpose:
    """Inputs become outputs and outputs inputs."""


#: What becomes of positions outside their axis: an error, the nearest position inside, or nothing at all.
Outside: TypeAlias = TypingLiteral["check", "clip", "skip"]


@dataclass(frozen=True, slots=True)
class Einsum:
    """`left`: the result grows on the left when it is broadcast, wherever its `...` stand."""

    spec: Spec
    left: bool = False
    outside: Outside = "check"


@dataclass(frozen=True, slots=True)
class Slice(ThreeRows[SlicedRow]):
    """Axes read where subscripts say."""

    batch: SlicedRow = NO_SUBSCRIPTS
    input: SlicedRow = NO_SUBSCRIPTS
    output: SlicedRow = NO_SUBSCRIPTS

    @property
    def subscripts(self) -> tuple[Subscript, ...]:
        return self.batch.subscripts + self.input.subscripts + self.output.subscripts


@dataclass(frozen=True, slots=True)
class Written:
    """What reads a part of a tensor, and as many `values` that broadcast to the part: they are written to it.

    That is the same record, filled as a gradient fills it: the tensor is the left side, and nothing is in slot 0.
    """

    of: Slice | Einsum
    values: int


@dataclass(frozen=True, slots=True)
class Literal:
    """A terminal whose shape is exactly this; a scalar makes no claim by its size of 1."""

    shape: Shape
    claims: bool = True


@dataclass(frozen=True, slots=True)
class Counted:
    """A terminal that only knows how many elements it has: its axes come from its uses."""

    count: int


@dataclass(frozen=True, slots=True)
class Constant:
    """A terminal that fits any shape and is the same everywhere, so it needs no axes of its own."""


@dataclass(frozen=True, slots=True)
class Varying:
    """A terminal that fits any shape and whose cells differ, so it has all axes of its uses."""


@dataclass(frozen=True, slots=True)
class Assigned:
    """A terminal that code assigns to: it takes its shape from there, from its uses if nothing is assigned."""


@dataclass(frozen=True, slots=True)
class Stated:
    """Constraints stated one by one, over as many operands."""

    arity: int
    constraints: tuple[Constraint, ...]


@dataclass(frozen=True, slots=True)
class Parameter(ThreeRows[tuple[Dim, ...] | None]):
    """A terminal to be learned; a row left None is inferred from use, a given row is exact."""

    batch: tuple[Dim, ...] | None = ()
    input: tuple[Dim, ...] | None = None
    output: tuple[Dim, ...] | None = None
    input_equals_output: bool = False


@dataclass(frozen=True, slots=True)
class Input(ThreeRows[tuple[Dim | OpenSize, ...]]):
    """A terminal whose values come with each call, and with them the sizes that are open."""

    batch: tuple[Dim | OpenSize, ...]
    input: tuple[Dim | OpenSize, ...]
    output: tuple[Dim | OpenSize, ...]

    @property
    def axes(self) -> tuple[Dim | OpenSize, ...]:
        """In memory order."""
        return tuple(axis for kind in MEMORY_ORDER for axis in self.row(kind))

    def bound(self, sizes: Mapping[str, Dim]) -> Literal:
        """What it is in a call with these sizes."""

        def row(kind: Kind) -> tuple[Dim, ...]:
            return tuple(sizes[one.name] if isinstance(one, OpenSize) else one for one in self.row(kind))

        return Literal(Shape(*by_kind(row)))


Terminal: TypeAlias = Literal | Counted | Constant | Varying | Assigned | Parameter | Input
Logic: TypeAlias = Pointwise | Compose | Transpose | Einsum | Slice | Written | Stated | Terminal


def mapped(path: str | os.PathLike[str], item_bytes: int) -> Counted:
    """The logic of data mapped from a file: as many elements as the file is long."""
    if not os.path.isfile(path):
        raise ShapeError(f"there is no file {os.path.basename(path)!r}")
    length = os.stat(path).st_size
    if item_bytes < 1 or length == 0 or length % item_bytes:
        raise ShapeError(
            f"file {os.path.basename(path)!r} has {length} bytes, not a positive multiple of {item_bytes}",
            fix="check the file's length and the element type it is read as",
        )
    return Counted(length // item_bytes)


def arity(logic: Logic) -> int:
    """How many operands the logic takes."""
    match logic:
        case Pointwise(arity=number) | Stated(arity=number):
            return number
        case Compose():
            return 2
        case Transpose() | Slice():
            return 1
        case Written(of=of, values=values):
            return arity(of) + values
        case Einsum(spec=spec):
            return len(spec.operands)
        case _:
            return 0


def position_slots(logic: Logic) -> tuple[int, ...]:
    """The slots whose tensors hold positions instead of values."""
    logic = read_by(logic)
    return tuple(logic.spec.positions) if isinstance(logic, Einsum) else ()


def read_by(logic: Logic) -> Logic:
    """The logic itself; of what is written to a part, that by which the part is read."""
    return logic.of if isinstance(logic, Written) else logic


def marks(logic: Logic, operands: tuple[tuple[int, int, int], ...]) -> tuple[int, int, int]:
    """Where rows of the result that are nobody else's grow when it is broadcast, by kind.

    On the left unless the logic says otherwise, or all operands agree to grow elsewhere.
    """
    match logic:
        case Einsum(spec=spec, left=left):
            return by_kind(lambda kind: 0 if left else len(spec.result.row(kind).lead))
        case Slice():
            leads = [row.lead[:mark] for row, mark in zip(logic.rows, operands[0], strict=True)]
            gone = [sum(isinstance(one, AxisPoint) for one in lead) for lead in leads]
            batch, input, output = (mark - less for mark, less in zip(operands[0], gone, strict=True))
            return (batch, input, output)
        case Written(of=of):
            return marks(of, operands[: arity(of)])
        case Transpose():
            ((batch, input, output),) = operands
            return (batch, output, input)
        case Pointwise() if operands and len(set(operands)) == 1:
            return operands[0]
        case Literal(shape=shape):
            return shape.marks
        case _:
            return (0, 0, 0)


def elaborate(logic: Logic) -> tuple[Constraint, ...]:
    """The constraints of an operation over its slots; slot 0 is the result."""
    return _elaborate(logic, _spelling(logic))


def _spelling(logic: Logic) -> Hashable:
    """What errors show of it, and it is not compared by: the text of a spec, the names of sizes."""
    match logic:
        case Einsum(spec=spec):
            return spec.text
        case Literal(shape=given) | (Parameter() as given) | (Input() as given):
            sizes = [one for row in given.rows if row for one in row]
            named = [one.named for one in sizes if isinstance(one, Dim)]
            return tuple(one and (one.name, one.origins) for one in named) if any(named) else None  # a size is not 0
    return None


@lru_cache(maxsize=4096)
def _elaborate(logic: Logic, spelling: Hashable) -> tuple[Constraint, ...]:
    # Logics that differ only in spelling are equal, yet errors tell them apart: the spelling is part of the key.
    match logic:
        case Pointwise(arity=number):
            return tuple(_below(slot, kind, 0, kind) for slot in range(1, number + 1) for kind in KINDS)
        case Compose():
            return _COMPOSED
        case Transpose():
            return _TRANSPOSED
        case Einsum(spec=spec):
            return tuple(_spec_constraints(spec))
        case Slice():
            return tuple(one for kind in KINDS for one in _sliced(kind, logic.row(kind)))
        case Written(of=of):
            values = range(arity(of) + 1, arity(logic) + 1)
            return elaborate(of) + tuple(_below(slot, kind, 0, kind) for slot in values for kind in KINDS)
        case Literal(shape=shape, claims=claims):
            return _exactly(shape, claims)
        case Counted(count=count):
            return (ElementCount(0, count),)
        case Constant() | Varying() | Assigned():
            return ()
        case Stated(constraints=constraints):
            return constraints
        case Input():
            return _exactly(logic)
        case Parameter(input_equals_output=same):
            return _exactly(logic) + ((RowSame(RowRef(0, "input"), RowRef(0, "output")),) if same else ())


def demanded(logic: Logic) -> tuple[Label, ...]:
    """Labels that no operand has as an axis of its own: inference must find their sizes, not guess them."""
    logic = read_by(logic)
    if not isinstance(logic, Einsum):
        return ()
    spec = logic.spec
    owned = {axis.name for shape in spec.operands for axis in shape.axes if isinstance(axis, Label)}
    found: dict[str, Label] = {}
    for label in (one for shape in (*spec.operands, spec.result) for one in shape.labels):
        if label.name not in owned:
            found.setdefault(label.name, label)
    return tuple(found.values())


def _below(operand: int, operand_kind: Kind, result: int, result_kind: Kind) -> RowBelow:
    return RowBelow(RowRef(operand, operand_kind), RowRef(result, result_kind))


_COMPOSED = (
    _below(1, "batch", 0, "batch"),
    _below(2, "batch", 0, "batch"),
    _below(2, "output", 1, "input"),
    _below(1, "output", 0, "output"),
    _below(2, "input", 0, "input"),
)
_TRANSPOSED = (_below(1, "batch", 0, "batch"), _below(1, "input", 0, "output"), _below(1, "output", 0, "input"))


def _spec_constraints(spec: Spec) -> Iterator[Constraint]:
    """The rows that a spec writes, and the slots that hold positions."""
    for slot, shape in (*enumerate(spec.operands, 1), (0, spec.result)):
        yield from (_row_is(RowRef(slot, kind), shape.row(kind)) for kind in KINDS if shape.row(kind) != Row())
    yield from (Positions(slot, label) for slot, label in spec.positions.items())


def _row_is(ref: RowRef, row: Row) -> RowIs:
    or_scalar = ref == RowRef(0, "output") and not row.axes
    return RowIs(ref, row.lead, row.var or Rest.UNTRACKED, row.trail, or_scalar)


def _sliced(kind: Kind, row: SlicedRow) -> tuple[RowIs, RowIs]:
    """A row of what is sliced, and that row of what is left: should no output axis be, one of size 1."""
    lead, trail = kept_axes(row.lead), kept_axes(row.trail)
    or_scalar = kind == "output" and bool(row.subscripts) and not lead + trail
    return (
        RowIs(RowRef(1, kind), row.lead, RowVar(kind), row.trail),
        RowIs(RowRef(0, kind), lead, RowVar(kind), trail, or_scalar),
    )


def _exactly(rows: ThreeRows[Any], claim: bool = True) -> tuple[RowIs, ...]:
    """The rows of the result have just these axes; nothing is said of a row that is None."""

    def exactly(kind: Kind, axes: Iterable[Dim | OpenSize]) -> RowIs:
        terms = (one if isinstance(one, OpenSize) else Size(one, claim) for one in axes)
        return RowIs(RowRef(0, kind), (), Rest.NOTHING, tuple(terms))

    return tuple(exactly(kind, rows.row(kind)) for kind in KINDS if rows.row(kind) is not None)
