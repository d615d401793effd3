"""Propagators between rows: what they say about ranks, and which axes they lay over each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from weft.errors import Span
from weft.shape.cells import AxisCell, RowCell, Step, Why
from weft.shape.dims import Below, Same
from weft.shape.nodes import MAX_RANK

if TYPE_CHECKING:
    from weft.shape.solver import Solver


class RowIsRule:
    """`row = lead middle trail`, without broadcasting.

    `middle` is a row, or None: then there are no further axes if `tracked`, else any. `least` is the rank the row has
    even if the right side has fewer axes.
    """

    __slots__ = (
        "from_back",
        "from_front",
        "lead",
        "least",
        "linked",
        "middle",
        "queued",
        "row",
        "spans",
        "step",
        "tracked",
        "trail",
    )

    def __init__(
        self,
        row: RowCell,
        lead: Sequence[AxisCell],
        middle: RowCell | None,
        trail: Sequence[AxisCell],
        step: Step,
        spans: Sequence[Span | None],
        tracked: bool = True,
        least: int = 0,
    ) -> None:
        self.row = row
        self.lead = tuple(lead)
        self.middle = middle
        self.trail = tuple(trail)
        self.step = step
        self.spans = tuple(spans)
        self.tracked = tracked
        self.least = least
        self.linked = False
        self.from_front = self.from_back = 0
        self.queued = False

    @property
    def cells(self) -> tuple[AxisCell, ...]:
        return ()  # it relates rows; the axes it lays over each other get rules of their own

    @property
    def flanks(self) -> int:
        return len(self.lead) + len(self.trail)

    def run(self, solver: Solver) -> None:
        self._bound(solver)
        if not self.linked:
            solver.write(self, "linked", True)
            self._link_flanks(solver)
        if self.middle is not None:
            self._link_middle(solver, self.middle)
            if self.least:
                self._scalar(solver, self.row, self.middle)

    def _bound(self, solver: Solver) -> None:
        row, middle, flanks = self.row, self.middle, self.flanks
        if middle is None:
            if row.lo < flanks:
                solver.at_least(row, flanks, self._why())
            if self.tracked and row.hi > flanks:
                solver.at_most(row, flanks, self._why())
            return
        lo, hi = max(middle.lo + flanks, self.least), max(middle.hi + flanks, self.least)
        if row.lo < lo:
            solver.at_least(row, lo, self._why(middle.why_lo))
        if row.hi > hi:
            solver.at_most(row, hi, self._why(middle.why_hi))
        if row.lo > self.least and middle.lo < row.lo - flanks:
            solver.at_least(middle, row.lo - flanks, self._why(row.why_lo))
        if row.hi < MAX_RANK and middle.hi > row.hi - flanks:  # the limit itself is no claim: reaching it is a cycle
            solver.at_most(middle, row.hi - flanks, self._why(row.why_hi))

    def _link_flanks(self, solver: Solver) -> None:
        for at, axis in enumerate(self.lead):
            self._same(solver, solver.front(self.row, at), axis, self.spans[at])
        for at, axis in enumerate(reversed(self.trail)):
            self._same(solver, solver.back(self.row, at), axis, self.spans[-1 - at])

    def _link_middle(self, solver: Solver, middle: RowCell) -> None:
        row, lead, trail = self.row, len(self.lead), len(self.trail)
        while self.from_back < middle.lo:
            at = self.from_back
            solver.write(self, "from_back", at + 1)
            self._same(solver, solver.back(row, trail + at), solver.back(middle, at), None)
        if row.axes is None:
            addressed = max(len(row.front) - lead, len(middle.front))
            while self.from_front < min(addressed, middle.lo):
                at = self.from_front
                solver.write(self, "from_front", at + 1)
                self._same(solver, solver.front(row, lead + at), solver.front(middle, at), None)

    def _scalar(self, solver: Solver, row: RowCell, middle: RowCell) -> None:
        """The one axis of a row that stands for no axes has size 1; one of another size stands for an axis."""
        if middle.hi == 0:
            solver.set_size(solver.back(row, 0), 1, self._why(middle.why_hi))
        elif middle.lo == 0:
            for axis in row.axes or (*row.front[:1], *row.back[:1]):
                if self not in axis.watchers:
                    solver.append(axis.watchers, self)
                if axis.size not in (None, 1) or axis.least > 1:
                    solver.at_least(middle, 1, self._why(axis.why))

    def _same(self, solver: Solver, left: AxisCell, right: AxisCell, span: Span | None) -> None:
        if left is not right:
            solver.add(Same(left, right, Why(self.step, span)), left, right)

    def _why(self, before: Why | None = None) -> Why:
        return Why(self.step, None, before)


class RowBelowRule:
    """`operand ≤ result`: left of the operand's mark axes align from the left, right of it from the right."""

    __slots__ = ("from_back", "from_front", "operand", "queued", "result", "step")

    def __init__(self, operand: RowCell, result: RowCell, step: Step) -> None:
        self.operand = operand
        self.result = result
        self.step = step
        self.from_front = self.from_back = 0
        self.queued = False

    @property
    def cells(self) -> tuple[AxisCell, ...]:
        return ()

    def run(self, solver: Solver) -> None:
        operand, result = self.operand, self.result
        if operand.lo > result.lo:
            solver.at_least(result, operand.lo, Why(self.step, None, operand.why_lo))
        if operand.hi > result.hi:
            solver.at_most(operand, result.hi, Why(self.step, None, result.why_hi))
        while self.from_front < operand.mark and self.from_front < operand.lo:
            at = self.from_front
            solver.write(self, "from_front", at + 1)
            self._below(solver, solver.front(operand, at), solver.front(result, at))
        while self.from_back < operand.lo - operand.mark:
            at = self.from_back
            solver.write(self, "from_back", at + 1)
            self._below(solver, solver.back(operand, at), solver.back(result, at))

    def _below(self, solver: Solver, operand: AxisCell, result: AxisCell) -> None:
        solver.add(Below(operand, result, Why(self.step)), operand, result)
