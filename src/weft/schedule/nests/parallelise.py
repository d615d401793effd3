"""Threads that share loops: those outermost ones whose iterations are independent, and the tiles of products.

    for i in range(1024): y[i] = exp(x[i])      becomes      for i in range(1024) on threads by 64: y[i] = exp(x[i])

A loop is shared if it is long enough for two chunks (`work_estimate.py`). Chunks follow from sizes and options alone,
never from how many threads there are. Inside a loop that is not shared others may be, at each of its iterations: then
it does not run as one with them (`collapse.py`).

A buffer that outlasts no iteration, as one that was folded, does not keep a loop from being shared: each thread has one
(`Role.PRIVATE`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from weft.loops import Buffer, For, Parallel, Read, Role, Staged, Stmt, Store, Tile, Update
from weft.loops.affine_accesses import sites
from weft.loops.effects import effects
from weft.loops.joint_sums import all_sums
from weft.loops.legality import collapsed_loops, illegal, is_shared, iterations_apart, points
from weft.loops.nests import stride_of
from weft.loops.product_legality import shared_product
from weft.loops.staged import Parts, placed_parts
from weft.loops.walk import Body, Loop, everything, retargeted, top_down, with_body
from weft.machine import Machine
from weft.ops.dtypes import numpy_type
from weft.schedule.annotate import annotated, is_innermost
from weft.schedule.compile_options import CompileOptions
from weft.schedule.work_estimate import work_ns


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
        if _is_uneven(stmt.size, options) and len(collapsed_loops(stmt)[0]) == len(stmt.body) == 1:
            inside = with_body(stmt, top_down(stmt.body, rule))
            if any(map(is_shared, everything((inside,)))):
                return (inside,)
        found = _loop(stmt, ns, options, body, own)
        if found is None and len(collapsed_loops(stmt)[0]) > 1:
            apart = replace(stmt, how=(), body=top_down(stmt.body, rule))
            found = apart if any(map(is_shared, everything(apart.body))) else stmt
        return None if found is None else (found,)

    return top_down(body, rule)


def _is_uneven(size: int, options: CompileOptions) -> bool:
    """Are iterations so few that some cores would have more of them than others?"""
    return size < options.thresholds.few_iterations and size % options.machine.cores > 0


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
    small = {one for one in effects((loop,)).buffers if one in own and one.bytes <= options.machine.caches[1] // 2}
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


def _product(staged: Staged, ns: float, options: CompileOptions) -> Stmt:
    """A product whose panels, or tiles of rows, are shared: all cores are done soon, and chunks are small."""
    found = shared_ways(staged, ns, options)
    if not found:
        return staged
    most = min(steps for steps, *_ in found) * (1 + options.thresholds.claiming_share)
    _, _, side, chunk = min((one for one in found if one[0] <= most), key=lambda one: (one[1], one[0]))
    assert staged.what.tile is not None
    return replace(staged, what=replace(staged.what, tile=replace(staged.what.tile, shared=side, chunk=chunk)))


def shared_ways(staged: Staged, ns: float, options: CompileOptions) -> list[tuple[float, float, str, int]]:
    """What threads can share of a product that takes so long, so many at a time: how many steps that takes, in chunks
    of which share."""
    if (tile := staged.what.tile) is None:
        return []
    parts, fewest = placed_parts(staged), {"columns": tile.at_once, "rows": 1}
    return [
        (_shared_steps(parts, tile, side, size, chunk, options), chunk / size, side, chunk)
        for side, size in _sides(parts, tile)
        if size > 1 and not shared_product(staged, side)
        for chunk in _chunks(size, ns, options, fewest[side])
    ]


def alone_steps(staged: Staged, options: CompileOptions) -> float:
    """What a product takes that one core does, in steps of a vector unit."""
    parts, tile = placed_parts(staged), staged.what.tile
    assert tile is not None
    (side, size), *_ = _sides(parts, tile)
    return _shared_steps(parts, tile, side, size, size, options)


def _chunks(size: int, ns: float, options: CompileOptions, fewest: int) -> list[int]:
    """How many of so many pieces may be claimed at a time: the fewest, and as many for each core, once or several
    times."""
    least, cores = max(_chunk(size, ns, options), fewest), options.machine.cores
    even = {-(-size // (cores * times)) for times in range(1, options.thresholds.busy_chunks + 1)}
    return [least, *sorted(one for one in even if one > least)]


def _shared_steps(parts: Parts, tile: Tile, side: str, size: int, chunk: int, options: CompileOptions) -> float:
    """When the last core is done with its chunks of a product, in steps of a vector unit.

    Whoever has some rows reads all columns for them, and packs them where these are packed, or looks through them; rows
    only if they are packed or looked through, which come from far.
    """
    machine = options.machine
    rows, columns = points(parts.left), points(parts.right)
    sums = sum(points(one.sums) for one in all_sums(parts))
    number = {"": 0.0, "copied": machine.copy_steps, "transposed": machine.transpose_steps}[tile.panel]
    panels = _packing_steps(sums * columns, number, parts, tile, machine)
    if tile.panel == "copied":  # what fills no vector is copied one by one
        panels += machine.scalar_steps * sums * (columns % tile.lanes)
    panels += columns * sums / tile.lanes * machine.load_steps if tile.looks else 0.0
    strips = _packing_steps(sums * rows, machine.transpose_steps, parts, tile, machine) if tile.strips else 0.0
    lines = rows * sums * numpy_type(parts.total.dtype).itemsize / machine.line_bytes
    looks = lines * machine.line_steps if tile.looks and not (tile.block or tile.group) else 0.0
    rounds = -(-size // (chunk * machine.cores))
    share, work = min(rounds * chunk, size) / size, rows * columns * sums / (tile.lanes * tile.interleaved)
    tall, wide = (dict(_sides(parts, tile))[one] for one in ("rows", "columns"))
    work += machine.contested_steps * _contested_lines(parts, tile, side, size, chunk, machine)
    if side == "columns":
        each = rounds * (strips * _times(chunk, tile.panels) + looks)
        return share * (work + panels * _times(tall, tile.group)) + each
    return share * (work + strips * _times(wide, tile.panels) + looks) + rounds * panels * _times(chunk, tile.group)


def _contested_lines(parts: Parts, tile: Tile, side: str, size: int, chunk: int, machine: Machine) -> int:
    """How many cache lines two chunks write to, one beside the other."""
    (own, others), each = (parts.left, parts.right), tile.rows
    if side == "columns":
        own, others, each = others, own, tile.vectors * (1 if tile.dot else tile.lanes)
    lines = 0
    for one in parts.rest:
        if len(own) == 1 and isinstance(one, Store | Update):
            cell, itemsize = Read(one.buffer, one.at), numpy_type(one.buffer.dtype).itemsize
            apart = [chunk * each, *(stride_of(cell, name) or 0 for name, _ in others)]
            if stride_of(cell, own[0][0]) == 1 and any(step * itemsize % machine.line_bytes for step in apart):
                lines += points(others) * ((size - 1) // chunk)
    return lines


def _packing_steps(numbers: int, each: float, parts: Parts, tile: Tile, machine: Machine) -> float:
    """What it takes to pack some numbers, of so many steps each once they are read."""
    read_ns = machine.transfer_ns(numbers * numpy_type(parts.total.dtype).itemsize)
    return each * numbers + read_ns * machine.flops_per_s / (2 * tile.lanes * 1e9)


def _times(pieces: int, each: int) -> int:
    """How often something is packed that is so for that many of some pieces; for all of them, if that is 0."""
    return -(-pieces // each) if each else 1


def sides(staged: Staged) -> list[tuple[str, int]]:
    """What threads could share of a product, and how much of it there is."""
    return [] if staged.what.tile is None else _sides(placed_parts(staged), staged.what.tile)


def _sides(parts: Parts, tile: Tile) -> list[tuple[str, int]]:
    columns = _pieces(parts.right, tile.vectors * (1 if tile.dot else tile.lanes))
    return [("columns", columns), ("rows", _pieces(parts.left, tile.rows))]


def _pieces(loops: Sequence[Loop], step: int) -> int:
    """How many iterations the outermost of some loops has, or how many steps, if it is the only one."""
    if not loops:
        return 1
    return loops[0][1] if len(loops) > 1 else -(-loops[0][1] // step)
