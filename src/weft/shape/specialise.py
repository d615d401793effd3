"""Specialisation: the operations of a graph once more, on shapes of their own, with sizes that were open decided.

    x: batch|64    h = w @ x: batch|10        for batch=32        x': 32|64    h' = w' @ x': 32|10

Each operation says again what it said (its claims) about copies of the shapes it related. What does not depend on open
sizes is closed by then, and is copied as it is: parameters have one shape for all lengths. So the copies are inferred
and closed as if the sizes had been written from the start, and the graph itself stays open.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from weft.shape.cells import CODE, AxisCell, ConstraintStore, InferenceStep, RowCell, ShapeVar
from weft.shape.infer import Operation, infer
from weft.shape.inference_lock import alone
from weft.shape.logic import Input, elaborate
from weft.shape.nodes import Dim
from weft.shape.reach import reach


@dataclass(slots=True)
class Specialisation:
    """Copies of shapes, and operations on them, by the steps of which they are copies."""

    sizes: Mapping[str, Dim]
    shapes: dict[ShapeVar, ShapeVar] = field(default_factory=dict)
    operations: dict[InferenceStep, Operation] = field(default_factory=dict)

    @alone
    def repeat(self, steps: Iterable[InferenceStep]) -> None:
        """Apply operations once more, and all those before them that say what their shapes are."""

        def earlier(step: InferenceStep) -> Iterable[InferenceStep]:
            return (one for shape in step.slots if not seen(shape).checked for one in shape.steps)

        for step in sorted(reach(steps, earlier), key=lambda step: step.order):
            if step.claims is not None and step not in self.operations:
                self._repeat(step)

    def _repeat(self, step: InferenceStep) -> None:
        claims, target = step.claims, seen(step.slots[0])
        assert claims is not None
        logic = claims.logic.bound(self.sizes) if isinstance(claims.logic, Input) else claims.logic
        made = infer(
            logic,
            [self.shape(slot) for slot in step.slots[1:]],
            name=target.name,
            title=step.title,
            origin=step.origin,
            result=None if claims.makes else self.shape(target),
            sizes=claims.sizes,
            also=claims.constraints[len(elaborate(claims.logic)) :],
            code=step.level == CODE,
            varies=not target.assigned,
        )
        self.operations[step] = made
        if claims.makes:
            self.shapes[target] = made.result

    def shape(self, shape: ShapeVar) -> ShapeVar:
        """The copy of a shape; of a closed one, or of one that code sees, that of the shape itself."""
        own = seen(shape)
        if own not in self.shapes:
            assert own.checked, f"nothing says yet what `{own.name}` is"
            self.shapes[own] = _closed_copy(own)
        return self.shapes[own]


def seen(shape: ShapeVar) -> ShapeVar:
    """The shape of the model that a shape is code's view of; else the shape."""
    first = shape.steps[0] if shape.steps else None
    return first.slots[1] if first is not None and first.claims is None else shape


def _closed_copy(shape: ShapeVar) -> ShapeVar:
    """A closed shape with cells of its own, in no graph yet."""
    made = ShapeVar(shape.name, "inner", ConstraintStore(), shape.marks, shape.origin, (), shape.level)
    made.batch, made.input, made.output = (_closed_row(row, made) for row in shape.rows)
    made.used, made.assigned, made.checked = shape.used, shape.assigned, True
    return made


def _closed_row(row: RowCell, owner: ShapeVar) -> RowCell:
    assert row.axes is not None
    rank = len(row.axes)
    made = RowCell(row.kind, row.role, owner, row.mark, row.level, True, row.silent, row.unasked, rank, rank)
    made.axes = tuple([_closed_axis(axis, made) for axis in row.axes])
    return made


def _closed_axis(axis: AxisCell, row: RowCell) -> AxisCell:
    return AxisCell(
        row,
        axis.label,
        axis.least,
        row.level,
        True,
        size=axis.size,
        basis=axis.basis,
        plain=axis.plain,
        claim=axis.claim,
        written=axis.written,
        why=axis.why,
        why_basis=axis.why_basis,
        why_plain=axis.why_plain,
    )
