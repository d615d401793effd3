"""What closing decides, in stages: the ranks of leaves, all other ranks, the sizes of leaves, all other sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TypeAlias

from weft.errors import WeftError
from weft.shape import errors
from weft.shape.cells import CODE, MODEL, AxisCell, Propagator, RowCell, Why
from weft.shape.computed_sizes import AffineRule, ComputedRule, CountRule, SizeRules
from weft.shape.dims import Below, Join, Same
from weft.shape.rank_demand import rank_demand
from weft.shape.reach import reach
from weft.shape.rows import RowIsRule
from weft.shape.solver import Solver

#: For each axis that must not be guessed and that nothing determines: the error to raise when it is needed.
Stuck: TypeAlias = dict[AxisCell, Callable[[], WeftError]]


class Decision:
    """Decides the open rows and axes of a graph, level by level."""

    def __init__(self, solver: Solver) -> None:
        self.solver = solver
        self.why = Why(solver.step)
        self.anchored: set[RowCell] = set()
        self.unasked: set[RowCell] = set()
        self.stuck: Stuck = {}

    def decide(self) -> None:
        """Decide everything: of each level, what is of it and of those below that takes part in it."""
        for level in (MODEL, CODE):
            if level == CODE:
                self._open_views()
            self._close_ranks(level)
            self._close_sizes(level)

    def errors(self) -> dict[AxisCell, WeftError]:
        """For each axis that is still open, what is to be said of the one that it hangs on and must not be guessed."""
        found: dict[AxisCell, WeftError] = {}
        for axis, error in self.stuck.items():
            if axis not in found:
                found |= dict.fromkeys(_connected((axis,)), error())
        return found

    def _open_views(self) -> None:
        """What the model left open, code may say: there its shapes and their views are one."""
        rows = [row for row in self.solver.store.rows if row.axes is None or row.closed is None]
        for owner in dict.fromkeys(row.owner for row in rows if row.owner is not None and row.owner.view is not None):
            assert owner.view is not None
            for model, view in zip(owner.rows, owner.view.rows, strict=True):
                self.solver.add(RowIsRule(self.why, model, (), view, ()), model, view)
        self.solver.solve()

    def _takes_part(self, row: RowCell | None, level: int) -> bool:
        """Is it of the level; a shape of the model that only code uses is left to the code."""
        owner = row.owner if row else None
        if row is None or owner is None or level == CODE:
            return row is None or row.level <= level
        return row.level <= level and (owner.used or owner.view is None)

    def _rows(self, level: int) -> list[RowCell]:
        return [row for row in self.solver.store.rows if row.axes is None and self._takes_part(row, level)]

    def _axes(self, level: int) -> list[AxisCell]:
        return [
            axis
            for axis in self.solver.store.axes
            if axis.size is None and axis.level <= level and self._takes_part(axis.row, level)
        ]

    # Ranks

    def _close_ranks(self, level: int) -> None:
        solver, rows = self.solver, self._rows(level)
        leaves = [row for row in rows if row.grows]
        demand = rank_demand(rows)
        self.anchored |= demand.anchored
        self.unasked |= demand.unasked
        for row in leaves:
            solver.at_most(row, demand.ranks.get(row, row.lo), self.why)
        solver.solve()
        for row in leaves:
            solver.at_least(row, row.hi, self.why)
        solver.solve()
        for row in rows:
            solver.at_most(row, row.lo, self.why)
        solver.solve()

    # Sizes

    def _close_sizes(self, level: int) -> None:
        self._compute(level)
        self._grow(level)
        self.stuck = self._must_be_told(level)
        while free := _free(self._axes(level), self.stuck):
            leaves = [axis for axis in free if axis.grows]
            self._set([(axis, max(axis.least, 1)) for axis in leaves or free])
        self._lend(level)
        tied = _connected(self.stuck)
        leftover = [axis for axis in self._axes(level) if axis not in tied]
        self.stuck |= {axis: partial(errors.underdetermined, axis, None) for axis in leftover}

    def _compute(self, level: int) -> None:
        """Parts may have been made equal by what was said after they were last divided."""
        for rule in self._computing(level):
            self.solver.enqueue(rule)
        self.solver.solve()

    def _grow(self, level: int) -> None:
        """Leaves take the size of what they broadcast to; so do the parts of a computed size that is still open."""
        chosen = [axis for axis in self._axes(level) if axis.grows and axis.cap]
        while chosen or (chosen := [axis for axis in self._parts(level) if axis.cap] or self._wholes(level)):
            mark = len(self.solver.trail)
            self._set([(axis, axis.cap.size) for axis in chosen if axis.cap])
            capped = (target for target, name, _ in self.solver.trail[mark:] if name == "cap")
            chosen = [axis for axis in dict.fromkeys(_open(capped)) if axis.grows and axis.level <= level]

    def _parts(self, level: int) -> list[AxisCell]:
        """Labels that must be told, and the open axes that other sizes are computed from."""
        demanded = [axis for axis, _ in self.solver.store.demands if axis.size is None and axis.level <= level]
        computing = [part for rule in self._computing(level) for part in rule.cells[1:] if part.size is None]
        return list(dict.fromkeys([*demanded, *computing]))

    def _wholes(self, level: int) -> list[AxisCell]:
        """Axes made of several that must not be guessed to be 1: closing makes no part smaller than that."""
        rules = [rule for rule in self._computing(level) if not isinstance(rule, AffineRule) and rule.smallest > 1]
        return list(dict.fromkeys(rule.axis for rule in rules if rule.axis.size is None and rule.axis.cap))

    def _computing(self, level: int) -> list[SizeRules]:
        """What computes open axes, or computes from them."""
        watchers = (rule for axis in self._axes(level) for rule in axis.watchers)
        return list(dict.fromkeys(rule for rule in watchers if isinstance(rule, SizeRules)))

    def _lend(self, level: int) -> None:
        """A labelled 1 lends its label to the leaf below it."""
        while lent := [
            axis
            for axis in self.solver.store.axes
            if axis.lent is not None and axis.grows and axis.level <= level and not axis.written
        ]:
            for axis in lent:
                assert axis.lent is not None
                self.solver.set_basis(axis, axis.lent, self.why)
            self.solver.solve()

    def _must_be_told(self, level: int) -> Stuck:
        """The axes that must not be guessed: inputs, labels only the result has, parameters, counted data.

        Inputs come first: what hangs on the size of one is known in every call, whoever else demands to be told it.
        """
        waiting = self._axes(level)
        stuck: Stuck = {axis: partial(errors.decided_by_calls, axis) for axis in waiting if axis.role == "input"}
        for axis, step in self.solver.store.demands:
            if axis.size is None and axis.level <= level:
                stuck.setdefault(axis, partial(errors.underdetermined, axis, step))
        claimed = _claimed(waiting)
        for axis in waiting:
            if axis.role == "param" and axis not in claimed:
                stuck.setdefault(axis, partial(errors.underdetermined, axis, None))
            for rule in axis.watchers:
                if isinstance(rule, CountRule):
                    said = partial(errors.undetermined_count, rule.step, rule.what, rule.shown(), rule.count)
                    stuck.setdefault(axis, said)
        return stuck

    def _set(self, sizes: Iterable[tuple[AxisCell, int]]) -> None:
        for axis, size in sizes:
            self.solver.set_size(axis, size, self.why)
        self.solver.solve()


def _claimed(axes: list[AxisCell]) -> set[AxisCell]:
    """The open axes about which a 1, and nothing else, says something: a written one, or one that a map is applied to.

    An input axis of a parameter is there for `w @ x`; where `x` is computed, and one number, so is that. A number of
    the program fits any.
    """

    def says(axis: AxisCell, one: AxisCell) -> bool:
        if one.size == 1 and one.claim:
            return True
        return _maps(axis) and one.role == "inner" and (one.size == 1 or (one.size is None and one.least == 1))

    ones = (axis for axis in axes if any(says(axis, one) for one in _neighbours(axis, Same, Below, Join)))
    return set(_connected(ones, Same, Below, Join))


def _maps(axis: AxisCell) -> bool:
    """Is it an input axis of a parameter?"""
    return axis.role == "param" and axis.row is not None and axis.row.kind == "input"


def _free(axes: Iterable[AxisCell], stuck: Stuck) -> list[AxisCell]:
    """The open axes that may be guessed: not tied to what is stuck, and the parts of a computed axis before it.

    Where every axis waits for a computed one, some are computed from themselves: of these, one is guessed.
    """
    waiting = _open(axes)
    rules = {rule: None for axis in waiting for rule in axis.watchers if isinstance(rule, SizeRules)}
    counted = [rule.axis for axis in waiting for rule in axis.watchers if isinstance(rule, ComputedRule)]
    computed = _above(_open([*counted, *(rule.axis for rule in rules)]))
    split = _connected([part for rule in rules if rule.axis.size is not None for part in rule.cells], Same)
    told = {*split, *_connected(axis for axis in stuck if axis.size is None)}
    free = [axis for axis in waiting if axis not in told]
    return [axis for axis in free if axis not in computed] or sorted(free, key=_hangs_on_fewest)[:1]


def _hangs_on_fewest(axis: AxisCell) -> tuple[int, bool]:
    """Order axes so that one comes first on which all that it hangs on hangs too, and that is computed by no rule."""
    return len(reach((axis,), _hangs_on)), any(_computes(rule, axis) for rule in axis.watchers)


def _computes(rule: Propagator, axis: AxisCell) -> bool:
    return isinstance(rule, SizeRules | ComputedRule) and rule.axis is axis


def _hangs_on(axis: AxisCell) -> Iterator[AxisCell]:
    """The open axes that say how large this one is: its equals, what broadcasts to it, what it is computed from."""
    for rule in axis.watchers:
        if isinstance(rule, Same) or _computes(rule, axis):
            yield from _open(rule.cells)
        elif isinstance(rule, Below) and rule.result is axis:
            yield from _open((rule.operand,))


def _above(axes: Iterable[AxisCell]) -> set[AxisCell]:
    """The axes, all that equal them, and all that they broadcast to."""

    def step(axis: AxisCell) -> Iterator[AxisCell]:
        for rule in axis.watchers:
            if isinstance(rule, Same):
                yield from rule.cells
            elif isinstance(rule, Below) and rule.operand is axis:
                yield rule.result

    return set(reach(axes, step))


def _connected(axes: Iterable[AxisCell], *rules: type) -> dict[AxisCell, None]:
    """The open axes among these and all open ones tied to them by such rules (any, if none is named), nearest first."""
    return reach(_open(axes), lambda axis: _open(_neighbours(axis, *rules)))


def _neighbours(axis: AxisCell, *rules: type) -> Iterator[AxisCell]:
    for rule in axis.watchers:
        if not rules or isinstance(rule, rules):
            yield from rule.cells


def _open(axes: Iterable[AxisCell]) -> list[AxisCell]:
    return [axis for axis in axes if axis.size is None]
