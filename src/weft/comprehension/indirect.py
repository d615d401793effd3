"""Subscripts that depend on what tensors hold: while a definition runs, steps of their own note how far they stray.

For each such subscript two numbers are kept, the greatest distance below the tensor's first cell and beyond its last.
The reads themselves stay inside (lower.py), so what goes wrong is told after the run and nothing else is touched.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from weft.comprehension.derive import ZERO, choose
from weft.comprehension.flat import Flat, Step
from weft.comprehension.nodes import Binary, Cast, Choose, Dim, Expr, Int, Read, Unary, children, walk
from weft.comprehension.show import show_expr
from weft.errors import IndexOutOfBounds, Origin

#: What the tensor of distances is called among the tensors of a definition.
STRAYED = "strayed"


@dataclass(frozen=True, slots=True)
class Indirect:
    """A subscript read from data, and the condition under which it is read at all, if there is one."""

    tensor: str
    axis: int
    subscript: Expr
    only_if: Expr | None
    loops: int | str


def find_indirect(flat: Flat) -> tuple[Indirect, ...]:
    """The different subscripts of a definition that depend on data."""
    found = (one for step in flat.steps for one in _in(step.value, None, step.loops))
    return tuple(dict.fromkeys(found))


def is_indirect(step: Step) -> bool:
    """Does a step read or write at a place that depends on data?"""
    reads = (one for expr in (step.value, *step.at) for one in walk(expr) if isinstance(one, Read))
    return any(map(_holds_read, (*step.at, *(part for one in reads for part in one.subscripts))))


def _in(expr: Expr, only_if: Expr | None, loops: int | str) -> Iterator[Indirect]:
    match expr:
        case Read(tensor=tensor, subscripts=subscripts):
            for axis, one in enumerate(subscripts):
                if _holds_read(one):
                    yield Indirect(tensor, axis, one, only_if, loops)
                yield from _in(one, only_if, loops)
        case Choose(condition=condition, yes=yes, no=no):
            yield from _in(condition, only_if, loops)
            yield from _in(yes, _both(only_if, condition), loops)
            yield from _in(no, _both(only_if, Unary("!", condition)), loops)
        case Binary(op="&&" | "||" as op, left=left, right=right):
            yield from _in(left, only_if, loops)
            yield from _in(right, _both(only_if, left if op == "&&" else Unary("!", left)), loops)
        case _:
            for part in children(expr):
                yield from _in(part, only_if, loops)


def _both(one: Expr | None, other: Expr) -> Expr:
    return other if one is None else Binary("&&", one, other)


def _holds_read(expr: Expr) -> bool:
    return any(isinstance(one, Read) for one in walk(expr))


def watching(subscripts: Sequence[Indirect]) -> Iterator[Step]:
    """The steps that note how far subscripts stray; the tensor of distances starts at zero."""
    for number, one in enumerate(subscripts):
        place = Cast("int64", one.subscript)
        beyond = Binary("-", place, Binary("-", Dim(one.tensor, one.axis), Int(1)))
        for at, distance in ((2 * number, Unary("-", place)), (2 * number + 1, beyond)):
            value = distance if one.only_if is None else choose(one.only_if, distance, ZERO)
            yield Step(STRAYED, (Int(at),), "max", True, value, one.loops)


def verify(
    subscripts: Sequence[Indirect],
    sizes: Sequence[int],
    distances: npt.NDArray[np.int64],
    origin: Origin | None,
) -> None:
    """Raise if a subscript strayed; `sizes` are those of the axes."""
    for number, (one, size) in enumerate(zip(subscripts, sizes, strict=True)):
        below, beyond = distances[2 * number : 2 * number + 2].tolist()
        if below > 0 or beyond > 0:
            value = -below if below > 0 else size - 1 + beyond
            raise IndexOutOfBounds(
                f"`{show_expr(one.subscript)}` is {value} somewhere, and axis {one.axis} of `{one.tensor}` is {size}",
                origin=origin,
                fix=f"pass whole numbers from 0 to {size - 1}, or keep them there: "
                f"`min(max({show_expr(one.subscript)}, 0), {size - 1})`",
            )
