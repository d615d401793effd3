"""Literals: nested lists, tuples and batches of numbers or of tensors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.einsum.nodes import Kind
from weft.errors import ShapeError, WeftError
from weft.shape.logic import Literal
from weft.shape.nodes import MEMORY_ORDER, Dim, Shape
from weft.tensor.concat import stacked
from weft.tensor.functions import cast
from weft.tensor.leaves import given_values, precision_of
from weft.tensor.scope import as_tensor, is_array
from weft.tensor.tensor import Tensor, is_number


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

    With tensors inside, the literal stacks them along new axes; beside them, numbers fit any shape.
    """
    if holds_tensors(items):
        made = _stacked(items, label=label)
        return cast(made, dtype, label=label) if dtype else made
    return _of_numbers(items, label, dtype)


def _of_numbers(items: Any, label: str = "", dtype: str | None = None, at: str = "") -> Tensor:
    shape, values = read_literal(items, at)
    precision = precision_of(values.flat[0].item(), dtype)
    return given_values(Literal(shape), values, label or "literal", precision=precision)


def read_literal(items: Any, at: str = "") -> tuple[Shape, npt.NDArray[Any]]:
    """The shape that nested lists, tuples and batches of numbers write, and the numbers as they lie in memory.

    `at` is where in another literal they lie.
    """
    kinds: dict[str, list[Dim]] = {"batch": [], "output": [], "input": []}
    _measure(items, kinds, at)
    shape = Shape(tuple(kinds["batch"]), tuple(kinds["input"]), tuple(kinds["output"]) or (Dim(1),))
    return shape, _numbers(_flatten(items)).reshape(shape.array_shape)


def _stacked(items: Any, at: str = "", *, label: str = "") -> Tensor:
    """A literal with tensors inside: lists, tuples and batches stack along new axes of their kinds.

    What holds none is the literal it looks like.
    """
    if isinstance(items, Tensor | str) or is_number(items):
        return as_tensor(items, "a literal")
    if not holds_tensors(items):
        return _of_numbers(items, at=at)
    if isinstance(items, Labelled):
        fix = "leave the label out, or give it to the tensors: wf.tensor(wf.labelled(…)), o={label: size}"
        raise WeftError("an axis of stacked tensors cannot be labelled", fix=fix)
    places = [f"{at}[{number}]" for number in range(len(_items(items)))]
    made = [_stacked(one, place) for one, place in zip(_items(items), places, strict=True)]
    what = f"the items of {_called(at)}"
    return stacked(made, _kind(items), label, what, [_called(place) for place in places])


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


def _kind(items: Any) -> Kind:
    return "batch" if isinstance(items, Batch) else "output" if isinstance(items, list) else "input"


def _called(at: str) -> str:
    """What an error calls the item of a literal at a place."""
    return f"its item {at}" if at else "a literal"


def _measure(items: Any, kinds: dict[str, list[Dim]], at: str) -> None:
    """Collect the axes of a literal from its first items; check that all items agree and kinds nest in order."""
    basis = items.basis if isinstance(items, Labelled) else None
    inner = items.items if isinstance(items, Labelled) else items
    if not isinstance(inner, list | tuple | Batch):
        if not isinstance(inner, int | float | np.number):
            raise _no_number(inner, at)
        return
    kind = _kind(inner)
    if any(kinds[later] for later in MEMORY_ORDER[MEMORY_ORDER.index(kind) + 1 :]):
        raise ShapeError(
            f"{_with_article(kind)} axis cannot lie inside the axes around it",
            fix="nest batch axes outermost, then lists (output), then tuples (input)",
        )
    elements = _items(inner)
    if not elements:
        what = "an axis of a literal cannot be empty" + (f", and {_called(at)} is" if at else "")
        raise ShapeError(what, fix="write at least one number")
    kinds[kind].append(Dim(len(elements), basis))
    measured = [{name: list(dims) for name, dims in kinds.items()} for _ in elements]
    for number, (element, own) in enumerate(zip(elements, measured, strict=True)):
        _measure(element, own, f"{at}[{number}]")
    for number, own in enumerate(measured):
        if own != measured[0]:
            shown = [f"{_called(f'{at}[{one}]')} is {_inside(measured[one], kinds)}" for one in (0, number)]
            what = "the items of a literal have different shapes"
            raise ShapeError(what, notes=shown, fix="make them alike")
    kinds.update(measured[0])


def _inside(own: dict[str, list[Dim]], around: dict[str, list[Dim]]) -> str:
    """The shape of an item, from the axes of a literal down to it and those around it."""
    inner = {kind: tuple(dims[len(around[kind]) :]) for kind, dims in own.items()}
    return str(Shape(inner["batch"], inner["input"], inner["output"])) if any(inner.values()) else "a number"


def _no_number(found: object, at: str) -> WeftError:
    shown = f"an array of shape {tuple(getattr(found, 'shape', ()))}" if is_array(found) else repr(found)
    what = f"{_called(at)} is {shown}" if at else f"not {shown}"
    if is_array(found):
        fix = "wrap it: wf.data(x)"
    elif isinstance(found, Iterable) and not isinstance(found, str):
        fix = "write a list: [*x]"
    else:
        fix = "leave it out, or write a number"
    return WeftError(f"a literal holds numbers or tensors, {'and ' if at else ''}{what}", fix=fix)


def _with_article(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"


def _numbers(values: list[float]) -> npt.NDArray[Any]:
    """Numbers as an array; whole ones stay whole, as large as 64 bits hold."""
    if not all(isinstance(value, int) for value in values):
        return np.array(values)
    least, most = min(values), max(values)
    if least < -(1 << 63) or most >= 1 << 64 or (least < 0 and most >= 1 << 63):
        raise WeftError("a literal holds whole numbers of at most 64 bits")
    return np.array(values, np.uint64 if most >= 1 << 63 else None)


def _flatten(items: Any) -> list[float]:
    inner = _items(items)
    if not inner:
        return [items]
    return [value for item in inner for value in _flatten(item)]
