"""Probabilities of classes, and classes as numbers: softmax over named axes, ids, one-hot vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from weft.einsum import parse_spec
from weft.einsum.nodes import KINDS, Label, Position, Row, Spec
from weft.einsum.show import show_spec
from weft.errors import EinsumError
from weft.nn.checks import positive
from weft.tensor import reductions
from weft.tensor.functions import cos, log, sqrt
from weft.tensor.groups import OUTPUT_ROW, each_row
from weft.tensor.layers import op
from weft.tensor.leaves import data
from weft.tensor.tensor import Tensor, TensorLike


@op
def softmax(x: Tensor, *, spec: str = OUTPUT_ROW, temperature: float = 1.0) -> Tensor:
    """Exponentials divided by their sum, over the axes that a spec names: `"...|v"`, or as `wf.softmax` has it.

    Row variables that are called `...` stay apart; others, `..d..`, are summed over like an axis. A high temperature
    makes all alike, a low one leaves the largest.

    >>> x = wf.tensor([[1, 1], [1, 3]])
    >>> print(ctx[wf.nn.softmax(x, spec="..., v")].round(3))
    [[0.5   0.5  ]
     [0.119 0.881]]
    """
    positive("softmax", temperature=temperature)
    over = spec if "=>" in spec else reduce_specified_axes(spec)
    return reductions.softmax(x if temperature == 1.0 else x / temperature, over)


def reduce_specified_axes(spec: str) -> str:
    """The spec of a reduction over the axes that a shape names, which stay with size 1.

    >>> wf.nn.reduce_specified_axes("...|t, d -> h")
    '...|td->h=>...|00->0'
    """
    if "=>" in spec or ";" in spec:
        raise EinsumError("the axes to reduce are named by one shape", text=spec, fix='write "...|t, d"')
    (operand,) = parse_spec(f"{spec} => 0").operands
    return show_spec(Spec((operand,), each_row(lambda _, row: _reduced(row), operand)))


def _reduced(row: Row) -> Row:
    lead, trail = (
        tuple(Position(0) if isinstance(one, Label) else one for one in axes) for axes in (row.lead, row.trail)
    )
    if row.var is None or row.var.name in KINDS:
        return replace(row, lead=lead, trail=trail)
    return Row((), None, (*lead, Position(0), *trail))


def class_ids_of_int_list(ids: Sequence[int], *, label: str = "class_ids") -> Tensor:
    """Whole numbers along a batch axis.

    >>> print(wf.nn.class_ids_of_int_list([2, 0, 1]))
    <class_ids: 3|1 int32>
    """
    return data(np.asarray(ids, "int32"), batch=1, label=label)


def one_hot_of_ids(ids: TensorLike, *, num_classes: int) -> Tensor:
    """1 at the class that each id names, else 0, computed where it is used: `wf.one_hot`, stored as `float32`.

    >>> print(ctx[wf.nn.one_hot_of_ids(wf.nn.class_ids_of_int_list([2, 0]), num_classes=3)])
    [[0. 0. 1.]
     [1. 0. 0.]]
    """
    return reductions.one_hot(ids, num_classes, dtype="float32")


def one_hot_of_int_list(ids: Sequence[int], *, num_classes: int) -> Tensor:
    """`one_hot_of_ids` of a list.

    >>> print(wf.nn.one_hot_of_int_list([2, 0], num_classes=3).dims)
    2|3
    """
    return one_hot_of_ids(class_ids_of_int_list(ids), num_classes=num_classes)


def dense_one_hot_of_int_list(ids: Sequence[int], *, num_classes: int) -> Tensor:
    """`one_hot_of_int_list` as an array in memory.

    >>> print(wf.nn.dense_one_hot_of_int_list([2, 0], num_classes=3))
    <one_hot: 2|3 float32>
    """
    positions = np.asarray(ids)[:, None]
    return data((positions == np.arange(num_classes)).astype("float32"), batch=1, label="one_hot")


def box_muller(u1: Tensor, u2: Tensor) -> Tensor:
    """Standard normal numbers from pairs of uniform ones in [0, 1); a 0 counts as the least float32 step above it.

    >>> print(ctx[wf.nn.box_muller(wf.tensor([0.5, 0.5]), wf.tensor([0.0, 0.5]))].round(4))
    [ 1.1774 -1.1774]
    """
    radius, turn = sqrt(-2.0 * log(u1 + 2.0**-24 * (1.0 - u1))), cos(2.0 * np.pi * u2)
    found: Tensor = radius * turn
    return found
