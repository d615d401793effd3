"""Propagators between two axes: equality, and the broadcast order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.shape.cells import AxisCell, Cap, Why

if TYPE_CHECKING:
    from weft.shape.solver import Solver


class Same:
    """`left = right`: whatever is known of one is known of the other."""

    __slots__ = ("left", "queued", "right", "why")

    def __init__(self, left: AxisCell, right: AxisCell, why: Why) -> None:
        self.left = left
        self.right = right
        self.why = why
        self.queued = False

    @property
    def cells(self) -> tuple[AxisCell, ...]:
        return (self.left, self.right)

    def run(self, solver: Solver) -> None:
        equate(solver, self.left, self.right, self.why)


class Below:
    """`operand ≤ result`: equal, or the operand is an unlabelled 1."""

    __slots__ = ("operand", "queued", "result", "why")

    def __init__(self, operand: AxisCell, result: AxisCell, why: Why) -> None:
        self.operand = operand
        self.result = result
        self.why = why
        self.queued = False

    @property
    def cells(self) -> tuple[AxisCell, ...]:
        return (self.operand, self.result)

    def run(self, solver: Solver) -> None:
        operand, result = self.operand, self.result
        if operand.basis is not None or operand.least > 1 or operand.size not in (None, 1):
            equate(solver, operand, result, self.why)
        elif operand.size == 1:
            if result.size not in (None, 1):
                solver.set_plain(operand, self._after(result.why))
        elif result.size == 1:
            solver.set_size(operand, 1, self._after(result.why))
        elif result.size is not None:
            solver.set_cap(operand, Cap(result.size, result.basis, self._after(result.why)))
        elif result.cap is not None:
            solver.set_cap(operand, result.cap._replace(why=self._after(result.cap.why)))

    def _after(self, before: Why | None) -> Why:
        return Why(self.why.step, self.why.span, before)


def equate(solver: Solver, left: AxisCell, right: AxisCell, why: Why) -> None:
    """Let every fact flow both ways between two axes."""
    for source, target in ((left, right), (right, left)):
        if source.size is not None and target.size != source.size:
            solver.set_size(target, source.size, Why(why.step, why.span, source.why))
        if source.basis is not None and target.basis != source.basis:
            solver.set_basis(target, source.basis, Why(why.step, why.span, source.why_basis))
        if source.claim and not target.claim:
            solver.set_claim(target)
        if source.least > target.least:
            solver.set_least(target, source.least, why)
        if source.cap is not None and target.size is None:
            solver.set_cap(target, source.cap._replace(why=why._replace(before=source.cap.why)))
