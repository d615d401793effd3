"""Literals: nested lists, tuples and batches of numbers or of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.errors import ShapeError, WeftError, user_origin
from weft.shape.logic import Literal
from weft.shape.nodes import MEMORY_ORDER, Dim, Shape
from weft.tensor.blocks import stack
from weft.tensor.leaves import given_values, precision_of
from weft.tensor.scope import as_tensor
from weft.tensor.tensor import Tensor


@dataclass(frozen=True, slots=True)
class Batch:
    """Items along a batch axis."""

    items: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Labelled:
    """An axis of a literal with a label."""

    basis: str
    items: Any


def batch(*items: Any) -> Batch:
    """Items of a literal along a batch axis: `wf.tensor(wf.batch([1, 2], [3, 4]))`."""
    return Batch(tuple(items[0]) if len(items) == 1 and isinstance(items[0], list) else items)


def labelled(basis: str, items: Any) -> Labelled:
    """An axis of a literal with a label: `wf.tensor(wf.labelled("rgb", [1, 2, 3]))`."""
    return Labelled(basis, items)


def tensor(items: Any, *, label: str = "", dtype: str | None = None) -> Tensor:
    """A literal: a list is an output axis, a tuple an input axis, `wf.batch(…)` a batch axis, nested in that order.

    With tensors inside, the literal stacks them along new axes.
    """
    if holds_tensors(items):
        return _stacked(items, label=label)
    shape, values = read_literal(items)
    precision = precision_of(values.flat[0].item(), dtype)
    return given_values(Literal(shape), values, label or "literal", precision=precision)


def read_literal(items: Any) -> tuple[Shape, npt.NDArray[Any]]:
    """The shape that nested lists, tuples and batches of numbers write, and the numbers as they lie in memory."""
    kinds: dict[str, list[Dim]] = {"batch": [], "output": [], "input": []}
    _measure(items, kinds)
    shape = Shape(tuple(kinds["batch"]), tuple(kinds["input"]), tuple(kinds["output"]) or (Dim(1),))
    return shape, _numbers(_flatten(items)).reshape(shape.array_shape)


def _stacked(items: Any, *, label: str = "") -> Tensor:
    """A literal with tensors inside: lists, tuples and batches stack along new axes of their kinds."""
    match items:
        case Labelled():
            raise WeftError("an axis of stacked tensors cannot be labelled", origin=user_origin())
        case Batch(items=inner):
            return stack(*(_stacked(one) for one in inner), kind="batch", label=label)
        case list():
            return stack(*(_stacked(one) for one in items), kind="output", label=label)
        case tuple():
            return stack(*(_stacked(one) for one in items), kind="input", label=label)
    return as_tensor(items, "a literal")


def holds_tensors(items: Any) -> bool:
    return isinstance(items, Tensor) or any(holds_tensors(item) for item in _items(items))


def _items(items: Any) -> Sequence[Any]:
    match items:
        case Labelled(items=inner):
            return _items(inner)
        case Batch(items=inner):
            return inner
        case list() | tuple():
            return items
    return ()


def _measure(items: Any, kinds: dict[str, list[Dim]]) -> None:
    """Collect the axes of a literal from its first items; check that all items agree and kinds nest in order."""
    basis = items.basis if isinstance(items, Labelled) else None
    inner = items.items if isinstance(items, Labelled) else items
    if not isinstance(inner, list | tuple | Batch):
        if not isinstance(inner, int | float | np.number):
            raise WeftError(f"a literal holds numbers or tensors, not {inner!r}", origin=user_origin())
        return
    kind = "batch" if isinstance(inner, Batch) else "output" if isinstance(inner, list) else "input"
    if any(kinds[later] for later in MEMORY_ORDER[MEMORY_ORDER.index(kind) + 1 :]):
        raise ShapeError(
            f"{_with_article(kind)} axis cannot lie inside the axes around it",
            origin=user_origin(),
            fix="nest batch axes outermost, then lists (output), then tuples (input)",
        )
    elements = _items(inner)
    if not elements:
        raise ShapeError("an axis of a literal cannot be empty", origin=user_origin())
    kinds[kind].append(Dim(len(elements), basis))
    measured = [{name: list(dims) for name, dims in kinds.items()} for _ in elements]
    for element, own in zip(elements, measured, strict=True):
        _measure(element, own)
    if any(own != measured[0] for own in measured):
        raise ShapeError("the items of a literal have different shapes", origin=user_origin(), fix="make them alike")
    kinds.update(measured[0])


def _with_article(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"


def _numbers(values: list[float]) -> npt.NDArray[Any]:
    """Numbers as an array; whole ones stay whole, as large as 64 bits hold."""
    if not all(isinstance(value, int) for value in values):
        return np.array(values)
    least, most = min(values), max(values)
    if least < -(1 << 63) or most >= 1 << 64 or (least < 0 and most >= 1 << 63):
        raise WeftError("a literal holds whole numbers of at most 64 bits", origin=user_origin())
    return np.array(values, np.uint64 if most >= 1 << 63 else None)


def _flatten(items: Any) -> list[float]:
    inner = _items(items)
    if not inner:
        return [items]
    return [value for item in inner for value in _flatten(item)]
