"""Closing: when shapes are needed, what the constraints left open is decided, for the whole connected graph.

Ranks first, then sizes; within each, leaves grow to what their uses ask for, then everything else stays as small as
it can. Each stage decides from a fixpoint, commits all its cells together and propagates again, so the outcome does
not depend on any order. What must not be guessed and nothing determines stays open, with all that hangs on it: it is an
error only for who needs it. Ranks cannot fail here: with every bound propagated, taking all upper bounds of the leaves
and then all lower bounds is a solution of a system of difference constraints.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TypeAlias

from weft.einsum.nodes import KINDS
from weft.errors import WeftError, user_origin
from weft.shape import conflicts
from weft.shape.cells import AxisCell, RowCell, ShapeVar, Step, Store, Why
from weft.shape.derived import AffineRule, ConcatRule, CountRule
from weft.shape.dims import Below, Same
from weft.shape.nodes import Shape
from weft.shape.solver import Solver
from weft.shape.wants import wanted_ranks

#: For each axis that must not be guessed and that nothing determines: the error to raise when it is needed.
Stuck: TypeAlias = dict[AxisCell, Callable[[], WeftError]]


def close(shape: ShapeVar) -> Shape:
    """The closed shape, closing the graph it belongs to if need be; all it is computed from must close as well."""
    pending = _unchecked(shape)
    if any(one.closed is None for one in pending):
        _close_store(
            shape.store,
            lambda: [axis for one in pending for kind in KINDS for axis in one.row(kind).axes or ()],
        )
    for one in pending:
        one.checked = True
    closed = shape.closed
    assert closed is not None
    return closed


def close_axes(store: Store, axes: Sequence[AxisCell]) -> None:
    """Close the graph; these axes must have sizes then."""
    _close_store(store, lambda: axes)


def _close_store(store: Store, needed: Callable[[], Sequence[AxisCell]]) -> None:
    """Decide every shape of the connected graph that can be decided; if a needed axis cannot, nothing is."""
    store = store.find()
    step = Step("closing", user_origin())
    with Solver(store, step) as solver:
        _close_ranks(solver, Why(step))
        stuck = _close_sizes(solver, Why(step))
        tied = _connected(needed())
        for axis, error in stuck.items():
            if axis in tied:
                raise error()
    store.rows, store.axes = [], _open(store.axes)
    store.demands = [(axis, step) for axis, step in store.demands if axis.size is None]


def _unchecked(shape: ShapeVar) -> list[ShapeVar]:
    """The shape and what it is computed from, as far as not yet known to be closed, operands first."""
    found: dict[ShapeVar, None] = {}
    stack = [shape]
    while stack:
        one = stack.pop()
        if not one.checked and one not in found:
            found[one] = None
            stack += one.operands
    return list(reversed(found))


def _close_ranks(solver: Solver, why: Why) -> None:
    open_rows = [row for row in solver.store.rows if row.axes is None]
    leaves = [row for row in open_rows if row.role != "inner"]
    wanted = wanted_ranks(open_rows)
    _at_most(solver, [(row, wanted.get(row, row.lo)) for row in leaves], why)
    _at_least(solver, [(row, row.hi) for row in leaves if row.axes is None], why)
    _at_most(solver, [(row, row.lo) for row in open_rows if row.axes is None], why)


def _close_sizes(solver: Solver, why: Why) -> Stuck:
    capped = _capped_leaves(solver.store.axes)
    while capped:
        mark = len(solver.trail)
        _set_sizes(solver, capped, why)
        capped = _capped_leaves(target for target, name, _ in solver.trail[mark:] if name == "cap")
    demands = [(axis, step) for axis, step in solver.store.demands if axis.size is None]
    _set_sizes(solver, [(axis, axis.cap.size) for axis, _ in demands if axis.cap], why)
    stuck = _stuck(solver.store)
    while free := _free(solver.store.axes, stuck):
        leaves = [axis for axis in free if axis.role == "leaf"]
        _set_sizes(solver, [(axis, max(axis.least, 1)) for axis in leaves or free], why)
    tied = _connected(stuck)
    leftover = [axis for axis in _open(solver.store.axes) if axis not in tied]
    return stuck | {axis: partial(conflicts.underdetermined, axis, None) for axis in leftover}


def _stuck(store: Store) -> Stuck:
    """The axes that must not be guessed: labels only the result has, parameters, counted data."""
    stuck: Stuck = {
        axis: partial(conflicts.underdetermined, axis, step) for axis, step in store.demands if axis.size is None
    }
    waiting = _open(store.axes)
    claimed = _claimed(waiting)
    for axis in waiting:
        if axis.role == "param" and axis not in claimed:
            stuck.setdefault(axis, partial(conflicts.underdetermined, axis, None))
        for rule in axis.watchers:
            if isinstance(rule, CountRule):
                stuck.setdefault(axis, partial(conflicts.undetermined_count, rule.shape, rule.count))
    return stuck


def _claimed(axes: list[AxisCell]) -> set[AxisCell]:
    """The open axes about which a written 1, and nothing else, says something."""
    ones = (axis for axis in axes if any(_is_claim(other) for other in _neighbours(axis, Same, Below)))
    return set(_connected(ones, Same, Below))


def _is_claim(axis: AxisCell) -> bool:
    return axis.size == 1 and axis.claim


def _free(axes: Iterable[AxisCell], stuck: Stuck) -> list[AxisCell]:
    """The open axes that may be guessed: not tied to what is stuck, and the parts of a computed axis before it."""
    waiting = _open(axes)
    rules = {rule: None for axis in waiting for rule in axis.watchers if isinstance(rule, AffineRule | ConcatRule)}
    computed = _above([rule.axis for rule in rules if rule.axis.size is None])
    split = _connected([part for rule in rules if rule.axis.size is not None for part in rule.cells], Same)
    not_yet = {*computed, *split, *_connected(axis for axis in stuck if axis.size is None)}
    return [axis for axis in waiting if axis not in not_yet]


def _above(axes: Iterable[AxisCell]) -> set[AxisCell]:
    """The axes, all that equal them, and all that they broadcast to."""
    found = set(axes)
    stack = list(found)
    while stack:
        one = stack.pop()
        for rule in one.watchers:
            reached = rule.cells if isinstance(rule, Same) else ()
            if isinstance(rule, Below) and rule.operand is one:
                reached = (rule.result,)
            new = [axis for axis in reached if axis not in found]
            found.update(new)
            stack += new
    return found


def _connected(axes: Iterable[AxisCell], *rules: type) -> dict[AxisCell, None]:
    """The open axes among these and all open ones tied to them by such rules (any, if none is named), nearest first."""
    found = dict.fromkeys(_open(axes))
    queue = deque(found)
    while queue:
        for axis in _neighbours(queue.popleft(), *rules):
            if axis.size is None and axis not in found:
                found[axis] = None
                queue.append(axis)
    return found


def _neighbours(axis: AxisCell, *rules: type) -> Iterator[AxisCell]:
    for rule in axis.watchers:
        if not rules or isinstance(rule, rules):
            yield from rule.cells


def _capped_leaves(axes: Iterable[AxisCell]) -> list[tuple[AxisCell, int]]:
    """The open axes of leaves that something they broadcast to gives a size."""
    return [(axis, axis.cap.size) for axis in dict.fromkeys(_open(axes)) if axis.cap and axis.role != "inner"]


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
