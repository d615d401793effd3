"""What code says that is hardly meant. Every doubt is an error that is not raised yet: a warning, unless one is strict.

- A batch axis that a spec neither writes nor covers by `...` is reduced: examples are mixed.
- Output axes that a spec does not write are reduced, of a tensor that has no batch axis where the spec expects some.
- Data of several axes, none of them a batch axis, is mapped as a whole by a parameter that was not told its inputs.
- A tensor without batch axes, as long as there are examples, stretches a batch of single numbers: each meets all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import permutations
from math import prod

from weft.assign.nodes import Accum, Code, statements
from weft.einsum import Row, RowVar, ShapeSpec, Spec, show_spec
from weft.errors import ShapeError, WeftError
from weft.ops import OPS, Call
from weft.shape.infer import Operation
from weft.shape.logic import Compose, Einsum, Pointwise
from weft.shape.nodes import Dim, Shape


def doubts(code: Code) -> Iterator[WeftError]:
    """Each doubt about code whose shapes are closed, once for every operation that was applied."""
    seen: set[Operation] = set()
    for statement in statements(code):
        if not isinstance(statement, Accum) or statement.record.operation in seen:
            continue
        operation = statement.record.operation
        seen.add(operation)
        match operation.logic:
            case Einsum(spec=spec):
                yield from _unwritten(operation, spec)
                yield from _unbatched(operation, spec)
            case Compose():
                yield from _taken_whole(operation)
            case Pointwise() if not _compares(statement):
                yield from _stretched(operation)


def _unwritten(operation: Operation, spec: Spec) -> Iterator[WeftError]:
    """Batch axes that are reduced without a word."""
    slots = operation.slots[1:]
    further = [_further(shape, slot.closed) for shape, slot in zip(spec.operands, slots, strict=True)]
    for shape, slot, axes in zip(spec.operands, slots, further, strict=True):
        if prod(dim.size for dim in axes) > 1:
            sizes = ("axis of " if len(axes) == 1 else "axes of ") + ",".join(map(str, axes))
            yield ShapeError(
                f"`{slot.name}` is {slot}, and the spec does not write its batch {sizes}, which mixes all examples",
                origin=operation.step.origin,
                text=spec.text,
                spans=[shape.span],
                fix=_written(spec, further),
            )


def _unbatched(operation: Operation, spec: Spec) -> Iterator[WeftError]:
    """Output axes that are reduced without a word, of what may have a batch, and has none."""
    for shape, slot in zip(spec.operands, operation.slots[1:], strict=True):
        closed = slot.closed
        if closed is None or closed.batch or not (shape.batch.var or shape.batch.axes) or shape.output.var:
            continue
        axes = closed.output[: len(closed.output) - len(shape.output.axes)]
        if shape.output.axes and prod(dim.size for dim in axes) > 1:
            sizes = ("axis of " if len(axes) == 1 else "axes of ") + ",".join(map(str, axes))
            yield ShapeError(
                f"`{slot.name}` is {slot}, without a batch axis, and the spec does not write its output {sizes}, "
                "which is reduced",
                origin=operation.step.origin,
                text=spec.text,
                spans=[shape.span],
                fix=f"if it holds examples, say so: wf.data(…, batch={len(axes)}); if not, write it in the spec",
            )


def _written(spec: Spec, further: Sequence[tuple[Dim, ...]]) -> str:
    """How to write the axes that are not written."""
    if len({axes for axes in further if axes}) > 1:
        return "name them, or cover them by `...` or `..name..`, in the result too to keep them apart"
    rows = {row.var.name for shape in spec.shapes for row in shape.rows if row.var}
    var = RowVar("more" if "batch" in rows else "batch")
    operands = (_covered(shape, var) if axes else shape for shape, axes in zip(spec.operands, further, strict=True))
    summed = replace(spec, operands=tuple(operands))
    kept = replace(summed, result=_covered(spec.result, var))
    apart = f"write `{show_spec(kept)}` to keep them apart, " if spec.result.batch.var is None else "write "
    return apart + f"`{show_spec(summed)}` to reduce them on purpose"


def _further(spec: ShapeSpec, closed: Shape | None) -> tuple[Dim, ...]:
    """The batch axes that a part of a spec neither writes nor covers."""
    if closed is None or spec.batch.var is not None:
        return ()
    return closed.batch[: len(closed.batch) - len(spec.batch.axes)]


def _covered(shape: ShapeSpec, var: RowVar) -> ShapeSpec:
    """The shape with any further batch axes written."""
    return replace(shape, batch=Row((), var, shape.batch.trail)) if shape.batch.var is None else shape


def _taken_whole(operation: Operation) -> Iterator[WeftError]:
    """Data without a batch axis as one example, by a parameter whose inputs nobody gave."""
    left, right = operation.slots[1:]
    closed = right.closed
    decided = [axis.why.step for axis in left.input.axes or () if axis.why]
    if left.input.role != "param" or right.output.role not in ("leaf", "input"):
        return
    if not any(step is operation.step for step in decided):  # they are given, or follow from another use
        return
    if closed is None or closed.batch or closed.input or len(closed.output) < 2 or closed.output[0].size == 1:
        return
    sizes, inputs = ",".join(map(str, closed.output)), ", ".join(str(dim.size) for dim in closed.output)
    yield ShapeError(
        f"`{right.name}` is {sizes}, without a batch axis, and `{left.name}` maps all of it at once: one example",
        origin=operation.step.origin,
        fix="if its first axis holds examples, say so: wf.data(…, batch=1); "
        f"if it is one example, give `{left.name}` its inputs: i=({inputs})",
    )


def _stretched(operation: Operation) -> Iterator[WeftError]:
    """One number for each example beside as many numbers for all."""
    shapes = [(slot.name, slot.closed) for slot in operation.slots[1:]]
    for (name, single), (other, plain) in permutations(shapes, 2):
        if single is None or plain is None or not single.batch or plain.batch or plain.input:
            continue
        examples = single.batch[-1].size
        if examples > 1 and plain.output[-1].size == examples and _count(single) == 1:
            yield ShapeError(
                f"`{other}` has no batch axis, so each of the {examples} examples of `{name}` meets all its "
                f"{examples} numbers: {single} and {plain}",
                origin=operation.step.origin,
                fix=f"if it has one number for each example, make it {examples}|1: wf.data(…, batch=1); "
                f"if all examples meet all of it, give it a batch axis of 1: 1|{examples}",
            )
            return


def _count(shape: Shape) -> int:
    return prod(dim.size for dim in (*shape.output, *shape.input))


def _compares(statement: Accum) -> bool:
    """Comparing each with each is how one-hots and masks are made."""
    return isinstance(statement.value, Call) and OPS[statement.value.op].truth
