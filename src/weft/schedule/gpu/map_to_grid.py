"""Mapping of launches to a GPU: outer loops to the programs of a grid, inner ones to lanes.

    for i: for j: y[i, j] = x[i, j] + b[j]           all points as one loop, 1024 of them a program
    for i: for j: y[i, j] = x[j, i]                  blocks of both, as reads and writes each lie along another
    for i: { t = 0;  for j: t = t + x[i, j];  … }    a few rows a program, a row in lanes: all at once, where it fits
    for j: { t = 0;  for i: t = t + x[i, j];  … }    blocks of columns, the rows of each in lanes, or one by one if few

What it takes is that lanes that are next to each other read and write cells that are, that there are programs for all
multiprocessors, and that registers hold what a program has.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from math import prod
from typing import NamedTuple

from weft.affine import Affine
from weft.loops import Buffer, Collapse, For, Grid, Lanes, Read, Role, Stmt, Store
from weft.loops.effects import effects, read_in
from weft.loops.legality import carried, collapsed_loops, illegal
from weft.loops.nests import stride_of
from weft.loops.walk import (
    Body,
    Loop,
    accesses,
    around,
    body_of,
    everything,
    own_accesses,
    perfect,
    retargeted,
    scoped,
    substituted,
    with_body,
)
from weft.schedule.gpu.launches import sunk
from weft.schedule.gpu.recompute_rows import with_recomputed_rows
from weft.schedule.gpu.stable_exponentials import with_powers_of_two
from weft.schedule.gpu_model import Gpu


def on_grid(body: Sequence[Stmt], own: Collection[Buffer], gpu: Gpu) -> Body:
    """A launch on a grid; `own` are the buffers that no other one touches."""
    stmt = sunk(body[0]) if len(body) == 1 else None
    chain: list[Loop] = []
    inside: Sequence[Stmt] = body
    if isinstance(stmt, For):
        inside = (stmt,)
        while len(inside) == 1 and isinstance(inside[0], For) and not carried([_loop(inside[0])], inside[0].body):
            chain.append(_loop(inside[0]))
            inside = inside[0].body
    if not chain:
        chain = [("once", 1)]
    if not any(isinstance(one, For) for one in everything(inside)):
        return _pointwise(chain, tuple(inside), gpu)
    return _reducing(chain, tuple(inside), own, gpu)


def is_long_alone(body: Sequence[Stmt], gpu: Gpu) -> bool:
    """Would one program run long at what depends on its order, loop after loop?"""
    if len(body) != 1 or not isinstance(body[0], For):
        return False
    loop = body[0]
    points = sum(prod(size for _, size in scope.loops) for one, scope in scoped(body) if not body_of(one))
    alone = carried([_loop(loop)], loop.body) and illegal(replace(loop, how=(Lanes(_power(loop.size)),)))
    return bool(alone) and points > gpu.alone_points


def _loop(loop: For) -> Loop:
    return loop.loop, loop.size


# Points


def _pointwise(chain: Sequence[Loop], body: Body, gpu: Gpu) -> Body:
    """Loops around straight-line code, or around few iterations of it."""
    turned = _turned(chain, body)
    if turned is not None:
        blocks = {name: min(gpu.square_lanes, _power(size)) for name, size in chain if name in turned}
        return _gridded(chain, body, blocks, 8)
    chain = _along_memory(chain, body)
    points = prod(size for _, size in chain)
    block = gpu.point_lanes
    while block > 128 and points < block * gpu.multiprocessors:
        block //= 2
    block = min(block, _power(points))
    return _flat(chain, body, block, max(1, min(4, block // 64)))


def _turned(chain: Sequence[Loop], body: Body) -> set[str] | None:
    """The loops along which cells are next to each other, if there are two that each have enough of them."""
    if len(chain) < 2:
        return None
    sizes = dict(chain)
    moving = [
        (_contiguous(cell, chain)[0], {name for name, _ in chain if stride_of(cell, name)}) for cell in _cells(body)
    ]
    along = [(name, others) for name, others in moving if name and sizes[name] >= 16]
    for one, others in along:
        for other, theirs in along:
            if one != other and other in others and one in theirs:
                return {one, other}
    return None


def _along_memory(chain: Sequence[Loop], body: Body) -> list[Loop]:
    """Loops in the order in which they walk through what is stored first."""
    cells = [Read(one.buffer, one.at) for one in accesses(body) if one.writes and one.at is not None]
    if not cells:
        return list(chain)
    return sorted(chain, key=lambda one: -abs(stride_of(cells[0], one[0]) or 0))


def _contiguous(cell: Read, loops: Sequence[Loop]) -> tuple[str, int]:
    """The loop along which a cell moves to the next one, if it moves along any other besides."""
    found = [(name, size) for name, size in loops if size > 1 and stride_of(cell, name) == 1]
    others = [name for name, size in loops if size > 1 and (stride_of(cell, name) or 0) > 1]
    return found[0] if found and others else ("", 1)


def _cells(body: Sequence[Stmt]) -> list[Read]:
    return [Read(one.buffer, one.at) for one in accesses(body) if one.at is not None]


def _flat(chain: Sequence[Loop], body: Body, block: int, warps: int) -> Body:
    """Loops on a grid as one."""
    (name, size), *rest = chain
    how = (Collapse(len(chain)), Grid(block, warps)) if rest else (Grid(block, warps),)
    return (For(name, size, around(rest, body), how),)


def _gridded(chain: Sequence[Loop], body: Body, blocks: dict[str, int], warps: int) -> Body:
    """Loops on a grid, each by a block of its own."""
    for name, size in reversed(chain):
        body = (For(name, size, body, (Grid(blocks.get(name, 1), warps),)),)
    return body


def _power(size: int) -> int:
    """The least power of two that is as large."""
    return 1 << max(size - 1, 0).bit_length()


# Loops inside


def _reducing(chain: Sequence[Loop], body: Body, own: Collection[Buffer], gpu: Gpu) -> Body:
    """Loops around others: rows in lanes, or columns."""
    longest = max((prod(size for _, size in loops) for loops in _inner(body)), default=1)
    columns = columns_of(chain, body)
    points = prod(size for _, size in chain)
    short = gpu.splits if points >= gpu.point_lanes * gpu.multiprocessors else gpu.short_sums
    if columns is not None and longest <= short and effects(body).buffers.isdisjoint(own):
        return _pointwise(chain, body, gpu)
    if columns is not None:
        name, size = columns
        others = prod(many for other, many in chain if other != name)
        wide = min(gpu.column_lanes, _power(size))
        while wide > gpu.fewest_columns and others * -(-size // wide) < gpu.multiprocessors:
            wide //= 2
        block = min(_power(longest), max(1, gpu.column_lanes * gpu.column_rows // wide))
        warps = max(1, min(8, wide * block // (32 * gpu.thread_lanes) * 2))
        made = _gridded(chain, _in_lanes(body, _LaneChoice(block, block, gpu.block_lanes)), {name: wide}, warps)
        return _kept(made, own)
    row, part, most = _power(longest), gpu.part_lanes, gpu.row_warps
    if longest > gpu.row_lanes:
        body = with_powers_of_two(with_recomputed_rows(body, own))
        if _passes(body) > 1 and 4 * longest * gpu.multiprocessors <= gpu.cache_bytes:
            part, most = gpu.row_lanes, gpu.most_warps
        row = part
    many = max(1, gpu.point_lanes // row)
    while many > 1 and points < many * gpu.programs:
        many //= 2
    many = min(many, _power(points))
    inside = _in_lanes(body, _LaneChoice(row, part, gpu.block_lanes))
    warps = max(1, min(most, many * _widest(inside) // (32 * gpu.thread_lanes)))
    return _kept(_flat(chain, inside, many, warps), own)


def _passes(body: Sequence[Stmt]) -> int:
    """How many loops of a block read the same buffer, at most: all but the first find it in a cache that holds it."""
    found = [one for stmt in body if isinstance(stmt, For) for one in read_in((stmt,))]
    return max((found.count(one) for one in found), default=0)


def columns_of(chain: Sequence[Loop], body: Body) -> Loop | None:
    """The loop outside along which cells are next to each other that loops inside move through."""
    votes: dict[Loop, int] = {}
    for stmt in everything(body):
        if isinstance(stmt, For) and (loops := perfect((stmt,))):
            for cell in _cells(stmt.body):
                steps = [stride_of(cell, name) for name, _ in loops[0]]
                along = next((one for one in chain if one[1] >= 8 and stride_of(cell, one[0]) == 1), None)
                if any(step == 1 for step in steps):
                    votes["", 0] = votes.get(("", 0), 0) + 1
                elif along and any(steps):
                    votes[along] = votes.get(along, 0) + 1
    best = max(votes, key=lambda one: votes[one], default=("", 0))
    return best if best[0] else None


def _inner(body: Sequence[Stmt]) -> Iterator[tuple[Loop, ...]]:
    """The innermost loops of a block, those that are the whole body of another with it."""
    for stmt in body:
        if isinstance(stmt, For):
            loops, inside = perfect((stmt,))
            deeper = list(_inner(inside))
            yield from deeper or [loops]
        else:
            yield from _inner(body_of(stmt))


class _LaneChoice(NamedTuple):
    """How many lanes loops have: all at once up to a `row`, else in parts; those inside each other at most so many."""

    row: int
    part: int
    most: int


def _in_lanes(body: Sequence[Stmt], lanes: _LaneChoice) -> Body:
    """A block with its loops in lanes, where they can."""
    return tuple([_lane(stmt, lanes) for stmt in body])


def _lane(stmt: Stmt, lanes: _LaneChoice) -> Stmt:
    if not isinstance(stmt, For):
        return with_body(stmt, _in_lanes(body_of(stmt), lanes)) if body_of(stmt) else stmt
    stmt = sunk(stmt)
    assert isinstance(stmt, For)
    loops, inside = perfect((stmt,))
    if not any(isinstance(one, For) for one in everything(inside)):
        for count in range(len(loops), 0, -1):
            found = _as_lanes(loops, inside, count, lanes)
            if found is not None:
                return found
        return stmt
    loop = with_body(stmt, _in_lanes(stmt.body, lanes))
    assert isinstance(loop, For)
    block = min(_power(loop.size), lanes.most // max(_widest(loop.body), 1))
    wide = replace(loop, how=(Lanes(block),))
    return loop if block < 2 or illegal(wide) else wide


def _widest(body: Sequence[Stmt]) -> int:
    """How many lanes a block has at most."""
    found = (
        _widest(body_of(stmt)) * next((one.block for one in getattr(stmt, "how", ()) if isinstance(one, Lanes)), 1)
        for stmt in body
    )
    return max(found, default=1)


def _as_lanes(loops: Sequence[Loop], body: Body, count: int, lanes: _LaneChoice) -> Stmt | None:
    """Loops around straight-line code, the last of them in lanes as one; None if they cannot."""
    outer, (first, *rest) = loops[: len(loops) - count], loops[len(loops) - count :]
    points = prod(size for _, size in (first, *rest))
    block = _power(points) if _power(points) <= lanes.row else min(lanes.part, _power(points))
    how = (Collapse(count), Lanes(block)) if rest else (Lanes(block),)
    loop = For(*first, around(rest, body), how)
    return None if illegal(loop) else around(outer, (loop,))[0]


# What a program keeps


def _kept(body: Body, own: Collection[Buffer]) -> Body:
    """A launch whose programs keep buffers of their own in registers, where each lane reads what it wrote."""
    private = {
        one: one.beside(Role.PRIVATE) for one in own if one in effects(body).buffers and _stays_in_lanes(body, one)
    }
    return retargeted(body, lambda buffer, at: (private.get(buffer, buffer), at)) if private else body


def _stays_in_lanes(body: Body, buffer: Buffer) -> bool:
    """Is every cell of a buffer written by the lane that reads it, in a program that holds all its lanes at once?"""
    found = list(_touched(body, buffer, _Enclosing()))
    if None in found or not found:
        return False
    (first, stored), *rest = [one for one in found if one is not None]
    return stored and all(cell == first for cell, _ in rest)


class _Enclosing(NamedTuple):
    """The loops in lanes around a statement, by sizes, what their names are called here; and whether it always runs."""

    sizes: tuple[tuple[int, ...], ...] = ()
    names: tuple[tuple[str, str], ...] = ()
    always: bool = True


def _touched(body: Sequence[Stmt], buffer: Buffer, here: _Enclosing) -> Iterator[tuple[object, bool] | None]:
    """The cells of a buffer in terms of the lanes around, whether they are stored; None where lanes hold no such."""
    for stmt in body:
        for one in own_accesses(stmt):
            if one.buffer == buffer:
                known = {name: Affine.of(new) for name, new in here.names}
                plain = here.always and one.at is not None and all(isinstance(index, Affine) for index in one.at)
                at = tuple(substituted(index, known) for index in one.at or ())
                yield ((here.sizes, at), isinstance(stmt, Store) and one.writes) if plain else None
        if isinstance(stmt, For):
            yield from _touched(collapsed_loops(stmt)[1], buffer, _inside(stmt, here))
        else:
            yield from _touched(body_of(stmt), buffer, here._replace(always=here.always and not body_of(stmt)))


def _inside(loop: For, here: _Enclosing) -> _Enclosing:
    if any(isinstance(one, Grid) for one in loop.how):
        return here
    loops, _ = collapsed_loops(loop)
    lanes = next((one.block for one in loop.how if isinstance(one, Lanes)), 0)
    named = tuple((name, f"{len(here.sizes)}.{at}") for at, (name, _) in enumerate(loops))
    sizes = (*here.sizes, tuple(size for _, size in loops))
    return _Enclosing(sizes, (*here.names, *named), here.always and lanes >= prod(sizes[-1]))
