"""`wf.einsum` on tensors: any number of operands, any pair of accumulating and combining operations."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial, reduce

from weft.assign import Extent, SizeOf, Slot
from weft.einsum import parse_spec
from weft.einsum.nodes import KINDS, ConcatAxis, Spec, labels_in
from weft.errors import EinsumError, WeftError
from weft.ops import Monoid, Num, Op, Scalar, accumulator, call, find
from weft.project.plan import check_labels, check_outside, operands_fix
from weft.shape.infer import Operation
from weft.shape.logic import Einsum, Outside
from weft.shape.text import as_dim
from weft.tensor.derivative import SHARED
from weft.tensor.operator import Operator
from weft.tensor.tensor import Tensor, TensorLike


def einsum(
    spec: str,
    /,
    *operands: TensorLike,
    accum: str | Monoid = "+",
    op: str = "*",
    label: str = "",
    outside: Outside = "check",
    **sizes: int,
) -> Tensor:
    """Contract `operands` as the spec says; keywords give sizes of labels and row variables.

    `accum` reduces. `op` combines: a binary operation any number of operands, one of another arity as many as it takes.
    An operand whose part of the spec ends in `@v` holds positions along `v`: others are read, or the result is written,
    there. `outside` says what becomes of positions that are none: an error ("check"), the nearest one ("clip"), or
    nothing at all ("skip").
    """
    return contract(spec, operands, accum=accum, op=op, label=label, outside=outside, sizes=sizes)


def contract(
    spec: str,
    operands: Sequence[TensorLike],
    *,
    accum: str | Monoid = "+",
    op: str = "*",
    label: str = "",
    outside: Outside = "check",
    sizes: Mapping[str, int] | None = None,
    left: bool = False,
) -> Tensor:
    """`einsum` with its arguments as values; with `left` the result grows on the left, wherever its `...` stand."""
    sizes, parsed = sizes or {}, parse_spec(spec)
    _check_count(parsed, len(operands))
    check_outside(outside, parsed)
    held = parsed.positions
    combine, gather = _combination(op, len(operands) - len(held)), accumulator(accum)
    sizes = {**_ranks(parsed, gather.monoid), **sizes}
    check_labels(parsed, sizes)
    if len(operands) > 1 and combine.name != "mul":
        _check_copies(parsed, op)
    if gather.monoid and gather.monoid.positional:
        _check_one_part(parsed, gather.name)

    def forward(v: Slot, *operands: Slot) -> None:
        values = [one for slot, one in enumerate(operands, 1) if slot not in held]
        v.accumulate(gather.name, _combined(combine, values), reset=True)

    dims = {name: as_dim(size, f"`{name}`") for name, size in sizes.items()}
    logic, dtype = Einsum(parsed, left, outside), "int64" if len(held) == len(operands) else None
    name = gather.name if gather.monoid else "einsum"
    made = Operator(name, None, forward).apply(logic, operands, label=label, sizes=dims, dtype=dtype)
    if gather.monoid is None or gather.name in SHARED or not made.differentiable:
        return made
    from weft.tensor.joins import differentiable_by_joins  # it is made of einsums

    def values(
        other: str, names: Collection[str], operands: Sequence[Tensor], op: str = op, accum: str | Monoid = "+"
    ) -> Tensor:
        given = {name: size for name, size in sizes.items() if name in names}
        beyond: Outside = outside if parse_spec(other).positions else "check"
        return contract(other, operands, accum=accum, op=op, outside=beyond, sizes=given)

    return differentiable_by_joins(made, gather.monoid, parsed, values)


def _check_count(spec: Spec, given: int) -> None:
    if given != len(spec.operands):
        raise EinsumError(
            f"the spec has {len(spec.operands)} operands and was given {given}",
            text=spec.text,
            spans=[operand.span for operand in spec.operands],
            fix=operands_fix(spec, given),
        )


def _check_copies(spec: Spec, op: str) -> None:
    joined = [axis for axis in spec.result.axes if isinstance(axis, ConcatAxis)]
    if joined:
        raise EinsumError(
            f"a concatenation copies its parts, so `op={op!r}` has nothing to combine",
            text=spec.text,
            spans=[axis.span for axis in joined],
            fix="leave out op=, and combine in an operation of its own",
        )


def _check_one_part(spec: Spec, accum: str) -> None:
    joined = [axis for axis in spec.axes if isinstance(axis, ConcatAxis) and len(labels_in(axis)) > 1]
    if joined:
        raise EinsumError(
            f"`{accum}` asks where values stand, which parts of a concatenation do not say",
            text=spec.text,
            spans=[axis.span for axis in joined],
            fix="join or split in an einsum of its own, and accumulate what it gives",
        )


def _combined(combine: Op, values: Sequence[Scalar]) -> Scalar:
    """What operands come to at a point; positions alone are counted."""
    if combine.arity != 2:
        return call(combine.name, *values)
    return reduce(partial(call, combine.name), values) if values else Num(1)


def _ranks(spec: Spec, monoid: Monoid | None) -> Mapping[str, int]:
    """The size of the label along which a monoid has several results."""
    if monoid is None or not monoid.ranks:
        return {}
    read = {label.name for operand in spec.operands for label in operand.labels}
    read |= {label.name for label in spec.positions.values()}
    own = {label.name: label.span for label in spec.result.labels if label.name not in read}
    if len(own) != 1:
        several = f"{monoid.ranks} number{'s' * (monoid.ranks > 1)}"
        what = f"`{monoid.name}` makes {several}, along a label of the result that no operand has"
        fix = 'name one: "b, v => b, k"'
        raise EinsumError(what, text=spec.text, spans=list(own.values()), fix=fix)
    return dict.fromkeys(own, monoid.ranks)


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


def dim(x: Tensor, label: str) -> Extent:
    """The size of a label of the einsum that computes `tensor`, or of all axes of a row variable, as a number."""
    operation = x.operation
    if operation is None or (label not in operation.labels and label not in operation.rows):
        what = f"`{x.label}` is not computed by an einsum with a label `{label}`"
        raise EinsumError(what, fix=_measured(operation))
    return Extent(label, SizeOf(operation, label))
