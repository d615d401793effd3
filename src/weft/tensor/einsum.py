"""`wf.einsum` on tensors: any number of operands, any pair of accumulating and combining operations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weft.assign import Extent, SizeOf, Slot
from weft.einsum import parse_spec
from weft.einsum.nodes import KINDS, ConcatAxis
from weft.errors import EinsumError, WeftError, user_origin
from weft.ops import Op, Scalar, accumulator, call, find
from weft.project.plan import check_labels, operands_fix
from weft.shape.infer import Operation
from weft.shape.logic import Einsum
from weft.shape.text import as_dim
from weft.tensor.operator import Operator
from weft.tensor.tensor import Tensor, TensorLike


def einsum(
    spec: str, /, *operands: TensorLike, accum: str = "+", op: str = "*", label: str = "", **sizes: int
) -> Tensor:
    """Contract `operands` as the spec says; keywords give sizes of labels and row variables.

    `accum` reduces. `op` combines: a binary operation any number of operands, one of another arity as many as it takes.
    """
    return contract(spec, operands, accum=accum, op=op, label=label, sizes=sizes)


def contract(
    spec: str,
    operands: Sequence[TensorLike],
    *,
    accum: str = "+",
    op: str = "*",
    label: str = "",
    sizes: Mapping[str, int] | None = None,
    left: bool = False,
) -> Tensor:
    """`einsum` with its arguments as values; with `left` the result grows on the left, wherever its `...` stand."""
    origin, sizes = user_origin(), sizes or {}
    parsed = parse_spec(spec)
    if len(operands) != len(parsed.operands):
        raise EinsumError(
            f"the spec has {len(parsed.operands)} operands and was given {len(operands)}",
            origin=origin,
            text=parsed.text,
            spans=[operand.span for operand in parsed.operands],
            fix=operands_fix(parsed, len(operands)),
        )
    combine, gather = _combination(op, len(operands)), accumulator(accum).name
    check_labels(parsed, sizes)
    joined = [axis for axis in parsed.result.axes if isinstance(axis, ConcatAxis)]
    if joined and len(operands) > 1 and combine.name != "mul":
        raise EinsumError(
            f"a concatenation copies its parts, so `op={op!r}` has nothing to combine",
            origin=origin,
            text=parsed.text,
            spans=[axis.span for axis in joined],
            fix="leave out op=, and combine in an operation of its own",
        )

    def forward(v: Slot, *values: Slot) -> None:
        value: Scalar = values[0] if combine.arity == 2 else call(combine.name, *values)
        for other in values[1:] if combine.arity == 2 else ():
            value = call(combine.name, value, other)
        v.accumulate(gather, value, reset=True)

    dims = {name: as_dim(size, f"`{name}`") for name, size in sizes.items()}
    return Operator("einsum", None, forward).apply(Einsum(parsed, left), operands, label=label, sizes=dims)


def _combination(op: str, operands: int) -> Op:
    """What combines the operands of an einsum: two at a time, or all of them at once."""
    found = find(op)
    if found.arity not in (2, operands):
        count = "one operand" if found.arity == 1 else f"{found.arity} operands"
        raise WeftError(f"op={op!r} takes {count}, and the spec has {operands}")
    return found


def _measured(operation: Operation | None) -> str:
    """What `dim` could be asked of instead."""
    rows = [name for name in operation.rows if name not in KINDS] if operation else []
    names = [*operation.labels, *rows] if operation else []
    if names:
        return f"ask for one of {', '.join(f'`{name}`' for name in names)}"
    return 'ask the tensor that an einsum computes: s = wf.einsum("...|d => ...|0", x); wf.dim(s, "d")'


def dim(tensor: Tensor, label: str) -> Extent:
    """The size of a label of the einsum that computes `tensor`, or of all axes of a row variable, as a number."""
    operation = tensor.operation
    if operation is None or (label not in operation.labels and label not in operation.rows):
        what = f"`{tensor.label}` is not computed by an einsum with a label `{label}`"
        raise EinsumError(what, fix=_measured(operation))
    return Extent(label, SizeOf(operation, label))
