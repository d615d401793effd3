"""Closing: when shapes are needed, what the constraints left open is decided, for the whole connected graph.

Ranks first, then sizes; within each, leaves grow to what their uses ask for, then everything else stays as small as
it can. Each stage decides from a fixpoint, commits all its cells together and propagates again, so the outcome does
not depend on any order. Ranks cannot fail here: with every bound propagated, taking all upper bounds of the leaves
and then all lower bounds is a solution of a system of difference constraints.
"""

from __future__ import annotations

from collections.abc import Iterable

from weft.errors import user_origin
from weft.shape import conflicts
from weft.shape.cells import AxisCell, RowCell, ShapeVar, Step, Store, Why
from weft.shape.derived import AffineRule, ConcatRule, CountRule
from weft.shape.dims import Same
from weft.shape.nodes import Shape
from weft.shape.solver import Solver
from weft.shape.wants import wanted_ranks


def close(shape: ShapeVar) -> Shape:
    """The closed shape, closing the graph it belongs to if need be."""
    closed = shape.closed
    if closed is None:
        close_store(shape.store)
        closed = shape.closed
        assert closed is not None
    return closed


def close_store(store: Store) -> None:
    """Decide every shape of the connected graph; on an error nothing is decided."""
    store = store.find()
    step = Step("closing", user_origin())
    with Solver(store, step) as solver:
        _close_ranks(solver, Why(step))
        _close_sizes(solver, Why(step))
    store.rows, store.axes, store.demands = [], [], []


def _close_ranks(solver: Solver, why: Why) -> None:
    open_rows = [row for row in solver.store.rows if row.axes is None]
    leaves = [row for row in open_rows if row.role != "inner"]
    wanted = wanted_ranks(open_rows)
    _at_most(solver, [(row, wanted.get(row, row.lo)) for row in leaves], why)
    _at_least(solver, [(row, row.hi) for row in leaves if row.axes is None], why)
    _at_most(solver, [(row, row.lo) for row in open_rows if row.axes is None], why)


def _close_sizes(solver: Solver, why: Why) -> None:
    capped = _capped_leaves(solver.store.axes)
    while capped:
        mark = len(solver.trail)
        _set_sizes(solver, capped, why)
        capped = _capped_leaves(target for target, name, _ in solver.trail[mark:] if name == "cap")
    demands = [(axis, step) for axis, step in solver.store.demands if axis.size is None]
    _set_sizes(solver, [(axis, axis.cap.size) for axis, _ in demands if axis.cap], why)
    for axis, step in demands:
        if axis.size is None:
            raise conflicts.underdetermined(axis, step)
    for axis in _open(solver.store.axes):
        if axis.role == "param":
            raise conflicts.underdetermined(axis, None)
    _check_counts(solver)
    while free := _free(solver.store.axes):
        leaves = [axis for axis in free if axis.role == "leaf"]
        _set_sizes(solver, [(axis, max(axis.least, 1)) for axis in leaves or free], why)
    for axis in _open(solver.store.axes):
        raise conflicts.underdetermined(axis, None)


def _free(axes: Iterable[AxisCell]) -> list[AxisCell]:
    """The open axes that nothing computes: the parts of a computed axis are closed before it."""
    waiting = _open(axes)
    rules = {rule: None for axis in waiting for rule in axis.watchers if isinstance(rule, AffineRule | ConcatRule)}
    computed = _equal_to([rule.axis for rule in rules if rule.axis.size is None])
    split = _equal_to([part for rule in rules if rule.axis.size is not None for part in rule.cells])
    return [axis for axis in waiting if axis not in computed and axis not in split]


def _equal_to(axes: list[AxisCell]) -> set[AxisCell]:
    """The axes and all that equations tie to them."""
    found, stack = set(axes), list(axes)
    while stack:
        for rule in stack.pop().watchers:
            if isinstance(rule, Same):
                for axis in (rule.left, rule.right):
                    if axis not in found:
                        found.add(axis)
                        stack.append(axis)
    return found


def _capped_leaves(axes: Iterable[AxisCell]) -> list[tuple[AxisCell, int]]:
    """The open axes of leaves that something they broadcast to gives a size."""
    return [(axis, axis.cap.size) for axis in dict.fromkeys(_open(axes)) if axis.cap and axis.role != "inner"]


def _check_counts(solver: Solver) -> None:
    for axis in _open(solver.store.axes):
        for rule in axis.watchers:
            if isinstance(rule, CountRule):
                raise conflicts.undetermined_count(rule.shape, rule.count)


def _open(axes: Iterable[AxisCell]) -> list[AxisCell]:
    return [axis for axis in axes if axis.size is None]


def _at_most(solver: Solver, bounds: list[tuple[RowCell, int]], why: Why) -> None:
    for row, rank in bounds:
        solver.at_most(row, rank, why)
    solver.solve()


def _at_least(solver: Solver, bounds: list[tuple[RowCell, int]], why: Why) -> None:
    for row, rank in bounds:
        solver.at_least(row, rank, why)
    solver.solve()


def _set_sizes(solver: Solver, sizes: list[tuple[AxisCell, int]], why: Why) -> None:
    for axis, size in sizes:
        solver.set_size(axis, size, why)
    solver.solve()
