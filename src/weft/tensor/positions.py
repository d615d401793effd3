"""Operands that hold positions: what every assignment over an operation's loops reads besides values.

Unless an einsum says what is meant by positions outside their axis, they are watched: their least and their greatest
are looked at in every run, before it writes what outlasts it (`schedule/hoist_checks.py`). What runs until then holds
them inside, or writes nothing (`assign/explicit.py`), so that no other memory is touched. It is what a comprehension
does of subscripts that are no sums of indices (`comprehension/gather_checks.py`), and likewise those that can be proved
are not watched (`loops/intervals.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.assign import (
    Accum,
    Arg,
    Cells,
    Fetch,
    Iterations,
    Lookups,
    Node,
    NodeName,
    Operand,
    Precision,
    Record,
    SizeOf,
    in_code,
    node_of,
    seq,
)
from weft.assign.dtype_inference import Peek
from weft.assign.nodes import Check
from weft.einsum import Label, parse_spec
from weft.errors import EinsumError, IndexOutOfBounds, Origin
from weft.lazy import lazy_property
from weft.loops.intervals import ANY, Interval, inside, interval_of
from weft.ops import Num, Scalar, call
from weft.ops.dtypes import is_float, limits
from weft.shape.cells import ShapeVar
from weft.shape.close import close
from weft.shape.infer import Operation, infer
from weft.shape.logic import Einsum, Literal, read_by
from weft.shape.nodes import Dim, Shape

_ALL = "...|...->..."
#: What an assignment of one operand reads.
ONE_OPERAND = Arg(0)


def lookups_of(operation: Operation, operands: Mapping[int, Operand], origin: Origin | None) -> Lookups:
    """The operands of an operation, by slot, that hold positions, and what is watched of them."""
    logic = read_by(operation.logic)
    if not isinstance(logic, Einsum) or not logic.spec.positions:
        return Lookups()
    positions = {slot: operands[slot] for slot in logic.spec.positions}
    for slot, label in logic.spec.positions.items():
        _check_type(node_of(positions[slot]), label, operation)
    watched = _watched(operation, logic, positions, origin) if logic.outside == "check" else ()
    return Lookups(positions, tuple(watched))


def _check_type(node: Node, label: Label, operation: Operation) -> None:
    """Refuse what is known to be no whole numbers; what is found out later is refused by lowering."""
    dtype = node.precision.settled
    if dtype is None:
        _expect_whole(node.precision)
    if dtype is not None and (is_float(dtype) or dtype == "bool"):
        raise EinsumError(
            f"`{node.label}` holds positions along `{label.name}`, and they are {dtype}",
            origin=operation.step.origin,
            text=operation.step.text,
            spans=[label.span],
            fix='positions are whole numbers: make them with dtype="int32", or wf.cast(…, "int32")',
        )


def _expect_whole(precision: Precision) -> None:
    """Numbers of the program that are only positions are int32, as what they would meet there is."""
    whole = [(Arg(0), precision), (Arg(1), Precision.given("int32"))]
    Precision.from_operands().computed_by(call("max", Arg(0), Arg(1)), whole, sums=False)


def _watched(
    operation: Operation, read: Einsum, positions: dict[int, Operand], origin: Origin | None
) -> Iterator[Node]:
    """A node for each operand with positions: the least and the greatest of them, and of 0."""
    for slot, label in read.spec.positions.items():
        operand, code = positions[slot], in_code(positions.values())
        size = operation.labels[label.name].size
        if size is not None and inside(_interval(operand), (0, size - 1)):
            continue
        yield watched(operand, PositionsInside(node_of(operand), slot, label, operation), code, origin)


def watched(operand: Operand, check: Check, code: bool, origin: Origin | None, value: Scalar = ONE_OPERAND) -> Node:
    """A node of two numbers that a check is about: the least and the greatest of what a tensor holds, and of 0.

    `value` is what counts of what it holds; `code`, whether that is read as code has it.
    """
    held = node_of(operand)
    name = f"{held.label}.extremes"
    shape = infer(Literal(Shape(output=(Dim(2),))), name=name, origin=origin, code=code).result
    around = held.iterations.indices if held.iterations else ()
    for _ in around:
        check = EachIteration(check, held)
    each = Iterations(around) if around else None
    node = Node(NodeName(name), shape, held.precision, origin=origin, check=check, iterations=each)
    found = []
    for at, accum in enumerate(("min", "max")):
        logic = Einsum(parse_spec(f"{_ALL} => {at}"))
        extreme = infer(logic, [held.shape], title=name, origin=origin, result=shape, code=code)
        found.append(Accum(node, accum, False, value, (operand,), Record(extreme, 0, (1,)), origin))
    return node.defined(seq(Fetch(node, Cells(Num(0))), *found))


def _interval(operand: Operand, depth: int = 8) -> Interval:
    """Where the values of a tensor lie, by its type and by the expressions that it is computed by."""
    node = node_of(operand)
    whole = limits(Peek()(node.precision))
    value = node.definition if operand is node and depth else None
    match value:
        case Accum(accum="arg2", value=scalar, operands=operands):
            found = interval_of(
                scalar, lambda leaf: _interval(operands[leaf.number], depth - 1) if isinstance(leaf, Arg) else ANY
            )
        case Fetch(source=Cells(value=scalar)):
            found = interval_of(scalar, lambda leaf: ANY)
        case _:
            return whole
    return found if inside(found, whole) else whole


@dataclass(frozen=True)
class PositionsInside:
    """That positions stay inside their axis, seen from the least and the greatest of them."""

    of: Node
    slot: int
    label: Label
    operation: Operation

    @lazy_property
    def _size(self) -> int:
        return SizeOf(self.operation, self.label.name).value

    def _fix(self, wanted: int) -> str:
        """What to do. A layer has an axis called after what configures it, and takes no `outside`: it may be larger."""
        if len(self.label.name) == 1:
            return 'pass others, or say what is meant: outside="clip" takes the nearest one, outside="skip" none'
        more = f", or have more of them: {self.label.name}={wanted}" if wanted > self._size else ""
        return f'pass others{more}; wf.take and wf.einsum can be told outside="clip", the nearest one, or "skip", none'

    def verify(self, value: npt.NDArray[Any], of: Callable[[], npt.NDArray[Any]] | None) -> None:
        least, greatest = value.tolist()
        size = self._size
        if (least >= 0 and greatest < size) or not close(self.operation.slots[self.slot]).count:
            return
        stray = where_it_stands(least if least < 0 else greatest, self.of, self.operation.slots[self.slot], of)
        shown = f"from 0 to {size - 1}" if size else "none, for it is empty"
        raise IndexOutOfBounds(
            f"{stray}, and the positions along `{self.label.name}` are {shown}",
            origin=self.operation.step.origin,
            text=self.operation.step.text,
            spans=[self.label.span],
            fix=self._fix(greatest + 1),
        )


def where_it_stands(value: int, of: Node, shape: ShapeVar, values: Callable[[], npt.NDArray[Any]] | None) -> str:
    """What a node holds, and where if that can be seen; a lone output axis of 1 is none."""
    there = np.argwhere(values() == value) if values else np.zeros((0, 1))
    if not len(there):
        return f"`{of.label}` holds {value} somewhere"
    dims, at = close(shape), there[0].tolist()
    if dims.batch and [dim.size for dim in dims.output] == [1]:
        del at[len(dims.batch)]
    return f"`{of.label}[{', '.join(map(str, at))}]` is {value}"


@dataclass(frozen=True, slots=True)
class EachIteration:
    """What is to hold of a node's value in every iteration; it may say something `of` a node of the loop."""

    check: Check
    of: Node | None = None

    def verify(self, value: npt.NDArray[Any], of: Callable[[], npt.NDArray[Any]] | None) -> None:
        for at, one in enumerate(value):
            try:
                self.check.verify(one, None if of is None else partial(_item, of, at))
            except IndexOutOfBounds as error:
                error.notes = (f"in step {at}", *error.notes)
                raise


def _item(values: Callable[[], npt.NDArray[Any]], at: int) -> npt.NDArray[Any]:
    """What there is of one iteration, if there is anything."""
    found = values()
    return found[at] if len(found) else found
