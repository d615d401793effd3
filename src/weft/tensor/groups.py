"""Which elements of a tensor belong together: what a spec of one operand says to reductions and their relatives.

"...|t, d => ...|t"      the elements that the result does not tell apart, here those of one t, make up a group
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import mul

from weft.assign import Extent, Node, SizeOf, Slot, in_code
from weft.einsum import parse_spec
from weft.einsum.nodes import (
    KINDS,
    Axis,
    ConcatAxis,
    Hole,
    Kind,
    Label,
    Position,
    Row,
    RowVar,
    ShapeSpec,
    Spec,
    by_kind,
    labels_in,
)
from weft.einsum.show import show_axis, show_spec
from weft.errors import EinsumError, WeftError, user_origin
from weft.naming import FreshNames
from weft.ops import Num, Scalar
from weft.shape.infer import infer
from weft.shape.logic import Einsum, Outside
from weft.shape.text import as_dim
from weft.tensor.einsum import contract
from weft.tensor.leaves import offsets
from weft.tensor.operator import Operator
from weft.tensor.tensor import Tensor, TensorLike

#: The output row of each example, and of each input.
OUTPUT_ROW = "...|...->... => ...|...->0"
#: How other libraries say which axes are meant.
_AXIS_WORDS = ("axis", "axes", "dim", "dims", "keepdim", "keepdims")

#: A tensor, and how it is read.
ReadAs = tuple[ShapeSpec, TensorLike]


@dataclass(frozen=True, slots=True)
class Groups:
    """The operand and the result of a spec: each cell of the result stands for a group of the operand's elements."""

    operand: ShapeSpec
    group: ShapeSpec
    text: str

    @staticmethod
    def of(spec: str, user: str) -> Groups:
        """What a spec says to `user`, which reads one tensor; it must not join or split axes."""
        parsed = parse_spec(spec)
        if len(parsed.operands) != 1:
            what = f"{user} reads one tensor, and the spec has {len(parsed.operands)} operands"
            raise EinsumError(what, text=parsed.text, fix='write one: "...|t, d => ...|t"')
        axes = (*parsed.operands[0].axes, *parsed.result.axes)
        joined = [axis for axis in axes if isinstance(axis, ConcatAxis)]
        if joined:
            what, fix = f"{user} takes no concatenation", "join or split in an einsum of its own"
            spans = [axis.span for axis in joined]
            raise EinsumError(what, text=parsed.text, spans=spans, fix=fix)
        return Groups(parsed.operands[0], parsed.result, parsed.text)

    @staticmethod
    def plain(spec: str, user: str) -> Groups:
        """What a spec says to `user`, which has something to say of each element: it must name the operand's axes."""
        found = Groups.of(spec, user)
        axes = found.operand.axes
        odd = [axis for axis in axes if not isinstance(axis, Label) or axes.count(axis) > 1]
        if odd:
            what = f"{user} is about each element of its operand, and `{show_axis(odd[0])}` does not name an axis of it"
            spans = [axis.span for axis in odd]
            fix = "give each axis of the operand a name of its own"
            raise EinsumError(what, text=found.text, spans=spans, fix=fix)
        return found

    @property
    def left_out(self) -> list[str]:
        """The labels and row variables that the result does not have."""
        kept = self.group.names
        return [name for name in self.operand.names if name not in kept]

    @property
    def within(self) -> ShapeSpec:
        """The axes that the result does not have: where an element lies in its group."""
        return self._left_of(self.element)

    def _left_of(self, shape: ShapeSpec) -> ShapeSpec:
        return less_axes(shape, self.group.names)

    @property
    def element(self) -> ShapeSpec:
        """The operand with all its axes: those that are not written are there as `...`, and belong to one group."""
        return each_row(lambda kind, row: row if row.var else Row((), RowVar(kind), row.trail), self.operand)

    @property
    def named(self) -> ShapeSpec:
        """`element` with a name for each axis that is there to align the others."""
        names = FreshNames([*self.operand.names, *self.group.names])

        def name(axis: Axis) -> Axis:
            return Label(names.fresh("hole")) if isinstance(axis, Hole) else axis

        def each(kind: Kind, row: Row) -> Row:
            return replace(row, lead=tuple(map(name, row.lead)), trail=tuple(map(name, row.trail)))

        return each_row(each, self.element)

    def positions(self, shape: ShapeSpec, dtype: str) -> tuple[ShapeSpec, Tensor]:
        """Where each element of a shape lies in its group, counted in memory order along the axes left out."""
        along = self._left_of(shape)
        if along.output.var and not along.output.axes and not self.operand.output.var:
            # nothing says that there is an output axis, which every tensor has: one that is only there
            along = replace(along, output=replace(along.output, trail=(Position(0),)))
        return along, offsets(dtype=dtype)

    def along(self, x: Tensor) -> Label | None:
        """The axis of a tensor that the spec leaves out, if it is one alone, and known to be."""
        rows = [(self.operand.row(kind), x.shape.row(kind).axes) for kind in KINDS]
        written = all(row.var or (there is not None and len(there) == len(row.axes)) for row, there in rows)
        labels = [axis for axis in self.operand.axes if isinstance(axis, Label)]
        return next((one for one in labels if written and [one.name] == self.left_out), None)

    def one_each(self) -> tuple[ShapeSpec, dict[str, int]]:
        """What holds one number for each group, and nothing more; and the sizes that say so."""
        names = FreshNames([*self.operand.names, *self.group.names])
        sizes: dict[str, int] = {}

        def one(stem: str) -> str:
            sizes[name := names.fresh(stem)] = 1
            return name

        def exact(kind: Kind, row: Row) -> Row:
            axes = [Label(one("one")) if axis == Position(0) else axis for axis in row.axes]
            lead, trail = tuple(axes[: len(row.lead)]), tuple(axes[len(row.lead) :])
            return Row(lead, row.var or RowVar(one("rest")), trail)

        return each_row(exact, self.group), sizes


def reduce_groups(x: TensorLike, spec: str, sizes: Mapping[str, int], *, accum: str = "+", label: str = "") -> Tensor:
    """The elements of each group, accumulated."""
    for word in _AXIS_WORDS:
        if word in sizes:
            what = f"a reduction has no argument `{word}`: a spec says what is kept"
            fix = 'name the axes, and leave out the reduced ones: wf.sum(x, "...|i, j => ...|i") sums over j, and '
            fix += 'wf.softmax(x, "...|i, j => ...|i") comes to 1 over j; "...|i, j => ...|i, 0" keeps j as 1'
            raise WeftError(what, fix=fix)
    return contract(spec, [x], accum=accum, label=label, sizes=sizes)


def group_size(total: Tensor, groups: Groups) -> Extent:
    """How many elements each group has of the tensor that `total` reduces, as a number; a padded window counts whole.

    Axes that the spec leaves unwritten count too: where there may be some, they are named, to be measured.
    """
    (x, *_), operation, named = total.children, total.operation, groups.named
    if named != groups.operand:
        spec = parse_spec(show_spec(Spec((named,), groups.group)))
        sizes = operation.sizes if operation else {}
        names = {name: dim for name, dim in sizes.items() if name in named.names}
        operation = infer(
            Einsum(spec), [x.shape], title="group", origin=user_origin(), sizes=names, code=in_code([x.operand])
        )
    assert operation is not None
    kept = groups.group.names
    over = [name for name in dict.fromkeys(named.names) if name not in kept]
    written = [name for name in over if name in groups.operand.names]
    return Extent("*".join(written or over) or "1", reduce(mul, (SizeOf(operation, name) for name in over), Num(1)))


def related(
    name: str,
    value: Callable[..., Scalar],
    reads: Sequence[ReadAs],
    result: ShapeSpec,
    *,
    accum: str = "",
    label: str = "",
    sizes: Mapping[str, int] | None = None,
    dtype: str | None = None,
    outside: Outside = "check",
    watched: Sequence[Node] = (),
) -> Tensor:
    """What `value` makes of one element of each tensor, wherever these are read together; assigned, or accumulated.

    Tensors that hold positions are not among its elements: they say where others are read.
    """
    spec = parse_spec(show_spec(Spec(tuple(shape for shape, _ in reads), result)))
    dims = {label: as_dim(size, f"`{label}`") for label, size in (sizes or {}).items()}

    def forward(v: Slot, *slots: Slot) -> None:
        found = value(*(one for slot, one in enumerate(slots, 1) if slot not in spec.positions))
        if accum:
            v.accumulate(accum, found, reset=True)
        else:
            v[:] = found

    tensors, logic = [tensor for _, tensor in reads], Einsum(spec, outside=outside)
    return Operator(name, None, forward).apply(logic, tensors, label=label, sizes=dims, dtype=dtype, watched=watched)


def each_row(change: Callable[[Kind, Row], Row], shape: ShapeSpec) -> ShapeSpec:
    """A shape of other rows."""
    return ShapeSpec(*by_kind(lambda kind: change(kind, shape.row(kind))))


def less_axes(shape: ShapeSpec, names: Sequence[str]) -> ShapeSpec:
    """A shape less the axes and row variables by these names."""
    return each_row(lambda kind, row: _without(row, names), shape)


def _without(row: Row, kept: Sequence[str]) -> Row:
    """A row less the axes and the variable by these names."""

    def left(axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
        return tuple(axis for axis in axes if not any(label.name in kept for label in labels_in(axis)))

    lead, trail = left(row.lead), left(row.trail)
    gone = row.var is None or row.var.name in kept
    return Row((), None, lead + trail) if gone else replace(row, lead=lead, trail=trail)
