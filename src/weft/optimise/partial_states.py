"""Partial accumulators: a long accumulation takes its values into several states, which are joined at the end.

    for i in range(1000): s = logsumexp(s, of(x[i]))

    becomes

    for l in range(32): part[l] = of(x[l])
    for i in range(30): for l in range(32): part[l] logsumexp= of(x[32 i + 32 + l])
    for l in range(8): part[l] logsumexp= of(x[992 + l])
    for l in range(16): part[l] logsumexp= part[l + 16]
    for l in range(16): s = logsumexp(s, part[l])

The loops inside have independent iterations, so they run on vectors. That it may be done follows from the operation
being associative and commutative. Of states of several numbers this is done before these are told apart; of plain
numbers `lanes.py` does it, later. Where a monoid has a short cut, values accumulate by that (`short_cuts.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.loops.effects import accumulation, effects
from weft.loops.names import BlockNames, fresh_ids
from weft.loops.nodes import Fill, For, If, Local, Role, Set, Staged, Stmt
from weft.loops.walk import bottom_up, everything, parts, variables
from weft.ops import OPS, Call
from weft.ops.dtypes import numpy_type
from weft.optimise.lanes import LaneAccumulator, SplitLoop
from weft.optimise.short_cuts import by_short_cut, short_cut
from weft.thresholds import USUAL, Thresholds


def partial_states(body: Sequence[Stmt], thresholds: Thresholds = USUAL) -> tuple[Stmt, ...]:
    """A block with its long accumulations in several states each."""
    names, ids = BlockNames(body), fresh_ids(body, Role.PARTIAL)

    def rule(stmt: Stmt) -> Sequence[Stmt]:
        found = _accumulated(stmt)
        if found is None or not isinstance(stmt, For) or stmt.size < thresholds.state_values * thresholds.states_left:
            return (stmt,)
        lanes = thresholds.states_left
        most = thresholds.states if _operations(found) <= thresholds.state_operations else lanes
        cut = short_cut(stmt, found)
        if cut:
            most = min(thresholds.states, thresholds.state_bytes // numpy_type(found.local.dtype).itemsize)
        while 2 * lanes <= most and stmt.size >= 2 * thresholds.state_values * lanes:
            lanes *= 2
        if lanes < 2:
            return (stmt,)
        own = LaneAccumulator.of(found, lanes, next(ids), names)
        if cut:
            first = Local(names.fresh(f"{found.local.name}_first"), found.local.dtype)
            return by_short_cut(stmt, found, cut, own.cells, names.fresh("lane"), first)
        left = thresholds.states_left
        return list(SplitLoop(stmt, [own], lanes, names.fresh("lane"), stmt.loop, "", left, thresholds).begun())

    return bottom_up(body, rule)


def _operations(found: Set) -> int:
    """How many operations join two states."""
    monoid = OPS[found.value.op].monoid if isinstance(found.value, Call) else None
    return monoid.operations if monoid else 1


def _accumulated(stmt: Stmt) -> Set | None:
    """The states that an innermost loop joins in any order and does not look at meanwhile."""
    if not isinstance(stmt, For) or any(isinstance(one, For | If | Fill | Staged) for one in everything(stmt.body)):
        return None
    own = effects(stmt.body).lets
    carried = [one for one in stmt.body if isinstance(one, Set) and one.local not in own]
    uses = [one for inner in stmt.body for part in parts(inner) for one in variables(part)]
    match carried:
        case [found] if (joined := accumulation(found)) and uses.count(found.local) == 1:
            row = OPS[joined[0]]
            return found if row.reorderable and row.monoid is not None else None
    return None
