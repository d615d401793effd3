"""Slicing the leftmost batch axis, by a number or by a static index bound when the code runs."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral

from weft.assign import Slot, Symbol
from weft.einsum.nodes import Position
from weft.errors import ShapeError, WeftError
from weft.shape.logic import Slice
from weft.shape.nodes import Bound
from weft.tensor.operator import Operator
from weft.tensor.tensor import Tensor


@dataclass(frozen=True, slots=True)
class StaticIndex(Symbol):
    """A position supplied at each run, from 0 up to but not including `size`. Also usable as a number.

    One that `counts` is supplied by the context: how often it was used in a run.
    """


def index(name: str, size: int) -> StaticIndex:
    """A static index: `row = x[i]` slices the leftmost batch axis of `x` at whatever `i` a run binds."""
    return _checked_index("a static index", name, size)


#: A counter that is told nothing begins again after so many runs: a random tensor has a key for each.
_RUNS = 1 << 31


def counter(name: str, size: int = _RUNS) -> StaticIndex:
    """A static index that counts: 0 in the first run of a routine that uses it, 1 in the next, from 0 after `size`.

    It stands wherever a static index may: in a schedule, `lr=0.1 * 0.99**n`, in `wf.dropout(h, 0.1, step=n)`, and with
    a size in a slice, `x[n]`. Routines of a context that use it count together; `ctx[n]` is the number of the next run,
    and may be set.
    """
    return _checked_index("a counter", name, size, counts=True)


def _checked_index(what: str, name: str, size: int, *, counts: bool = False) -> StaticIndex:
    if not isinstance(name, str) or not name.isidentifier():
        raise WeftError(f"{what} needs a name that is an identifier, not {name!r}")
    if isinstance(size, bool) or not isinstance(size, Integral) or size < 1:
        raise WeftError(f"{what.removeprefix('a ')} `{name}` needs a size from 1 on, not {size!r}")
    return StaticIndex(name, int(size), counts)


def slice_batch(tensor: Tensor, key: object) -> Tensor:
    """`tensor[key]`: the leftmost batch axis read at one position."""
    if isinstance(key, StaticIndex):
        _check_positions(tensor, key)
        logic = Slice(Bound(key.name, key.size, key.counts))
    elif isinstance(key, Integral) and not isinstance(key, bool) and int(key) >= 0:
        logic = Slice(Position(int(key)))
    else:
        raise WeftError(
            f"`{tensor.label}` cannot be sliced by {key!r}",
            fix='slice the leftmost batch axis by a number from 0 on or by a static index, wf.index("i", size)'
            + _otherwise(key),
        )
    return _SLICE.apply(logic, (tensor,))


def _otherwise(key: object) -> str:
    """What does what a key would do elsewhere."""
    if isinstance(key, slice):
        return '; a part of an axis is wf.einsum("2^a^3, ...|... => a, ...|...", t), without the first 2 and the last 3'
    if key is None or key is ...:
        return '; a new axis is wf.einsum("...|i => ...|0i", t)'
    if isinstance(key, tuple):
        return '; several at once are t[i][j]; of an output axis wf.einsum("...|1j => ...|j", t)'
    return ""


def _check_positions(tensor: Tensor, index: StaticIndex) -> None:
    """An index has as many positions as the axis it slices, which it determines where nothing else does."""
    batch = tensor.shape.batch
    known = next((axis.size for axis in batch.axes or batch.front), None)
    maker = "counter" if index.counts else "index"
    if known is not None and known != index.size:
        raise ShapeError(
            f"static index `{index.name}` has {index.size} positions, and the leftmost batch axis of "
            f"`{tensor.label}` has {known}",
            notes=[f"{tensor.label} is {tensor.shape}"],
            fix=f'make them equal: wf.{maker}("{index.name}", {known}), or give the data an axis of {index.size} '
            "batches before the one of examples: wf.data(x.reshape(batches, size, …), batch=2)",
        )


def _copy(v: Slot, v1: Slot) -> None:
    v[:] = v1


_SLICE = Operator("slice", None, _copy)
