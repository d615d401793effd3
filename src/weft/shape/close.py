"""Closing: when shapes are needed, what the constraints left open is decided, from all that is known of the graph.

What is computed has no say: it is the join of what goes into it. So closing decides leaves, ranks first, then sizes:
they grow to the greatest shape that all their uses allow; whatever else is open stays as small as it can. Each stage
decides from a fixpoint, commits all its cells together and propagates again, so the outcome does not depend on any
order. The model is closed before the code that updates it is looked at. What must not be guessed and nothing
determines stays open, with all that hangs on it: it is an error only for who needs it.

`peek` finds a shape and decides nothing; `close` settles a shape and all that it is computed from, and nothing else. An
operation that leaves the graph without a solution is set aside, and is an error for who needs it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from weft.errors import ShapeError, WeftError, user_origin
from weft.shape.cells import AxisCell, ConstraintStore, InferenceStep, RowCell, ShapeVar, Why
from weft.shape.decide import Decision
from weft.shape.errors import CLOSING
from weft.shape.infer import lay_again
from weft.shape.inference_lock import alone
from weft.shape.nodes import Dim, Shape
from weft.shape.reach import reach
from weft.shape.solver import Solver, undisturbed

#: What closing finds for an axis: its size, or what to raise if somebody needs it.
ClosedAxis: TypeAlias = Dim | WeftError


def close(shape: ShapeVar) -> Shape:
    """The closed shape; it and all it is computed from are settled."""
    close_all((shape,))
    closed = shape.closed
    assert closed is not None
    return closed


@alone
def close_all(shapes: Iterable[ShapeVar]) -> None:
    """Settle shapes and all that they are computed from."""
    pending = _unchecked(shapes)
    undisturbed([shape.store for shape in pending], lambda _: _close(pending))


def _close(pending: Sequence[ShapeVar]) -> None:
    graphs: dict[ConstraintStore, list[ShapeVar]] = {}
    for shape in pending:
        graphs.setdefault(shape.store.find(), []).append(shape)
    for store, members in graphs.items():
        _refuse_broken(store, members)
        if any(shape.closed is None for shape in members) and not _settle_graph(store, set(members)):
            _settle(store, members)
    for shape in pending:
        shape.checked = True
        _finish(shape)
    for store in graphs:
        if len(store.rows) > 2 * store.open_rows + 64:  # now and then, so that the cost is shared by what is dropped
            _drop_closed(store)


def close_axes(store: ConstraintStore, axes: Sequence[AxisCell]) -> None:
    """Settle the sizes of axes of an operation."""
    undisturbed((store,), lambda _: _settle(store.find(), (), axes))


@alone
def close_alone(shape: ShapeVar) -> Shape:
    """The closed shape; it is settled, but nothing that it is computed from: that may depend on sizes still open."""
    if not shape.checked:
        undisturbed((shape.store,), lambda _: _settle(shape.store.find(), (shape,), steps=()))
        shape.checked = True
        _finish(shape)
    closed = shape.closed
    assert closed is not None
    return closed


@alone
def peek(shape: ShapeVar) -> Shape:
    """The shape that closing would find now; nothing is decided by asking."""
    return undisturbed((shape.store,), lambda _: _peek(shape)) or close(shape)


def _peek(shape: ShapeVar) -> Shape | None:
    pending = _unchecked((shape,))
    store = shape.store.find()
    _refuse_broken(store, pending)
    found = {one: closed for one in pending if (closed := one.closed) is not None}
    if len(found) < len(pending):
        solution = _solution(store, pending)
        for one in pending:
            batch, input, output = (solution.dims(row) for row in one.rows)
            found[one] = Shape(batch, input, output, one.marks)
    return found.get(shape)


@dataclass(frozen=True, slots=True)
class Solution:
    """What closing finds for a graph; which rows have their rank not from closing alone, which from nothing else."""

    rows: dict[RowCell, tuple[ClosedAxis, ...]]
    axes: dict[AxisCell, ClosedAxis]
    anchored: set[RowCell]
    unasked: set[RowCell]

    def dims(self, row: RowCell) -> tuple[Dim, ...]:
        """The axes of a row; raises if one of them must not be guessed."""
        closed = row.closed
        return closed if closed is not None else tuple([_dim(axis) for axis in self.rows[row]])

    def dim(self, axis: AxisCell) -> Dim:
        return axis.dim if axis.size is not None else _dim(self.axes[axis])


def _dim(found: ClosedAxis) -> Dim:
    if not isinstance(found, Dim):
        raise found.with_traceback(None)
    return found


def _settle_graph(store: ConstraintStore, shapes: set[ShapeVar]) -> bool:
    """Settle a graph of which every shape is wanted, all at once; if that cannot be, nothing is settled."""
    _drop_closed(store)
    if store.solution is not None or not all(row.owner is None or row.owner in shapes for row in store.rows):
        return False
    try:
        with Solver(store, InferenceStep(CLOSING, user_origin())) as solver:
            decision, ranks = Decision(solver), [row for row in store.rows if row.axes is None]
            decision.decide()
            for error in decision.stuck.values():
                raise error()
            for row in ranks:
                solver.write(row, "silent", row not in decision.anchored)
                solver.write(row, "unasked", row in decision.unasked)
    except ShapeError:
        return False
    return True


def _settle(
    store: ConstraintStore,
    shapes: Sequence[ShapeVar],
    axes: Sequence[AxisCell] = (),
    steps: Iterable[InferenceStep] | None = None,
) -> None:
    """Write what closing finds for some shapes, the operations that compute them unless others are given, some axes."""
    solution = _solution(store, shapes)
    steps = dict.fromkeys(step for shape in shapes for step in shape.steps) if steps is None else tuple(steps)
    rows = {row: solution.dims(row) for shape in shapes for row in shape.rows}
    rows |= {row: solution.dims(row) for step in steps for row in step.rows.values()}
    labels = {axis: solution.dim(axis) for axis in (*axes, *(one for step in steps for one in step.labels.values()))}
    step = InferenceStep(CLOSING, user_origin())
    with Solver(store, step) as solver:
        for row, dims in rows.items():
            if row.axes is None:
                solver.write(row, "silent", row not in solution.anchored)
                solver.write(row, "unasked", row in solution.unasked)
                solver.at_least(row, len(dims), Why(step))
                solver.at_most(row, len(dims), Why(step))
        solver.solve()
        sizes = [pair for row, dims in rows.items() for pair in zip(row.axes or (), dims, strict=True)]
        for axis, dim in (*sizes, *labels.items()):
            solver.set_size(axis, dim.size, Why(step))
            if dim.basis is not None:
                solver.set_basis(axis, dim.basis, Why(step))
        solver.solve()
    store.solution = solution  # a part of it is written now, and the rest is as it was


def _solution(store: ConstraintStore, shapes: Sequence[ShapeVar]) -> Solution:
    """What closing finds. Operations that make it impossible are set aside: they are errors for who needs them."""
    while store.solution is None:
        _drop_closed(store)
        try:
            store.solution = _solve(store)
        except ShapeError as error:
            _set_aside(store, error)
    _refuse_broken(store, shapes)
    found: Solution = store.solution
    return found


def _refuse_broken(store: ConstraintStore, shapes: Sequence[ShapeVar]) -> None:
    if store.broken:
        for step in [step for shape in shapes for step in shape.steps if step in store.broken]:
            raise store.broken[step].with_traceback(None)


def _set_aside(store: ConstraintStore, error: ShapeError) -> None:
    """Take back the first operation, in the order they were written, with which there is no solution any more."""
    steps = sorted(_steps(store) - store.broken.keys(), key=lambda step: step.order)
    low, high = 0, len(steps)  # the first `low` have a solution together, the first `high` have none
    while high - low > 1:
        middle = (low + high) // 2
        try:
            _solve(store, again=steps[:middle])
            low = middle
        except ShapeError as earlier:
            high, error = middle, earlier
    with Solver(store, steps[low]) as solver:
        solver.write(store, "broken", {**store.broken, steps[low]: error})
        lay_again(solver, [step for step in steps if step not in store.broken])


def _steps(store: ConstraintStore) -> set[InferenceStep]:
    """The operations of a graph that still have something to say."""
    cells: list[RowCell | AxisCell] = [*store.rows, *store.axes]
    stated = (rule.step for cell in cells for rule in cell.watchers)
    return set(reach(stated, lambda step: (one for shape in step.slots if not shape.checked for one in shape.steps)))


def _solve(store: ConstraintStore, again: Sequence[InferenceStep] | None = None) -> Solution:
    """What closing finds, decided nowhere; with `again`, from what these operations alone say."""
    step = InferenceStep(CLOSING, user_origin())
    with Solver(store, step) as solver:
        if again is not None:
            lay_again(solver, again)
            solver.step = step
        decision = Decision(solver)
        decision.decide()
        stuck = decision.errors()
        rows = {row: tuple([_found(axis, stuck) for axis in row.axes or ()]) for row in store.rows}
        axes = {axis: _found(axis, stuck) for axis in store.axes}
        solution = Solution(rows, axes, decision.anchored, decision.unasked)
        solver.roll_back()
    return solution


def _found(axis: AxisCell, stuck: Mapping[AxisCell, WeftError]) -> ClosedAxis:
    return axis.dim if axis.size is not None else stuck[axis]


def _drop_closed(store: ConstraintStore) -> None:
    """Forget what needs no decision any more."""
    store.rows = [row for row in store.rows if not row.final]
    store.axes = [axis for axis in store.axes if not (axis.final or _is_spent(axis))]
    store.demands = [(axis, step) for axis, step in store.demands if not axis.final]
    store.open_rows = len(store.rows)


def _is_spent(axis: AxisCell) -> bool:
    """Is it a position, or computed, of a known size, between axes that are all closed for good?"""
    between = axis.size is not None and axis.row is None
    return between and all(cell.final or cell is axis for rule in axis.watchers for cell in rule.cells)


def _unchecked(shapes: Iterable[ShapeVar]) -> list[ShapeVar]:
    """The shapes and what they are computed from, as far as not yet known to be closed, operands first."""
    found: dict[ShapeVar, None] = {}
    stack = list(shapes)
    while stack:
        one = stack.pop()
        if not one.checked and one not in found:
            found[one] = None
            stack += one.operands
    return list(reversed(found))


def _finish(shape: ShapeVar) -> None:
    """Nothing need watch a closed shape, nor the labels and row variables of what computes it."""
    rows = [*shape.rows, *(row for step in shape.steps for row in step.rows.values())]
    axes = [axis for row in rows for axis in row.axes or ()]
    labels = [axis for step in shape.steps for axis in step.labels.values()]
    for row in rows:
        if row.closed is not None:
            row.final, row.watchers = True, []
    for axis in (*axes, *labels):
        if axis.size is not None:
            axis.final, axis.watchers = True, []
