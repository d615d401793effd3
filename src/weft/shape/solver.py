"""Runs propagators to a fixpoint inside a transaction: a contradiction leaves every cell as it was.

So does an interrupt, wherever it comes, also while all is taken back: a store knows its open transaction, and whoever
looks at it next takes back what is left of that. A signal handler must not look at what the code it interrupts changes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable
from types import TracebackType
from typing import Any, Literal, TypeVar

from weft.einsum.nodes import Label
from weft.errors import WeftError
from weft.shape import errors
from weft.shape.cells import MODEL, AxisCell, Cap, ConstraintStore, InferenceStep, Propagator, RowCell, Why
from weft.shape.dims import Same
from weft.shape.inference_lock import INFERRING

R = TypeVar("R")


#: The stores that are looked at and changed now.
_under_way: list[ConstraintStore] = []


def undisturbed(stores: Iterable[ConstraintStore], work: Callable[[Collection[ConstraintStore]], R]) -> R:
    """Look at the stores that some belong to and change them, with nothing in them that an interrupt left half done."""
    with INFERRING:
        before, some = [*_under_way], dict.fromkeys(stores)
        for store in some:
            while (left := _not_under_way(store.find(), before).open) is not None:
                left.roll_back()
        found = tuple(dict.fromkeys(store.find() for store in some))
        try:
            _under_way[:] = (*before, *found)
            return work(found)
        finally:
            _under_way[:] = before


def _not_under_way(store: ConstraintStore, under_way: Collection[ConstraintStore]) -> ConstraintStore:
    if store in under_way:
        raise WeftError(
            "a signal handler asks for shapes in the middle of their inference",
            fix="let it read what is stored, or set a flag in the handler, and act on it later",
        )
    return store


class Solver:
    """The only writer of cells. Use as a context manager: on an exception everything written is taken back."""

    def __init__(self, store: ConstraintStore, step: InferenceStep, level: int = MODEL) -> None:
        self.store = store.find()
        self.step = step
        self.level = level
        self.absorbed: list[ConstraintStore] = []
        self.opened: list[ConstraintStore] = []
        self.queue: deque[Propagator] = deque()
        self.trail: list[tuple[Any, str, Any]] = []

    def __enter__(self) -> Solver:
        self._open(self.store)
        return self

    def _open(self, store: ConstraintStore) -> None:
        self.opened.append(store)
        store.open = self
        self.write(store, "solution", None)

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        if kind is not None:
            self.roll_back()
            return
        self.store.open = None  # from here on it has happened
        for store in self.opened:
            store.open = None
        for store in self.absorbed:
            store.rows, store.axes, store.demands = [], [], []

    def roll_back(self) -> None:
        """Take back everything written."""
        for waiting in self.queue:
            waiting.queued = False
        for target, name, old in reversed(self.trail):
            if name:
                setattr(target, name, old)
            else:
                del target[old:]
        self.queue.clear()
        self.trail.clear()
        for store in self.opened:
            store.open = None

    # Writing

    def write(self, target: object, name: str, value: object) -> None:
        self.trail.append((target, name, getattr(target, name)))
        setattr(target, name, value)

    def append(self, items: list[Any], item: object) -> None:
        self.trail.append((items, "", len(items)))
        items.append(item)

    def extend(self, items: list[Any], more: Iterable[object]) -> None:
        self.trail.append((items, "", len(items)))
        items.extend(more)

    def absorb(self, other: ConstraintStore) -> None:
        """Two connected graphs meet: the smaller store's unknowns move to the larger."""
        small, large = other.find(), self.store
        if small is large:
            return
        if small.weight > large.weight:
            small, large = large, small
            self._open(large)
        for mine, theirs in ((large.rows, small.rows), (large.axes, small.axes), (large.demands, small.demands)):
            self.extend(mine, theirs)
        self.write(large, "broken", large.broken | small.broken)
        self.write(small, "into", large)
        self.write(large, "weight", large.weight + small.weight)
        self.absorbed.append(small)
        self.store = large

    # Running

    def add(self, rule: Propagator, *cells: AxisCell | RowCell) -> None:
        """Let `rule` watch `cells`, and run it in turn."""
        for cell in cells:
            self.watch(cell, rule)
        self.enqueue(rule)

    def watch(self, cell: AxisCell | RowCell, rule: Propagator) -> None:
        if not cell.final:
            self.append(cell.watchers, rule)

    def enqueue(self, rule: Propagator) -> None:
        if not rule.queued:
            rule.queued = True
            self.queue.append(rule)

    def wake(self, cell: AxisCell | RowCell) -> None:
        for rule in cell.watchers:
            if not rule.queued:
                rule.queued = True
                self.queue.append(rule)

    def solve(self) -> None:
        queue = self.queue
        while queue:
            rule = queue[0]
            rule.queued = False  # before it is taken: a signal may come when it is
            queue.popleft()
            rule.run(self)

    # Facts about an axis

    def new_axis(self, row: RowCell | None = None, label: Label | None = None, least: int = 0) -> AxisCell:
        axis = AxisCell(row, label, least, row.level if row else self.level)
        self.append(self.store.axes, axis)
        return axis

    def set_size(self, axis: AxisCell, size: int, why: Why) -> None:
        if axis.size is not None:
            if axis.size != size:
                raise errors.size_conflict(self.step, axis, size, why)
            return
        if size < axis.least:
            raise errors.out_of_reach(self.step, axis, axis.least, why, size)
        if axis.cap is not None and size != axis.cap.size and size != 1:
            raise errors.size_conflict(self.step, axis, size, why)
        self.write(axis, "size", size)
        self.write(axis, "why", why)
        if axis.cap is not None and size != axis.cap.size:
            self.set_plain(axis, axis.cap.why)
        self.wake(axis)

    def set_cap(self, axis: AxisCell, cap: Cap) -> None:
        """Narrow an axis to `cap` or an unlabelled 1; two incompatible caps leave only the 1."""
        if axis.size not in (None, 1):
            return
        if axis.size == 1 and cap.size != 1:
            self.set_plain(axis, cap.why)
            return
        old = axis.cap
        if old is not None:
            if old.size != cap.size or (old.basis and cap.basis and old.basis != cap.basis):
                self.set_plain(axis, cap.why)
                self.set_size(axis, 1, cap.why)
                return
            if old.basis == cap.basis or cap.basis is None:
                return
        self.write(axis, "cap", cap)
        if cap.size == 1 or axis.basis is not None or axis.least > 1:
            self.set_size(axis, cap.size, cap.why)
        self.wake(axis)

    def set_least(self, axis: AxisCell, least: int, why: Why) -> None:
        if least <= axis.least:
            return
        if axis.size is not None and axis.size < least:
            raise errors.out_of_reach(self.step, axis, least, why)
        self.write(axis, "least", least)
        if axis.size is None and axis.cap is not None and least > 1:
            self.set_size(axis, axis.cap.size, axis.cap.why)
        self.wake(axis)

    def set_basis(self, axis: AxisCell, basis: str, why: Why) -> None:
        if axis.basis == basis:
            return
        if axis.basis is not None:
            raise errors.bases(self.step, axis, basis, why)
        if axis.plain:
            raise errors.labelled_one(self.step, axis, basis, why)
        self.write(axis, "basis", basis)
        self.write(axis, "why_basis", why)
        if axis.size is None and axis.cap is not None:
            self.set_size(axis, axis.cap.size, axis.cap.why)
        self.wake(axis)

    def say(self, axis: AxisCell, fact: Literal["claim", "written"]) -> None:
        """Somebody wrote the size of this axis, or it stands in the program."""
        self.write(axis, fact, True)
        self.wake(axis)

    def set_plain(self, axis: AxisCell, why: Why) -> None:
        """The axis broadcasts, so it has no basis."""
        if axis.plain:
            return
        if axis.basis is not None:
            raise errors.labelled_one(self.step, axis, axis.basis, why)
        self.write(axis, "plain", True)
        self.write(axis, "why_plain", why)
        self.wake(axis)

    # Facts about a row

    def at_least(self, row: RowCell, rank: int, why: Why) -> None:
        if rank <= row.lo:
            return
        self.write(row, "lo", rank)
        self.write(row, "why_lo", why)
        if rank > row.hi:
            raise errors.ranks(self.step, row)
        self._settle(row)

    def at_most(self, row: RowCell, rank: int, why: Why) -> None:
        if rank >= row.hi:
            return
        self.write(row, "hi", rank)
        self.write(row, "why_hi", why)
        if rank < row.lo:
            raise errors.ranks(self.step, row)
        self._settle(row)

    def _settle(self, row: RowCell) -> None:
        """Once the rank is known, lay the axes addressed from the front over those addressed from the back."""
        if row.lo == row.hi and row.axes is None:
            rank = row.lo
            axes: list[AxisCell | None] = [None] * rank
            for offset, axis in enumerate(row.back):
                axes[rank - 1 - offset] = axis
            for offset, axis in enumerate(row.front):
                twin = axes[offset]
                if twin is None:
                    axes[offset] = axis
                else:
                    why = row.why_lo or row.why_hi
                    assert why is not None
                    self.add(Same(why, twin, axis), twin, axis)
            self.write(row, "axes", tuple([axis or self.new_axis(row) for axis in axes]))
            self.write(row, "front", ())
            self.write(row, "back", ())
        self.wake(row)

    def front(self, row: RowCell, at: int) -> AxisCell:
        """The axis `at` from the left; the row is known to reach that far."""
        if row.axes is not None:
            return row.axes[at]
        return self._address(row, "front", row.front, at)

    def back(self, row: RowCell, at: int) -> AxisCell:
        """The axis `at` from the right, counting from 0; the row is known to reach that far."""
        if row.axes is not None:
            return row.axes[-1 - at]
        return self._address(row, "back", row.back, at)

    def _address(self, row: RowCell, side: str, end: tuple[AxisCell, ...], at: int) -> AxisCell:
        assert at < row.lo
        if at >= len(end):
            end += tuple([self.new_axis(row) for _ in range(at + 1 - len(end))])
            self.write(row, side, end)
            self.wake(row)
        return end[at]
