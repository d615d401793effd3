"""Long sums among the programs of a GPU: a launch leaves a partial sum for each strip, another adds those up.

    for j: { t = 0;  for i: t = t + x[i, j];  y[j] = t }

    becomes

    for strip: for j: { own = 0;  for i: own = own + x[512 strip + i, j];  part[strip, j] = own }
    for j: { t = 0;  for strip: t = t + part[strip, j];  y[j] = t }

How many strips there are follows from sizes alone, and they are added up in order: nothing depends on which is first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod

from weft.affine import Affine
from weft.loops import Buffer, For, If, Inside, Let, Local, Read, Role, Set, Staged, Stmt, Store
from weft.loops.constants import neutral_of
from weft.loops.effects import accumulation, effects
from weft.loops.legality import carried
from weft.loops.names import BlockNames, fresh_ids
from weft.loops.staged import parts_of
from weft.loops.walk import Body, Loop, around, bottom_up, everything, map_scalars, perfect, substituted
from weft.ops import Call
from weft.schedule.gpu.gpu_products import best_splits
from weft.schedule.gpu.launches import sunk
from weft.schedule.gpu.map_to_grid import columns_of
from weft.schedule.gpu_model import Gpu
from weft.schedule.nests.accumulators import accumulated_in
from weft.schedule.nests.partition import in_strips_of, strips_in
from weft.schedule.nests.split_products import in_strips


def split_sums(body: Sequence[Stmt], gpu: Gpu, tf32: bool) -> Body:
    """A kernel with its long sums in strips, where there are programs for them."""
    splitting = _SumSplitting(gpu, tf32, BlockNames(body), fresh_ids(body, Role.PARTIAL))
    return tuple(one for stmt in body for one in splitting.statement(stmt))


class _SumSplitting:
    def __init__(self, gpu: Gpu, tf32: bool, names: BlockNames, ids: Iterator[int]) -> None:
        self.gpu, self.tf32, self.names, self.ids = gpu, tf32, names, ids

    def statement(self, stmt: Stmt) -> Sequence[Stmt]:
        batch, inside = perfect((stmt,))
        match inside:
            case (Staged() as staged,):
                return self._product(batch, staged)
        if not isinstance(stmt, For):
            return (stmt,)
        nest = sunk(stmt)
        assert isinstance(nest, For)
        if carried([(nest.loop, nest.size)], nest.body):
            return self._all(nest)
        return self._cells(nest)

    def _all(self, stmt: For) -> Sequence[Stmt]:
        """A loop that accumulates in variables: each strip has its own."""
        found = accumulated_in(stmt)
        most = min(self.gpu.programs, _points((stmt,)) // self.gpu.strip_points)
        strips = strips_in(stmt.size, most) if most > 1 else 1
        if strips < 2 or not found or not all(isinstance(one.of, Local) for one in found):
            return (stmt,)
        own = [replace(one, terms=0).in_strips(strips, next(self.ids), self.names) for one in found]
        return in_strips_of(stmt, (self.names.fresh("strip"), strips), own)

    def _cells(self, stmt: For) -> Sequence[Stmt]:
        """Loops of cells, each a sum of its own: strips of all cells, and the sums of their sums."""
        cells, block = list[Loop](), tuple[Stmt, ...]((stmt,))
        while len(block) == 1 and isinstance(block[0], For) and not carried([_loop(block[0])], block[0].body):
            cells.append(_loop(block[0]))
            block = block[0].body
        loops = [one for one in block if isinstance(one, For)]
        lets = [one for one in block if isinstance(one, Let)]
        if len(loops) != 1 or not all(isinstance(one, Let) for one in block[: block.index(loops[0])]):
            return (stmt,)
        loop, found = loops[0], accumulated_in(loops[0])
        totals = [one.of for one in found if isinstance(one.of, Local)]
        if not totals or len(totals) < len(found) or effects(loop.body).buffers:
            return (stmt,)
        many, length = prod(size for _, size in cells), _points((loop,))
        few, wide = (1, 1) if columns_of(cells, block) is None else (self.gpu.fewest_columns, self.gpu.column_lanes)
        alone = length * min(many, few) * 4 / self.gpu.bytes_per_ns  # what a program takes, if there are no strips
        programs = -(-many // wide)
        longest = max(size for _, size in perfect((loop,))[0])
        strips = min(self.gpu.programs // programs, length * min(many, wide) // self.gpu.strip_points, longest)
        if programs >= self.gpu.multiprocessors or alone < 3 * self.gpu.launch_ns or strips < 2:
            return (stmt,)
        strips = strips_in(longest, strips)
        return self._in_strips(cells, block, loop, totals, strips) if lets else (stmt,)

    def _in_strips(
        self, cells: list[Loop], block: Body, loop: For, totals: Sequence[Local], strips: int
    ) -> Sequence[Stmt]:
        """The longest of the loops of sums in strips."""
        loops, body = perfect((loop,))
        longest, many = max(loops, key=lambda one: one[1])
        strip = self.names.fresh("strip")
        own = {one: Local(self.names.fresh(f"{one.name}_own"), one.dtype) for one in totals}
        sizes = (strips, *(size for _, size in cells))
        part = {
            one: Buffer(next(self.ids), self.names.fresh(f"{one.name}_part"), sizes, one.dtype, Role.PARTIAL)
            for one in totals
        }
        at = (Affine.of(strip), *(Affine.of(name) if size > 1 else Affine(()) for name, size in cells))
        length = -(-many // strips)
        index = Affine(((length, strip), (1, longest)))
        inside = self._taking(body, (longest, index), own)
        if many % strips:
            inside = (If((Inside(index, many),), inside),)
        inside = around([(name, length if name == longest else size) for name, size in loops], inside)
        before = [one for one in block[: block.index(loop)] if isinstance(one, Let) and one.local not in own]
        ops = {one: _accumulating(loop.body, one) for one in totals}
        neutral = [Let(own[one], neutral_of(ops[one], one.dtype)) for one in totals]
        first: Body = (*before, *neutral, *inside, *(Store(part[one], at, own[one]) for one in totals))
        taken: Body = tuple(Set(one, Call(ops[one], (one, Read(part[one], at)))) for one in totals)
        where = block.index(loop)
        second = (*block[:where], For(strip, strips, taken), *block[where + 1 :])
        return *around([(strip, strips), *cells], first), *around(cells, second)

    def _taking(self, body: Body, place: tuple[str, Affine], own: Mapping[Local, Local]) -> Body:
        """The body of a loop at an index, whose values a strip's own accumulators take."""
        name, index = place

        def rule(stmt: Stmt) -> Sequence[Stmt]:
            match stmt:
                case Set(local=local, value=Call(op=op, args=(_, value))) if local in own:
                    return (Set(own[local], Call(op, (own[local], value))),)
            return (stmt,)

        moved = [map_scalars(one, lambda part: substituted(part, {name: index})) for one in body]
        return bottom_up(moved, rule)

    def _product(self, batch: Sequence[Loop], staged: Staged) -> Sequence[Stmt]:
        """A product whose parts of sums are batches."""
        found, splits = parts_of(staged), best_splits(staged, prod(size for _, size in batch), self.gpu, self.tf32)
        if splits == 1:
            return around(batch, (staged,))
        made = in_strips(batch, staged, splits, self.names, self.ids)
        taken: Body = (Set(found.total, Call("add", (found.total, made.at(Affine.of(made.strip[0]))))),)
        second = (Let(found.total, found.start), For(*made.strip, taken), *found.rest)
        return *made.nest, *around(made.cells, second)


def _accumulating(body: Body, total: Local) -> str:
    """The operation by which a block takes values into a total."""
    sets = (one for one in everything(body) if isinstance(one, Set) and one.local == total)
    return next(found[0] for one in sets if (found := accumulation(one)))


def _loop(loop: For) -> Loop:
    return loop.loop, loop.size


def _points(body: Sequence[Stmt]) -> int:
    """How many iterations the loops of a block have, those inside others counted each time."""
    return sum(one.size * max(1, _points(one.body)) for one in body if isinstance(one, For))
