"""Subscripts that depend on what tensors hold: while a definition runs, steps of their own note how far they stray.

For each such subscript two numbers are kept: the least it is, if negative, and how far it goes beyond the last cell.
The reads themselves stay inside (lower.py), so what goes wrong is told after the run and nothing else is touched.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from weft.comprehension.derive import ZERO, choose
from weft.comprehension.flat import Flat, Step
from weft.comprehension.nodes import Apply, Binary, Cast, Choose, Dim, Expr, Int, Read, Unary, children, walk
from weft.comprehension.show import show_expr
from weft.comprehension.types import type_of
from weft.errors import IndexOutOfBounds, Origin


def strayed(tensor: str) -> str:
    """The tensor of distances of what a tensor's steps read; no name that is written has a dot."""
    return f"{tensor}.strayed"


@dataclass(frozen=True, slots=True)
class Indirect:
    """A subscript read from data, and the condition under which it is read at all, if there is one."""

    tensor: str
    axis: int
    subscript: Expr
    only_if: Expr | None
    loops: int | str


def find_indirect(flat: Flat) -> dict[str, tuple[Indirect, ...]]:
    """The different subscripts that depend on data, by the tensor whose steps read there."""
    found: dict[str, dict[Indirect, None]] = {}
    for step in flat.steps:
        for one in _in(step.value, None, step.loops):
            found.setdefault(step.target, {})[one] = None
    return {tensor: tuple(ones) for tensor, ones in found.items()}


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


def watching(tensor: str, subscripts: Sequence[Indirect], types: Mapping[str, str]) -> Iterator[Step]:
    """The steps that note how far subscripts stray in those of a tensor; the distances start at zero.

    They read only what is there before the tensor is, so that it can wait for them.
    """
    for number, one in enumerate(subscripts):
        place = _signed(one.subscript, types)
        beyond = Binary("-", place, Binary("-", Dim(one.tensor, one.axis), Int(1)))
        for at, collected, value in ((2 * number, "min", place), (2 * number + 1, "max", beyond)):
            noted = value if one.only_if is None else choose(one.only_if, value, ZERO)
            yield Step(strayed(tensor), (Int(at),), collected, True, noted, one.loops)


def _signed(subscript: Expr, types: Mapping[str, str]) -> Expr:
    """A subscript as a number with a sign; one that is too large for that is as large as can be."""
    if type_of(subscript, types, {}) == "uint64":
        subscript = Apply("min", (subscript, Int(2**63 - 1)))
    return Cast("int64", subscript)


def verify(
    subscripts: Sequence[Indirect],
    sizes: Sequence[int],
    distances: npt.NDArray[np.int64],
    origin: Origin | None,
) -> None:
    """Raise if a subscript strayed; `sizes` are those of the axes."""
    for number, (one, size) in enumerate(zip(subscripts, sizes, strict=True)):
        least, beyond = distances[2 * number : 2 * number + 2].tolist()
        if least < 0 or beyond > 0:
            subscript, value = show_expr(one.subscript), least if least < 0 else size - 1 + beyond
            kept = f"keep them there: `min(max({subscript}, 0), {size - 1})`"
            raise IndexOutOfBounds(
                f"`{subscript}` is {value} somewhere, and axis {one.axis} of `{one.tensor}` is {size}",
                origin=origin,
                fix=f"pass whole numbers from 0 to {size - 1}, or {kept}"
                if size
                else "nothing can be read from an empty axis",
            )
