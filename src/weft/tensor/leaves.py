"""Tensors that are given rather than computed: data, files, numbers, constants of any shape."""

from __future__ import annotations

import os
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.assign import Cells, Data, Fetch, File, Node, Offset
from weft.errors import ShapeError, WeftError, user_origin
from weft.ops import Number, scalar
from weft.shape.infer import infer
from weft.shape.logic import Constant, Counted, Literal, Logic, mapped
from weft.shape.nodes import Dim, Shape
from weft.tensor.tensor import Tensor

#: What tensors nobody gave a name are called: no name to be called after.
UNNAMED = ("data", "literal")


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
    return given_values(Literal(shape, claims=rank > 0), values.reshape(shape.array_shape), label)


def counted(array: npt.ArrayLike, *, label: str = "data") -> Tensor:
    """A tensor of given values whose axes are inferred: only their number is fixed."""
    values = numbers(array)
    return given_values(Counted(values.size), values, label, exact=False)


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


def given_values(logic: Logic, values: npt.NDArray[Any], label: str, exact: bool = True) -> Tensor:
    """A leaf that holds these values; `exact` if they have its very shape."""
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
