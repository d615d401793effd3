"""States of a monoid joined along axes of tensors, to one state for each group.

Along an axis of known size they are joined two by two, in as many levels as its size has binary digits; all of these
together have as many cells as twice the axis. What stands at the end where a number is odd is joined last:

    s1[i] =: combine(s0[2 i], s0[2 i + 1]);  s2[i] =: combine(s1[2 i], s1[2 i + 1]);  …

Along one whose size each call decides they are joined one after another, by a scan.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from weft.einsum.nodes import (
    KINDS,
    AffineAxis,
    Axis,
    ConcatAxis,
    Kind,
    Label,
    Position,
    Row,
    ShapeSpec,
    Skip,
    Spec,
    labels_in,
)
from weft.einsum.show import show_spec
from weft.errors import user_origin
from weft.naming import FreshNames
from weft.ops import Monoid, Scalar, leaves
from weft.ops.monoid import Formal, over_numbers
from weft.shape.infer import infer
from weft.shape.logic import Einsum, Stated
from weft.shape.nodes import RowIs, RowRef
from weft.tensor.einsum import contract
from weft.tensor.functions import each_point
from weft.tensor.groups import Groups, each_row, related
from weft.tensor.scan import scan
from weft.tensor.tensor import Tensor

#: The numbers of states, a tensor each.
States = list[Tensor]


def joined_along_groups(monoid: Monoid, groups: Groups, states: States) -> States:
    """The states of each group as one, along axes that have size 1 then."""
    axes = JoinedAxes.of(states[0], groups)
    for name in reversed(axes.reduced):
        states = _Joining(monoid, axes, name).joined(states)
    return states


def over_given(value: Scalar) -> Callable[..., Scalar]:
    """A traced value as a function of the numbers that it mentions."""
    return lambda *numbers: over_numbers((value,), numbers)[0]


def combined_states(monoid: Monoid, one: States, other: States) -> States:
    """Two states joined, point by point."""
    numbers = [*one, *other]
    parts = map(numbers_of, monoid.combine)
    return [each_point("join", over_given(value), *(numbers[at] for at in used)) for used, value in parts]


def numbers_of(value: Scalar) -> tuple[list[int], Scalar]:
    """Which numbers a traced value mentions, and the value over these alone."""
    used = sorted({leaf.number for leaf in leaves(value) if isinstance(leaf, Formal)})
    places = [Formal(used.index(number) if number in used else 0) for number in range(max(used, default=0) + 1)]
    return used, over_numbers((value,), places)[0]


@dataclass(frozen=True, slots=True)
class JoinedAxes:
    """The axes of a tensor by name, those that are reduced in order, and their sizes as far as they are known."""

    whole: ShapeSpec
    reduced: tuple[str, ...]
    sizes: Mapping[str, int | None]

    @staticmethod
    def of(x: Tensor, groups: Groups) -> JoinedAxes:
        names, kept = FreshNames(groups.operand.names), groups.group.names
        rows, reduced = list[Row](), list[str]()
        for kind in KINDS:
            row = groups.operand.row(kind)
            stays = row.var is not None and row.var.name in kept
            if x.shape.row(kind).axes is None and stays:
                rows.append(row)
            else:
                between = [Label(names.fresh(kind)) for _ in range(_rank(x, kind) - len(row.axes))]
                kept += [axis.name for axis in between if stays]
                rows.append(Row((), None, (*row.lead, *between, *row.trail)))
            reduced += [name for axis in rows[-1].axes for name in _names(axis) if name not in kept]
        batch, input, output = rows
        whole = ShapeSpec(batch, input, output)
        spec = Spec((whole,), ShapeSpec(Row(), Row(), Row((), None, (Position(0),))))
        labels = infer(Einsum(spec), [x.shape], title="joins", origin=user_origin()).labels
        return JoinedAxes(whole, tuple(reduced), {name: labels[name].size for name in reduced})

    def read(self, name: str, axis: Axis) -> ShapeSpec:
        """All axes, one of them read in its own way."""

        def row(one: Row) -> Row:
            lead, trail = (tuple(axis if at == Label(name) else at for at in axes) for axes in (one.lead, one.trail))
            return Row(lead, one.var, trail)

        return each_row(lambda _, one: row(one), self.whole)


def _names(axis: Axis) -> list[str]:
    return [label.name for label in labels_in(axis)]


def _rank(x: Tensor, kind: Kind) -> int:
    """How many axes a row has all of which are joined: if that is not known, then those that are, and no others."""
    row = x.shape.row(kind)
    if row.axes is None:
        exactly = RowIs(RowRef(1, kind), trail=tuple(Label(f"a{number}") for number in range(row.lo)))
        infer(Stated(1, (exactly,)), [x.shape], title="joins", origin=user_origin())
    return row.lo


def led_by(axis: Axis, row: Row) -> Row:
    """A row with one more axis on the left."""
    return replace(row, lead=(axis, *row.lead)) if row.var else Row((), None, (axis, *row.trail))


@dataclass(frozen=True, slots=True)
class _Joining:
    """Values along one axis, which are joined to one."""

    monoid: Monoid
    axes: JoinedAxes
    along: str

    def joined(self, states: States) -> States:
        count = self.axes.sizes[self.along]
        return self._in_order(states) if count is None else self._two_by_two(states, count)

    def _in_order(self, states: States) -> States:
        step = self.axes.read(self.along, Position(0))
        front = show_spec(Spec((self.axes.whole,), replace(step, batch=led_by(self._label, step.batch))))
        _, last = scan(self._cell, [contract(front, [one]) for one in states], init=list(self.monoid.start))
        return list(last)

    def _cell(self, carry: States, one: States) -> States:
        return combined_states(self.monoid, carry, one)

    def _two_by_two(self, states: States, count: int) -> States:
        last, label = list[States](), self._label
        while count > 1:
            if count % 2:
                last.append(self._part(states, ConcatAxis((Skip(count - 1), label))))
                states = self._part(states, ConcatAxis((label, Skip(1))))
            states = self._joined(states, states, AffineAxis(2, label, None, 0), AffineAxis(2, label, None, 1))
            count //= 2
        for rest in reversed(last):
            states = self._joined(states, rest, label, label)
        return states

    def _part(self, states: States, axis: Axis) -> States:
        read = self.axes.read(self.along, axis)
        return [related("part", lambda x: x, [(read, one)], self.axes.whole) for one in states]

    def _joined(self, left: States, right: States, *read: Axis) -> States:
        shapes = [self.axes.read(self.along, axis) for axis in read]
        reads = [(shape, one) for shape, states in zip(shapes, (left, right), strict=True) for one in states]
        return [
            related("join", over_given(value), [reads[at] for at in used], self.axes.whole)
            for used, value in map(numbers_of, self.monoid.combine)
        ]

    @property
    def _label(self) -> Label:
        return Label(self.along)
