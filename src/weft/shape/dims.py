"""Propagators between axes: equality, the broadcast order, the join of several, and a view of another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.shape import errors
from weft.shape.cells import AxisCell, Cap, Propagator, Why

if TYPE_CHECKING:
    from weft.shape.solver import Solver


@dataclass(slots=True, eq=False, repr=False)
class Same(Propagator):
    """`left = right`: whatever is known of one is known of the other."""

    left: AxisCell
    right: AxisCell

    @property
    def cells(self) -> tuple[AxisCell, ...]:
        return (self.left, self.right)

    def run(self, solver: Solver) -> None:
        equate(solver, self.left, self.right, self.why)


@dataclass(slots=True, eq=False, repr=False)
class Seen(Propagator):
    """Whatever is known of `model` is known of `view`, and nothing flows back: closing does not go through it."""

    model: AxisCell
    view: AxisCell

    def run(self, solver: Solver) -> None:
        flow(solver, self.model, self.view, self.why)


@dataclass(slots=True, eq=False, repr=False)
class Below(Propagator):
    """`operand ≤ result`: equal, or the operand is an unlabelled 1."""

    operand: AxisCell
    result: AxisCell

    @property
    def cells(self) -> tuple[AxisCell, ...]:
        return (self.operand, self.result)

    def run(self, solver: Solver) -> None:
        operand, result = self.operand, self.result
        if operand.basis is not None or operand.least > 1 or operand.size not in (None, 1):
            equate(solver, operand, result, self.why)
            return
        if operand.size == 1 and result.size not in (None, 1) and operand.row is not None and operand.row.unasked:
            raise errors.decided_before(self.step, operand.row)
        if result.plain or (operand.size == 1 and result.size not in (None, 1)):
            solver.set_plain(operand, self.after(result.why))
        if result.size is not None:
            if adds(operand, result.size, result.basis):
                solver.set_cap(operand, Cap(result.size, result.basis, self.after(result.why)))
        elif result.cap is not None and adds(operand, result.cap.size, result.cap.basis):
            solver.set_cap(operand, Cap(result.cap.size, result.cap.basis, self.after(result.cap.why)))


@dataclass(slots=True, eq=False, repr=False)
class Join(Propagator):
    """`result` is the least axis that all operands broadcast to: one of them, or 1 if all are.

    That each is below the result is said by rules of their own.
    """

    result: AxisCell
    operands: tuple[AxisCell, ...]

    @property
    def cells(self) -> tuple[AxisCell, ...]:
        return (self.result, *self.operands)

    def run(self, solver: Solver) -> None:
        result = self.result
        stretching = [axis for axis in self.operands if axis.size != 1]
        if not stretching:
            solver.set_size(result, 1, self.after(self.operands[0].why))
        elif len(stretching) == 1 and (result.size not in (None, 1) or result.least > 1 or result.basis is not None):
            if result.size != 1:  # a labelled 1 may come from an operand of size 1 as well
                equate(solver, stretching[0], result, self.after(result.why))


def equate(solver: Solver, left: AxisCell, right: AxisCell, why: Why) -> None:
    """Let every fact flow both ways between two axes."""
    flow(solver, left, right, why)
    flow(solver, right, left, why)


def flow(solver: Solver, source: AxisCell, target: AxisCell, why: Why) -> None:
    """Let every fact about one axis be a fact about another."""
    if source.size is not None and target.size != source.size:
        solver.set_size(target, source.size, Why(why.step, why.span, source.why))
    if source.basis is not None and target.basis != source.basis:
        solver.set_basis(target, source.basis, Why(why.step, why.span, source.why_basis))
    if source.plain and not target.plain:
        solver.set_plain(target, Why(why.step, why.span, source.why_plain))
    if source.claim and not target.claim:
        solver.say(target, "claim")
    if source.written and not target.written:
        solver.say(target, "written")
    if source.least > target.least:
        solver.set_least(target, source.least, why)
    if source.open_name is not None and target.open_name is None:
        solver.write(target, "open_name", source.open_name)
    cap = source.cap
    if cap is not None and adds(target, cap.size, cap.basis):
        solver.set_cap(target, Cap(cap.size, cap.basis, Why(why.step, why.span, cap.why)))


def adds(axis: AxisCell, size: int, basis: str | None) -> bool:
    """Would this cap say something new about the axis?"""
    if axis.size not in (None, 1):
        return False
    old = axis.cap
    return old is None or old.size != size or (basis is not None and old.basis != basis)
