"""The cost model of fusion: what running two nests in the same loops saves against what it costs, in nanoseconds.

It saves a pass over the memory both touch, and a call. It costs vectorisation, where a function that could run on
vectors comes to stand beside an inner loop and runs on scalars; latency, where functions come to depend on one another
at a point (`optimise/latency.py`); and parallelism, where only one of the two nests is parallel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from weft.loops import Buffer, For, Let, Local, Set, Store
from weft.loops.affine_accesses import independent
from weft.loops.effects import effects, read_in, sources
from weft.loops.joint_sums import all_sums
from weft.loops.legality import carried, points
from weft.loops.product_legality import shared_product
from weft.loops.staged import parts_of
from weft.loops.walk import around, everything, parts, walk
from weft.machine import Machine
from weft.ops import OPS, Call
from weft.optimise.latency import chains, pass_ns, waiting_ns
from weft.schedule.compile_options import CompileOptions
from weft.schedule.loop_tree import Level, Shared
from weft.schedule.nests.accumulators import accumulated_in
from weft.schedule.nests.split_products import best_strips
from weft.schedule.products.contractions import Contracting
from weft.schedule.products.tile import best_tile, lanes_of, steps_of
from weft.schedule.work_estimate import work_ns

#: What threads can share of a contraction.
_SIDES = ("rows", "columns")


@dataclass(frozen=True, slots=True)
class FusionCost:
    """Weighs joining nests, under some options; contractions to one another, if these may run `together`."""

    options: CompileOptions
    together: bool = True

    @property
    def leads(self) -> bool:
        """May straight-line code run before a contraction, as one kernel?"""
        return True

    @property
    def machine(self) -> Machine:
        return self.options.machine

    def beside(self, nests: Level) -> str:
        """Why straight-line code is better not one kernel with some nests; empty if it is."""
        return ""

    def obstacle(self, mine: Level, theirs: Level, shared: Shared) -> str:
        """Why two nests are better not joined in the loops they could share; empty if they are better joined."""
        if not shared:
            return ""
        loop = shared[-1][0]
        if self.options.machine.cores > 1 and self._one_is_parallel(mine, theirs):
            return f"sharing `{shared[0][0]}` would leave both to one thread"
        saved, lost = self._saved(mine, theirs), self._scalar_work(mine, theirs, shared)
        if lost > saved:
            return f"sharing `{loop}` would save {saved:.0f} ns of memory and lose {lost:.0f} ns of vectorisation"
        return self.chained(mine, theirs, shared)

    def chained(self, mine: Level, theirs: Level, shared: Shared) -> str:
        """Why functions are better not computed at the points of those they depend on; empty if they are."""
        if not shared:
            return ""
        saved, lost = self._saved(mine, theirs), self._latency(mine, theirs, shared)
        if lost > saved:
            return f"sharing `{shared[-1][0]}` would save {saved:.0f} ns of memory and add {lost:.0f} ns of latency"
        return ""

    def batched(self, mine: Level, theirs: Level, shared: Shared) -> str:
        """Why two contractions are better not run in the same batch loops; empty if they are.

        Each has the caches for itself, and all threads, unless what one leaves for the other is better kept in a cache.
        """
        batches, cores = prod(mine.sizes[loop] for loop, _ in shared), self.machine.cores
        left = [one.bytes for one, by in mine.touched.items() if one in theirs.touched and any(a.writes for a in by)]
        near = self.machine.caches[1] // 2
        if not self.together or not left or max(left) <= near:
            return "both are contractions, and each has tiles of its own"
        if max(left) > near * batches:
            return "both are contractions, and what one leaves for the other fits into no cache"
        if batches % cores and batches < 4 * cores:
            return f"both are contractions, and {batches} batches are too few for {cores} threads"
        return ""

    def epilogue(self, before: Contracting, after: Contracting) -> str:
        """Why a contraction is better left without what would be its epilogue; empty if it is better with it.

        A sum of all its cells leaves it to one thread: it saves a pass over these, and the work of the others.
        """
        ns, cores = work_ns(before.placed, self.machine), self.machine.cores
        if ns < 2 * self.options.chunk_ns or self._is_shareable(after) or not self._is_shareable(before):
            return ""
        saved, lost = pass_ns(self.machine, *effects(before.rest).buffers), ns * (1 - 1 / cores)
        return f"it would save {saved:.0f} ns of memory and leave {lost:.0f} ns to one thread" if lost > saved else ""

    def added(self, before: Contracting, after: Contracting) -> str:
        """Why a contraction that goes on from the result of another is better one of its own; empty if they are one."""
        return "each contraction has tiles of its own"

    @property
    def apart(self) -> bool:
        """Has each contraction a kernel of its own, whatever their results meet in?"""
        return not self.together or self.options.thresholds.joint_sums < 2

    def joint(self, mine: Contracting, other: Contracting, both: Contracting) -> str:
        """Why two contractions are better not summed up beside each other; empty if they are.

        It saves a pass over what one leaves for the other, there and back, and a call; it costs the better tiles that
        one of them has by itself. Columns that tiles read as they lie, and no near cache holds, come one after another:
        of two tensors in turns, they come later.
        """
        options, most = self.options, self.options.thresholds.joint_sums
        if len(all_sums(both.parts)) > most:
            return f"more than {most} sums meet there"
        if any(best_strips(one.what.batch, one.staged, options) > 1 for one in (mine, other)):
            return "threads share their sums"
        alone, beside = [steps_of(one.staged, options) for one in (mine, other)], steps_of(both.staged, options)
        best = best_tile(both.staged, options)
        if best is None or best.what.tile is None:
            return "no tile fits both"
        columns = {one for each in all_sums(parts_of(best)) for one in sources(each.factors[1])}
        if not best.what.tile.panel and sum(one.bytes for one in columns) > self.machine.caches[1]:
            return "the columns of each come from memory, as they lie"
        wanted = read_in((Let(other.total, other.start), *other.rest))
        between = {one.buffer for one in mine.rest if isinstance(one, Store) and one.buffer in wanted}
        saved = self.machine.call_ns + 2 * self.machine.transfer_ns(sum(one.bytes for one in between))
        lost = (beside - sum(alone)) * self._step_ns(both)
        return f"it would save {saved:.0f} ns of memory and lose {lost:.0f} ns of tiles" if lost > saved else ""

    def _step_ns(self, found: Contracting) -> float:
        """What a step of a vector unit for each cell of a contraction takes."""
        lanes = lanes_of(found.parts, self.machine)
        return prod(size for _, size in found.what.kept) * 2 * lanes * 1e9 / self.machine.flops_per_s

    def _saved(self, mine: Level, theirs: Level) -> float:
        """The time of one pass over the memory that both touch."""
        return pass_ns(self.machine, *(one for one in mine.touched if one in theirs.touched))

    def _latency(self, mine: Level, theirs: Level, shared: Shared) -> float:
        """The latency of functions that depend on others at the same point."""
        points = prod(mine.sizes[loop] for loop, _ in shared)
        own, other = _deepest(mine, [loop for loop, _ in shared]), _deepest(theirs, [loop for _, loop in shared])
        while inside := _short_strips(own, other, self.machine.reorder_points):
            own, other = inside
            points *= own.size
        first = _chains(own, {})
        both = _chains(other, {one: count for one, count in first.items() if isinstance(one, Buffer)})
        longest = [max(found.values(), default=0) for found in (first, _chains(other, {}), both)]
        return points * waiting_ns(self.machine, *longest)

    def _scalar_work(self, mine: Level, theirs: Level, shared: Shared) -> float:
        """The extra time of functions that no longer run on vectors."""
        points = prod(mine.sizes[loop] for loop, _ in shared)
        own, other = _deepest(mine, [loop for loop, _ in shared]), _deepest(theirs, [loop for _, loop in shared])
        alone = [one for one, beside in ((own, other), (other, own)) if not _has_loops(one) and _has_loops(beside)]
        return (
            sum(map(_functions, alone)) * points * (self.machine.scalar_function_ns - self.machine.vector_function_ns)
        )

    def _is_shareable(self, found: Contracting) -> bool:
        """Can threads share the batches of a contraction, or rows or columns of each, where tiles leave several?"""
        staged, batch = found.staged, found.what.batch
        return any(self._several_tiles(found, side) and not shared_product(staged, side) for side in _SIDES) or (
            bool(batch) and not carried(batch[:1], around(batch[1:], (staged,)))
        )

    def _several_tiles(self, found: Contracting, side: str) -> bool:
        """Has a contraction more than a usual tile of rows, or of columns?"""
        lines, lanes = self.options.thresholds, lanes_of(found.parts, self.machine)
        if side == "rows":
            return points(found.parts.left) > lines.tile_rows
        return points(found.parts.right) > lines.tile_vectors * lanes

    def _one_is_parallel(self, *both: Level) -> bool:
        """Is one of two nests parallel, and long enough to be shared, and the other not?"""
        long = [points_of(one) >= 2 * self.options.chunk_ns * self.machine.points_per_ns for one in both]
        if not any(long):
            return False
        parallel = list(map(_is_parallel, both))
        return parallel[0] != parallel[1] and long[parallel.index(True)]


def points_of(level: Level) -> int:
    """How many iterations the loops of a level have, those inside others counted each time."""
    return level.size * max(1, sum(points_of(one) for one in level.items if isinstance(one, Level)))


def _short_strips(mine: Level, theirs: Level, points: int) -> tuple[Level, Level] | None:
    """The loops that follow one another inside two levels, where they are alike and too short to hide latency."""
    mine_last = next((one for one in reversed(mine.items) if isinstance(one, Level)), None)
    theirs_first = next((one for one in theirs.items if isinstance(one, Level)), None)
    if mine_last is None or theirs_first is None or mine_last.size != theirs_first.size:
        return None
    return (mine_last, theirs_first) if prod(mine_last.sizes.values()) < points else None


def _chains(level: Level, before: Mapping[Buffer | Local, int]) -> dict[Buffer | Local, int]:
    """The longest chains of dependent functions in what a level computes, outside the loops inside it."""
    return chains([item for item in level.items if not isinstance(item, Level)], before)


def _deepest(level: Level, loops: Sequence[str]) -> Level:
    """The level inside some loops."""
    for loop in loops:
        level = next(item for item in level.items if isinstance(item, Level) and item.loop == loop)
    return level


def _has_loops(level: Level) -> bool:
    return any(isinstance(item, Level) for item in level.items)


def _functions(level: Level) -> int:
    """How many functions that could run on vectors a point of a level computes."""
    stmts = everything([item for item in level.items if not isinstance(item, Level)])
    scalars = (one for stmt in stmts for part in parts(stmt) for one in walk(part))
    return sum(isinstance(one, Call) and OPS[one.op].vectorised for one in scalars)


def _is_parallel(level: Level) -> bool:
    """Is a nest a loop that threads can share, with what starts its sums before it?"""
    *before, last = level.body
    plain = all(isinstance(one, Let | Set | Store) for one in before)
    return plain and isinstance(last, For) and (independent(last) or bool(accumulated_in(last)))
