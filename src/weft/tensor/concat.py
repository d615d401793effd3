"""Concatenation and stacking of tensors."""

from __future__ import annotations

from collections.abc import Sequence

from weft.einsum.nodes import Kind
from weft.errors import ShapeError, WeftError
from weft.tensor.einsum import contract
from weft.tensor.scope import as_tensor
from weft.tensor.tensor import Tensor, TensorLike

#: A tensor whose first axis of a row is named.
ROWS: dict[Kind, str] = {
    "batch": "{axis}, ...|...->...",
    "input": "...|{axis}, ...->...",
    "output": "...|...->{axis}, ...",
}


def concat(*tensors: TensorLike, kind: Kind = "output", label: str = "") -> Tensor:
    """Join tensors end to end along the first axis of a row; their other axes must agree."""
    made = named_parts(tensors, kind, "concat")
    try:
        return _joined(made, kind, label)
    except ShapeError:
        what = f"tensors joined along their first {kind} axis must agree in its label and in all other axes"
        fix = "make these alike; wf.stack lays tensors along a new axis"
        raise _unlike(what, made, [one.label for one in made], fix) from None


def stack(*tensors: TensorLike, kind: Kind = "output", label: str = "") -> Tensor:
    """Lay tensors of one shape along a new first axis of a row."""
    made = named_parts(tensors, kind, "stack")
    return stacked(made, kind, label, "stacked tensors", [one.label for one in made])


def stacked(tensors: Sequence[Tensor], kind: Kind, label: str, what: str, names: Sequence[str]) -> Tensor:
    """`stack` of what errors call `what`, its items by these names."""
    spec = f"...|...->... => {ROWS[kind].format(axis='one')}"
    try:
        return _joined([contract(spec, [tensor], sizes={"one": 1}) for tensor in tensors], kind, label)
    except ShapeError:
        fix = "make them alike; wf.concat joins tensors along an axis they have"
        raise _unlike(f"{what} must have one shape", tensors, names, fix) from None


def _joined(tensors: Sequence[Tensor], kind: Kind, label: str) -> Tensor:
    names = [f"part{number}" for number in range(len(tensors))]
    operands = "; ".join(ROWS[kind].format(axis=name) for name in names)
    spec = f"{operands} => {ROWS[kind].format(axis='^'.join(names))}"
    return contract(spec, tensors, label=label, left=True)


def _unlike(what: str, tensors: Sequence[Tensor], names: Sequence[str], fix: str) -> ShapeError:
    """The error that shows one item of each shape there is."""
    shapes: dict[str, str] = {}
    for tensor, name in zip(tensors, names, strict=True):
        shapes.setdefault(str(tensor.shape), name)
    return ShapeError(what, notes=[f"{name} is {shape}" for shape, name in shapes.items()][:8], fix=fix)


def named_parts(tensors: Sequence[TensorLike], kind: str, what: str) -> list[Tensor]:
    if not tensors:
        raise WeftError(f"{what} needs at least one tensor")
    check_kind(kind)
    if len(tensors) == 1 and isinstance(tensors[0], list | tuple):
        raise WeftError(f"{what} takes tensors one by one, not a list of them", fix=f"write wf.{what}(*tensors)")
    return [as_tensor(tensor, what) for tensor in tensors]


def check_kind(kind: str) -> None:
    if kind not in ROWS:
        raise WeftError(f"there is no kind of axis {kind!r}", fix="use batch, input or output")
