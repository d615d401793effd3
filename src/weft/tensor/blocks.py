"""Concatenation and stacking of tensors."""

from __future__ import annotations

from collections.abc import Sequence

from weft.einsum.nodes import Kind
from weft.errors import WeftError, user_origin
from weft.tensor.contract import contract
from weft.tensor.scope import as_tensor
from weft.tensor.tensor import Tensor, TensorLike

_ROWS: dict[Kind, str] = {
    "batch": "{axis}, ...|...->...",
    "input": "...|{axis}, ...->...",
    "output": "...|...->{axis}, ...",
}


def concat(*tensors: TensorLike, kind: Kind = "output", label: str = "") -> Tensor:
    """Join tensors end to end along the first axis of a row; their other axes must agree."""
    parts = _parts(tensors, kind, "concat")
    names = [f"part{number}" for number in range(len(parts))]
    operands = "; ".join(_ROWS[kind].format(axis=name) for name in names)
    spec = f"{operands} => {_ROWS[kind].format(axis='^'.join(names))}"
    return contract(spec, parts, label=label, left=True)


def stack(*tensors: TensorLike, kind: Kind = "output", label: str = "") -> Tensor:
    """Lay tensors of one shape along a new first axis of a row."""
    parts = _parts(tensors, kind, "stack")
    spec = f"...|...->... => {_ROWS[kind].format(axis='one')}"
    return concat(*(contract(spec, [part], sizes={"one": 1}) for part in parts), kind=kind, label=label)


def _parts(tensors: Sequence[TensorLike], kind: str, what: str) -> list[Tensor]:
    if not tensors:
        raise WeftError(f"{what} needs at least one tensor", origin=user_origin())
    if kind not in _ROWS:
        raise WeftError(f"there is no kind of axis {kind!r}", origin=user_origin(), fix="use batch, input or output")
    return [as_tensor(tensor, what) for tensor in tensors]
