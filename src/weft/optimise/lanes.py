"""Accumulations in lanes: the sums and extrema of an innermost loop have an accumulator for each of many lanes.

    for i in range(1000): { y[i] = exp(x[i]);  s = s + y[i] }

    becomes

    for l in range(64): part[l] = 0
    for i in range(15): for l in range(64): { y[64 i + l] = exp(x[64 i + l]);  part[l] += y[64 i + l] }
    for l in range(40): { y[l + 960] = exp(x[l + 960]);  part[l] += y[l + 960] }
    for l in range(32): part[l] += part[l + 32]
    ...
    for l in range(4): s = s + part[l]

Of short loops inside others, the innermost one has the lanes, and those around it run until a lane has enough:

    for h in range(48): for w in range(48): s = s + x[h, w]

    becomes

    { …;  for h in range(48): for l in range(48): part[l] += x[h, l];  … }

Rows that fill no vectors run side by side, where they follow each other in memory:

    for h in range(28): for w in range(28): s = s + x[h, w]

    becomes

    { …;  for h in range(7): for r in range(4): for l in range(28): part[28 r + l] += x[4 h + r, l];  … }

An extremum in a cell that no loop moves has lanes as well, and the cell takes what they find.

The loops inside have independent iterations, so they run on vectors. A loop that does nothing else walks through memory
in four streams, each a quarter of it: that is more than one stream of it can fetch, and they are added up at once
(`schedule/nests/unroll_jam.py`). A lane adds up so few terms of single precision that it need not be wider
(`loops/roundings.py`); a longer loop runs in blocks, whose sums are added up in what `wide_sums.py` makes of `s`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from weft.affine import Affine
from weft.loops.constants import neutral_of
from weft.loops.effects import accumulation, effects
from weft.loops.legality import carried, follow
from weft.loops.names import BlockNames, fresh_ids
from weft.loops.nodes import Buffer, Fill, For, If, Read, Role, Set, Staged, Stmt, Store, Update
from weft.loops.roundings import PARTS
from weft.loops.walk import (
    Loop,
    around,
    block_at,
    everything,
    own_accesses,
    parts,
    perfect,
    reads,
    top_down,
    variables,
)
from weft.ops import OPS, Call, Scalar
from weft.thresholds import USUAL, Thresholds


def in_lanes(body: Sequence[Stmt], thresholds: Thresholds = USUAL) -> tuple[Stmt, ...]:
    """A block with the long accumulations of its innermost loops in lanes; products stay whole."""
    names, ids = BlockNames(body), fresh_ids(body, Role.PARTIAL)

    def rule(stmt: Stmt) -> Sequence[Stmt] | None:
        if not isinstance(stmt, For):
            return (stmt,) if isinstance(stmt, Staged) else None
        (*outer, (name, size)), block = perfect((stmt,))
        if any(isinstance(one, For | If | Fill | Staged) for one in everything(block)):
            return None
        lanes = _nested_lanes(outer, (name, size), block, thresholds) if outer else _lanes(size, thresholds)
        if not lanes or not (found := _accumulations([*outer, (name, size)], block)):
            return None if outer else (stmt,)
        accumulators = [LaneAccumulator.of(one, lanes, next(ids), names) for one in found]
        lane, row, stream = map(names.fresh, ("lane", "row", "stream"))
        split = SplitLoop(
            For(name, size, block), accumulators, lanes, lane, row, stream, thresholds.lanes_left, thresholds
        )
        return list(split.nested(outer, names) if outer else split.all())

    return top_down(body, rule)


def _lanes(size: int, thresholds: Thresholds) -> int:
    """How many lanes a loop has; 0 if it is too short for any."""
    lanes = 2 * thresholds.lanes_left if size >= 2 * thresholds.lane_terms * thresholds.lanes_left else 0
    while 0 < lanes < thresholds.lanes and size >= 2 * thresholds.lane_terms * lanes:
        lanes *= 2
    return lanes


def _most_rows(lanes: int, thresholds: Thresholds) -> int:
    """How many terms at most a lane adds up, which is rounded by being halved as well, and once more by what is left
    over.
    """
    return PARTS[0] - (max(lanes, thresholds.lanes) // thresholds.lanes_left).bit_length()


def _nested_lanes(outer: Sequence[Loop], inner: Loop, block: Sequence[Stmt], thresholds: Thresholds) -> int:
    """How many lanes the innermost of some loops has, so that none are left over, or several rows of it have that fill
    vectors; 0 if it is better on its own."""
    (_, size), most, least = inner, thresholds.lanes, thresholds.nested_lanes
    if size >= thresholds.lane_terms * 2 * most:
        return 0
    within = [one for one in range(least, min(size, most) + 1) if size % one == 0][-1:]
    whole = [one for one in (*within, *_side_by_side(outer[-1], inner, block, thresholds)) if one % least == 0]
    for lanes in (*sorted(whole, key=lambda one: (one > most, abs(one - most))), *within):
        rows, left = (size // lanes, outer) if lanes <= size else (1, _shortened(outer, lanes // size))
        count, each = _together(left, rows, _most_rows(lanes, thresholds))
        if count * each >= thresholds.lane_terms:
            return lanes
    return 0


def _side_by_side(above: Loop, inner: Loop, block: Sequence[Stmt], thresholds: Thresholds) -> list[int]:
    """How many lanes several rows have, that lie in memory one after another."""
    (name, count), (_, size) = above, inner
    most = thresholds.side_by_side * thresholds.lanes // size
    sides = [one for one in range(2, min(count, most) + 1) if count % one == 0]
    return [one * size for one in sides] if sides and follow(name, inner, block) else []


def _shortened(outer: Sequence[Loop], side: int) -> list[Loop]:
    """Loops of which the last one has so many iterations side by side."""
    *others, (name, size) = outer
    return [*others, (name, size // side)] if size > side else others


def _together(outer: Sequence[Loop], rows: int, most: int) -> tuple[int, int]:
    """How many rows of lanes the innermost loops have that may run until lanes are joined, and how many iterations of
    the next one may.
    """
    for _, size in reversed(outer):
        if rows * size > most:
            return rows, next(one for one in range(max(most // rows, 1), 0, -1) if size % one == 0)
        rows *= size
    return rows, 1


def _accumulations(loops: Sequence[Loop], body: Sequence[Stmt]) -> list[Set | Update]:
    """What loops accumulate in any order and do not look at, if their iterations share nothing else."""
    own = effects(body).lets
    found = [one for one in body if isinstance(one, Set) and one.local not in own]
    uses = [one for inner in body for part in parts(inner) for one in variables(part)]
    for one in found:
        op = (accumulation(one) or ("",))[0]
        if not op or not OPS[op].reorderable or OPS[op].monoid is not None or uses.count(one.local) != 1:
            return []
    extrema = [one for one in body if isinstance(one, Update) and _is_extremum(one, loops, body)]
    rest = [one for one in body if one not in found and one not in extrema]
    return [] if carried(loops, rest) else [*found, *extrema]


def _is_extremum(stmt: Update, loops: Sequence[Loop], body: Sequence[Stmt]) -> bool:
    """Is an extremum accumulated in a cell that loops do not move, and that nothing else touches?"""
    op, moving = OPS[stmt.op], {name for name, _ in loops}
    fixed = all(isinstance(one, Affine) and moving.isdisjoint(one.names) for one in stmt.at)
    if not fixed or not (op.idempotent and op.reorderable) or op.monoid is not None:
        return False
    others = [one.at for each in body if each is not stmt for one in own_accesses(each) if one.buffer == stmt.buffer]
    apart = all(at is not None and any(map(_never_meet, at, stmt.at)) for at in others)
    return apart and all(one.buffer != stmt.buffer for one in reads(stmt.value))


def _never_meet(one: Scalar, other: Scalar) -> bool:
    """Are two indices apart by a number?"""
    if not isinstance(one, Affine) or not isinstance(other, Affine):
        return False
    return one.terms == other.terms and one.offset != other.offset


@dataclass(frozen=True, slots=True)
class LaneAccumulator:
    """What is accumulated in a variable or a cell, and the buffer that has a cell for each lane in its place."""

    stmt: Set | Update
    op: str
    cells: Buffer

    @staticmethod
    def of(stmt: Set | Update, lanes: int, number: int, names: BlockNames) -> LaneAccumulator:
        into = stmt.local if isinstance(stmt, Set) else stmt.buffer
        cells = Buffer(number, names.fresh(f"{into.name}_part"), (lanes,), into.dtype, Role.PARTIAL)
        return LaneAccumulator(stmt, (accumulation(stmt) or ("",))[0] if isinstance(stmt, Set) else stmt.op, cells)

    @property
    def is_rounded(self) -> bool:
        return (self.op, self.cells.dtype) == ("add", "float32")

    def started(self, lane: Affine) -> Stmt:
        return Store(self.cells, (lane,), neutral_of(self.op, self.cells.dtype))

    def taking(self, value: Scalar, lane: Affine) -> Stmt:
        return Update(self.cells, (lane,), self.op, value)

    def halved(self, lane: Affine, lanes: int) -> Stmt:
        return self.taking(Read(self.cells, (lane + lanes,)), lane)

    def joined(self, lane: Affine) -> Stmt:
        found = Read(self.cells, (lane,))
        if isinstance(self.stmt, Update):
            return replace(self.stmt, value=found)
        return Set(self.stmt.local, Call(self.op, (self.stmt.local, found)))

    def taken(self, stmt: Stmt) -> Scalar | None:
        """The value that a statement accumulates here, if it does."""
        match stmt, self.stmt:
            case Set(local=local, value=Call(args=(_, value))), Set(local=own) if local == own:
                return value
            case Update(buffer=buffer, at=at, value=value), Update(buffer=own, at=cell) if (buffer, at) == (own, cell):
                return value
        return None


@dataclass(frozen=True, slots=True)
class SplitLoop:
    """A loop whose accumulations run in lanes, and names for the loops that it becomes."""

    loop: For
    accumulators: Sequence[LaneAccumulator]
    lanes: int
    lane: str
    row: str
    stream: str
    #: So many lanes are joined one after another in the end.
    left: int
    thresholds: Thresholds

    def all(self) -> Iterator[Stmt]:
        """All iterations: in one block, or in several and what these leave over."""
        rows, name, streams = self.loop.size // self.lanes, self.loop.loop, self.thresholds.streams
        if rows <= _most_rows(self.lanes, self.thresholds) or not any(one.is_rounded for one in self.accumulators):
            yield from self._block(self.loop.size, Affine(()))
            return
        most = _most_rows(self.lanes, self.thresholds) // streams * streams
        even = (one for one in range(most, most // 2, -streams) if rows % one == 0)
        each = next(even, min(most, rows // 2 // streams * streams))
        blocks, size = rows // each, each * self.lanes
        step, apart = (size // streams, blocks * size // streams) if self._is_far(each) else (size, 0)
        yield For(name, blocks, tuple(self._block(size, Affine(((step, name),)), apart)))
        left = self.loop.size - blocks * size
        if left >= self.lanes:
            yield from self._block(left, Affine((), blocks * size))
        elif left:
            yield For(name, left, self._moved(Affine(((1, name),), blocks * size)))

    def begun(self) -> Iterator[Stmt]:
        """All iterations, lanes begun by the first row: states may have no neutral value that is as quick."""
        rows, rest = divmod(self.loop.size, self.lanes)
        lane = Affine.of(self.lane)
        yield For(self.lane, self.lanes, self._taking(lane, first=True))
        if rows > 1:
            yield from self._rows(rows - 1, 1, Affine((), self.lanes))
        if rest:
            yield For(self.lane, rest, self._taking(lane + rows * self.lanes))
        yield from self._joined()

    def nested(self, outer: Sequence[Loop], names: BlockNames) -> Sequence[Stmt]:
        """All iterations of the loop and of those around it, as many of them together as lanes may take."""
        rows, inside, left = self.loop.size // self.lanes, [], list(outer)
        if rows:
            inside = list(self._rows(rows, 1, Affine(())))
        else:
            side = self.lanes // self.loop.size
            rows, inside, left = 1, [self._side_by_side(outer[-1], side)], _shortened(outer, side)
        most, each = _together(left, rows, _most_rows(self.lanes, self.thresholds))
        while left and rows * left[-1][1] <= most:
            rows *= left[-1][1]
            inside = [For(*left.pop(), tuple(inside))]
        if each > 1:
            name, size = left.pop()
            inner = names.fresh(name)
            index = {name: Affine(((each, name), (1, inner)))}
            inside = [For(inner, each, block_at(inside, index))]
            left.append((name, size // each))
        return around(left, (self._started(), *inside, *self._joined()))

    def _started(self) -> Stmt:
        lane = Affine.of(self.lane)
        return For(self.lane, self.lanes, tuple(one.started(lane) for one in self.accumulators))

    def _is_far(self, rows: int) -> bool:
        """Are so many rows of lanes read in several streams?"""
        return len(self.loop.body) == 1 and rows >= self.thresholds.stream_rows

    def _block(self, size: int, first: Affine, apart: int = 0) -> Iterator[Stmt]:
        """So many iterations from one on, in lanes that are joined; streams are so far apart, or follow each other."""
        rows, rest = divmod(size, self.lanes)
        lane, streams = Affine.of(self.lane), self.thresholds.streams if self._is_far(rows) else 1
        each = rows // streams
        yield self._started()
        yield from self._rows(each, streams, first, apart)
        if each * streams < rows:
            yield from self._rows(rows - each * streams, 1, first + each * streams * self.lanes)
        if rest:
            yield For(self.lane, rest, self._taking(first + rows * self.lanes + lane))
        yield from self._joined()

    def _rows(self, count: int, streams: int, first: Affine, apart: int = 0) -> Iterator[Stmt]:
        """So many rows of lanes of each stream."""
        far = apart or count * self.lanes
        steps = ((self.row, count, self.lanes), (self.stream, streams, far), (self.lane, self.lanes, 1))
        moving = [(name, size, step) for name, size, step in steps if size > 1]
        index = first + Affine(tuple((step, name) for name, _, step in moving))
        yield from around([(name, size) for name, size, _ in moving], self._taking(index))

    def _side_by_side(self, above: Loop, side: int) -> Stmt:
        """So many rows of the loop, each an iteration of the one above."""
        name, count = above
        index = Affine(((side, name), (1, self.row))) if count > side else Affine.of(self.row)
        lane, cell = Affine.of(self.lane), Affine(((self.loop.size, self.row), (1, self.lane)))
        body = block_at(self.loop.body, {name: index, self.loop.loop: lane})
        loops = ((self.row, side), (self.lane, self.loop.size))
        (found,) = around(loops, tuple(self._taken(one, cell) for one in body))
        return found

    def _joined(self) -> Iterator[Stmt]:
        """The lanes joined: by halves, on vectors; the last few one by one."""
        lanes, lane = self.lanes, Affine.of(self.lane)
        while lanes > self.left:
            half = lanes - lanes // 2
            yield For(self.lane, lanes - half, tuple(one.halved(lane, half) for one in self.accumulators))
            lanes = half
        yield For(self.lane, lanes, tuple(one.joined(lane) for one in self.accumulators))

    def _moved(self, index: Affine) -> tuple[Stmt, ...]:
        """The loop's body at an index."""
        return block_at(self.loop.body, {self.loop.loop: index})

    def _taking(self, index: Affine, first: bool = False) -> tuple[Stmt, ...]:
        """The loop's body at an index, whose values the lanes take, or begin with."""
        return tuple(self._taken(one, Affine.of(self.lane), first) for one in self._moved(index))

    def _taken(self, stmt: Stmt, cell: Affine, first: bool = False) -> Stmt:
        for one in self.accumulators:
            if (value := one.taken(stmt)) is not None:
                return Store(one.cells, (cell,), value) if first else one.taking(value, cell)
        return stmt
