"""Sort recognition: ranks, how many elements come before each, are found by sorting rows, not by comparing all pairs.

    for v in range(1000): for o in range(1000): ranks[v] += comes_before(x[o], o, x[v], v)

    becomes

    …                                                       order[p]: which element comes to stand at p
    for p in range(1000): rank[order[p]] = p
    for v in range(1000): ranks[v] += rank[v]

Rows are sorted side by side in the lanes of vectors (`sorting_network.py`), where there are enough of them and a
processor has vectors for it, or one by one (`radix_sort.py`).

What is scattered to ranks is read in order: ranks are each position once.

    for v: y[max(min(rank[v], 999), 0)] += f(v)    becomes    for p: { v = order[p];  y[p] += f(v) }
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from weft.affine import Affine, are_affine
from weft.loops.constants import constant_value
from weft.loops.effects import Effects, effects
from weft.loops.names import BlockNames
from weft.loops.nodes import Buffer, Cast, For, Let, Local, Read, Role, Set, Stmt, Store, Update
from weft.loops.walk import (
    BLOCKS,
    Body,
    accesses,
    around,
    bottom_up,
    expanded,
    free,
    identical,
    operations,
    reads,
    substituted,
    with_body,
)
from weft.machine import Machine
from weft.ops import Call, Scalar
from weft.ops.dtypes import carrier
from weft.ops.ordering import comes_before
from weft.optimise.gather import OneEffect, added_by, one_effect, reindexed
from weft.optimise.radix_sort import sorted_by_digits
from weft.optimise.sorted_row import SortedRow
from weft.optimise.sorting_network import lanes_for, sorted_in_lanes


def ranked_by_sorting(body: Body, least: int, ids: Iterator[int], machine: Machine | None = None) -> tuple[Body, ...]:
    """A block that takes the ranks of elements from others, which stand before it and sort rows of `least` or more.

    A `machine` has vectors that rows are sorted in side by side.
    """
    if "precedes" not in operations(body):
        return (body,)
    ranking = _Ranking(least, ids, BlockNames(body), effects(body), machine)
    done = bottom_up(ranking.taken(body, {}, {}), ranking.in_order)
    looked_at = {one.buffer for one in accesses(done)}
    blocks = [one for found in ranking.found for one in found.blocks(ranking.names, found.rank in looked_at)]
    return (*blocks, done)


@dataclass(frozen=True, slots=True)
class _RankedRow:
    """A row that is sorted, by a block that leaves its order, and the ranks of its elements."""

    row: SortedRow
    sorting: Body
    order: Buffer
    rank: Buffer

    def blocks(self, names: BlockNames, ranks: bool) -> Iterator[Body]:
        yield self.sorting
        if ranks:
            *outer, place = self.row.at
            at = Cast("int64", Read(self.order, self.row.at))
            cleared = Store(self.rank, self.row.at, Cast("int32", Affine()))
            stored = Store(self.rank, (*outer, at), Cast("int32", place))
            inside = (*around([self.row.loop], (cleared,)), *around([self.row.loop], (stored,)))
            yield around(self.row.outer, inside)


@dataclass(frozen=True, slots=True)
class _Ranking:
    """Finds loops that count, and sorts what they count in blocks of its own."""

    least: int
    ids: Iterator[int]
    names: BlockNames
    changed: Effects
    machine: Machine | None
    found: list[_RankedRow] = field(default_factory=list)

    def taken(self, body: Body, known: Mapping[Local, Scalar], sizes: Mapping[str, int]) -> Body:
        """A block, in loops of some sizes, that takes ranks where it counted them."""
        known, done = dict(known), list[Stmt]()
        for stmt in body:
            if isinstance(stmt, Let) and stmt.local not in self.changed.sets:
                known[stmt.local] = expanded(stmt.value, known)
            if isinstance(stmt, For):
                done += self._loop(stmt, known, {**sizes, stmt.loop: stmt.size})
            elif isinstance(stmt, BLOCKS):
                done.append(with_body(stmt, self.taken(stmt.body, known, sizes)))
            else:
                done.append(stmt)
        return body if identical(done, body) else tuple(done)

    def _loop(self, stmt: For, known: Mapping[Local, Scalar], sizes: Mapping[str, int]) -> Body:
        effect = one_effect(stmt.body, known) if stmt.size >= self.least else None
        row = _row(effect, stmt.loop, sizes) if effect else None
        if effect is None or row is None or row.cell.buffer in self.changed.buffers:
            return (with_body(stmt, self.taken(stmt.body, known, sizes)),)
        found = self._sorted(row)
        self.found.append(found)
        return _with_rank(effect, Cast("int64", Read(found.rank, row.at)))

    def _sorted(self, row: SortedRow) -> _RankedRow:
        order, rank = (self._buffer(name, "int32", *row.shape) for name in ("order", "rank"))
        lanes = lanes_for(row, self.machine) if self.machine else 0
        given = row, order, self._buffer, self.names
        return _RankedRow(row, sorted_in_lanes(*given, lanes) if lanes else sorted_by_digits(*given), order, rank)

    def _buffer(self, name: str, dtype: str, *shape: int) -> Buffer:
        return Buffer(next(self.ids), self.names.fresh(name), shape, dtype, Role.SORTED)

    def in_order(self, stmt: Stmt) -> tuple[Stmt, ...]:
        """A loop that scatters to ranks, along the order of elements instead."""
        update = _one_update(stmt.body) if isinstance(stmt, For) else None
        if not isinstance(stmt, For) or update is None:
            return (stmt,)
        for one in self.found:
            to = [at for at, index in enumerate(update.at) if _is_rank(index, stmt, one)]
            others = [index for at, index in enumerate(update.at) if at not in to]
            touched = {read.buffer for scalar in (*others, update.value) for read in reads(scalar)}
            if len(to) == 1 and touched.isdisjoint({update.buffer, one.rank}):
                return (self._along_order(stmt, update, to[0], one),)
        return (stmt,)

    def _along_order(self, stmt: For, update: Update, to: int, found: _RankedRow) -> For:
        element, place = Local(self.names.fresh("element"), "int64"), self.names.fresh("place")
        *outer, _ = found.row.at
        (moved,) = reindexed((update,), stmt.loop, element)
        assert isinstance(moved, Update)
        at = tuple(Affine.of(place) if axis == to else index for axis, index in enumerate(moved.at))
        read = Cast("int64", Read(found.order, (*outer, Affine.of(place))))
        return For(place, stmt.size, (Let(element, read), replace(moved, at=at)))


def _one_update(body: Body) -> Update | None:
    """The one statement of a block that has an effect, with all variables expanded."""
    *lead, last = body
    known = dict[Local, Scalar]()
    for stmt in lead:
        if not isinstance(stmt, Let | Set) or (isinstance(stmt, Set) and stmt.local not in known):
            return None
        known[stmt.local] = expanded(stmt.value, known)
    if not isinstance(last, Update):
        return None
    return replace(last, at=tuple(expanded(one, known) for one in last.at), value=expanded(last.value, known))


def _is_rank(index: Scalar, loop: For, found: _RankedRow) -> bool:
    """Is an index the rank of the element that a loop is at, which clipping to the row leaves as it is?"""
    (name, size), rank = found.row.loop, Read(found.rank, found.row.at)
    match index:
        case Call(op="max", args=(Call(op="min", args=(inner, most)), low)):
            if constant_value(low) != 0 or constant_value(most) != size - 1:
                return False
            index = inner
    if isinstance(index, Call) and index.op == "add" and constant_value(index.args[0]) == 0:
        index = index.args[1]
    return loop.loop == name and loop.size == size and index == Cast("int64", rank)


def _with_rank(effect: OneEffect, rank: Scalar) -> Body:
    """What a loop counts one by one, taken at once."""
    core = effect.core
    new = Call("add", (core.local, rank)) if isinstance(core, Set) else rank
    return around([(one.loop, one.size) for one in effect.outer], (replace(core, value=new),))


def _row(effect: OneEffect, counting: str, sizes: Mapping[str, int]) -> SortedRow | None:
    """The row of elements of which a loop counts those that come before one of them."""
    core, value = effect.core, added_by(effect.core)
    sizes = {**sizes, **{one.loop: one.size for one in effect.outer}}
    if value is None or (isinstance(core, Update) and any(counting in free(one) for one in core.at)):
        return None
    match expanded(value, effect.values):
        case Cast(
            value=Call(op="where", args=(Call(op="lt", args=(place, at)), _, Call(op="precedes", args=ends))) as asked
        ):
            descending = counting in free(ends[1])
            one, other = reversed(ends) if descending else ends
            loop, cell = _loop(at), _cell(other)
            if loop is None or cell is None or _loop(place) != counting or sizes.get(loop) != sizes[counting]:
                return None
            same = substituted(other, {loop: Affine.of(counting)}) == one
            if not same or asked != comes_before(one, place, other, at, descending):
                return None
            outer = [name for name in dict.fromkeys(free(cell)) if name in sizes and name != loop]
            return SortedRow(cell, (loop, sizes[loop]), tuple((name, sizes[name]) for name in outer), descending)
    return None


def _loop(scalar: Scalar) -> str | None:
    """The loop whose position a number is."""
    while isinstance(scalar, Cast):
        scalar = scalar.value
    return (
        scalar.names[0]
        if isinstance(scalar, Affine) and scalar.terms and scalar == Affine.of(scalar.names[0])
        else None
    )


def _cell(scalar: Scalar) -> Read | None:
    """The cell that a number is read from, at positions that no data says."""
    if (
        isinstance(scalar, Cast)
        and isinstance(scalar.value, Read)
        and scalar.dtype == carrier(scalar.value.buffer.dtype)
    ):
        scalar = scalar.value
    return scalar if isinstance(scalar, Read) and are_affine(scalar.at) else None
