"""Concatenation and stacking of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.einsum.nodes import Kind
from weft.errors import WeftError, user_origin
from weft.tensor.contract import einsum
from weft.tensor.leaves import Batch, Labelled
from weft.tensor.scope import as_tensor
from weft.tensor.tensor import Tensor, TensorLike

_ROWS: dict[Kind, str] = {
    "batch": "{axis}, ...|...->...",
    "input": "...|{axis}, ...->...",
    "output": "...|...->{axis}, ...",
}


def concat(*tensors: TensorLike, kind: Kind = "output", label: str = "") -> Tensor:
    """Join tensors end to end along the first axis of a row; their other axes must agree."""
    _check(tensors, kind, "concat")
    names = [f"part{number}" for number in range(len(tensors))]
    operands = "; ".join(_ROWS[kind].format(axis=name) for name in names)
    return einsum(f"{operands} => {_ROWS[kind].format(axis='^'.join(names))}", *tensors, label=label)


def stack(*tensors: TensorLike, kind: Kind = "output", label: str = "") -> Tensor:
    """Lay tensors of one shape along a new first axis of a row."""
    _check(tensors, kind, "stack")
    spec = f"...|...->... => {_ROWS[kind].format(axis='one')}"
    return concat(*(einsum(spec, tensor, one=1) for tensor in tensors), kind=kind, label=label)


def stack_literal(items: Any, *, label: str = "") -> Tensor:
    """A literal with tensors inside: lists, tuples and batches stack along new axes of their kinds."""
    match items:
        case Labelled():
            raise WeftError("an axis of stacked tensors cannot be labelled", origin=user_origin())
        case Batch(items=inner):
            return stack(*(stack_literal(one) for one in inner), kind="batch", label=label)
        case list():
            return stack(*(stack_literal(one) for one in items), kind="output", label=label)
        case tuple():
            return stack(*(stack_literal(one) for one in items), kind="input", label=label)
    return as_tensor(items, "a literal")


def _check(tensors: Sequence[Any], kind: str, what: str) -> None:
    if not tensors:
        raise WeftError(f"{what} needs at least one tensor", origin=user_origin())
    if kind not in _ROWS:
        raise WeftError(f"there is no kind of axis {kind!r}", origin=user_origin(), fix="use batch, input or output")
