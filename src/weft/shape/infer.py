"""Applying an operation: its constraints are laid onto the shapes in its slots and solved as far as they go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from weft.einsum.nodes import KINDS, Affine, Concat, Hole, Label, Position, RowVar, Skip
from weft.errors import Origin, ShapeError, Span
from weft.shape.cells import AxisCell, Role, RowCell, ShapeVar, Step, Store, Why
from weft.shape.derived import AffineRule, ComputedRule, ConcatRule, CountRule
from weft.shape.dims import Below, Same
from weft.shape.logic import Constant, Counted, Einsum, Literal, Logic, Parameter, arity, demanded, elaborate, marks
from weft.shape.nodes import (
    AxisBelow,
    AxisIs,
    Bound,
    Computed,
    Constraint,
    Dim,
    ElementCount,
    Rest,
    RowBelow,
    RowIs,
    RowRef,
    RowSame,
    Size,
    Term,
)
from weft.shape.rows import RowBelowRule, RowIsRule
from weft.shape.solver import Solver


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """An operation applied: its logic, the shapes in its slots (result first), its labels' axes and given sizes."""

    logic: Logic
    slots: tuple[ShapeVar, ...]
    labels: Mapping[str, AxisCell]
    step: Step
    sizes: Mapping[str, Dim]

    @property
    def result(self) -> ShapeVar:
        return self.slots[0]


def infer(
    logic: Logic,
    operands: Sequence[ShapeVar] = (),
    *,
    name: str = "result",
    title: str = "",
    origin: Origin | None = None,
    result: ShapeVar | None = None,
    sizes: Mapping[str, Dim] | None = None,
    also: Sequence[Constraint] = (),
) -> Operation:
    """Apply `logic`; raises at once if the shapes cannot agree, and then leaves every shape as it was.

    `result` is the shape assigned to when it already exists; `sizes` gives the sizes of labels; `also` adds
    constraints of the caller's own over the same slots and labels.
    """
    if len(operands) != arity(logic):
        raise ShapeError(
            f"{title or 'the operation'} takes {arity(logic)} operands and was given {len(operands)}",
            origin=origin,
            text=_text(logic),
            fix="give one operand for each part between `;`" if _text(logic) else "",
        )
    home = max((shape.store.find() for shape in operands), key=lambda store: store.weight, default=None) or Store()
    fresh = result is None
    if result is None:
        grows = marks(logic, tuple(shape.marks for shape in operands))
        result = ShapeVar(name, _role(logic), home, grows, origin, operands)
    slots = (result, *operands)
    step = Step(title, origin, _text(logic), slots)
    with Solver(home, step) as solver:
        for shape in slots:
            solver.absorb(shape.store)
        if fresh:
            solver.extend(solver.store.rows, (result.batch, result.input, result.output))
        _Application(solver, step).apply(logic, [*elaborate(logic), *also], sizes or {})
        solver.solve()
    return Operation(logic, slots, step.labels, step, dict(sizes or {}))


class _Application:
    """Lays constraints over slots onto cells; row variables and labels are fresh in each application."""

    def __init__(self, solver: Solver, step: Step) -> None:
        self.solver = solver
        self.step = step
        self.rows: dict[str, RowCell] = {}

    def apply(self, logic: Logic, constraints: Sequence[Constraint], sizes: Mapping[str, Dim]) -> None:
        for constraint in constraints:
            self._constrain(constraint)
        for label in demanded(logic):
            self.solver.append(self.solver.store.demands, (self._label(label), self.step))
        for label_name, dim in sizes.items():
            self._known(self.step.labels[label_name], dim)

    def _constrain(self, constraint: Constraint) -> None:
        solver, step = self.solver, self.step
        match constraint:
            case RowIs():
                self._row_is(constraint)
            case RowSame(first=first, second=second):
                left, right = self._row(first), self._row(second)
                solver.add(RowIsRule(left, (), right, (), step, ()), left, right)
            case RowBelow(operand=operand, result=result):
                below, above = self._row(operand), self._row(result)
                solver.add(RowBelowRule(below, above, step), below, above)
            case AxisIs(left=one, right=other):
                a, b = self._axis(one), self._axis(other)
                solver.add(Same(a, b, Why(step, _span(one))), a, b)
            case AxisBelow(operand=one, result=other):
                a, b = self._axis(one), self._axis(other)
                solver.add(Below(a, b, Why(step, _span(one))), a, b)
            case ElementCount(slot=slot, count=count):
                shape = step.slots[slot]
                solver.add(CountRule(shape, count, Why(step)), *(shape.row(kind) for kind in KINDS))
            case Computed(label=label, of=of, size=size):
                computed = ComputedRule(self._label(label), {one.name: self._label(one) for one in of}, size, Why(step))
                solver.add(computed, *computed.cells)

    def _row_is(self, constraint: RowIs) -> None:
        row, terms = self._row(constraint.row), constraint.lead + constraint.trail
        if constraint.middle is Rest.NOTHING and not row.watchers and all(isinstance(term, Size) for term in terms):
            self._exactly(row, terms)
            return
        lead = [self._axis(term) for term in constraint.lead]
        trail = [self._axis(term) for term in constraint.trail]
        middle = self._row_var(constraint.middle, row) if isinstance(constraint.middle, RowVar) else None
        rule = RowIsRule(
            row,
            lead,
            middle,
            trail,
            self.step,
            [_span(term) for term in terms],
            tracked=constraint.middle is not Rest.UNTRACKED,
            least=1 if constraint.or_scalar else 0,
        )
        self.solver.add(rule, row, *([middle] if middle else ()))

    def _exactly(self, row: RowCell, terms: Sequence[Term]) -> None:
        """A fresh row of known sizes needs no propagator."""
        why = Why(self.step)
        self.solver.at_least(row, len(terms), why)
        self.solver.at_most(row, len(terms), why)
        for axis, term in zip(row.axes or (), terms, strict=True):
            assert isinstance(term, Size)
            self._written(axis, term)

    def _written(self, axis: AxisCell, term: Size) -> None:
        self._known(axis, term.dim)
        if term.claim:
            self.solver.set_claim(axis)

    def _known(self, axis: AxisCell, dim: Dim) -> None:
        self.solver.set_size(axis, dim.size, Why(self.step))
        if dim.basis is not None:
            self.solver.set_basis(axis, dim.basis, Why(self.step))

    def _row(self, ref: RowRef) -> RowCell:
        return self.step.slots[ref.slot].row(ref.kind)

    def _row_var(self, var: RowVar, host: RowCell) -> RowCell:
        if var.name not in self.rows:
            self.rows[var.name] = RowCell(host.kind)
            self.solver.append(self.solver.store.rows, self.rows[var.name])
        return self.rows[var.name]

    def _label(self, label: Label) -> AxisCell:
        labels = self.step.labels
        if label.name not in labels:
            labels[label.name] = self.solver.new_axis(label=label, least=0)
        return labels[label.name]

    def _axis(self, term: Term) -> AxisCell:
        solver = self.solver
        match term:
            case Label():
                return self._label(term)
            case Hole():
                return solver.new_axis()
            case Bound(size=size):
                return solver.new_axis(least=size)
            case Position(at=at):
                return solver.new_axis(least=at + 1)
            case Size():
                axis = solver.new_axis()
                self._written(axis, term)
                return axis
            case Affine(over=over, kernel=kernel):
                axis, why = solver.new_axis(), Why(self.step, term.span)
                rule = AffineRule(axis, self._label(over), self._label(kernel.label) if kernel else None, term, why)
                for cell in rule.cells:
                    solver.set_least(cell, 1, why)
                solver.add(rule, *rule.cells)
                return axis
            case Concat(parts=parts):
                axis = solver.new_axis()
                cells = [self._label(part) for part in parts if isinstance(part, Label)]
                skipped = sum(part.size for part in parts if isinstance(part, Skip))
                concat = ConcatRule(axis, cells, skipped, Why(self.step, term.span))
                solver.add(concat, *dict.fromkeys(concat.cells))
                return axis


def _role(logic: Logic) -> Role:
    match logic:
        case Parameter():
            return "param"
        case Literal() | Counted() | Constant():
            return "leaf"
        case _:
            return "inner"


def _text(logic: Logic) -> str:
    return logic.spec.text if isinstance(logic, Einsum) else ""


def _span(term: Term) -> Span | None:
    return None if isinstance(term, Size | Bound) else term.span
