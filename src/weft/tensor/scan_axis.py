"""The axis that a scan runs along, and how it becomes the leftmost batch axis and goes back to where it was.

"b, t|d => b|d"      runs along t: a step sees b|d, and what it gives lies as xs does
"...|t => ...|0"     of an output row nothing else of which is written, an axis of 1 stays: every tensor has one
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from weft.einsum import parse_spec
from weft.einsum.nodes import KINDS, Axis, Kind, Label, Position, Row, RowVar, ShapeSpec, Spec, by_kind
from weft.einsum.show import show_spec
from weft.errors import EinsumError, user_origin
from weft.shape.infer import infer
from weft.shape.logic import Einsum
from weft.shape.nodes import Dim, show_rows
from weft.tensor.einsum import contract
from weft.tensor.groups import Groups
from weft.tensor.tensor import Tensor

#: The leftmost batch axis.
FIRST_BATCH_AXIS = "t, ...|...->... => ...|...->..."
#: The last output axis.
LAST_OUTPUT_AXIS = "...|...->...t => ...|...->...0"
#: An output row that ends in one axis.
_ONE = Einsum(parse_spec("...|...->..., one => ...|...->..."))


@dataclass(frozen=True, slots=True)
class ScanAxis:
    """An axis `along` of a shape `element`: that of `kind` is its row."""

    element: ShapeSpec
    along: Label
    kind: Kind

    @staticmethod
    def of(spec: str, user: str) -> ScanAxis:
        """The one axis that a spec leaves out."""
        groups = Groups.plain(spec, user)
        element, kept = groups.element, groups.group.names
        along = [axis for axis in element.axes if isinstance(axis, Label) and axis.name not in kept]
        if len(along) != 1:
            what = f"{user} runs along one axis, and the spec leaves out {len(along)}"
            fix = 'leave out one label: "...|t, d => ...|d" runs along t'
            raise EinsumError(what, text=groups.text, spans=[axis.span for axis in along], fix=fix)
        kind = next(kind for kind in KINDS if along[0] in element.row(kind).axes)
        found = ScanAxis(element, along[0], kind)
        found._check_order(groups, user)
        return found

    def front(self, x: Tensor, sizes: Mapping[str, int] | None = None) -> Tensor:
        """A tensor with the axis as its leftmost batch axis."""
        if self._is_first:
            return x
        return contract(show_spec(Spec((self.element,), self._front(self._step))), [x], sizes=sizes)

    def back(self, stacked: Tensor, label: str) -> Tensor:
        """What has the axis as its leftmost batch axis with it at its own place, whatever other rows it has."""
        if self._is_first:
            return stacked
        if self._stays:
            infer(_ONE, [stacked.shape], title="scan", origin=user_origin(), sizes={"one": Dim(1)})
        own, step = (_only(self.kind, shape.row(self.kind)) for shape in (self.element, self._step))
        return contract(show_spec(Spec((self._front(step),), own)), [stacked], label=label)

    @property
    def _is_first(self) -> bool:
        return self.element.batch.lead[:1] == (self.along,)

    @property
    def _stays(self) -> bool:
        """Does an axis of 1 stay in its place?"""
        return self.kind == "output" and self.element.output.axes == (self.along,)

    @property
    def _step(self) -> ShapeSpec:
        """What a step sees."""
        row = self.element.row(self.kind)

        def less(axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
            replaced = (Position(0) if axis == self.along and self._stays else axis for axis in axes)
            return tuple(axis for axis in replaced if axis != self.along)

        return _with_row(self.element, self.kind, replace(row, lead=less(row.lead), trail=less(row.trail)))

    def _front(self, step: ShapeSpec) -> ShapeSpec:
        return replace(step, batch=replace(step.batch, lead=(self.along, *step.batch.lead)))

    def _check_order(self, groups: Groups, user: str) -> None:
        """All other axes stay where they are: nothing else is said on the right."""
        step, group = ([*map(_labels, shape.rows)] for shape in (self._step, groups.group))
        if step != group:
            what = f"{user} leaves all axes but `{self.along.name}` where they are, and the spec moves some"
            batch, input, output = (", ".join(names) for names in step)
            fix = f'write "… => {show_rows(batch, input, output or "0")}", and move axes in an einsum of its own'
            raise EinsumError(what, text=groups.text, spans=[groups.group.span], fix=fix)


def _labels(row: Row) -> list[str]:
    return [axis.name for axis in row.axes if isinstance(axis, Label)]


def _only(kind: Kind, row: Row) -> ShapeSpec:
    """A shape of which one row is written, and the others are what they are."""
    return ShapeSpec(*by_kind(lambda one: row if one == kind else Row((), RowVar(one))))


def _with_row(shape: ShapeSpec, kind: Kind, row: Row) -> ShapeSpec:
    return ShapeSpec(*by_kind(lambda one: row if one == kind else shape.row(one)))
