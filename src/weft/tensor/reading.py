"""The operation that an assignment read from text runs: which tensors fill which of its slots."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from weft.assign import Node
from weft.einsum import parse_spec
from weft.einsum.nodes import Hole
from weft.errors import Span, user_origin
from weft.notation import Mistake
from weft.ops import Scalar
from weft.shape.cells import ShapeVar
from weft.shape.infer import Operation, infer
from weft.shape.logic import Compose, Einsum, Logic, Pointwise, Slice, Varying, Written, arity
from weft.shape.nodes import Dim
from weft.tensor.tensor import Tensor

_SAME_SHAPE = "...|...->... => ...|...->..."


@dataclass(frozen=True, slots=True)
class Reading:
    """A right side: what it computes at each point, over which tensors, in which slots of which logic."""

    logic: Logic
    value: Scalar
    tensors: tuple[Tensor, ...]
    slots: tuple[int, ...]
    lhs: int
    sizes: Mapping[str, Dim]
    span: Span
    operation: Operation | None = None  # where it is that of another statement
    positions: Mapping[int, Tensor] = field(default_factory=dict)

    @property
    def by_slot(self) -> dict[int, Tensor]:
        """The tensors read, for values or positions, by slot."""
        return {**dict(zip(self.slots, self.tensors, strict=True)), **self.positions}


def operation_of(reading: Reading, target: Node) -> Operation:
    """The operation whose slots the tensors of an assignment fill."""
    last = arity(reading.logic)
    shapes: dict[int, ShapeVar] = dict(enumerate(reading.operation.slots)) if reading.operation else {}
    placed = [
        (reading.lhs, target.shape),
        *((slot, one.shape) for slot, one in zip(reading.slots, reading.tensors, strict=True)),
        *((slot, one.shape) for slot, one in reading.positions.items()),
    ]
    for slot, shape in placed:
        if slot > last:
            raise Mistake(f"there is no slot {slot}: the operation has slots 0 to {last}", reading.span)
        if shapes.setdefault(slot, shape) is not shape:
            infer(
                Einsum(parse_spec(_SAME_SHAPE)),
                [shape],
                title="slots",
                origin=user_origin(),
                result=shapes[slot],
                code=True,
            )
    if reading.operation:
        return reading.operation
    part = isinstance(reading.logic, Slice | Written)  # what is written to a part says what the part is
    for slot in range(part, last + 1):
        if slot not in shapes:
            shapes[slot] = _absent(slot, reading)
    operands = [shapes[slot] for slot in range(1, last + 1)]
    return infer(
        reading.logic,
        operands,
        title=target.label,
        origin=user_origin(),
        result=shapes.get(0),
        sizes=reading.sizes,
        code=True,
    )


def _absent(slot: int, reading: Reading) -> ShapeVar:
    """A shape for a slot no tensor fills, where the others tell all that matters."""
    if not _told(slot, reading):
        what = f"nothing fills slot {slot}, and the loops depend on its shape"
        raise Mistake(what, reading.span, "mention a tensor in every slot of the operation")
    return infer(Varying(), name="absent", title="slots", origin=user_origin(), code=True).result


def _told(slot: int, reading: Reading) -> bool:
    """Do the other slots have all axes that the loops of this one could run over?"""
    match reading.logic:
        case Pointwise():
            return slot > 0
        case Compose():
            return slot == 2
        case Einsum(spec=spec):
            known = {name for one in (reading.lhs, *reading.by_slot) for name in spec.shapes[one].names}
            own = spec.shapes[slot]
            return known.issuperset(own.names) and not any(isinstance(axis, Hole) for axis in own.axes)
    return False
