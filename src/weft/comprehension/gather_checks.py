"""Subscripts that nobody can prove to stay inside beforehand: while a definition runs, steps note how far they stray.

They depend on what tensors hold, or are more than affine. For each two numbers are kept: the least it is, if negative,
and how far it goes beyond the last cell. The reads themselves stay inside (`held` of assign/explicit.py), so what goes
wrong is told after the run and nothing else is touched. One whose interval lies inside for the sizes at hand is not
watched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.affine import Affine
from weft.comprehension.boundedness import is_affine
from weft.comprehension.builtins import WRITTEN
from weft.comprehension.intervals import interval
from weft.comprehension.piecewise import Piecewise
from weft.comprehension.scalars import reads, written
from weft.comprehension.show import show_expr
from weft.comprehension.steps import Extents, Flat, Step
from weft.comprehension.types import INDEX
from weft.errors import IndexOutOfBounds, Origin
from weft.loops import Cast, Local, Read
from weft.loops.insert_casts import type_before
from weft.loops.intervals import inside
from weft.loops.walk import children, rewritten, subexpressions
from weft.ops import Call, Num, Scalar, call, where

#: A subscript that is larger than this may have wrapped around.
_FAR = 2**62
#: Functions of so many choices may be too much for isl (piecewise.py).
_MANY_CHOICES = 4
_EXTREMES = ("min", "max", "fmin", "fmax")
_CHOICES = ("where", "abs", *_EXTREMES)


def strayed(tensor: str) -> str:
    """The tensor of distances of what a tensor's steps read; no name that is written has a dot."""
    return f"{tensor}.strayed"


@dataclass(frozen=True, slots=True)
class Indirect:
    """A subscript to be watched, and the condition under which it is read at all, if there is one."""

    tensor: str
    axis: int
    subscript: Scalar
    only_if: Scalar | None
    loops: int

    def __str__(self) -> str:
        return show_expr(written(self.subscript))

    @property
    def source(self) -> str | None:
        """The tensor that holds it, if it is what a tensor holds wherever loops lead; then the point can be told."""
        if not isinstance(self.subscript, Read) or self.only_if is not None:
            return None
        plain = all(isinstance(one, Affine) and one.only for one in self.subscript.at)
        return self.subscript.buffer.name if plain else None


def find_indirect(flat: Flat) -> dict[str, tuple[Indirect, ...]]:
    """The different subscripts to be watched, by the tensor whose steps read or write there."""
    found: dict[str, dict[Indirect, None]] = {}
    for step in flat.steps:
        for one in _of_step(step, step.loops) if isinstance(step.loops, int) else ():
            found.setdefault(step.target, {})[_of_whole(one, flat)] = None
    return {tensor: tuple(ones) for tensor, ones in found.items()}


def _of_whole(one: Indirect, flat: Flat) -> Indirect:
    """A subscript of what is collected for a part of a tensor, as one of that tensor."""
    if one.tensor not in flat.slices:
        return one
    path, local, axes = flat.slices[one.tensor]
    tensor = next(name for name, home in flat.homes.items() if home == (path, local))
    return replace(one, tensor=tensor, axis=axes[one.axis])


def _of_step(step: Step, loops: int) -> Iterator[Indirect]:
    for axis, part in enumerate(step.at):
        yield from _in(part, loops)
        if _is_open(part):
            yield Indirect(step.target, axis, part, None, loops)
    yield from _in(step.value, loops)


def is_indirect(step: Step) -> bool:
    """Does a step read or write at an index that depends on data?"""
    return any(_holds_read(part) for at in (step.at, *(one.at for one in reads(step.value))) for part in at)


def _in(value: Scalar, loops: int) -> Iterator[Indirect]:
    waiting: list[tuple[Scalar, Scalar | None]] = [(value, None)]
    while waiting:
        one, under = waiting.pop()
        parts: list[tuple[Scalar, Scalar | None]] = [(part, under) for part in children(one)]
        match one:
            case Read(buffer=buffer, at=at):
                found = ((axis, part) for axis, part in enumerate(at) if _is_open(part))
                yield from (Indirect(buffer.name, axis, part, under, loops) for axis, part in found)
            case Call(op="where", args=(condition, yes, no)):
                otherwise = _both(under, call("not", condition))
                parts = [(condition, under), (yes, _both(under, condition)), (no, otherwise)]
            case Call(op="and" | "or" as op, args=(left, right)):
                parts = [(left, under), (right, _both(under, left if op == "and" else call("not", left)))]
        waiting += reversed(parts)


def _is_open(subscript: Scalar) -> bool:
    """Can isl not tell, whatever the sizes, whether a subscript stays inside?"""
    choices = sum(isinstance(one, Call) and one.op in _CHOICES for one in subexpressions(subscript))
    return _holds_read(subscript) or choices > _MANY_CHOICES or not is_affine(subscript)


def unproved(found: Mapping[str, Sequence[Indirect]], extents: Extents) -> dict[str, tuple[Indirect, ...]]:
    """Of some subscripts, those that may leave their tensors for these sizes."""
    kept = {tensor: tuple(one for one in ones if not is_proved(one, extents)) for tensor, ones in found.items()}
    return {tensor: ones for tensor, ones in kept.items() if ones}


def is_proved(one: Indirect, extents: Extents) -> bool:
    """Does a subscript stay inside for these sizes, whatever tensors hold?"""
    ranges = extents.loops[one.loops]
    if not _holds_read(one.subscript) and Piecewise(tuple(ranges), extents.number).value(one.subscript) is not None:
        return True  # ranges.py has seen to it
    size = extents.shapes[one.tensor][one.axis]
    return inside(interval(one.subscript, ranges, extents.number), (0, size - 1))


def _both(one: Scalar | None, other: Scalar) -> Scalar:
    return other if one is None else call("and", one, other)


def _holds_read(value: Scalar) -> bool:
    return next(reads(value), None) is not None


def watching(tensor: str, subscripts: Sequence[Indirect]) -> Iterator[Step]:
    """The steps that note how far subscripts stray in those of a tensor; the distances start at zero.

    They read only what is there before the tensor is, so that it can wait for them.
    """
    for number, one in enumerate(subscripts):
        index = _signed(one.subscript)
        beyond = index - (Local(f"{one.tensor}.{one.axis}", INDEX) - 1)
        for at, collected, value in ((2 * number, "min", index), (2 * number + 1, "max", beyond)):
            noted = value if one.only_if is None else where(one.only_if, value, 0)
            yield Step(strayed(tensor), (Num(at),), collected, True, noted, one.loops, one)


def _signed(subscript: Scalar) -> Scalar:
    """A subscript as a number with a sign; one that is too large for that, or may have wrapped, is as large as can be.

    Whether it wrapped is seen from its value in floating point.
    """
    huge = type_before(subscript) == "uint64"
    index: Scalar = Cast("int64", call("min", subscript, 2**63 - 1) if huge else subscript)
    if not any(isinstance(one, Call) and one.op in ("add", "sub", "mul") for one in subexpressions(subscript)):
        return index
    real, far = rewritten(subscript, _real), Num(float(_FAR))
    return where(far <= real, _FAR, where(real <= -far, -Num(_FAR), index))


def _real(one: Scalar) -> Scalar | None:
    """A whole number in double precision, in which nothing wraps."""
    match one:
        case Call(op="floordiv", args=(value, by)):
            return call("floor", rewritten(value, _real) / rewritten(by, _real))
        case Call(op="where", args=(condition, yes, no)):
            return where(condition, rewritten(yes, _real), rewritten(no, _real))
        case Call(op=op) if op not in WRITTEN or op in _EXTREMES:
            return None
    return Cast("float64", one)


def verify(
    subscripts: Sequence[Indirect],
    shapes: Mapping[str, Sequence[int]],
    distances: npt.NDArray[np.int64],
    origin: Origin | None,
    of: Callable[[], npt.NDArray[Any]] | None,
) -> None:
    """Raise if a subscript strayed from its tensor, of one of these shapes; `of` gives what its source holds."""
    for number, one in enumerate(subscripts):
        size = shapes[one.tensor][one.axis]
        least, beyond = distances[2 * number : 2 * number + 2].tolist()
        if least < 0 or beyond > 0:
            value = least if least < 0 else size - 1 + beyond
            kept = f"keep them there: `min(max({one}, 0), {size - 1})`"
            shown = {_FAR: "2**62 or more", -_FAR: "-2**62 or less"}.get(value, str(value))
            there = _point(one, value, of) or f"`{one}` is {shown} somewhere"
            raise IndexOutOfBounds(
                f"{there}, and axis {one.axis} of `{one.tensor}` is {size}",
                origin=origin,
                fix=f"pass whole numbers from 0 to {size - 1}, or {kept}"
                if size
                else "nothing can be read from an empty axis",
            )


def _point(one: Indirect, value: int, of: Callable[[], npt.NDArray[Any]] | None) -> str | None:
    """Where a subscript has a value, if that can be seen."""
    if of is None or one.source is None or not isinstance(one.subscript, Read):
        return None
    there = np.argwhere(of() == value)[:, : len(one.subscript.at)]
    return f"`{one.source}({', '.join(map(str, there[0]))})` is {value}" if len(there) else None
