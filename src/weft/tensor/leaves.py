"""Tensors that are given rather than computed: data, files, numbers, constants of any shape."""

from __future__ import annotations

import os
import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.assign import Cells, Data, Declared, Fetch, File, Node, NodeName, Offset, Precision
from weft.dlpack import ExchangeError, borrow, is_producer, on_device, place_name, type_name
from weft.errors import ShapeError, WeftError, user_origin
from weft.ops import Number, Scalar, scalar, scalar_type
from weft.ops.dtypes import ELEMENT_TYPES, WEAK_FLOAT, WEAK_INT, element_type, is_float, name_of, numpy_type
from weft.shape.infer import infer
from weft.shape.logic import Constant, Counted, Literal, Logic, Varying, mapped
from weft.shape.nodes import Dim, Shape
from weft.shape.text import RowSizes
from weft.tensor.data_axes import data_shape, said_sizes
from weft.tensor.tensor import Tensor

#: What tensors nobody gave a name are called: no name to be called after.
UNNAMED = ("data", "literal")


def data(
    x: Any,
    *,
    batch: int = 0,
    input: int = 0,
    b: RowSizes | None = None,
    i: RowSizes | None = None,
    o: RowSizes | None = None,
    label: str = "data",
    copy: bool | None = None,
) -> Tensor:
    """A tensor of given values: the first `batch` axes are batch axes, the last `input` input axes, the rest output.

    `b`, `i` and `o` give the sizes of batch, input and output axes instead, and an array of other sizes is refused.
    `x` is an array of NumPy or of a library that speaks DLPack, a buffer, or nested lists. Memory that lies in the
    order of the axes is used as it is; else `x` is copied here and now. `copy=True` copies always, `copy=False` never.
    """
    values = where_it_lies(x, copy)
    shape = data_shape(values.shape, label, batch, input, said_sizes(b, i, o))
    laid = values.reshape(shape.array_shape)
    return given_values(Literal(shape, claims=values.ndim > 0), laid, label, given=values.shape)


def from_dlpack(x: Any, *, batch: int = 0, input: int = 0, label: str = "data", copy: bool | None = None) -> Tensor:
    """`wf.data` of an object with `__dlpack__`, or of a DLPack capsule."""
    found = on_device(x) or borrow(x, None if copy else copy)
    return data(found, batch=batch, input=input, label=label, copy=copy)


def counted(array: npt.ArrayLike, *, label: str = "data") -> Tensor:
    """A tensor of given values whose axes are inferred: only their number is fixed."""
    values = numbers(array)
    return given_values(Counted(values.size), values, label, exact=False, given=values.shape)


def from_file(path: str | os.PathLike[str], dtype: npt.DTypeLike = "float32", *, label: str = "") -> Tensor:
    """A tensor mapped from a file of raw values; its length comes from the file, its axes from its uses."""
    if not isinstance(path, str | os.PathLike):
        what = f"a file is named by a path, not {type(path).__name__}"
        raise WeftError(what, fix='write wf.from_file("weights.bin", "float32")')
    path = os.fspath(path)
    if "\0" in path or not os.path.exists(path):
        raise WeftError(f"there is no file {path!r}")
    name = label or os.path.splitext(os.path.basename(path))[0]
    kind = element_type(dtype)
    shape = infer(mapped(path, numpy_type(kind).itemsize), name=name, origin=user_origin()).result
    return Tensor(Node(NodeName(name), shape, Precision.given(kind), init=File(path), origin=user_origin()))


def number(value: Number, *, basis: str | None = None, label: str = "", dtype: str | None = None) -> Tensor:
    """A single number: one output axis of size 1, labelled if `basis` is given; labelled, it does not broadcast."""
    shape = Shape(output=(Dim(1, basis),))
    declared = None if basis is None else Declared((("o", shape.output),))
    return _computed(Literal(shape, claims=basis is not None), value, label, dtype, declared)


def constant(value: Number, *, label: str = "", dtype: str | None = None) -> Tensor:
    """A tensor of one value everywhere, which fits any shape; its type, unless given, is inferred from its use."""
    return _computed(Constant(), value, label, dtype)


def offsets(*, label: str = "", dtype: str | None = None) -> Tensor:
    """A tensor whose cells hold how far they lie from the first, in memory order; its shape comes from its use."""
    return _computed(Varying(), Offset(), label or "offsets", dtype)


def given_values(
    logic: Logic,
    values: npt.NDArray[Any],
    label: str,
    *,
    exact: bool = True,
    precision: Precision | None = None,
    given: tuple[int, ...] | None = None,
) -> Tensor:
    """A leaf that holds these values; `exact` if they have its very shape. Its type is theirs unless it is inferred.

    `given` is the shape they came in, if that may be another.
    """
    origin = user_origin()
    shape = infer(logic, name=label, title="data", origin=origin).result
    kept = precision or Precision.given(values.dtype.name)
    return Tensor(Node(NodeName(label), shape, kept, init=Data(values, exact, given), origin=origin))


def precision_of(value: Number, dtype: str | None) -> Precision:
    """That of a number written in the program: given, or from its use."""
    if dtype is not None:
        return Precision.given(element_type(dtype))
    kind = scalar_type(scalar(value), lambda leaf: WEAK_INT)
    return Precision.from_use(WEAK_FLOAT if is_float(kind) else WEAK_INT, wide=isinstance(value, Offset))


def _computed(
    logic: Logic, value: Number, label: str, dtype: str | None = None, declared: Declared | None = None
) -> Tensor:
    origin = user_origin()
    name = label or _spell(value)
    shape = infer(logic, name=name, title="constant", origin=origin).result
    called, precision = NodeName(name, inline=not label), precision_of(value, dtype)
    node = Node(called, shape, precision, origin=origin, declared=declared)
    return Tensor(node.defined(Fetch(node, Cells(scalar(value)), origin)))


def where_it_lies(array: Any, copy: bool | None = None) -> Any:
    """What was given, as `numbers` has it; what lies in the memory of a GPU stays there, as a `DeviceArray`."""
    found = on_device(array)
    if found is not None and copy:
        what = f"{type_name(array)} lies on {place_name(found.device)}, where nothing copies it yet"
        raise ExchangeError(what, fix="copy it there: x.clone() in PyTorch, x.copy() in CuPy")
    return numbers(array, copy) if found is None else found


def numbers(array: Any, copy: bool | None = None) -> npt.NDArray[Any]:
    """What was given, as an array of numbers in the order of its axes; on the same memory where that can be."""
    _check_masked(array)
    values = _as_array(array, None if copy else copy)
    if name_of(values.dtype) not in ELEMENT_TYPES:
        raise WeftError(
            f"data must be numbers, not {values.dtype}", fix="convert it first to one of " + ", ".join(ELEMENT_TYPES)
        )
    obstacle = _obstacle(values)
    if copy is False:
        obstacle = obstacle or _not_an_array(array, values)
        if obstacle:
            raise ExchangeError(
                f"{type_name(array)} of shape {values.shape} cannot be used without a copy: {obstacle}",
                fix="leave out copy=False, or give an array whose memory lies in the order of its axes",
            )
    return np.array(values, values.dtype.newbyteorder("="), order="C") if copy or obstacle else values


def _check_masked(array: Any) -> None:
    masked = sys.modules.get("numpy.ma")  # what nobody has loaded, nobody has arrays of
    if masked is not None and isinstance(array, masked.MaskedArray) and masked.is_masked(array):
        raise WeftError(
            f"{masked.count_masked(array)} of {array.size} numbers of a masked array have no value",
            fix="give them one: x.filled(0); which have one is another array, ~np.ma.getmaskarray(x)",
        )


def _as_array(array: Any, copy: bool | None) -> npt.NDArray[Any]:
    try:
        return np.asarray(borrow(array, copy) if is_producer(array) else array)
    except WeftError:
        raise
    except (TypeError, ValueError) as error:
        fix = "give rows of one length; wf.data.buckets pads sequences of different lengths"
        raise ShapeError(f"the values do not form an array of numbers: {error}", fix=fix) from None


def _obstacle(values: npt.NDArray[Any]) -> str:
    """Why compiled code cannot read these values where they are; empty if it can."""
    if not values.dtype.isnative:
        return f"its byte order, {values.dtype.str}, is not this machine's"
    if not values.flags.aligned:
        return f"its memory is not aligned to {values.dtype.alignment} bytes"
    if not values.flags.c_contiguous:
        return f"its strides are {values.strides} bytes, not those of the order of its axes"
    return ""


def _not_an_array(array: Any, values: npt.NDArray[Any]) -> str:
    """Why the values are not memory of what was given; empty if they are: then asking again finds the same memory."""
    if isinstance(array, np.ndarray) or is_producer(array) or np.may_share_memory(values, np.asarray(array)):
        return ""
    return "its values do not lie in memory as an array"


def _spell(value: object) -> str:
    if isinstance(value, Scalar):  # computed from static indices
        return "number"
    return f"{value:g}" if isinstance(value, int | float) else str(value)
