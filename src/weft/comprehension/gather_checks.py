"""Subscripts that nobody can prove to stay inside beforehand: while a definition runs, steps note how far they stray.

They depend on what tensors hold, or are more than affine. For each two numbers are kept: the least it is, if negative,
and how far it goes beyond the last cell. The reads themselves stay inside (lower.py), so what goes wrong is told after
the run and nothing else is touched. One whose interval lies inside for the sizes at hand is not watched.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from weft.comprehension.affine import Affine, Known
from weft.comprehension.boundedness import is_affine
from weft.comprehension.intervals import Bounds, inside
from weft.comprehension.nodes import (
    Apply,
    Binary,
    Cast,
    Choose,
    Dim,
    Expr,
    Index,
    Int,
    Read,
    Real,
    Size,
    Unary,
    children,
    walk,
)
from weft.comprehension.scalars import reads, scalar
from weft.comprehension.show import show_expr
from weft.comprehension.steps import Extents, Flat, Step, rebuilt
from weft.comprehension.types import type_of
from weft.errors import IndexOutOfBounds, Origin
from weft.ops import Num

#: A subscript that is larger than this may have wrapped around.
_FAR = 2**62
#: Functions of so many choices may be too much for isl (affine.py).
_MANY_CHOICES = 4


def strayed(tensor: str) -> str:
    """The tensor of distances of what a tensor's steps read; no name that is written has a dot."""
    return f"{tensor}.strayed"


@dataclass(frozen=True, slots=True)
class Indirect:
    """A subscript to be watched, and the condition under which it is read at all, if there is one."""

    tensor: str
    axis: int
    subscript: Expr
    only_if: Expr | None
    loops: int


def find_indirect(flat: Flat) -> dict[str, tuple[Indirect, ...]]:
    """The different subscripts to be watched, by the tensor whose steps read there."""
    found: dict[str, dict[Indirect, None]] = {}
    for target, expr, loops in flat.written:
        for one in _in(expr, loops):
            found.setdefault(target, {})[one] = None
    return {tensor: tuple(ones) for tensor, ones in found.items()}


def is_indirect(step: Step) -> bool:
    """Does a step read or write at a place that depends on data?"""
    subscripts = [*step.at, *(part for one in reads(step.value) for part in one.at)]
    return next(reads(*subscripts), None) is not None


def _in(expr: Expr, loops: int) -> Iterator[Indirect]:
    waiting: list[tuple[Expr, Expr | None]] = [(expr, None)]
    while waiting:
        one, under = waiting.pop()
        parts: list[tuple[Expr, Expr | None]] = [(part, under) for part in children(one)]
        match one:
            case Read(tensor=tensor, subscripts=subscripts):
                for axis, subscript in enumerate(subscripts):
                    if _is_open(subscript):
                        yield Indirect(tensor, axis, subscript, under, loops)
            case Choose(condition=condition, yes=yes, no=no):
                otherwise = _both(under, Unary("!", condition))
                parts = [(condition, under), (yes, _both(under, condition)), (no, otherwise)]
            case Binary(op="&&" | "||" as op, left=left, right=right):
                parts = [(left, under), (right, _both(under, left if op == "&&" else Unary("!", left)))]
        waiting += reversed(parts)


def _is_open(subscript: Expr) -> bool:
    """Can isl not tell, whatever the sizes, whether a subscript stays inside?"""
    choices = sum(isinstance(one, Choose | Apply) for one in walk(subscript))
    return _holds_read(subscript) or choices > _MANY_CHOICES or not is_affine(subscript)


def unproved(found: Mapping[str, Sequence[Indirect]], flat: Flat, extents: Extents) -> dict[str, tuple[Indirect, ...]]:
    """Of some subscripts, those that may leave their tensors for these sizes."""
    kept = {tensor: tuple(one for one in ones if not is_proved(one, flat, extents)) for tensor, ones in found.items()}
    return {tensor: ones for tensor, ones in kept.items() if ones}


def is_proved(one: Indirect, flat: Flat, extents: Extents) -> bool:
    """Does a subscript stay inside for these sizes, whatever tensors hold?"""
    known = Known(extents.sizes, extents.shapes, flat.types)
    ranges = extents.loops[one.loops]
    if not _holds_read(one.subscript) and Affine(tuple(ranges), known).value(one.subscript) is not None:
        return True  # ranges.py has seen to it
    size = extents.shapes[one.tensor][one.axis]
    return inside(Bounds(known, ranges).of(one.subscript), (0, size - 1))


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
            noted = value if one.only_if is None else Choose(one.only_if, value, Int(0))
            yield Step(strayed(tensor), (Num(at),), collected, True, scalar(noted, types), one.loops, one)


def _signed(subscript: Expr, types: Mapping[str, str]) -> Expr:
    """A subscript as a number with a sign; one that is too large for that, or may have wrapped, is as large as can be.

    Whether it wrapped is seen from its value in floating point.
    """
    place: Expr = subscript
    if type_of(subscript, types, {}) == "uint64":
        place = Apply("min", (subscript, Int(2**63 - 1)))
    place = Cast("int64", place)
    if not any(isinstance(one, Binary) and one.op in ("+", "-", "*") for one in walk(subscript)):
        return place
    real, far = _real(subscript), Real(float(_FAR))
    low = Choose(Binary("<=", real, Unary("-", far)), Unary("-", Int(_FAR)), place)
    return Choose(Binary(">=", real, far), Int(_FAR), low)


def _real(expr: Expr) -> Expr:
    """A whole-number expression in double precision, in which nothing wraps."""

    def change(one: Expr) -> Expr | None:
        match one:
            case Int() | Size() | Dim() | Index() | Read() | Cast():
                return Cast("float64", one)
            case Binary(op="/", left=left, right=right):
                return Apply("floor", (Binary("/", rebuilt(left, change), rebuilt(right, change)),))
            case Choose(condition=condition, yes=yes, no=no):
                return Choose(condition, rebuilt(yes, change), rebuilt(no, change))
            case Apply(function=function) if function not in ("min", "max", "fmin", "fmax"):
                return Cast("float64", one)
        return None

    return rebuilt(expr, change)


def verify(
    subscripts: Sequence[Indirect],
    shapes: Mapping[str, Sequence[int]],
    distances: npt.NDArray[np.int64],
    origin: Origin | None,
) -> None:
    """Raise if a subscript strayed from its tensor, of one of these shapes."""
    for number, one in enumerate(subscripts):
        size = shapes[one.tensor][one.axis]
        least, beyond = distances[2 * number : 2 * number + 2].tolist()
        if least < 0 or beyond > 0:
            subscript, value = show_expr(one.subscript), least if least < 0 else size - 1 + beyond
            kept = f"keep them there: `min(max({subscript}, 0), {size - 1})`"
            shown = {_FAR: "2**62 or more", -_FAR: "-2**62 or less"}.get(value, str(value))
            raise IndexOutOfBounds(
                f"`{subscript}` is {shown} somewhere, and axis {one.axis} of `{one.tensor}` is {size}",
                origin=origin,
                fix=f"pass whole numbers from 0 to {size - 1}, or {kept}"
                if size
                else "nothing can be read from an empty axis",
            )
