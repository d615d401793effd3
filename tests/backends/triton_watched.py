"""What programs of a launch touch, as Triton's interpreter runs them: it runs one after another, a GPU all at once.

What must hold of a launch, whatever its programs and lanes wait for:

    no program touches a cell that another one stores
    lanes that store one cell store one number
    a cell that a lane stores no other touches, before or after, without a barrier in between
    nothing is touched outside of the buffers that the launch is given
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
#: The last address that there is.
_LAST = np.iinfo(np.uint64).max


class _Touched(NamedTuple):
    """The addresses that lanes of a program touch at once, which lanes do, and the first and last of those."""

    stores: bool
    addresses: Array
    lanes: Array
    first: int
    last: int

    @property
    def cells(self) -> Array:
        return np.asarray(self.addresses[self.lanes])

    def is_beside(self, other: _Touched) -> bool:
        """Are all its cells before another's, or behind them?"""
        return self.last < other.first or other.last < self.first


@dataclass(slots=True)
class _Launch:
    """What programs have touched so far, and what the last one has since its lanes waited for each other."""

    buffers: Mapping[str, Array]
    text: str
    program: int = -1
    loaded: list[tuple[int, Array]] = field(default_factory=list)
    stored: list[tuple[int, Array]] = field(default_factory=list)
    waiting: list[_Touched] = field(default_factory=list)

    def touch(self, program: int, new: _Touched, values: Array | None, size: int) -> None:
        cells = np.unique(new.cells)
        if program != self.program:
            self.program, self.waiting = program, []
        self._inside(cells, size)
        for before in self.waiting:
            self._apart(before, new)
        if values is not None:
            self._agreeing(new, values)
        self.waiting.append(new)
        (self.stored if new.stores else self.loaded).append((program, cells))

    def _inside(self, cells: Array, size: int) -> None:
        starts = [(one.ctypes.data, one.nbytes) for one in self.buffers.values()]
        if any(start <= cells[0] and cells[-1] + np.uint64(size) <= start + many for start, many in starts):
            return
        held = np.zeros(len(cells), bool)
        for start, many in starts:
            held |= (cells >= start) & (cells + np.uint64(size) <= start + many)
        self._none(cells[~held], "lies outside of all buffers")

    def _agreeing(self, new: _Touched, values: Array) -> None:
        """Do lanes that store one cell store one number?"""
        numbers = np.ascontiguousarray(np.broadcast_to(values, new.addresses.shape)[new.lanes])
        kind = np.dtype((np.void, numbers.dtype.itemsize))
        _, first, back = np.unique(new.cells, return_index=True, return_inverse=True)
        differ = numbers.view(kind) != numbers[first][back].view(kind)
        self._none(new.cells[differ], "is stored by several lanes")

    def _apart(self, before: _Touched, new: _Touched) -> None:
        """Do lanes that have not waited for each other touch other cells, or each its own?"""
        if not (before.stores or new.stores) or before.is_beside(new):
            return
        met = before.lanes & np.isin(before.addresses, new.cells)
        if new.stores and before.addresses.shape == new.addresses.shape:
            met &= ~(new.lanes & (before.addresses == new.addresses))
        self._none(before.addresses[met], "is stored by one lane and touched by another, and neither waits")

    def check(self) -> None:
        """Does no program touch what another one stores?"""
        cells, owners = _together(self.stored)
        if not len(cells):
            return
        for others, programs in (_together(self.stored), _together(self.loaded)):
            at = np.minimum(np.searchsorted(cells, others), len(cells) - 1)
            met = (cells[at] == others) & (owners[at] != programs)
            self._none(others[met], "is stored by one program and touched by another")

    def _none(self, cells: Array, what: str) -> None:
        if len(cells):
            raise AssertionError(f"{self._named(int(cells[0]))} {what}\n{self.text}")

    def _named(self, address: int) -> str:
        for name, array in self.buffers.items():
            if 0 <= (at := address - array.ctypes.data) < array.nbytes:
                cell = np.unravel_index(at // array.itemsize, array.shape)
                return f"`{name}[{', '.join(map(str, cell))}]`"
        return f"address {address}"


def _together(touched: list[tuple[int, Array]]) -> tuple[Array, Array]:
    """Cells in order, and the program of each: the first of several."""
    if not touched:
        return np.zeros(0, np.uint64), np.zeros(0, np.int64)
    cells = np.concatenate([some for _, some in touched])
    programs = np.concatenate([np.full(len(some), program) for program, some in touched])
    order = np.argsort(cells, kind="stable")
    return cells[order], programs[order]


@contextmanager
def watched(buffers: Mapping[str, Array], text: str) -> Iterator[None]:
    """Watch one launch, which is given some buffers, by name."""
    from triton.runtime.interpreter import interpreter_builder as builder

    found, load, store, barrier = (
        _Launch(buffers, text),
        builder.create_masked_load,
        builder.create_masked_store,
        builder.create_barrier,
    )

    def touch(stores: bool, pointers: Any, mask: Any, values: Array | None) -> None:
        addresses = np.atleast_1d(pointers.data)
        lanes = np.atleast_1d(np.broadcast_to(mask.data, pointers.data.shape).astype(bool))
        size = pointers.get_element_ty().primitive_bitwidth // 8
        if lanes.any():
            ends = int(addresses.min(where=lanes, initial=_LAST)), int(addresses.max(where=lanes, initial=0))
            found.touch(builder.grid_idx[0], _Touched(stores, addresses, lanes, *ends), values, size)

    def masked_load(pointers: Any, mask: Any, *rest: Any, **named: Any) -> Any:
        touch(False, pointers, mask, None)
        return load(pointers, mask, *rest, **named)

    def masked_store(pointers: Any, value: Any, mask: Any, *rest: Any, **named: Any) -> Any:
        touch(True, pointers, mask, value.data)
        return store(pointers, value, mask, *rest, **named)

    def wait() -> Any:
        found.waiting.clear()
        return barrier()

    with (
        patch.object(builder, "create_masked_load", masked_load),
        patch.object(builder, "create_masked_store", masked_store),
        patch.object(builder, "create_barrier", wait),
    ):
        yield
    found.check()
