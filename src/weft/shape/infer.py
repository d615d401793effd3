"""Applying an operation: its constraints are laid onto the shapes in its slots and solved as far as they go."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from weft.einsum.nodes import (
    KINDS,
    AffineAxis,
    ConcatAxis,
    DerivedAxis,
    FlatAxis,
    Hole,
    Kind,
    Label,
    Position,
    Row,
    RowVar,
    Skip,
)
from weft.errors import Origin, ShapeError, Span
from weft.shape import errors
from weft.shape.cells import (
    CODE,
    MODEL,
    AxisCell,
    ConstraintStore,
    InferenceStep,
    RowCell,
    ShapeVar,
    SizeProduct,
    TensorRole,
    Why,
)
from weft.shape.computed_sizes import AffineRule, ComputedRule, ConcatRule, CountRule, FlatRule, SizeRules
from weft.shape.dims import Below, Same
from weft.shape.logic import (
    Assigned,
    Compose,
    Constant,
    Counted,
    Einsum,
    Input,
    Literal,
    Logic,
    Parameter,
    Pointwise,
    Slice,
    Transpose,
    Varying,
    arity,
    demanded,
    elaborate,
    marks,
    read_by,
)
from weft.shape.nodes import (
    AxisBelow,
    AxisIs,
    Computed,
    Constraint,
    Dim,
    ElementCount,
    OpenSize,
    Rest,
    RowBelow,
    RowIs,
    RowRef,
    RowSame,
    Size,
    Term,
)
from weft.shape.rows import RowBelowRule, RowIsRule, RowJoinRule, RowSeenRule
from weft.shape.solver import Solver, undisturbed
from weft.shape.subscripts import AxisPoint, AxisRange


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """An operation applied: its logic, the shapes in its slots (result first), its labels' axes and given sizes."""

    logic: Logic
    slots: tuple[ShapeVar, ...]
    step: InferenceStep
    sizes: Mapping[str, Dim]

    @property
    def result(self) -> ShapeVar:
        return self.slots[0]

    @property
    def labels(self) -> Mapping[str, AxisCell]:
        return self.step.labels

    @property
    def rows(self) -> Mapping[str, RowCell]:
        """The rows its row variables stand for."""
        return self.step.rows


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
    code: bool = False,
    varies: bool = False,
) -> Operation:
    """Apply `logic`; raises at once if the shapes cannot agree, and then leaves every shape as it was.

    `result` is the shape assigned to when it already exists; `sizes` gives the sizes of labels; `also` adds
    constraints of the caller's own over the same slots and labels. With `code`, or on what code computes, the operation
    is part of code that updates: the shapes of the model are seen, and never changed. `varies`: what is assigned
    differs from cell to cell in a result of any shape, so that it does not say what shape that is.
    """
    _check_count(logic, len(operands), title, origin)
    given = [*operands, *([result] if result else ())]
    level = CODE if code or any(shape.level == CODE for shape in given) else MODEL
    step = InferenceStep(title, origin, _text(logic), level=level)

    def apply(stores: Collection[ConstraintStore]) -> Operation:
        home = max(stores, key=lambda store: store.weight, default=None) or ConstraintStore()
        with Solver(home, step, level) as solver:
            for store in stores:
                solver.absorb(store)
            seen = [_see(solver, shape) for shape in operands]
            claims = Claims(logic, (*elaborate(logic), *also), dict(sizes or {}), makes=result is None)
            target = _assigned(solver, result, seen, varies) if result else _fresh(solver, name, seen, claims)
            step.slots, step.claims = (target, *seen), claims
            _lay(solver, step)
            solver.solve()
        return Operation(logic, step.slots, step, claims.sizes)

    return undisturbed([shape.store for shape in given], apply)


def _check_count(logic: Logic, count: int, title: str, origin: Origin | None) -> None:
    if count != arity(logic):
        text = _text(logic)
        what = f"{title or 'the operation'} takes {arity(logic)} operands and was given {count}"
        fix = "give one operand for each part between `;`" if text else ""
        raise ShapeError(what, origin=origin, text=text, fix=fix)


def lay_again(solver: Solver, steps: Sequence[InferenceStep]) -> None:
    """Forget all that is not closed for good in the graph of these operations, and let them say again what they say."""
    store = solver.store
    held = [row for row in store.rows if row.owner is not None]
    related = [row for step in steps for shape in step.slots for row in shape.rows]
    rows = [row for row in dict.fromkeys([*held, *related]) if not row.final]
    for row in rows:
        blank = RowCell(row.kind, row.role, row.owner, row.mark, row.level)
        for name in ("lo", "hi", "axes", "front", "back", "watchers", "why_lo", "why_hi"):
            solver.write(row, name, getattr(blank, name))
        if row.owner is not None and row is row.owner.output:
            solver.write(row, "lo", 1)
    for name, cells in (("rows", rows), ("axes", []), ("demands", [])):
        solver.write(store, name, cells)
    for step in steps:
        solver.step, solver.level = step, step.level
        solver.write(step, "labels", {})
        solver.write(step, "rows", {})
        _lay(solver, step)
        solver.solve()


def _lay(solver: Solver, step: InferenceStep) -> None:
    """Let a step say what it says of the shapes in its slots."""
    if step.claims is None:
        _look(solver, step)
    else:
        _Laying(step.claims, solver, step).lay()


# The shapes in the slots of an operation


def _see(solver: Solver, shape: ShapeVar) -> ShapeVar:
    """The shape as an operation has it: code has a view of what the model owns."""
    if solver.level == shape.level:
        if not shape.used:
            solver.write(shape, "used", True)
        return shape
    if shape.view is None:
        step = InferenceStep(solver.step.title, shape.origin or solver.step.origin, level=CODE)
        view = ShapeVar(shape.name, shape.batch.role, solver.store, shape.marks, shape.origin, (shape,), CODE)
        step.slots = (view, shape)
        _enter(solver, view, step)
        solver.write(shape, "view", view)
        _look(solver, step)
    assert shape.view is not None
    return shape.view


def _look(solver: Solver, step: InferenceStep) -> None:
    """Let a view have what is known of its shape."""
    view, shape = step.slots
    for model, seen in zip(shape.rows, view.rows, strict=True):
        solver.add(RowSeenRule(Why(step), model, seen), model)


def _assigned(solver: Solver, shape: ShapeVar, operands: Sequence[ShapeVar], varies: bool) -> ShapeVar:
    """The shape of what is assigned to."""
    target = _see(solver, shape)
    solver.write(target, "operands", (*target.operands, *operands))
    solver.write(target, "steps", (*target.steps, solver.step))
    if not varies and not target.assigned:
        solver.write(target, "assigned", True)
    return target


def _fresh(solver: Solver, name: str, operands: Sequence[ShapeVar], claims: Claims) -> ShapeVar:
    """The shape of a result that is made here. A row that one operand alone goes into is that operand's row."""
    shared: dict[Kind, RowCell] = {}
    for kind, sources in claims.sources(operands).items():
        if len(sources) == 1 and (kind != "output" or sources[0].kind == "output"):
            shared[kind] = sources[0]
    grows = marks(claims.logic, tuple(shape.marks for shape in operands))
    role = _ROLES.get(type(claims.logic), "inner")
    made = ShapeVar(name, role, solver.store, grows, solver.step.origin, tuple(operands), solver.level, shared)
    _enter(solver, made, solver.step)
    return made


def _enter(solver: Solver, shape: ShapeVar, step: InferenceStep) -> None:
    shape.steps = (step,)
    solver.extend(solver.store.rows, [row for row in shape.rows if row.owner is shape])


# What an operation says about them


@dataclass(frozen=True, slots=True)
class Claims:
    """Everything an operation says; `makes`: its result is made by it, and is what it says and no more."""

    logic: Logic
    constraints: tuple[Constraint, ...]
    sizes: Mapping[str, Dim]
    makes: bool

    def sources(self, operands: Sequence[ShapeVar]) -> dict[Kind, list[RowCell]]:
        """For each kind of row of the result, the different rows that broadcast to it."""
        found: dict[Kind, list[RowCell]] = {}
        if isinstance(self.logic, Pointwise | Compose | Transpose):
            for kind, operand in _broadcasts(self.logic):
                row, rows = operands[operand.slot - 1].row(operand.kind), found.setdefault(kind, [])
                if row not in rows:
                    rows.append(row)
        return found


@lru_cache(maxsize=256)
def _broadcasts(logic: Pointwise | Compose | Transpose) -> tuple[tuple[Kind, RowRef], ...]:
    """The kinds of rows of a result, each with a row of an operand that broadcasts to it."""
    below = (one for one in elaborate(logic) if isinstance(one, RowBelow) and one.result.slot == 0)
    return tuple([(one.result.kind, one.operand) for one in below])


class _Laying:
    """Lays constraints over slots onto cells; row variables and labels are fresh in each application."""

    def __init__(self, claims: Claims, solver: Solver, step: InferenceStep) -> None:
        self.claims = claims
        self.solver = solver
        self.step = step
        self.named = not isinstance(read_by(claims.logic), Slice)  # nobody wrote the labels of a slice

    def lay(self) -> None:
        claims = self.claims
        for constraint in claims.constraints:
            self._constrain(constraint)
        if claims.makes:
            self._exact()
        for label in demanded(claims.logic):
            self.solver.append(self.solver.store.demands, (self._label(label), self.step))
        for name, dim in claims.sizes.items():
            self._given(name, dim)

    def _exact(self) -> None:
        """A result is the join of what goes into it, and has no axes that a specification does not mention."""
        solver, step, logic, why = self.solver, self.step, read_by(self.claims.logic), Why(self.step)
        for kind, sources in self.claims.sources(step.slots[1:]).items():
            row = step.slots[0].row(kind)
            if len(sources) > 1:
                solver.add(RowJoinRule(why, row, tuple(sources)), row, *sources)
            elif row is not sources[0]:
                solver.add(RowIsRule(why, row, (), sources[0], (), least=1), row, sources[0])
        if isinstance(logic, Einsum):
            for kind in KINDS:
                if logic.spec.result.row(kind) == Row():
                    row = step.slots[0].row(kind)
                    solver.add(RowIsRule(why, row, (), None, (), least=int(kind == "output")), row)

    def _given(self, name: str, dim: Dim) -> None:
        """A size given by name: of a label, or of all axes a row variable stands for."""
        if name in self.step.labels:
            self._known(self.step.labels[name], dim)
            return
        if dim.basis is not None:
            raise errors.labelled_row(self.step, name, dim)
        row = self.step.rows[name]
        if dim.size != 1:
            self.solver.at_least(row, 1, Why(self.step))
        why = Why(self.step, product=SizeProduct(name, row, dim.size), named=dim.named)
        self.solver.add(CountRule(why, f"`..{name}..`", (row,), dim.size), row)

    def _constrain(self, constraint: Constraint) -> None:
        solver, step, why = self.solver, self.step, Why(self.step)
        match constraint:
            case RowIs():
                self._row_is(constraint)
            case RowSame(first=first, second=second):
                left, right = self._row(first), self._row(second)
                solver.add(RowIsRule(why, left, (), right, ()), left, right)
            case RowBelow(operand=operand, result=result):
                below, above = self._row(operand), self._row(result)
                if below is not above:
                    solver.add(RowBelowRule(why, below, above), below, above)
            case AxisIs(left=one, right=other):
                a, b = self._axis(one), self._axis(other)
                solver.add(Same(Why(step, _span(one)), a, b), a, b)
            case AxisBelow(operand=one, result=other):
                a, b = self._axis(one), self._axis(other)
                solver.add(Below(Why(step, _span(one)), a, b), a, b)
            case ElementCount(slot=slot, count=count):
                shape = step.slots[slot]
                solver.add(CountRule(why, f"`{shape.name}`", shape.rows, count), *shape.rows)
            case Computed(label=label, of=of, size=size, needs=needs):
                others = {one.name: self._label(one) for one in of}
                computed = ComputedRule(why, self._label(label), others, size, needs)
                solver.add(computed, *computed.cells)

    def _row_is(self, constraint: RowIs) -> None:
        row, terms = self._row(constraint.row), constraint.lead + constraint.trail
        known = all(isinstance(term, Size | OpenSize) for term in terms)
        if constraint.middle is Rest.NOTHING and not row.watchers and known:
            self._exactly(row, terms)
            return
        lead, trail = (tuple(map(self._axis, side)) for side in (constraint.lead, constraint.trail))
        middle = self._row_var(constraint.middle, row) if isinstance(constraint.middle, RowVar) else None
        made = self.claims.makes and constraint.row.slot == 0
        if made and trail and terms == (Position(0),):  # a row that is reduced to a number is that number
            self._known(trail[0], Dim(1))
        rule = RowIsRule(
            Why(self.step),
            row,
            lead,
            middle,
            trail,
            tuple([_span(term) for term in terms]),
            tracked=made or constraint.middle is not Rest.UNTRACKED,
            least=1 if constraint.or_scalar else 0,
        )
        self.solver.add(rule, row, *([middle] if middle else ()))

    def _exactly(self, row: RowCell, terms: Sequence[Term]) -> None:
        """A fresh row of known sizes needs no propagator."""
        why = Why(self.step)
        self.solver.at_least(row, len(terms), why)
        self.solver.at_most(row, len(terms), why)
        for axis, term in zip(row.axes or (), terms, strict=True):
            if isinstance(term, OpenSize):
                self._open(axis, term)
            else:
                assert isinstance(term, Size)
                self._written(axis, term)

    def _open(self, axis: AxisCell, term: OpenSize) -> None:
        """What holds in general holds for more than 1; in a call of length 1 it broadcasts, as every 1 does."""
        self.solver.write(axis, "open_name", term.name)
        self.solver.set_least(axis, 2, Why(self.step))

    def _written(self, axis: AxisCell, term: Size) -> None:
        self._known(axis, term.dim)
        self.solver.say(axis, "written")
        if term.claim:
            self.solver.say(axis, "claim")

    def _known(self, axis: AxisCell, dim: Dim) -> None:
        self.solver.set_size(axis, dim.size, Why(self.step, named=dim.named))
        if dim.basis is not None:
            self.solver.set_basis(axis, dim.basis, Why(self.step))

    def _row(self, ref: RowRef) -> RowCell:
        return self.step.slots[ref.slot].row(ref.kind)

    def _row_var(self, var: RowVar, host: RowCell) -> RowCell:
        rows = self.step.rows
        if var.name not in rows:
            rows[var.name] = RowCell(host.kind, level=self.solver.level)
            self.solver.append(self.solver.store.rows, rows[var.name])
        return rows[var.name]

    def _label(self, label: Label) -> AxisCell:
        labels = self.step.labels
        if label.name not in labels:
            labels[label.name] = self.solver.new_axis(label=label if self.named else None, least=0)
        return labels[label.name]

    def _axis(self, term: Term) -> AxisCell:
        solver = self.solver
        match term:
            case Label():
                return self._label(term)
            case Hole():
                return solver.new_axis()
            case AxisPoint(exact=int(size)):
                axis = solver.new_axis()
                self._known(axis, Dim(size))
                return axis
            case AxisPoint(least=least):
                return solver.new_axis(least=least)
            case AxisRange(over=over, least=least, window=window):
                axis = solver.new_axis(least=least)
                if window is not None:
                    self._known(self._label(over), Dim(window))
                    return axis
                counted = ComputedRule(Why(self.step), self._label(over), {"axis": axis}, term, frozenset({"axis"}))
                solver.add(counted, *counted.cells)
                return axis
            case Position(at=at):
                return solver.new_axis(least=at + 1)
            case OpenSize():
                axis = solver.new_axis()
                self._open(axis, term)
                return axis
            case Size():
                axis = solver.new_axis()
                self._written(axis, term)
                return axis
            case AffineAxis() | ConcatAxis() | FlatAxis():
                rule = self._size_rule(term)
                solver.add(rule, *dict.fromkeys(rule.cells))
                return rule.axis

    def _size_rule(self, term: DerivedAxis) -> SizeRules:
        """How the size of a new axis follows from those of the labels it is read at."""
        axis, why = self.solver.new_axis(), Why(self.step, term.span)
        match term:
            case AffineAxis(over=over, kernel=kernel):
                rule = AffineRule(why, axis, self._label(over), self._label(kernel.label) if kernel else None, term)
                for cell in rule.cells:
                    self.solver.set_least(cell, 1, why)
                return rule
            case ConcatAxis(parts=parts):
                cells = tuple(self._label(part) for part in parts if isinstance(part, Label))
                return ConcatRule(why, axis, cells, sum(part.size for part in parts if isinstance(part, Skip)))
            case FlatAxis(parts=labels):
                return FlatRule(why, axis, tuple(map(self._label, labels)))


#: What a terminal is for closing; what is computed is no larger than it must be.
_ROLES: Mapping[type, TensorRole] = {
    Parameter: "param",
    Input: "input",
    Literal: "leaf",
    Counted: "leaf",
    Varying: "varying",
    Assigned: "node",
    Constant: "constant",
}


def _text(logic: Logic) -> str:
    logic = read_by(logic)
    return logic.spec.text if isinstance(logic, Einsum) else ""


def _span(term: Term) -> Span | None:
    return None if isinstance(term, Size | AxisPoint | AxisRange | OpenSize) else term.span
