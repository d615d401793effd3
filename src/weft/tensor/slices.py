"""Slices: axes read at positions that are numbers, or static indices bound when the code runs."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral

from weft.assign import Slot, Symbol, current
from weft.assign.slice_text import loop_letter
from weft.einsum.nodes import Kind, Label
from weft.errors import WeftError
from weft.shape.logic import Slice
from weft.shape.subscripts import AxisRange, SlicedRow
from weft.tensor.advanced_indexing import holds_positions, in_two, picked
from weft.tensor.lookups import take
from weft.tensor.operator import Operator
from weft.tensor.subscripts import refuse_truths, slice_logic
from weft.tensor.tensor import Tensor
from weft.tensor.windows import window_at


@dataclass(frozen=True, slots=True)
class StaticIndex(Symbol):
    """A position supplied at each run, from 0 up to but not including `size`. Also usable as a number.

    One that `counts` is supplied by the context: how often it was used in a run.

    >>> print(0.1 * 0.9 ** wf.index("i", 10))
    0.1 * 0.9**i
    """

    def __str__(self) -> str:
        return self.name


def index(name: str, size: int) -> StaticIndex:
    """A static index: `row = x[i]` reads the first axis of `x` at whatever `i` a run binds."""
    return _checked_index("a static index", name, size)


#: A counter that is told nothing begins again after so many runs: a random tensor has a key for each.
_RUNS = 1 << 31


def counter(name: str, size: int = _RUNS) -> StaticIndex:
    """A static index that counts: 0 in the first run of a routine that uses it, 1 in the next, from 0 after `size`.

    It stands wherever a static index may: in a schedule, `lr=0.1 * 0.99**n`, in `wf.dropout(h, 0.1, step=n)`, and with
    a size in a slice, `x[n]`. Routines of a context that use it count together; `ctx[n]` is the number of the next run,
    and may be set.

    >>> n = wf.counter("n")
    >>> step = ctx.function(returns=2.0 * wf.number(n))
    >>> print(step(), step(), ctx[n])
    [0.] [2.] 2
    """
    return _checked_index("a counter", name, size, counts=True)


def _checked_index(what: str, name: str, size: int, *, counts: bool = False) -> StaticIndex:
    if not isinstance(name, str) or not name.isidentifier():
        raise WeftError(f"{what} needs a name that is an identifier, not {name!r}")
    if isinstance(size, bool) or not isinstance(size, Integral) or size < 1:
        raise WeftError(f"{what.removeprefix('a ')} `{name}` needs a size from 1 on, not {size!r}")
    return StaticIndex(name, int(size), counts)


def sliced(tensor: Tensor, key: object) -> Tensor:
    """`tensor[key]`; the tensor itself where all axes stay whole."""
    part, where = _part(tensor, key), current()
    if where is not None and part is not tensor:
        where.parts.add(part.node)
    return part


def _part(tensor: Tensor, key: object) -> Tensor:
    refuse_truths(tensor, key if isinstance(key, tuple) else (key,))
    if isinstance(key, Tensor):
        return take(tensor, key)
    if isinstance(key, slice) and isinstance(key.start, Tensor):
        return window_at(tensor, key)
    if isinstance(key, tuple) and any(map(holds_positions, key)):
        first, then = in_two(key)
        between, where = _part(tensor, first), current()
        if where is not None and between is not tensor:
            where.between.add(between.node)
        return picked(between, then)
    logic = slice_logic(tensor, key)
    return apply_slice(logic, tensor) if logic != Slice() else tensor


def first_axis(kind: Kind, step: int) -> Slice:
    """The slice `::step` of the first axis of a row."""
    row = SlicedRow((AxisRange(Label(loop_letter(0)), step=step),))
    match kind:
        case "batch":
            return Slice(batch=row)
        case "input":
            return Slice(input=row)
    return Slice(output=row)


def apply_slice(logic: Slice, tensor: Tensor) -> Tensor:
    """The part of a tensor that a slice reads."""
    return _SLICE.apply(logic, (tensor,))


def _copy(v: Slot, v1: Slot) -> None:
    v[:] = v1


_SLICE = Operator("slice", None, _copy)
