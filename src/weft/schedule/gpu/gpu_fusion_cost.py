"""The cost model of fusion on a GPU: a pass over memory and a launch less, against programs that run at once.

Nests that share loops run in as many programs as those have iterations, where one of them has loops of its own besides;
apart, each has a program for every few hundred of its points.
"""

from __future__ import annotations

from math import prod

from weft.loops import For, Update
from weft.loops.affine_accesses import independent
from weft.loops.walk import everything, mentioned
from weft.optimise.summed_products import leaves_few_programs
from weft.schedule.fusion.fusion_cost import FusionCost, points_of
from weft.schedule.gpu.gpu_products import best_splits
from weft.schedule.gpu.owned_rows import by_owners
from weft.schedule.gpu_model import Gpu
from weft.schedule.loop_tree import Level, Shared
from weft.schedule.products.contractions import Contracting


class GpuFusionCost(FusionCost):
    """Weighs joining nests for a GPU."""

    @property
    def leads(self) -> bool:
        """A contraction is many programs, of which none may write what others read."""
        return False

    def beside(self, nests: Level) -> str:
        if any(isinstance(one, For) and independent(one) for one in nests.body):
            return "many programs share a loop, and one runs straight-line code"
        return ""

    @property
    def apart(self) -> bool:
        """A block is of one sum: what another leaves for it is in the second cache."""
        return True

    def epilogue(self, before: Contracting, after: Contracting) -> str:
        """Sums over rows or columns would leave a product to one program, those over batches to one for each block."""
        new = [one for one in everything(after.rest[len(before.rest) :]) if isinstance(one, Update)]
        summed = {name for name, _ in after.what.kept for one in new if name not in mentioned(*one.at)}
        if leaves_few_programs(after.what, summed, self.options.shaped_for.alone):
            return "few programs would add it up"
        return ""

    def added(self, before: Contracting, after: Contracting) -> str:
        """One launch stores cells once, but has programs for the cells alone: sums of few are better split."""
        gpu, tf32 = self.options.shaped_for, self.options.products == "tf32"
        for one in (before, after):
            if best_splits(one.staged, prod(size for _, size in one.what.batch), gpu, tf32) > 1:
                return "sums of so few cells are split among programs"
        return ""

    def obstacle(self, mine: Level, theirs: Level, shared: Shared) -> str:
        if not shared:
            return "they share no loop, and are launches of their own"
        gpu = self.options.shaped_for
        if any(by_owners(one.body, gpu) for one in (mine, theirs)):
            return "cells of a scatter have owners"
        programs = prod(mine.sizes[loop] for loop, _ in shared)
        points = [points_of(one) for one in (mine, theirs)]
        if max(points) > gpu.alone_points and _is_shared(mine, shared[0][0]) != _is_shared(theirs, shared[0][1]):
            return f"sharing `{shared[0][0]}` would leave both to few programs"
        if max(points) <= programs:
            return ""
        apart = sum(_ns(one, -(-one // gpu.fused_points), gpu) for one in points) + self._saved(mine, theirs)
        together = _ns(sum(points), programs, gpu)
        if together > apart:
            return f"sharing `{shared[-1][0]}` would leave {programs} programs: {together:.0f} ns, not {apart:.0f}"
        return ""

    def chained(self, mine: Level, theirs: Level, shared: Shared) -> str:
        return "a contraction is a launch of its own" if shared else "they share no loop, and are launches of their own"

    def batched(self, mine: Level, theirs: Level, shared: Shared) -> str:
        return "a contraction is a launch of its own"


def _is_shared(level: Level, loop: str) -> bool:
    """Do programs share a loop of a level: none of its iterations waits for another?"""
    return any(isinstance(one, For) and one.loop == loop and independent(one) for one in level.body)


def _ns(points: int, programs: int, gpu: Gpu) -> float:
    """What so many points take that so many programs share."""
    busy = max(1, min(programs, gpu.multiprocessors))
    return max(points * 4 / (busy * gpu.bytes_per_ns), gpu.program_ns / 4)
