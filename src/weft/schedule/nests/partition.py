"""Parallel reductions: a long accumulation is cut into strips, each with an accumulator of its own.

    for i in range(1000): s = s + x[i]

    becomes

    for strip in range(8): { own = 0;  for i in range(125): own = own + x[125 strip + i];  part[strip] = own }
    all = 0;  for strip in range(8): all = all + part[strip];  s = s + all

What no strip has, where they do not come out even, is taken in between. How many strips there are follows from sizes
and options alone, never from how many threads there are: so what is computed does not depend on that either.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.affine import Affine
from weft.loops import For, Parallel, Role, Staged, Stmt
from weft.loops.legality import illegal
from weft.loops.names import BlockNames, fresh_ids
from weft.loops.walk import Body, block_at, bottom_up, top_down
from weft.schedule.annotate import annotated
from weft.schedule.compile_options import CompileOptions
from weft.schedule.nests.accumulators import Accumulated, Accumulator, accumulated_in
from weft.schedule.nests.parallel_scatter import in_columns
from weft.schedule.products.contractions import contracting, is_placed
from weft.schedule.work_estimate import work_ns


def partitioned(body: Sequence[Stmt], options: CompileOptions, placing: bool = False) -> Body:
    """A block with its long accumulations in strips; contractions stay whole where a backend places them."""
    names, ids = BlockNames(body), fresh_ids(body, Role.PARTIAL)

    def rule(stmt: Stmt) -> Sequence[Stmt] | None:
        if isinstance(stmt, Staged):
            return (stmt,)
        if not isinstance(stmt, For):
            return None
        ns = work_ns((stmt,), options.machine)
        if ns < 2 * options.chunk_ns or not illegal(annotated(stmt, Parallel(1))):
            return (stmt,)
        if placing and is_placed(contracting(stmt, gathers=True), options.contraction_points):
            return (stmt,)
        found = accumulated_in(stmt)
        most = min(options.thresholds.most_chunks, int(ns // options.chunk_ns), _worth(found, ns, options))
        strips = strips_in(stmt.size, most)
        if not found or strips < 2:
            return in_columns(stmt, options, names)
        strip = names.fresh("strip")
        return in_strips_of(stmt, (strip, strips), [one.in_strips(strips, next(ids), names) for one in found])

    return top_down(body, rule)


def strips_in(size: int, most: int) -> int:
    """How many strips a loop is cut into: of about as many, those that leave least over, the most of them."""
    most = min(most, size)
    return min(range(most, max(most // 2, 1), -1), key=lambda one: size % one, default=1)


def _worth(found: Sequence[Accumulated], ns: float, options: CompileOptions) -> int:
    """How many strips are worth their accumulators, which are set, read and written, where all takes so long."""
    each = 4 * sum(one.size for one in found) * 1e9 / options.machine.cached_bytes_per_s
    return int(options.thresholds.joining_share * ns / max(each, 1.0))


def in_strips_of(loop: For, strip: tuple[str, int], found: Sequence[Accumulator]) -> list[Stmt]:
    """A loop in so many strips."""
    (name, strips), here = strip, Affine.of(strip[0])
    length, over = divmod(loop.size, strips)
    inside = For(loop.loop, length, _taking(loop, Affine(((length, name), (1, loop.loop))), here, found))
    begin = [stmt for one in found for stmt in one.started(here)]
    end = [stmt for one in found for stmt in one.finished(here)]
    done: list[Stmt] = [For(name, strips, (*begin, inside, *end)), *(stmt for one in found for stmt in one.prepared())]
    if over:
        done.append(For(loop.loop, over, _taking(loop, Affine(((1, loop.loop),), strips * length), None, found)))
    return [*done, *(stmt for one in found for stmt in one.joined(strip))]


def _taking(loop: For, index: Affine, strip: Affine | None, found: Sequence[Accumulator]) -> Body:
    """The body of a loop at an index, whose values the accumulators of a strip take, or those of what no strip has."""

    def rule(stmt: Stmt) -> Sequence[Stmt]:
        taken = (one.taking(stmt, strip) for one in found)
        return (next((one for one in taken if one is not None), stmt),)

    return bottom_up(block_at(loop.body, {loop.loop: index}), rule)
