"""Propagators between rows: what they say about ranks, and which axes they lay over each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from weft.errors import Span
from weft.shape import errors
from weft.shape.cells import AxisCell, InferenceStep, Propagator, RowCell, Why
from weft.shape.dims import Below, Join, Same, Seen
from weft.shape.nodes import MAX_RANK

if TYPE_CHECKING:
    from weft.shape.solver import Solver


class RowIsRule(Propagator):
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
        "row",
        "spans",
        "tracked",
        "trail",
    )

    def __init__(
        self,
        row: RowCell,
        lead: Sequence[AxisCell],
        middle: RowCell | None,
        trail: Sequence[AxisCell],
        step: InferenceStep,
        spans: Sequence[Span | None] = (),
        tracked: bool = True,
        least: int = 0,
    ) -> None:
        super().__init__(Why(step))
        self.row = row
        self.lead = tuple(lead)
        self.middle = middle
        self.trail = tuple(trail)
        self.spans = tuple(spans)
        self.tracked = tracked
        self.least = least
        self.linked = False
        self.from_front = self.from_back = 0

    @property
    def flanks(self) -> int:
        return len(self.lead) + len(self.trail)

    def run(self, solver: Solver) -> None:
        self._bound(solver)
        if not self.linked:
            solver.write(self, "linked", True)
            self._link_flanks(solver)
        if self.middle is not None:
            lay_over(self, solver, self.middle, self.row, len(self.lead), len(self.trail), self._same)
            if self.least:
                self._scalar(solver, self.row, self.middle)

    def _bound(self, solver: Solver) -> None:
        row, middle, flanks = self.row, self.middle, self.flanks
        if middle is None:
            if row.lo < flanks:
                solver.at_least(row, flanks, self._why())
            if self.tracked and row.hi > flanks:
                solver.at_most(row, max(flanks, self.least), self._why())
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
        if self.middle is None and self.least > self.flanks:
            solver.set_size(solver.back(self.row, 0), 1, self._why())

    def _scalar(self, solver: Solver, row: RowCell, middle: RowCell) -> None:
        """The one axis of a row that stands for no axes has size 1; one of another size stands for an axis."""
        if middle.hi == 0:
            solver.set_size(solver.back(row, 0), 1, self._why(middle.why_hi))
        elif middle.lo == 0:
            for axis in row.axes or (*row.front[:1], *row.back[:1]):
                if self not in axis.watchers:
                    solver.watch(axis, self)
                if axis.size not in (None, 1) or axis.least > 1:
                    solver.at_least(middle, 1, self._why(axis.why))

    def _same(self, solver: Solver, left: AxisCell, right: AxisCell, span: Span | None = None) -> None:
        if left is not right:
            solver.add(Same(left, right, Why(self.step, span)), left, right)

    def _why(self, before: Why | None = None) -> Why:
        return Why(self.step, None, before)


class RowSeenRule(Propagator):
    """Whatever is known of the row `model` is known of the row `view`, and nothing flows back."""

    __slots__ = ("from_back", "from_front", "model", "view")

    def __init__(self, model: RowCell, view: RowCell, step: InferenceStep) -> None:
        super().__init__(Why(step))
        self.model = model
        self.view = view
        self.from_front = self.from_back = 0

    def run(self, solver: Solver) -> None:
        model, view = self.model, self.view
        if model.lo > view.lo:
            solver.at_least(view, model.lo, Why(self.step, None, model.why_lo))
        if model.hi < view.hi:
            solver.at_most(view, model.hi, Why(self.step, None, model.why_hi))
        lay_over(self, solver, model, view, 0, 0, self._seen)

    def _seen(self, solver: Solver, view: AxisCell, model: AxisCell) -> None:
        solver.add(Seen(model, view, Why(self.step)), model)


def lay_over(
    rule: RowIsRule | RowSeenRule,
    solver: Solver,
    inner: RowCell,
    outer: RowCell,
    lead: int,
    trail: int,
    tie: Callable[[Solver, AxisCell, AxisCell], None],
) -> None:
    """Tie the axes of `inner` to those of `outer`, where it stands after `lead` and before `trail` other axes."""
    while rule.from_back < inner.lo:
        at = rule.from_back
        solver.write(rule, "from_back", at + 1)
        tie(solver, solver.back(outer, trail + at), solver.back(inner, at))
    if outer.axes is None:
        addressed = max(len(outer.front) - lead, len(inner.front))
        while rule.from_front < min(addressed, inner.lo):
            at = rule.from_front
            solver.write(rule, "from_front", at + 1)
            tie(solver, solver.front(outer, lead + at), solver.front(inner, at))


class RowBelowRule(Propagator):
    """`operand ≤ result`: left of the operand's mark axes align from the left, right of it from the right."""

    __slots__ = ("from_back", "from_front", "operand", "result")

    def __init__(self, operand: RowCell, result: RowCell, step: InferenceStep) -> None:
        super().__init__(Why(step))
        self.operand = operand
        self.result = result
        self.from_front = self.from_back = 0

    def run(self, solver: Solver) -> None:
        operand, result = self.operand, self.result
        if operand.lo > result.lo:
            solver.at_least(result, operand.lo, Why(self.step, None, operand.why_lo))
        if operand.hi > result.hi:
            solver.at_most(operand, result.hi, Why(self.step, None, result.why_hi))
        if operand.unasked and result.lo > operand.lo:
            raise errors.decided_before(self.step, operand)
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


class RowJoinRule(Propagator):
    """`result` is the least row that all operands broadcast to; that each is below it is said by rules of their own."""

    __slots__ = ("linked", "operands", "result")

    def __init__(self, result: RowCell, operands: Sequence[RowCell], step: InferenceStep) -> None:
        super().__init__(Why(step))
        self.result = result
        self.operands = tuple(operands)
        self.linked = False

    def run(self, solver: Solver) -> None:
        result = self.result
        if self.linked:
            return
        if all(row.hi < result.hi for row in self.operands):
            largest = max(self.operands, key=lambda row: row.hi)
            solver.at_most(result, largest.hi, self._why(largest.why_hi))
        able = [row for row in self.operands if row.hi >= result.lo]
        if len(able) == 1 and able[0].lo < result.lo:
            solver.at_least(able[0], result.lo, self._why(result.why_lo))
        if result.axes is not None and all(row.axes is not None for row in self.operands):
            solver.write(self, "linked", True)
            for at in range(len(result.axes)):
                self._link(solver, at, len(result.axes))

    def _link(self, solver: Solver, at: int, rank: int) -> None:
        assert self.result.axes is not None
        aligned = list(dict.fromkeys(axis for row in self.operands for axis in _aligned(row, at, rank)))
        if aligned:
            rule = Join(self.result.axes[at], aligned, self._why())
            solver.add(rule, *rule.cells)

    def _why(self, before: Why | None = None) -> Why:
        return Why(self.step, None, before)


def _aligned(row: RowCell, at: int, rank: int) -> list[AxisCell]:
    """The axis of an operand that meets axis `at` of a result of so many axes, if there is one."""
    assert row.axes is not None
    own = at if at < row.mark else at - (rank - len(row.axes))
    return [row.axes[own]] if own < len(row.axes) and (at < row.mark or own >= row.mark) else []
