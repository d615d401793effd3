"""Threads that share loops: those outermost ones whose iterations are independent, and the tiles of products.

    for i in range(1024): y[i] = exp(x[i])      becomes      for i in range(1024) on threads by 64: y[i] = exp(x[i])

A loop is shared if it is long enough for two chunks (`work.py`). Chunks follow from sizes and options alone, never from
how many threads there are. Inside a loop that is not shared others may be, at each of its iterations.

A buffer that outlasts no iteration, as one that was folded, does not keep a loop from being shared: each thread has one
(`Role.PRIVATE`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from weft.loops import Buffer, For, Parallel, Role, Staged, Stmt
from weft.loops.annotations import placed_parts
from weft.loops.effects import effects
from weft.loops.legality import collapsed_loops, illegal, is_shared, iterations_apart, points
from weft.loops.product_legality import shared_product
from weft.loops.sites import sites
from weft.loops.walk import Body, Loop, everything, retargeted, top_down, with_body
from weft.schedule.annotate import annotated, is_innermost
from weft.schedule.compile_options import CompileOptions
from weft.schedule.memory_plan import size_of
from weft.schedule.work import work_ns


def parallelised(body: Sequence[Stmt], options: CompileOptions, own: Collection[Buffer] = ()) -> Body:
    """A block with what threads share; `own` are buffers that nothing else uses, before or after it."""

    def rule(stmt: Stmt) -> Body | None:
        if not isinstance(stmt, For | Staged):
            return None
        ns = work_ns((stmt,), options.machine)
        if ns < 2 * options.chunk_ns or is_shared(stmt):
            return (stmt,)
        if isinstance(stmt, Staged):
            return (_product(stmt, ns, options),)
        if stmt.size < options.thresholds.few_iterations and len(collapsed_loops(stmt)[0]) == len(stmt.body) == 1:
            inside = with_body(stmt, top_down(stmt.body, rule))
            if any(map(is_shared, everything((inside,)))):
                return (inside,)
        found = _loop(stmt, ns, options, body, own)
        return None if found is None else (found,)

    return top_down(body, rule)


def _loop(loop: For, ns: float, options: CompileOptions, body: Sequence[Stmt], own: Collection[Buffer]) -> For | None:
    """A loop of a block as threads share it, no two of them writing to one cache line; None if they cannot."""
    loops, block = collapsed_loops(loop)
    chunk = _chunk(points(loops), ns, options, options.machine.line_bytes if is_innermost(block) else 1)
    return with_private(annotated(loop, Parallel(chunk)), loop, options, body, own)


def with_private(
    shared: For, loop: For, options: CompileOptions, body: Sequence[Stmt], own: Collection[Buffer]
) -> For | None:
    """What threads share of a loop of a block, each with a copy of what the loop alone uses; None if they cannot."""
    if not illegal(shared):
        return shared
    small = {one for one in effects((loop,)).buffers if one in own and size_of(one) <= options.machine.caches[1] // 2}
    here, all_sites = sites((loop,), small), sites(body, small)
    private = {
        one: one.beside(Role.PRIVATE)
        for one, where in here.items()
        if len(where) == len(all_sites[one]) and not iterations_apart(loop.loop, where)
    }
    if not private:
        return None
    (copied,) = retargeted((shared,), lambda buffer, at: (private.get(buffer, buffer), at))
    assert isinstance(copied, For)
    return None if illegal(copied) else copied


def _chunk(size: int, ns: float, options: CompileOptions, step: int = 1) -> int:
    """How many of so many iterations, which take so long together, are claimed at a time."""
    chunk = -(-size // min(options.thresholds.most_chunks, int(ns // options.chunk_ns)))
    return -(-chunk // step) * step if chunk >= step else chunk


def _even(size: int, chunk: int, options: CompileOptions) -> int:
    """At most so many iterations in a chunk, about as many in each; of few chunks, as many for each core."""
    chunks, cores = -(-size // chunk), options.machine.cores
    few = chunks < options.thresholds.busy_chunks * cores
    return -(-size // (-(-chunks // cores) * cores if few else chunks))


def _product(staged: Staged, ns: float, options: CompileOptions) -> Stmt:
    """A product whose panels, or tiles of rows, are shared."""
    for side, size, least in sides(staged, options):
        if size > least and not shared_product(staged, side):
            chunk = max(least, _chunk(size, ns, options))
            return _sharing(staged, side, _even(size, chunk, options))
    for side, size, _ in sides(staged, options):
        if size > 1 and _is_few(staged, side, options) and not shared_product(staged, side):
            return _sharing(staged, side, -(-size // options.machine.cores))
    return staged


def _sharing(staged: Staged, side: str, chunk: int) -> Staged:
    assert staged.what.tile is not None
    return replace(staged, what=replace(staged.what, tile=replace(staged.what.tile, shared=side, chunk=chunk)))


def _is_few(staged: Staged, side: str, options: CompileOptions) -> bool:
    """Are rows, or columns, few, but worth packing the others for each core, which takes as long as some of them do?"""
    assert staged.what.tile is not None
    if side == "columns":
        return bool(staged.what.tile.strips)
    return not staged.what.tile.strips and points(placed_parts(staged).left) >= 2 * options.thresholds.tile_rows


def sides(staged: Staged, options: CompileOptions) -> list[tuple[str, int, int]]:
    """What threads could share of a product, the better first: how much there is, and how much is worth a chunk.

    Panels keep all cores busy if there are many of them, or as many for each. Whoever has some rows packs all panels.
    """
    if (tile := staged.what.tile) is None:
        return []
    parts, thresholds = placed_parts(staged), options.thresholds
    columns = _pieces(parts.right, tile.vectors * (1 if tile.dot else tile.lanes))
    rows, each = _pieces(parts.left, tile.rows), points(parts.left[1:]) if len(parts.left) > 1 else tile.rows
    least = -(-thresholds.packing_rows // each) if tile.panel else 1
    found = [("columns", columns, thresholds.packing_panels if tile.strips else 1), ("rows", rows, least)]
    cores = options.machine.cores
    even = columns >= 4 * cores or (columns >= cores and columns % cores == 0)
    return found if even or columns >= rows // least else found[::-1]


def _pieces(loops: Sequence[Loop], step: int) -> int:
    """How many iterations the outermost of some loops has, or how many steps, if it is the only one."""
    if not loops:
        return 1
    return loops[0][1] if len(loops) > 1 else -(-loops[0][1] // step)
