"""Propagators between rows: what they say about ranks, and which axes they lay over each other."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from weft.errors import Span
from weft.shape import errors
from weft.shape.cells import AxisCell, Propagator, RowCell, Why
from weft.shape.dims import Below, Join, Same, Seen
from weft.shape.nodes import MAX_RANK

if TYPE_CHECKING:
    from weft.shape.solver import Solver


@dataclass(slots=True, eq=False, repr=False)
class _Aligning(Propagator):
    """A rule that ties axes of two rows; so many are tied from either end."""

    from_front: int = field(default=0, init=False)
    from_back: int = field(default=0, init=False)

    def tie(self, solver: Solver, inner: AxisCell, outer: AxisCell, span: Span | None = None) -> None:
        """Say what holds of two axes that lie over each other."""
        raise NotImplementedError

    def align(
        self, solver: Solver, inner: RowCell, outer: RowCell, front: int, back: int, lead: int = 0, trail: int = 0
    ) -> None:
        """Tie so many axes from either end of `inner`, which has `lead` and `trail` others of `outer` around it."""
        for at in range(self.from_back, back):
            solver.write(self, "from_back", at + 1)
            self.tie(solver, solver.back(inner, at), solver.back(outer, trail + at))
        for at in range(self.from_front, front):
            solver.write(self, "from_front", at + 1)
            self.tie(solver, solver.front(inner, at), solver.front(outer, lead + at))

    def lay_over(self, solver: Solver, inner: RowCell, outer: RowCell, lead: int = 0, trail: int = 0) -> None:
        """Tie all axes of `inner` that are known: from the front only those that something speaks of."""
        addressed = max(len(outer.front) - lead, len(inner.front)) if outer.axes is None else 0
        self.align(solver, inner, outer, min(addressed, inner.lo), inner.lo, lead, trail)


@dataclass(slots=True, eq=False, repr=False)
class RowIsRule(_Aligning):
    """`row = lead middle trail`, without broadcasting.

    `middle` is a row, or None: then there are no further axes if `tracked`, else any. `least` is the rank the row has
    even if the right side has fewer axes.
    """

    row: RowCell
    lead: tuple[AxisCell, ...]
    middle: RowCell | None
    trail: tuple[AxisCell, ...]
    spans: tuple[Span | None, ...] = ()
    tracked: bool = True
    least: int = 0
    linked: bool = False

    @property
    def flanks(self) -> int:
        return len(self.lead) + len(self.trail)

    def run(self, solver: Solver) -> None:
        self._bound(solver)
        if not self.linked:
            solver.write(self, "linked", True)
            self._link_flanks(solver)
        if self.middle is not None:
            self.lay_over(solver, self.middle, self.row, len(self.lead), len(self.trail))
            if self.least:
                self._scalar(solver, self.row, self.middle)

    def _bound(self, solver: Solver) -> None:
        row, middle, flanks = self.row, self.middle, self.flanks
        if middle is None:
            if row.lo < flanks:
                solver.at_least(row, flanks, self.why)
            if self.tracked and row.hi > flanks:
                solver.at_most(row, max(flanks, self.least), self.why)
            return
        lo, hi = max(middle.lo + flanks, self.least), max(middle.hi + flanks, self.least)
        if row.lo < lo:
            solver.at_least(row, lo, self.after(middle.why_lo))
        if row.hi > hi:
            solver.at_most(row, hi, self.after(middle.why_hi))
        if row.lo > self.least and middle.lo < row.lo - flanks:
            solver.at_least(middle, row.lo - flanks, self.after(row.why_lo))
        if row.hi < MAX_RANK and middle.hi > row.hi - flanks:  # the limit itself is no claim: reaching it is a cycle
            solver.at_most(middle, row.hi - flanks, self.after(row.why_hi))

    def _link_flanks(self, solver: Solver) -> None:
        for at, axis in enumerate(self.lead):
            self.tie(solver, axis, solver.front(self.row, at), self.spans[at])
        for at, axis in enumerate(reversed(self.trail)):
            self.tie(solver, axis, solver.back(self.row, at), self.spans[-1 - at])
        if self.middle is None and self.least > self.flanks:
            solver.set_size(solver.back(self.row, 0), 1, self.why)

    def _scalar(self, solver: Solver, row: RowCell, middle: RowCell) -> None:
        """The one axis of a row that stands for no axes has size 1; one of another size stands for an axis."""
        if middle.hi == 0:
            solver.set_size(solver.back(row, 0), 1, self.after(middle.why_hi))
        elif middle.lo == 0:
            for axis in row.axes or (*row.front[:1], *row.back[:1]):
                if self not in axis.watchers:
                    solver.watch(axis, self)
                if axis.size not in (None, 1) or axis.least > 1:
                    solver.at_least(middle, 1, self.after(axis.why))

    def tie(self, solver: Solver, inner: AxisCell, outer: AxisCell, span: Span | None = None) -> None:
        if inner is not outer:
            solver.add(Same(Why(self.step, span), outer, inner), outer, inner)


@dataclass(slots=True, eq=False, repr=False)
class RowSeenRule(_Aligning):
    """Whatever is known of the row `model` is known of the row `view`, and nothing flows back."""

    model: RowCell
    view: RowCell

    def run(self, solver: Solver) -> None:
        model, view = self.model, self.view
        if model.lo > view.lo:
            solver.at_least(view, model.lo, self.after(model.why_lo))
        if model.hi < view.hi:
            solver.at_most(view, model.hi, self.after(model.why_hi))
        self.lay_over(solver, model, view)

    def tie(self, solver: Solver, inner: AxisCell, outer: AxisCell, span: Span | None = None) -> None:
        solver.add(Seen(self.why, inner, outer), inner)


@dataclass(slots=True, eq=False, repr=False)
class RowBelowRule(_Aligning):
    """`operand ≤ result`: left of the operand's mark axes align from the left, right of it from the right."""

    operand: RowCell
    result: RowCell

    def run(self, solver: Solver) -> None:
        operand, result = self.operand, self.result
        if operand.lo > result.lo:
            solver.at_least(result, operand.lo, self.after(operand.why_lo))
        if operand.hi > result.hi:
            solver.at_most(operand, result.hi, self.after(result.why_hi))
        if operand.unasked and result.lo > operand.lo:
            raise errors.decided_before(self.step, operand)
        self.align(solver, operand, result, min(operand.mark, operand.lo), operand.lo - operand.mark)

    def tie(self, solver: Solver, inner: AxisCell, outer: AxisCell, span: Span | None = None) -> None:
        solver.add(Below(self.why, inner, outer), inner, outer)


@dataclass(slots=True, eq=False, repr=False)
class RowJoinRule(Propagator):
    """`result` is the least row that all operands broadcast to; that each is below it is said by rules of their own."""

    result: RowCell
    operands: tuple[RowCell, ...]
    linked: bool = False

    def run(self, solver: Solver) -> None:
        result = self.result
        if self.linked:
            return
        if all(row.hi < result.hi for row in self.operands):
            largest = max(self.operands, key=lambda row: row.hi)
            solver.at_most(result, largest.hi, self.after(largest.why_hi))
        able = [row for row in self.operands if row.hi >= result.lo]
        if len(able) == 1 and able[0].lo < result.lo:
            solver.at_least(able[0], result.lo, self.after(result.why_lo))
        if result.axes is not None and all(row.axes is not None for row in self.operands):
            solver.write(self, "linked", True)
            for at in range(len(result.axes)):
                self._link(solver, at, len(result.axes))

    def _link(self, solver: Solver, at: int, rank: int) -> None:
        assert self.result.axes is not None
        aligned = tuple(dict.fromkeys(axis for row in self.operands for axis in _aligned(row, at, rank)))
        if aligned:
            rule = Join(self.why, self.result.axes[at], aligned)
            solver.add(rule, *rule.cells)


def _aligned(row: RowCell, at: int, rank: int) -> list[AxisCell]:
    """The axis of an operand that meets axis `at` of a result of so many axes, if there is one."""
    assert row.axes is not None
    own = at if at < row.mark else at - (rank - len(row.axes))
    return [row.axes[own]] if own < len(row.axes) and (at < row.mark or own >= row.mark) else []
