"""Propagators for sizes computed from other sizes: affine axes, concatenations, flattened axes, element counts.

Each fires when all but one of its sizes are known and finds the last, or checks when all are; a size that somebody else
computes is found when all others are known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, TypeAlias

from weft.einsum.nodes import KINDS, AffineAxis
from weft.errors import WeftError
from weft.shape import errors
from weft.shape.cells import AxisCell, Propagator, RowCell, Why
from weft.shape.dims import Same
from weft.shape.nodes import SizeRule, show_rows
from weft.shape.reach import reach

if TYPE_CHECKING:
    from weft.shape.solver import Solver


def share_basis(solver: Solver, source: AxisCell, target: AxisCell, why: Why) -> None:
    """An axis computed from another means what that one means."""
    if source.basis is not None:
        solver.set_basis(target, source.basis, Why(why.step, why.span, source.why_basis))


def exceeds_one(solver: Solver, axis: AxisCell, why: Why) -> None:
    """The axis does not broadcast. By how much is not said: an axis computed from itself would grow for ever."""
    solver.set_least(axis, 2, why)


@dataclass(slots=True, eq=False, repr=False)
class AffineRule(Propagator):
    """Size of an axis read at `stride * over + dilation * kernel + offset`.

    Without a kernel, and when padded, `axis = stride * over`. A kernel that must stay inside reaches position
    `stride * (over - 1) + dilation * (kernel - 1) + offset`, and the axis is one longer than that.
    """

    axis: AxisCell
    over: AxisCell
    kernel: AxisCell | None
    term: AffineAxis

    @property
    def cells(self) -> list[AxisCell]:
        return [self.axis, self.over] + ([self.kernel] if self.kernel else [])

    def run(self, solver: Solver) -> None:
        share_basis(solver, self.over, self.axis, self.why)
        share_basis(solver, self.axis, self.over, self.why)
        if self.kernel is None or (self.term.kernel and self.term.kernel.padded):
            self._multiple(solver)
        else:
            self._window(solver, self.kernel)

    def _multiple(self, solver: Solver) -> None:
        stride = self.term.stride
        if self.axis.size is None and stride * self.over.least > 1:
            exceeds_one(solver, self.axis, self.why)
        if self.over.size is not None:
            solver.set_size(self.axis, stride * self.over.size, self.after(self.over.why))
        elif self.axis.size is not None:
            if self.axis.size % stride:
                raise errors.not_a_multiple(solver.step, self.axis, stride, self.after(self.axis.why))
            solver.set_size(self.over, self.axis.size // stride, self.after(self.axis.why))

    def _window(self, solver: Solver, kernel: AxisCell) -> None:
        assert self.term.kernel is not None
        stride, dilation, fixed = self.term.stride, self.term.kernel.dilation, self.term.offset + 1
        axis, over = self.axis, self.over
        windows, width = over.size or max(over.least, 1), kernel.size or max(kernel.least, 1)
        least = stride * (windows - 1) + dilation * (width - 1) + fixed
        if axis.size is None and least > 1:
            exceeds_one(solver, axis, self.why)
        if over.size is not None and kernel.size is not None:
            reach = stride * (over.size - 1) + dilation * (kernel.size - 1) + fixed
            if axis.size not in (None, reach):
                raise errors.window(solver.step, axis.size, self.term, over.size, kernel.size, self.after(axis.why))
            solver.set_size(axis, reach, self.after(kernel.why))
        elif axis.size is not None and kernel.size is not None:
            slack = axis.size - dilation * (kernel.size - 1) - fixed
            if slack < 0 or slack % stride:
                raise errors.window(solver.step, axis.size, self.term, None, kernel.size, self.after(axis.why))
            solver.set_size(over, slack // stride + 1, self.after(axis.why))
        elif axis.size is not None and over.size is not None:
            slack = axis.size - stride * (over.size - 1) - fixed
            if slack < 0 or slack % dilation:
                raise errors.window(solver.step, axis.size, self.term, over.size, None, self.after(axis.why))
            solver.set_size(kernel, slack // dilation + 1, self.after(axis.why))
        elif axis.size is not None and axis.size < least:
            raise errors.window(solver.step, axis.size, self.term, windows, width, self.after(axis.why))


def equal_to(axis: AxisCell) -> set[AxisCell]:
    """The axes that equations make one with this one."""
    return set(
        reach((axis,), lambda one: (cell for rule in one.watchers if isinstance(rule, Same) for cell in rule.cells))
    )


@dataclass(slots=True, eq=False, repr=False)
class ConcatRule(Propagator):
    """`axis = part + part + …`; a part that is a number is a known size.

    The other way round, parts that are all the same axis share what the rest leaves.
    """

    axis: AxisCell
    parts: tuple[AxisCell, ...]
    skipped: int

    @property
    def cells(self) -> list[AxisCell]:
        return [self.axis, *self.parts]

    @property
    def smallest(self) -> int:
        """The size with every open part as small as closing makes it."""
        return self.skipped + sum(max(part.least, 1) if part.size is None else part.size for part in self.parts)

    def run(self, solver: Solver) -> None:
        for part in self.parts:
            share_basis(solver, part, self.axis, self.why)
        known = self.skipped + sum(part.size for part in self.parts if part.size is not None)
        unknown = [part for part in self.parts if part.size is None]
        total = self.axis.size
        if unknown and total is not None:
            self._divide(solver, total - known, unknown)
        elif unknown and known + sum(part.least for part in unknown) > 1:
            exceeds_one(solver, self.axis, self._because)
        elif not unknown:
            if total not in (None, known):
                raise errors.parts(solver.step, self.axis, known, self._because)
            solver.set_size(self.axis, known, self._because)

    def _divide(self, solver: Solver, left: int, unknown: Sequence[AxisCell]) -> None:
        """Parts that are all the same axis share what the others leave; a parameter must get something."""
        least = sum(part.least for part in unknown)
        if least > left:
            assert self.axis.size is not None
            raise errors.parts(solver.step, self.axis, self.axis.size - left + least, self._because)
        same = equal_to(unknown[0])
        if same.issuperset(unknown):
            if left % len(unknown) or (not left and any(axis.role == "param" for axis in same)):
                raise errors.shares(solver.step, self.axis, left, len(unknown), self._because)
            solver.set_size(unknown[0], left // len(unknown), self._because)

    @property
    def _because(self) -> Why:
        return self.after(next((cell.why for cell in self.cells if cell.why), None))


@dataclass(slots=True, eq=False, repr=False)
class FlatRule(Propagator):
    """`axis = part * part * …`: several axes as one."""

    axis: AxisCell
    parts: tuple[AxisCell, ...]

    @property
    def cells(self) -> list[AxisCell]:
        return [self.axis, *self.parts]

    @property
    def smallest(self) -> int:
        """The size with every open part as small as closing makes it."""
        return prod(max(part.least, 1) if part.size is None else part.size for part in self.parts)

    def run(self, solver: Solver) -> None:
        known = prod(part.size for part in self.parts if part.size is not None)
        unknown = [part for part in self.parts if part.size is None]
        total = self.axis.size
        why = self.after(next((cell.why for cell in self.cells if cell.why), None))
        wrong = total not in (None, known) if not unknown or not known else total is not None and total % known
        if wrong:
            raise errors.not_flat(solver.step, self.axis, self.parts, known, why)
        if not unknown or not known:
            solver.set_size(self.axis, known, why)
        elif total is None:
            if known * prod(part.least for part in unknown) > 1:
                exceeds_one(solver, self.axis, why)
        elif len(unknown) == 1 or total == known:
            for part in unknown:
                solver.set_size(part, total // known, why)


#: Rules that compute the size of an axis from those of labels.
SizeRules: TypeAlias = AffineRule | ConcatRule | FlatRule


@dataclass(slots=True, eq=False, repr=False)
class CountRule(Propagator):
    """All axes of some rows multiply to `count`."""

    what: str
    rows: tuple[RowCell, ...]
    count: int
    watched: bool = False

    @property
    def cells(self) -> list[AxisCell]:
        """The axes whose sizes the count relates; none while a rank is open."""
        rows = [row.axes for row in self.rows]
        return [axis for axes in rows for axis in axes or ()] if None not in rows else []

    def shown(self) -> str:
        """The rows as far as they are known."""
        return show_rows(*map(str, self.rows)) if len(self.rows) == len(KINDS) else ",".join(map(str, self.rows))

    def run(self, solver: Solver) -> None:
        if any(row.axes is None for row in self.rows):
            return
        if not self.watched:
            solver.write(self, "watched", True)
            for axis in self.cells:
                solver.watch(axis, self)
        unknown = [axis for axis in self.cells if axis.size is None]
        known = prod(axis.size for axis in self.cells if axis.size is not None)
        if not known and not self.count:
            return
        left, rest = divmod(self.count, known) if known else (0, 1)
        if rest or (left != 1 and not unknown):
            if self.why.product is not None:
                raise errors.product(solver.step, self.why)
            raise errors.count(solver.step, self.what, self.shown(), self.count)
        if len(unknown) == 1 or left == 1:
            for axis in unknown:
                solver.set_size(axis, left, self.why)
        else:
            for axis in unknown:
                if axis.cap is not None and (left % axis.cap.size if axis.cap.size else left):
                    solver.set_size(axis, 1, self.after(axis.cap.why))


@dataclass(slots=True, eq=False, repr=False)
class ComputedRule(Propagator):
    """An axis whose size is computed from those of named others, as soon as those that it needs are known.

    The other way round, one size that is not known is found where the rest and the computed one are: if the computed
    size rises or falls with it, it is searched for, and it counts only if neither of its neighbours would do.
    """

    axis: AxisCell
    of: Mapping[str, AxisCell]
    rule: SizeRule
    needs: frozenset[str]

    @property
    def cells(self) -> list[AxisCell]:
        return list(dict.fromkeys([self.axis, *self.of.values()]))

    def run(self, solver: Solver) -> None:
        sizes = {name: axis.size for name, axis in self.of.items() if axis.size is not None}
        why = self.after(next((axis.why for axis in self.cells if axis.why), None))
        unknown = [name for name in self.of if name not in sizes]
        if self.needs.isdisjoint(unknown):
            size = self.rule.size(sizes)
            if size is not None:
                solver.set_size(self.axis, size, why)
        elif len(unknown) == 1 and self.axis.size is not None:
            found = self._inverse(unknown[0], sizes, self.axis.size)
            if found is not None:
                solver.set_size(self.of[unknown[0]], found, why)

    def _inverse(self, name: str, sizes: Mapping[str, int], wanted: int) -> int | None:
        """The only size of an axis, of those near, that makes the computed one what it is."""

        def distance(size: int) -> int:
            found = self.rule.size({**sizes, name: size})
            assert found is not None
            return found - wanted

        low, high = 1, wanted + sum(sizes.values()) + 1
        try:
            falls = distance(low) > distance(high)
            while low < high:
                middle = (low + high) // 2
                off = distance(middle)
                low, high = (middle + 1, high) if off and (off > 0) == falls else (low, middle)
            near = [distance(size) for size in (low, low + 1, max(low - 1, 1))]
        except WeftError:
            return None
        alone = near[1] and (near[2] or low == 1)
        return low if not near[0] and alone else None
