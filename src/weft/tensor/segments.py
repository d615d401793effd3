"""States of a monoid joined in the cells that positions say: a segmented scan.

Updates are put in the order of their cells, those of one cell as they come. A scan joins each with those of the same
cell before it, and a cell has what there is after its last one:

    order =: argsort(cell);  s[m] =: cell[m] == cell[m-1] ? combine(s[m-1], x[m]) : x[m];  y[v] =: s[last[v]]

That takes memory for the updates and for the cells, not for each update in each cell.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from functools import partial

from weft.assign import Extent, SizeOf
from weft.assign.dtype_inference import Peek
from weft.einsum.nodes import Axis, FlatAxis, Kind, Label, Position, Row, ShapeSpec, Spec, labels_in
from weft.einsum.show import show_axis, show_spec
from weft.errors import EinsumError
from weft.lazy import lazy_property
from weft.naming import FreshNames
from weft.ops import Monoid, Num, Scalar, call
from weft.ops.dtypes import is_float
from weft.shape.infer import Operation
from weft.shape.logic import Einsum
from weft.tensor.einsum import contract
from weft.tensor.folds import JoinedAxes, States, combined_states, led_by
from weft.tensor.functions import cast, each_point
from weft.tensor.groups import Groups, ReadAs, each_row, less_axes, related
from weft.tensor.leaves import constant, offsets
from weft.tensor.scan import scan
from weft.tensor.sorting import argsort
from weft.tensor.tensor import Tensor, stop_gradient


@dataclass(frozen=True, slots=True)
class Scatter:
    """An accumulation `y` as `spec` says, in cells whose positions operands hold, of updates at points of `element`."""

    y: Tensor
    spec: Spec
    element: ShapeSpec

    def __post_init__(self) -> None:
        looked = {label.name for label in self.spec.positions.values()}
        for axis in self.spec.result.axes:
            names = [label.name for label in labels_in(axis)]
            if len(names) > 1 and not isinstance(axis, FlatAxis) and not looked.isdisjoint(names):
                what = f"cells along `{show_axis(axis)}` are where a position and a window say together"
                fix = "scatter along an axis of its own, and move what comes of it in another einsum"
                raise EinsumError(what, text=self.spec.text, fix=fix)

    @property
    def read_slots(self) -> list[int]:
        """The operands that values are computed from; with positions, if values are looked up by these as well."""
        held, slots = self.spec.positions, range(1, len(self.spec.operands) + 1)
        values = self._names(slot for slot in slots if slot not in held)
        return [slot for slot in slots if slot not in held or held[slot].name in values]

    @property
    def value_axes(self) -> ShapeSpec:
        """The axes that values have by themselves: what only positions lie along is not among them."""
        return _with_output(_only(self.element, self._names(self.read_slots)), Position(0))

    def updates(self, x: Tensor) -> Updates:
        """All updates, of values that have axes of their own."""
        names = FreshNames([name for one in self.spec.shapes for name in one.names])
        along, ordered, one = (Label(names.fresh(name)) for name in ("update", "ordered", "one"))
        element = _with_output(self.element, one)
        reads = [(self.value_axes, x), *((replace(axes, along=None), at) for axes, at in self.held)]
        x = related("updates", lambda x, *_: x, reads, element, sizes=_ones(element, one))
        return Updates(self, x, element, along, ordered, one)

    @property
    def held(self) -> list[tuple[ShapeSpec, Tensor]]:
        """The operands that hold positions."""
        return [(self.spec.operands[slot - 1], self.y.children[slot - 1]) for slot in self.spec.positions]

    def _names(self, slots: Iterable[int]) -> set[str]:
        return {name for slot in slots for name in self.spec.operands[slot - 1].names}


@dataclass(frozen=True)
class Updates:
    """Updates `x` of a scatter, and what the axis of all of them is called, before and after they are put in order."""

    scatter: Scatter
    x: Tensor
    element: ShapeSpec
    along: Label
    ordered: Label
    one: Label

    @lazy_property
    def flat(self) -> Tensor:
        """All updates along the leftmost batch axis."""
        return self._flat(self.x, self.element)

    @property
    def groups(self) -> Groups:
        """Updates along their axis, and what all of them would come to in one cell."""
        return Groups.plain(
            show_spec(Spec((self._led(self.element, self.along),), self._kept(self.element))), "scatter"
        )

    def joined(self, monoid: Monoid, states: States) -> States:
        """States of updates as one for each cell of the result: that of nothing, where no update is."""
        run = self._running(monoid, [self._in_order(one, self.element) for one in states])
        cells, last = self._cells, self._last
        read = Spec((self._led(self.element, self.ordered), replace(cells, along=self.ordered)), cells)
        ends = [contract(show_spec(read), [one, last], outside="skip") for one in run]
        return [_unless_empty(one, last, nothing) for one, nothing in zip(ends, monoid.start, strict=True)]

    def picked(self, positions: Tensor) -> Tensor:
        """The updates at positions among them, which each cell of the result holds."""
        result = self.scatter.spec.result
        read = Spec((self._led(self.element, self.along), replace(result, along=self.along)), result)
        return contract(show_spec(read), [self.flat, positions], outside="skip", sizes=self._known)

    def placed(self, values: Tensor) -> Tensor:
        """Values of cells, where the result has them."""
        return contract(show_spec(Spec((self._cells,), self.scatter.spec.result)), [values], sizes=self._known)

    def _running(self, monoid: Monoid, states: States) -> States:
        """States in the order of their cells, each joined with those of its cell before it."""
        led, where = (self._led(shape, self.ordered) for shape in (self.element, self._where))
        cell = self._in_order(self._cell, self._where)
        cells = related("cell", lambda at, _: at, [(where, cell), (led, stop_gradient(states[0]))], led)

        def step(carry: States, one: States) -> tuple[States, States]:
            (*before, here), (*state, there) = carry, one
            found = combined_states(monoid, before, state)
            new = [each_point("segment", _continued, here, there, *both) for both in zip(found, state, strict=True)]
            return [*new, there], new

        first = [_typed(nothing, one) for nothing, one in zip([*monoid.start, -1], [*states, cells], strict=True)]
        run, _ = scan(step, [*states, cells], init=first)
        return list(run)

    @lazy_property
    def _last(self) -> Tensor:
        """The last update of each cell, as numbered in their order; below 0, if there is none."""
        where, spec = self._led(self._where, self.ordered), self.scatter.spec
        ordered = [self._in_order(at, self._where) for at in self._positions]
        reads: list[ReadAs] = [(ShapeSpec(Row((), None, (self.ordered,)), Row(), _ZERO), offsets(dtype="int64"))]
        reads += [(replace(where, along=to), at) for to, at in zip(spec.positions.values(), ordered, strict=True)]
        reads.append((spec.result, stop_gradient(self.scatter.y)))  # it is only there for its shape
        sizes = {**_ones(self._cells, self.one), **self._known}
        return related("last", lambda at, _: at, reads, self._cells, accum="max", sizes=sizes, outside="skip")

    @lazy_property
    def _order(self) -> Tensor:
        """The updates in the order of their cells."""
        return argsort(self._cell, show_spec(Spec((self._led(self._where, self.along),), self._kept(self._where))))

    @lazy_property
    def _cell(self) -> Tensor:
        """The cell of each update as one number."""

        def number(*at: Scalar) -> Scalar:
            found: Scalar = Num(0)
            for one, size in zip(at, self._sizes, strict=True):
                found = found * (size + 1) + one  # one more: the end of an axis stands for nowhere
            return found

        return each_point("cell", number, *self._positions)

    @lazy_property
    def _positions(self) -> list[Tensor]:
        """What each operand with positions holds, for each update; what is nowhere is at the end of its axis."""
        held, logic = self.scatter.held, self._operation.logic
        assert isinstance(logic, Einsum)
        reads: list[ReadAs] = [(replace(axes, along=None), cast(at, "int64")) for axes, at in held]
        reads += [(self.element, stop_gradient(self.x))] * (self._where is self.element)
        found = list[Tensor]()
        for number, size in enumerate(self._sizes):
            inside = partial(_inside, number=number, size=size, clips=logic.outside == "clip")
            at = related("at", inside, reads, self._where, sizes=_ones(self._where, self.one))
            found.append(self._flat(at, self._where))
        return found

    @property
    def _where(self) -> ShapeSpec:
        """The axes along which positions differ, and all that updates are along, if these are among them."""
        held = {name for axes, _ in self.scatter.held for name in axes.names}
        if not held.issuperset(self._left):
            return self.element
        return _with_output(_only(self.element, held), self.one)

    @lazy_property
    def _cells(self) -> ShapeSpec:
        """The axes of the result, one for each label that cells are told apart by."""
        spec = self.scatter.spec
        known = {*self.element.names, *(label.name for label in spec.positions.values())}

        def row(kind: Kind, one: Row) -> Row:
            lead, trail = (tuple(label for axis in axes for label in labels_in(axis)) for axes in (one.lead, one.trail))
            return Row(lead, one.var, trail) if one.var else Row((), None, lead + trail)

        return _with_output(_only(each_row(row, spec.result), known), self.one)

    @property
    def _left(self) -> list[str]:
        """What the result leaves out."""
        kept = self.scatter.spec.result.names
        return [name for name in self.element.names if name not in kept and name != self.one.name]

    def _kept(self, shape: ShapeSpec) -> ShapeSpec:
        """What there is for each update, of the axes of all of them."""
        return _with_output(less_axes(shape, self._left), self.one)

    def _led(self, shape: ShapeSpec, along: Label) -> ShapeSpec:
        """All axes of updates as one, the leftmost of the batch."""
        kept = self._kept(shape)
        return replace(kept, batch=led_by(along, kept.batch))

    def _flat(self, x: Tensor, shape: ShapeSpec) -> Tensor:
        axes = JoinedAxes.of(x, Groups.plain(show_spec(Spec((shape,), self._kept(shape))), "scatter"))
        labels = tuple(map(Label, axes.reduced))
        along = FlatAxis(labels) if len(labels) > 1 else labels[0] if labels else self.along
        kept = _with_output(less_axes(axes.whole, axes.reduced), self.one)
        flat = replace(kept, batch=led_by(along, kept.batch))
        return contract(show_spec(Spec((axes.whole,), flat)), [x], sizes=_ones(flat, self.one, self.along))

    def _in_order(self, x: Tensor, shape: ShapeSpec) -> Tensor:
        """What there is for each update, in the order of their cells."""
        held = replace(self._led(self._where, self.ordered), along=self.along)
        read = Spec((self._led(shape, self.along), held), self._led(shape, self.ordered))
        return contract(show_spec(read), [x, self._order], outside="clip")

    @property
    def _operation(self) -> Operation:
        operation = self.scatter.y.operation
        assert operation is not None
        return operation

    @property
    def _sizes(self) -> list[Extent]:
        """How many positions there are, for each operand that holds some."""
        names = [label.name for label in self.scatter.spec.positions.values()]
        return [Extent(name, SizeOf(self._operation, name)) for name in names]

    @property
    def _known(self) -> dict[str, int]:
        """The same by name, as far as they are known already."""
        labels, names = self._operation.labels, [label.name for label in self.scatter.spec.positions.values()]
        return {name: size for name in names if (size := labels[name].size) is not None}


_ZERO = Row((), None, (Position(0),))


def _inside(*at: Scalar, number: int, size: Scalar, clips: bool) -> Scalar:
    """A position on its axis: the nearest one, or the end."""
    one = at[number]
    if clips:
        return call("min", call("max", one, 0), size - 1)
    return call("where", call("and", call("le", 0, one), one < size), one, size)


def _continued(here: Scalar, there: Scalar, joined: Scalar, alone: Scalar) -> Scalar:
    return call("where", call("eq", here, there), joined, alone)


def _unless_empty(state: Tensor, last: Tensor, nothing: float | int | bool) -> Tensor:
    return each_point("cell", lambda one, at: call("where", at < 0, Num(nothing), one), state, last)


def _typed(value: float | int | bool, like: Tensor) -> Tensor:
    """A number as others are, if these are whole: what there is no gradient of."""
    dtype = Peek()(like.node.precision)
    return constant(value, dtype=None if is_float(dtype) else dtype)


def _only(shape: ShapeSpec, names: Collection[str]) -> ShapeSpec:
    return less_axes(shape, [name for name in shape.names if name not in names])


def _with_output(shape: ShapeSpec, axis: Axis) -> ShapeSpec:
    """A shape with an output row that is written: every tensor has one."""
    row = shape.output
    return shape if row.var or row.axes else replace(shape, output=Row((), None, (axis,)))


def _ones(shape: ShapeSpec, *labels: Label) -> dict[str, int]:
    """That labels of a shape are axes of 1."""
    return {label.name: 1 for label in labels if label in shape.axes}
