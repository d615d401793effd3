"""What inference knows so far: one cell for each unknown axis and each unknown row.

A cell only ever gains information, and every fact about it lives in a lattice of finite height:

    axis    size          unknown, then fixed
            cap           "this size, or an unlabelled 1": demands of what the axis broadcasts to
            least         the size is at least this
            basis         unknown, then fixed; `plain` says it is known to have none, because it broadcasts
            claim         somebody wrote the size
            written       its size stands in the program, if only as a number's: a 1 that borrows no label
    row     lo..hi        bounds on the number of axes

Propagators (dims.py, computed_sizes.py, rows.py) are monotone functions on these lattices, so running them to a
fixpoint in any order gives the same cells or the same contradiction. That is the whole argument for order
independence.

Cells have a level: 0 for the model, 1 for code that updates it. Code sees a shape of the model through a view, a shape
of its own to which facts flow and from which none come back: what code says never changes the model.

The axes of a row whose rank is open are addressed from either end (`front`, `back`); when the rank becomes known
the two ends are laid over each other. Hence no equation between words of axes is ever solved by guessing.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NamedTuple, NoReturn, TypeAlias

from weft.einsum.nodes import KINDS, Kind, Label, ThreeRows
from weft.errors import Origin, ShapeError, Span
from weft.public import public
from weft.shape.inference_lock import alone
from weft.shape.named_sizes import NamedSize
from weft.shape.nodes import MAX_RANK, Dim, Shape, show_row, show_rows

if TYPE_CHECKING:
    from weft.shape.close import Solution
    from weft.shape.infer import Claims
    from weft.shape.solver import Solver

#: A leaf takes the greatest shape its uses allow; a parameter is a leaf that must not be guessed, nor must an input. A
#: node that code assigns to, a constant and what is computed are no larger than they must be; a node nobody assigned to
#: is a leaf.
TensorRole: TypeAlias = Literal["leaf", "varying", "param", "input", "node", "constant", "inner"]

#: What belongs to the model, and what to code that updates it.
MODEL, CODE = 0, 1


@dataclass(slots=True, eq=False)
class InferenceStep:
    """One operation as errors speak of it: where it was written, what it is, the shapes it relates.

    `claims` are what it says about them, so that it can be said again; a step without any looks at a shape of the
    model. `order` tells what was written before what.
    """

    title: str
    origin: Origin | None
    text: str = ""
    slots: tuple[ShapeVar, ...] = ()
    labels: dict[str, AxisCell] = field(default_factory=dict)
    rows: dict[str, RowCell] = field(default_factory=dict)
    level: int = MODEL
    claims: Claims | None = None
    order: int = field(default_factory=itertools.count().__next__)


class SizeProduct(NamedTuple):
    """A size given for a row variable: what all its axes multiply to."""

    name: str
    row: RowCell
    size: int


class Why(NamedTuple):
    """How a fact was derived: by which step, at which part of its spec, from which earlier fact.

    `product`: as what is left of a row variable's size; `named`: as a size that somebody gave by this name.
    """

    step: InferenceStep
    span: Span | None = None
    before: Why | None = None
    product: SizeProduct | None = None
    named: NamedSize | None = None


class Cap(NamedTuple):
    """The axis has this size and basis, or is an unlabelled 1."""

    size: int
    basis: str | None
    why: Why


@dataclass(slots=True, eq=False, repr=False)
class Propagator:
    """A monotone rule over cells that an operation states; `queued` keeps it in the queue at most once.

    No `ABC`: what a rule is, is asked all the time, and is slow to answer of those.
    """

    why: Why
    queued: bool = field(default=False, init=False)

    @property
    def step(self) -> InferenceStep:
        """The operation that states it."""
        return self.why.step

    @property
    def cells(self) -> Sequence[AxisCell]:
        """The axes it relates. A rule over rows has none: what it lays over each other gets rules of its own."""
        return ()

    def run(self, solver: Solver) -> None:
        """Let every fact flow that the rule says."""
        raise NotImplementedError

    def after(self, before: Why | None) -> Why:
        """How a fact is derived by the rule from an earlier one."""
        step, span, _, product, named = self.why
        return Why(step, span, before, product, named)


@dataclass(slots=True, eq=False, repr=False)
class AxisCell:
    row: RowCell | None = None
    label: Label | None = None
    least: int = 0
    level: int = MODEL
    final: bool = False  # closed for good: nothing need watch it
    open_name: str | None = None  # what calls that decide its size call it
    size: int | None = None
    cap: Cap | None = None
    basis: str | None = None
    plain: bool = False
    claim: bool = False
    written: bool = False
    watchers: list[Propagator] = field(default_factory=list)
    why: Why | None = None
    why_basis: Why | None = None
    why_plain: Why | None = None

    @property
    def role(self) -> TensorRole:
        return self.row.role if self.row else "inner"

    @property
    def grows(self) -> bool:
        """Does it take the greatest size its uses allow?"""
        return self.row is not None and self.row.grows

    @property
    def lent(self) -> str | None:
        """The label that a labelled 1 above lends an axis that has none."""
        if self.size != 1 or self.cap is None or self.basis is not None or self.plain:
            return None
        return self.cap.basis

    @property
    def dim(self) -> Dim:
        assert self.size is not None, "the axis is not closed yet"
        return Dim(self.size, self.basis)

    def __str__(self) -> str:
        size = self.open_name or "?" if self.size is None else str(self.size)
        return f"{self.basis}={size}" if self.basis else size


@dataclass(slots=True, eq=False, repr=False)
class RowCell:
    kind: Kind
    role: TensorRole = "inner"
    owner: ShapeVar | None = None
    mark: int = 0
    level: int = MODEL
    final: bool = False  # closed for good: nothing need watch it
    silent: bool = False  # closing decided its rank, so it says nothing about the ranks of others
    unasked: bool = False  # closing decided it, and a varying tensor below it would have taken any other shape
    lo: int = 0
    hi: int = MAX_RANK
    axes: tuple[AxisCell, ...] | None = None
    front: tuple[AxisCell, ...] = ()
    back: tuple[AxisCell, ...] = ()
    watchers: list[Propagator] = field(default_factory=list)
    why_lo: Why | None = None
    why_hi: Why | None = None

    @property
    def grows(self) -> bool:
        """Does it take the greatest rank and sizes its uses allow?"""
        if self.role == "node":
            return self.owner is not None and not self.owner.assigned
        return self.role in ("leaf", "varying", "param")

    @property
    def closed(self) -> tuple[Dim, ...] | None:
        """The axes if all are known."""
        if self.axes is None:
            return None
        found: list[Dim] = []
        for axis in self.axes:
            if axis.size is None:
                return None
            found.append(Dim(axis.size, axis.basis))
        return tuple(found)

    def __str__(self) -> str:
        if self.axes is not None:
            return show_row(self.axes, self.mark)
        return ",".join([*map(str, self.front), "...", *map(str, reversed(self.back))])


@dataclass(slots=True, eq=False, repr=False)
class ShapeVar(ThreeRows[RowCell]):
    """The shape of one tensor as far as it is known. Printing it commits nothing; `close` closes it.

    `grow` counts, for each kind, the axes left of where broadcasting grows the row; `shared` are rows of other shapes.
    """

    name: str
    role: InitVar[TensorRole]
    store: ConstraintStore
    grow: InitVar[tuple[int, int, int]] = (0, 0, 0)
    origin: Origin | None = None
    operands: tuple[ShapeVar, ...] = ()
    level: int = MODEL
    shared: InitVar[Mapping[Kind, RowCell]] = MappingProxyType({})
    steps: tuple[InferenceStep, ...] = ()  # the operations that say what it is
    view: ShapeVar | None = None  # how code sees it
    used: bool = False  # an operation of the model takes it
    assigned: bool = False  # code says what it is
    checked: bool = False  # it and all it is computed from are closed
    batch: RowCell = field(init=False)
    input: RowCell = field(init=False)
    output: RowCell = field(init=False)

    def __post_init__(self, role: TensorRole, grow: tuple[int, int, int], shared: Mapping[Kind, RowCell]) -> None:
        self.batch, self.input, self.output = (
            shared.get(kind) or RowCell(kind, role, self, mark, self.level)
            for kind, mark in zip(KINDS, grow, strict=True)
        )
        if self.output.owner is self:
            self.output.lo = 1

    @property
    def marks(self) -> tuple[int, int, int]:
        return (self.batch.mark, self.input.mark, self.output.mark)

    @property
    def closed(self) -> Shape | None:
        """The shape if every axis is known, else None; never commits anything."""
        batch, input, output = self.batch.closed, self.input.closed, self.output.closed
        if batch is None or input is None or output is None:
            return None
        return Shape(batch, input, output, self.marks)

    @alone
    def __str__(self) -> str:
        return show_rows(*map(str, self.rows))

    def __bool__(self) -> bool:
        return True

    @public
    def __getitem__(self, *picked: object) -> NoReturn:
        raise ShapeError(
            f"`{self.name}.shape` is the shape as far as it is known, and has no sizes to pick from",
            fix="t.dims is the closed shape: t.dims.output[0].size, or .batch, .input, .array_shape",
        )

    __iter__ = __len__ = __getitem__


@dataclass(slots=True, eq=False)
class ConstraintStore:
    """The unknowns of one connected graph of tensors. Stores that meet become one; `into` points to it.

    `weight` counts the stores that went into it: the lighter one joins the heavier, so chains of `into` stay short.
    `solution` is what closing found, until more is said; `broken` has the operations that made closing impossible, each
    with what is wrong with it. `open` is who writes here now, or was interrupted at it.
    """

    into: ConstraintStore | None = None
    weight: int = 1
    rows: list[RowCell] = field(default_factory=list)
    axes: list[AxisCell] = field(default_factory=list)
    demands: list[tuple[AxisCell, InferenceStep]] = field(default_factory=list)
    broken: dict[InferenceStep, ShapeError] = field(default_factory=dict)
    solution: Solution | None = None
    open_rows: int = 0  # when what is closed was last dropped
    open: Solver | None = None

    def find(self) -> ConstraintStore:
        store = self
        while store.into is not None:
            store = store.into
        return store
