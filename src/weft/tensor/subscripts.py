"""What stands between the brackets of `x[…]`: which axes it is about, and where it reads them.

Subscripts go by the axes of the array, batch axes first, then output, then input axes: `x[…]` has the elements that the
same brackets pick from the value of `x`. What is left of a row stays in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from numbers import Integral

import numpy as np

from weft.affine import Affine
from weft.assign import Accum, Symbol
from weft.assign.explicit import as_affine
from weft.assign.slice_text import loop_letter
from weft.einsum.nodes import Kind, Label
from weft.errors import ShapeError, WeftError
from weft.ops import Call, Scalar, leaves, substitute
from weft.shape.cells import RowCell
from weft.shape.logic import Slice
from weft.shape.nodes import MEMORY_ORDER
from weft.shape.subscripts import AxisPoint, AxisRange, GivenIndex, SlicedRow, Subscript
from weft.tensor.tensor import Tensor


def slice_logic(tensor: Tensor, key: object) -> Slice:
    """The slice of a tensor that a key stands for."""
    keys = key if isinstance(key, tuple) else (key,)
    for one in keys:
        _check_kind(tensor, one)
    first, last = apart(tensor, keys)
    names = map(loop_letter, count())
    rows: dict[Kind, tuple[list[Subscript], list[Subscript]]] = {kind: ([], []) for kind in MEMORY_ORDER}
    for one, axis in zip([*first, *last], sliced_axes(tensor, len(first), len(last)), strict=True):
        side = rows[axis.kind][axis.at < 0]
        side += [Label(next(names)) for _ in range(axis.at - len(side))]
        side.append(_subscript(axis, one, next(names)))
    return Slice(_trimmed(*rows["batch"]), _trimmed(*rows["input"]), _trimmed(*rows["output"]))


def apart(tensor: Tensor, keys: Sequence[object]) -> tuple[list[object], list[object]]:
    """The subscripts before `...` and those behind it, without the whole axes that lie next to it."""
    dots = [number for number, one in enumerate(keys) if one is ...]
    if len(dots) > 1:
        raise WeftError(
            f"`...` stands {len(dots)} times between the brackets of `{tensor.label}[…]`", fix="write it once"
        )
    middle = dots[0] if dots else len(keys)
    first, last = list(keys[:middle]), list(keys[middle + 1 :])
    _check_count(tensor, len(first) + len(last))
    while first and _is_whole(first[-1]):
        first.pop()
    while last and _is_whole(last[0]):
        del last[0]
    return first, last


def _trimmed(lead: list[Subscript], trail: list[Subscript]) -> SlicedRow:
    """The subscripts of a row without the whole axes between those of the first and those of the last."""
    while lead and isinstance(lead[-1], Label):
        lead.pop()
    while trail and isinstance(trail[0], Label):
        del trail[0]
    return SlicedRow(tuple(lead), tuple(trail))


def _is_whole(key: object) -> bool:
    return isinstance(key, slice) and key.start is None and key.stop is None and key.step in (None, 1)


# Kinds of subscripts

_KINDS = 'subscripts are whole numbers, slices, static indices (wf.index("i", size)) and `...`'


def _check_kind(tensor: Tensor, key: object) -> None:
    ends = (key.start, key.stop, key.step) if isinstance(key, slice) else (key,)
    for one in ends:
        if one is None and isinstance(key, slice):
            continue
        if isinstance(one, bool) or not (isinstance(one, Integral | Scalar) or (one is ... and one is key)):
            shown = f"`{one.label}` here" if isinstance(one, Tensor) else repr(one)
            raise WeftError(f"`{tensor.label}` cannot be indexed by {shown}", fix=_KINDS + _otherwise(one))


def _otherwise(key: object) -> str:
    """What does what a key would do elsewhere."""
    if key is None:
        return '; a new axis is wf.einsum("...|i => ...|0i", t)'
    if isinstance(key, bool):
        return "; elements are chosen by wf.where"
    if isinstance(key, Tensor):
        return "; a tensor of positions stands for itself, x[0, ids], or begins a slice, x[0, t : t + 4]"
    if isinstance(key, list | np.ndarray):
        return "; positions are a tensor: x[wf.data(np.array([2, 0]))]"
    return ""


#: Operations whose results are truths.
_TRUTHS = ("lt", "le", "eq", "ne", "and", "or", "not")


def refuse_truths(tensor: Tensor, keys: Sequence[object]) -> None:
    """Refuse truths, which elsewhere choose the elements where they hold: as positions they would be 0 and 1."""
    for one in keys:
        if isinstance(one, Tensor) and _holds_truths(one):
            what = f"`{tensor.label}` cannot be indexed by the truths of `{one.label}`"
            notes = ["how many of them hold is known only when code runs, and sizes are known before"]
            fix = "wf.where(mask, x, 0) chooses and keeps all sizes; wf.take(x, mask) looks up positions 0 and 1"
            raise WeftError(what, notes=notes, fix=fix)


def _holds_truths(tensor: Tensor) -> bool:
    made = tensor.node.definition
    compared = isinstance(made, Accum) and isinstance(made.value, Call) and made.value.op in _TRUTHS
    return compared or tensor.node.precision.settled == "bool"


# Which axes


@dataclass(frozen=True, slots=True)
class SlicedAxis:
    """An axis of a tensor, counted in its row from the left, or from the right below 0; its size if that is known."""

    tensor: Tensor
    kind: Kind
    at: int
    size: int | None

    def __str__(self) -> str:
        return f"{self.kind} axis {self.at} of `{self.tensor.label}`"

    def error(self, what: str, fix: str) -> ShapeError:
        return ShapeError(what, notes=[f"{self.tensor.label} is {self.tensor.shape}"], fix=fix)


def sliced_axes(tensor: Tensor, first: int, last: int) -> Iterator[SlicedAxis]:
    """The first so many axes of a tensor and the last so many, in the order of its array."""
    rows = [(kind, tensor.shape.row(kind)) for kind in MEMORY_ORDER]
    lead, trail = _counts(tensor, rows, first), _counts(tensor, rows[::-1], last)
    for kind, row in rows:
        if row.axes is None and lead[kind] and trail[kind] and lead[kind] + trail[kind] > row.lo:
            raise _unknown(tensor, kind)
        yield from (SlicedAxis(tensor, kind, at, _size(row, at)) for at in range(lead[kind]))
    for kind, row in rows:
        rank = 0 if row.axes is None else len(row.axes)
        yield from (SlicedAxis(tensor, kind, at + rank, _size(row, at)) for at in range(-trail[kind], 0))


def _check_count(tensor: Tensor, subscripts: int) -> None:
    """Refuse more subscripts than there are axes, as far as these are known."""
    rows = [row.axes for row in tensor.shape.rows]
    axes = sum(len(row or ()) for row in rows)
    if None not in rows and subscripts > axes:
        raise ShapeError(
            f"`{tensor.label}` has {axes} {'axis' if axes == 1 else 'axes'} and was given {subscripts} subscripts",
            notes=[f"{tensor.label} is {tensor.shape}"],
            fix="give one subscript for each axis at most",
        )


def first_row(tensor: Tensor) -> Kind:
    """The row that the first axis of a tensor's array is in."""
    return next(sliced_axes(tensor, 1, 0)).kind


def _counts(tensor: Tensor, rows: Sequence[tuple[Kind, RowCell]], wanted: int) -> dict[Kind, int]:
    """How many of so many axes, taken from the rows one after another, lie in each."""
    taken: dict[Kind, int] = {}
    blank = all(row.axes is None and row.role != "inner" for _, row in rows)
    for kind, row in rows:
        left = wanted - sum(taken.values())
        if row.axes is None and left > row.lo and not (blank and kind == "batch"):
            raise _unknown(tensor, kind)
        taken[kind] = left if row.axes is None else min(left, len(row.axes))
    return taken


def _unknown(tensor: Tensor, kind: Kind) -> ShapeError:
    said = f"where `{tensor.label}` is made, {kind[0]}=[] for none"
    if tensor.shape.row(kind).role == "inner":
        said = "of what it is computed from, in wf.scan of what it starts from: a number fits any shape"
    return ShapeError(
        f"how many {kind} axes `{tensor.label}` has is not known here, and so not which axes the subscripts are of",
        notes=[f"{tensor.label} is {tensor.shape}"],
        fix=f"say it {said}; or use an einsum, which names the row",
    )


def _size(row: RowCell, at: int) -> int | None:
    """The size of an axis, counted from the right below 0, as far as it is known."""
    if row.axes is not None:
        return row.axes[at].size
    known = row.front[at : at + 1] if at >= 0 else row.back[-at - 1 : -at]
    return known[0].size if known else None


# Where they are read


def _subscript(axis: SlicedAxis, key: object, name: str) -> Subscript:
    if not isinstance(key, slice):
        index, given = _index(axis, key)
        point = AxisPoint(index, given)
        _check_point(axis, point)
        return point
    if key.step is not None and (not isinstance(key.step, Integral) or not key.step):
        what = f"the step of a slice is a whole number other than 0, not {key.step!r}"
        raise WeftError(what, fix="x[::2] takes every second position, x[::-1] all of them backwards")
    ends = [None if end is None else _index(axis, end) for end in (key.start, key.stop)]
    start, stop = (None if end is None else end[0] for end in ends)
    given = tuple(dict.fromkeys(one for end in ends if end is not None for one in end[1]))
    step = 1 if key.step is None else int(key.step)
    if (start, stop, step) == (None, None, 1):
        return Label(name)
    if given and (start is None or stop is None or not (stop - start).is_constant):
        moving = " and ".join(f"`{one}`" for one in (each.name for each in given))
        fix = "end it a number of positions after its start: x[i : i + 4]"
        raise WeftError(f"how many positions a slice of {axis} has would depend on {moving}", fix=fix)
    part = AxisRange(Label(name), start, stop, step, given)
    _check_reach(axis, part)
    return part


def _index(axis: SlicedAxis, key: object) -> tuple[Affine, tuple[GivenIndex, ...]]:
    """A whole number, or static indices times numbers, with how many values these take."""
    if isinstance(key, Integral):
        return Affine((), int(key)), ()
    assert isinstance(key, Scalar)
    symbols = dict.fromkeys(leaf for leaf in leaves(key) if isinstance(leaf, Symbol))
    index = as_affine(substitute(key, lambda leaf: Affine.of(leaf.name) if isinstance(leaf, Symbol) else leaf))
    if not isinstance(index, Affine):
        what = f"{axis} cannot be indexed by what is no sum of static indices times whole numbers"
        raise WeftError(what, fix="write it as 4 * i + j")
    return index, tuple(GivenIndex(one.name, one.size, one.counts) for one in symbols if one.name in index.names)


def number_at(axis: SlicedAxis, key: object) -> int:
    """A position that is a number, counted from the first."""
    assert isinstance(key, Integral)
    at = int(key)
    _check_point(axis, AxisPoint(Affine((), at)))
    if at < 0 and axis.size is None:
        raise axis.error(f"{axis} is read at {at}, and its size is not known", "count from its beginning")
    return at + (axis.size or 0) if at < 0 else at


def _check_point(axis: SlicedAxis, point: AxisPoint) -> None:
    """Refuse a position that is outside, as far as the size is known."""
    size = axis.size
    if point.exact is not None:
        _check_exact(axis, point)
    elif not point.given and size is not None and point.least > size:
        fix = f"name a position from {-size} to {size - 1}" if size else ""
        raise axis.error(f"position {point.index.offset} is outside {axis}, which has size {size}", fix)
    elif point.given:
        _check_reach(axis, AxisRange(Label(""), point.index, point.index + 1, 1, point.given))


def _check_exact(axis: SlicedAxis, point: AxisPoint) -> None:
    """An index has as many values as the axis it slices, which it determines where nothing else does."""
    name, size = point.index.only, point.exact
    if axis.size in (None, size):
        return
    maker = "counter" if point.given[0].counts else "index"
    fix = f'make them equal: wf.{maker}("{name}", {axis.size})'
    if (axis.kind, axis.at) == ("batch", 0):
        fix += (
            f", or give the data an axis of {size} batches before the one of examples: "
            "wf.data(x.reshape(batches, size, …), batch=2)"
        )
    raise axis.error(f"static index `{name}` has {size} positions, and {axis} has {axis.size}", fix)


def _check_reach(axis: SlicedAxis, part: AxisRange) -> None:
    """Refuse positions that static indices would move outside."""
    if part.reach is None or part.start is None:
        return
    low, high = part.reach
    if low >= 0 and (axis.size is None or high < axis.size):
        return
    names = " and ".join(f"`{one.name}`" for one in part.given)
    values = ", ".join(f"{one.name} below {one.size}" for one in part.given)
    has = "" if axis.size is None else f", which has size {axis.size}"
    what = f"{names} would reach position {low if low < 0 else high} of {axis}{has}"
    raise axis.error(what, f"give fewer positions to {names} (it has {values}), or slice less")
