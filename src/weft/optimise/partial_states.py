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

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from weft.affine import Affine
from weft.loops.effects import accumulation, effects
from weft.loops.names import BlockNames, fresh_ids
from weft.loops.nodes import Buffer, Fill, For, If, Local, Read, Role, Set, Staged, Stmt, Store, Update
from weft.loops.walk import bottom_up, everything, map_scalars, parts, substituted, variables
from weft.ops import OPS, Call
from weft.ops.dtypes import numpy_type
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
        buffer = Buffer(next(ids), names.fresh(f"{found.local.name}_part"), (lanes,), found.local.dtype, Role.PARTIAL)
        if cut:
            first = Local(names.fresh(f"{found.local.name}_first"), found.local.dtype)
            return by_short_cut(stmt, found, cut, buffer, names.fresh("lane"), first)
        return _Parts(stmt, found, buffer, names.fresh("lane"), thresholds.states_left).split()

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


@dataclass(frozen=True, slots=True)
class _Parts:
    """A loop whose accumulation runs in the cells of a buffer."""

    loop: For
    found: Set
    buffer: Buffer
    lane: str
    #: So many are joined one after another in the end.
    left: int

    def split(self) -> list[Stmt]:
        lanes, size = self.buffer.shape[0], self.loop.size
        whole, rest = divmod(size, lanes)
        here = Affine.of(self.lane)
        blocks = Affine(((lanes, self.loop.loop), (1, self.lane)), lanes)
        inner = For(self.lane, lanes, self._taking(blocks))
        done: list[Stmt] = [For(self.lane, lanes, self._taking(here, first=True))]
        if whole > 1:
            done.append(For(self.loop.loop, whole - 1, (inner,)))
        if rest:
            done.append(For(self.lane, rest, self._taking(here + whole * lanes)))
        return [*done, *self._joined(lanes)]

    def _taking(self, index: Affine, first: bool = False) -> tuple[Stmt, ...]:
        """The loop's body, for the value at an index."""
        moved = [map_scalars(one, lambda part: substituted(part, {self.loop.loop: index})) for one in self.loop.body]
        pairs = zip(self.loop.body, moved, strict=True)
        return tuple(self._taken(one, first) if old is self.found else one for old, one in pairs)

    def _taken(self, stmt: Stmt, first: bool) -> Stmt:
        assert isinstance(stmt, Set)
        assert isinstance(stmt.value, Call)
        at = (Affine.of(self.lane),)
        value = stmt.value.args[1]
        return Store(self.buffer, at, value) if first else Update(self.buffer, at, stmt.value.op, value)

    def _joined(self, lanes: int) -> Iterator[Stmt]:
        """The states joined: by halves, on vectors; the last few one by one."""
        assert isinstance(self.found.value, Call)
        op, here = self.found.value.op, Affine.of(self.lane)
        while lanes > self.left:
            lanes //= 2
            yield For(self.lane, lanes, (Update(self.buffer, (here,), op, Read(self.buffer, (here + lanes,))),))
        state = self.found.local
        yield For(self.lane, lanes, (Set(state, Call(op, (state, Read(self.buffer, (here,))))),))
