"""Tensors that are given rather than computed: data, files, numbers, literals, constants of any shape."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from weft.assign import Cells, Data, Fetch, File, Node, Offset
from weft.errors import ShapeError, WeftError, user_origin
from weft.ops import Number, scalar
from weft.shape.infer import infer
from weft.shape.logic import Constant, Counted, Literal, Logic, mapped
from weft.shape.nodes import Dim, Shape
from weft.tensor.tensor import Tensor

Nested: TypeAlias = "float | int | list[Nested] | tuple[Nested, ...] | Batch | Labelled | Tensor"


#: What tensors nobody gave a name are called: no name to be called after.
UNNAMED = ("data", "literal")


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


def data(array: npt.ArrayLike, *, batch: int = 0, input: int = 0, label: str = "data") -> Tensor:
    """A tensor of given values: the first `batch` axes are batch axes, the last `input` input axes, the rest output.

    The array is used as it is, not copied, when its memory lies batch, output, input.
    """
    values = numbers(array)
    rank = values.ndim
    if any(not isinstance(one, Integral) for one in (batch, input)) or min(batch, input) < 0 or batch + input > rank:
        raise ShapeError(
            f"{batch} batch and {input} input axes do not fit an array of shape {values.shape}",
            origin=user_origin(),
            fix=f"batch + input must be at most {rank}",
        )
    if 0 in values.shape:
        raise ShapeError(f"an axis cannot have size 0: the array has shape {values.shape}", origin=user_origin())
    dims = tuple(Dim(size) for size in values.shape)
    shape = Shape(dims[:batch], dims[rank - input :], dims[batch : rank - input] or (Dim(1),))
    return _given(Literal(shape, claims=rank > 0), values.reshape(shape.array_shape), label)


def counted(array: npt.ArrayLike, *, label: str = "data") -> Tensor:
    """A tensor of given values whose axes are inferred: only their number is fixed."""
    values = numbers(array)
    return _given(Counted(values.size), values, label, exact=False)


def from_file(path: str | os.PathLike[str], dtype: npt.DTypeLike = "float32", *, label: str = "") -> Tensor:
    """A tensor mapped from a file of raw values; its length comes from the file, its axes from its uses."""
    if not os.path.exists(path):
        raise WeftError(f"there is no file {os.fspath(path)!r}", origin=user_origin())
    name = label or os.path.splitext(os.path.basename(path))[0]
    kind = element_type(dtype)
    shape = infer(mapped(path, np.dtype(kind).itemsize), name=name, origin=user_origin()).result
    node = Node(name, shape, kind, origin=user_origin())
    node.init = Fetch(node, File(os.fspath(path)), user_origin())
    return Tensor(node)


def number(value: float, *, basis: str | None = None, label: str = "") -> Tensor:
    """A single number: one output axis of size 1, labelled if `basis` is given; labelled, it does not broadcast."""
    shape = Shape(output=(Dim(1, basis),))
    return _computed(Literal(shape, claims=basis is not None), value, label)


def constant(value: Number, *, label: str = "") -> Tensor:
    """A tensor of one value everywhere whose shape is inferred from its use."""
    return _computed(Constant(), value, label)


def offsets(*, label: str = "") -> Tensor:
    """A tensor whose cells hold how far they lie from the first, in memory order; its shape comes from its use."""
    return _computed(Constant(), Offset(), label or "offsets")


def tensor(items: Any, *, label: str = "", dtype: str = "float32") -> Tensor:
    """A literal: a list is an output axis, a tuple an input axis, `wf.batch(…)` a batch axis, nested in that order.

    With tensors inside, the literal stacks them along new axes.
    """
    if _holds_tensors(items):
        from weft.tensor.blocks import stack_literal

        return stack_literal(items, label=label)
    kinds: dict[str, list[Dim]] = {"batch": [], "output": [], "input": []}
    _measure(items, kinds)
    shape = Shape(tuple(kinds["batch"]), tuple(kinds["input"]), tuple(kinds["output"]) or (Dim(1),))
    values = np.array(_flatten(items), element_type(dtype)).reshape(shape.array_shape)
    return _given(Literal(shape), values, label or "literal")


def _given(logic: Logic, values: npt.NDArray[Any], label: str, exact: bool = True) -> Tensor:
    origin = user_origin()
    node = Node(label, infer(logic, name=label, title="data", origin=origin).result, values.dtype.name, origin=origin)
    node.init = Fetch(node, Data(values, exact), origin)
    return Tensor(node)


def _computed(logic: Logic, value: Number, label: str) -> Tensor:
    origin = user_origin()
    name = label or _spell(value)
    shape = infer(logic, name=name, title="constant", origin=origin).result
    node = Node(name, shape, "float32", origin=origin, inline=not label)
    node.definition = Fetch(node, Cells(scalar(value)), origin)
    return Tensor(node)


def numbers(array: npt.ArrayLike, dtype: str | None = None) -> npt.NDArray[Any]:
    """What was given, as an array of numbers."""
    try:
        values = np.asarray(array, dtype)
    except (TypeError, ValueError) as error:
        raise ShapeError(f"the values do not form an array of numbers: {error}", origin=user_origin()) from None
    if values.dtype.kind not in "biuf":
        raise WeftError(f"data must be numbers, not {values.dtype}", origin=user_origin())
    return values if values.dtype.isnative else values.astype(values.dtype.newbyteorder("="))


def _spell(value: object) -> str:
    return f"{value:g}" if isinstance(value, int | float) else str(value)


def _holds_tensors(items: Any) -> bool:
    return isinstance(items, Tensor) or any(_holds_tensors(item) for item in _items(items))


def _items(items: Any) -> Sequence[Any]:
    match items:
        case Labelled(items=inner):
            return _items(inner)
        case Batch(items=inner):
            return inner
        case list() | tuple():
            return items
    return ()


_ORDER = ("batch", "output", "input")


def _measure(items: Any, kinds: dict[str, list[Dim]]) -> None:
    """Collect the axes of a literal from its first items; check that all items agree and kinds nest in order."""
    basis = items.basis if isinstance(items, Labelled) else None
    inner = items.items if isinstance(items, Labelled) else items
    if not isinstance(inner, list | tuple | Batch):
        if not isinstance(inner, int | float | np.number):
            raise WeftError(f"a literal holds numbers or tensors, not {inner!r}", origin=user_origin())
        return
    kind = "batch" if isinstance(inner, Batch) else "output" if isinstance(inner, list) else "input"
    if any(kinds[later] for later in _ORDER[_ORDER.index(kind) + 1 :]):
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


def _flatten(items: Any) -> list[float]:
    inner = _items(items)
    if not inner:
        return [items]
    return [value for item in inner for value in _flatten(item)]


def element_type(dtype: npt.DTypeLike) -> str:
    """The name of an element type a person gave."""
    try:
        found = np.dtype(dtype)
    except TypeError:
        found = np.dtype(object)
    if not found.isnative or (found.kind not in "biuf" and found.type.__module__ != "ml_dtypes"):
        fix = 'use "float32", "float64", "int32", …'
        raise WeftError(f"{dtype!r} is not an element type", origin=user_origin(), fix=fix)
    return found.name
