"""First values of parameters that are given, as literals and arrays, or computed by an expression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from weft.assign import Copied, Data, File, Node, Record, operands_of, statements, symbols
from weft.assign.definitions import initial, inputs_of
from weft.einsum import KINDS, parse_spec
from weft.einsum.nodes import ThreeRows
from weft.errors import ShapeError, WeftError, user_origin
from weft.shape.cells import ShapeVar
from weft.shape.infer import infer
from weft.shape.logic import Einsum
from weft.shape.nodes import Dim
from weft.tensor.leaves import numbers
from weft.tensor.literals import Batch, Labelled, holds_tensors, read_literal, tensor
from weft.tensor.scope import is_array
from weft.tensor.tensor import Tensor

RowDims: TypeAlias = tuple[Dim, ...] | None
_SAME = "...|...->... => ...|...->..."


@dataclass(frozen=True, slots=True)
class Rows(ThreeRows[RowDims]):
    """What is said of a parameter's axes; a row that nothing is said of is None."""

    batch: RowDims = None
    input: RowDims = None
    output: RowDims = None

    @property
    def said(self) -> bool:
        return any(row is not None for row in self.rows)


@dataclass(frozen=True, slots=True)
class First:
    """A parameter's axes, and its first values where they are given or computed by a tensor."""

    rows: Rows
    source: npt.NDArray[Any] | Tensor | None = None


def read_init(init: Any, given: Rows, square: bool = False) -> First:
    """What `init` says: of the values, and of the axes beside those that are given."""
    literal = isinstance(init, list | tuple | Batch | Labelled)
    if isinstance(init, Tensor) or (literal and holds_tensors(init)):
        return _computed(init if isinstance(init, Tensor) else tensor(init), given)
    if is_array(init) or (given.said and _only_lists(init)):
        return _lying(numbers(init), given, square)
    return _written(init, given) if literal else First(given)


def _only_lists(items: Any) -> bool:
    """Are these lists of lists of numbers, which beside given rows lie as an array does?"""
    return isinstance(items, list) and all(
        _only_lists(item) or isinstance(item, int | float | np.number) for item in items
    )


def _computed(source: Tensor, given: Rows) -> First:
    """A tensor: a parameter has batch axes only where it does."""
    batched = given.batch is None and source.shape.batch.lo > 0
    return First(given if batched else Rows(given.batch or (), given.input, given.output), source)


def _written(items: Any, given: Rows) -> First:
    """A literal: its axes must be those that are given."""
    shape, values = read_literal(items)
    for kind in KINDS:
        row = given.row(kind)
        if row is not None and [dim.size for dim in row] != [dim.size for dim in shape.row(kind)]:
            raise ShapeError(
                f"the literal is {shape}, which is not what `{kind[0]}=` says",
                fix=f"leave `{kind[0]}=` out: lists are output axes, tuples input axes, wf.batch(…) batch axes",
            )
    return First(Rows(shape.batch, shape.input, given.output or shape.output), values)


def _lying(values: npt.NDArray[Any], given: Rows, square: bool) -> First:
    """An array: batch axes first, then output, then input, as many of each as the given rows have."""
    batch = given.batch or ()
    rest = tuple(Dim(size) for size in values.shape[len(batch) :])
    if square and given.output is None and given.input is None:
        half = len(rest) // 2
        return First(Rows(batch, rest[half:], rest[:half]), values)
    if given.output is not None:
        input = given.input if given.input is not None else rest[len(given.output) :]
        return First(Rows(batch, input, given.output), values)
    input = given.input or ()
    output = rest[: max(len(rest) - len(input), 0)]
    return First(Rows(batch, input, output or (Dim(1),)), values if output or input else values[..., None])


def copied(source: Tensor, shape: ShapeVar) -> Copied:
    """The values of a tensor, which has the parameter's very shape."""
    operation = infer(Einsum(parse_spec(_SAME)), [source.shape], title="init", origin=user_origin(), result=shape)
    return Copied(source.operand, Record(operation, 0, (1,)))


def check_copied(node: Node, source: Tensor) -> None:
    """A first value depends on nothing that changes from run to run."""
    code = initial(node)
    changing = [one.name for one, _ in symbols(code)]
    changing += [param.label for param in source.params]
    changing += [str(leaf) for leaf in inputs_of(code) if not isinstance(leaf.init, Data | File)]
    read = (operand for statement in statements(code) for operand in operands_of(statement))
    changing += [str(operand) for operand in read if not isinstance(operand, Node)]
    if changing:
        raise WeftError(
            f"`init` of parameter `{node.label}` depends on `{changing[0]}`, which changes while code runs",
            fix="compute a first value from data, numbers and random tensors; ctx[p] = … sets a value later",
        )
