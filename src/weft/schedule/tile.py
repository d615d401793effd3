"""Register tiling of contractions: which loops become rows and columns of tiles, and along which of them vectors lie.

    tile    rows of one factor, each scalar broadcast, times vectors of columns of the other
    dot     vectors along the sums, reduced across lanes at the end: where both factors are contiguous along the sums
            and there are few cells

Columns that are not contiguous, fill no vector or are computed are packed into a panel first, which pays if there are
many rows. Rows that are computed are so again for each tile.
Which way is best is estimated in steps of the machine's vector unit for each cell. A contraction that is better left as
loops becomes loops.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf, prod

from weft.loops import Let, Read, Staged, Stmt, Store, Tile, Update, walk
from weft.loops.annotations import Parts, parts_of, staged_product
from weft.loops.legality import MOST_ROWS, MOST_VECTORS, WIDEST, lies_along, points, rest_in_order
from weft.loops.nests import stride_of
from weft.loops.walk import Loop, top_down
from weft.machine import Machine
from weft.ops import Call, Scalar
from weft.ops.dtypes import numpy_type
from weft.schedule.compile_options import DEFAULTS, CompileOptions

#: So many times at most a product is rounded on its way into a sum, by half an ε each time: 32 ε of the sum of all
#: sizes are promised (docs/precisions.md). The last time is where the sum is added to what it starts from.
_ROUNDINGS = 64
#: Of sums that go on in double precision a register adds up so many products, another so many of those sums; they are
#: rounded twice more. As many sums fit into a panel.
_PARTS = (_ROUNDINGS * 3 // 4 - 2, _ROUNDINGS // 4)
_DEPTH = prod(_PARTS)
#: How often the widest vector is halved until it is reduced to a scalar: a rounding and a step each time.
_HALVINGS = (WIDEST // numpy_type("float32").itemsize).bit_length() - 1

#: A product with its loops in the order in which it would be tiled, and how.
_Way = tuple[Parts, Tile]


def tiled(body: Sequence[Stmt], options: CompileOptions = DEFAULTS) -> tuple[Stmt, ...]:
    """A block with its contractions in tiles, of the shape asked for where one is; or as loops."""

    def rule(stmt: Stmt) -> Sequence[Stmt] | None:
        if not isinstance(stmt, Staged):
            return None
        found = best_tile(stmt, options)
        return stmt.body if found is None else (found,)

    return top_down(body, rule)


def best_tile(staged: Staged, options: CompileOptions = DEFAULTS) -> Staged | None:
    """The best way to tile a contraction; None if it is better left as loops."""
    ways = [(one, _steps(one, options.machine)) for one in _ways(parts_of(staged), options)]
    best, steps = min(ways, key=lambda way: way[1], default=(None, inf))
    if best is None or steps == inf:
        return None
    parts, shape = best[0], _finished(*best, options)
    return staged_product(
        parts.left, parts.right, parts.sums, Let(parts.total, parts.start), parts.factors, parts.rest, shape
    )


def number_of_parts(sizes: Sequence[int], most: int) -> int:
    """How many parts of at most so many iterations loops of these sizes are cut into (`backends/cc/lines.py`)."""
    each, cut = 1, False
    for size in reversed(sizes):
        if cut or each * size <= most:
            each *= size
        else:
            each, cut = -(-size // (most // each)), True
    return each if cut else 1


# Ways


def _ways(parts: Parts, options: CompileOptions) -> Iterator[_Way]:
    sides = [(parts.factors[0], parts.left), (parts.factors[1], parts.right)]
    for (mine, own), (other, others) in (sides, sides[::-1]):
        for loop in own:
            way = replace(parts, left=_largest(others), right=_with_last(own, loop), factors=(other, mine))
            if lies_along(mine, loop, parts.total.dtype):
                yield way, Tile(0, 2, panel="copied" if _repays(way, options) else "")
            else:
                inner = next((one for one in parts.sums if _stride(mine, one) == 1), None)
                way = replace(way, sums=_with_last(parts.sums, inner) if inner else parts.sums)
                yield way, Tile(0, 2, panel="transposed" if inner and isinstance(mine, Read) else "copied")
    for loop in parts.sums:
        if all(lies_along(one, loop, parts.total.dtype) for one in parts.factors):
            (few, left), (many, right) = sorted(sides, key=lambda side: points(side[1]))
            if right:
                way = replace(parts, left=_largest(left), right=_largest(right), factors=(few, many))
                yield replace(way, sums=_with_last(parts.sums, loop)), Tile(0, 4 if points(left) > 1 else 8, dot=True)


def _largest(loops: Sequence[Loop]) -> tuple[Loop, ...]:
    return _with_last(loops, max(loops, key=lambda one: one[1])) if loops else ()


def _with_last(loops: Sequence[Loop], last: Loop) -> tuple[Loop, ...]:
    return (*(one for one in loops if one != last), last)


def _stride(factor: Scalar, loop: Loop) -> int:
    """The stride of a factor's tensor along a loop."""
    found = next(one for one in walk(factor) if isinstance(one, Read))
    return stride_of(found, loop[0]) or 0  # factors that gather are not staged


def _repays(parts: Parts, options: CompileOptions) -> bool:
    """Are columns reused by many rows, and too large for a cache?"""
    size = points((*parts.sums, *parts.right)) * numpy_type(parts.total.dtype).itemsize
    far = size > options.machine.caches[1] // 2
    return points(parts.left) >= options.pack_rows and far and points(parts.sums[1:]) <= _DEPTH


def _steps(way: _Way, machine: Machine) -> float:
    """The cost of a cell, in steps of a vector unit; infinite where it cannot be done."""
    parts, tile = way
    lanes, depth = max(machine.vector_bytes // numpy_type(parts.total.dtype).itemsize, 1), points(parts.sums)
    strided = float(_row_major(parts, parts.right) < 0)  # a store for each cell is a step
    if tile.dot:
        outer, inner = points(parts.sums[:-1]), parts.sums[-1][1]
        return machine.load_steps * outer * -(-inner // lanes) + _HALVINGS + strided
    columns = parts.right[-1][1]
    steps = depth * -(-columns // lanes) / columns
    steps += machine.scalar_steps * depth * _operations(parts.factors[0]) / min(columns, tile.vectors * lanes)
    if tile.panel:
        if points(parts.sums[1:]) > _DEPTH:
            return inf
        transposed = tile.panel == "transposed" or _stride(parts.factors[1], parts.right[-1]) != 1
        steps += (machine.transpose_steps if transposed else machine.copy_steps) * (depth / points(parts.left))
    return steps + strided


def _operations(factor: Scalar) -> int:
    """How many operations a factor takes that is computed, not read."""
    return sum(isinstance(one, Call) for one in walk(factor))


def _row_major(parts: Parts, loops: Sequence[Loop]) -> int:
    """How many of the buffers written are contiguous along the last of some loops, less those that are not."""
    cells = [one for one in parts.rest if isinstance(one, Store | Update)]
    return sum(1 if stride_of(Read(one.buffer, one.at), loops[-1][0]) == 1 else -1 for one in cells)


# Shapes


def _finished(parts: Parts, tile: Tile, options: CompileOptions) -> Tile:
    """The tile with all that is left to say: with few rows, more vectors keep the processor as busy."""
    usual = {1: 8, 2: 4, 3: 3, 4: 3}.get(parts.left[-1][1] if parts.left else 1, 2)
    tile = replace(tile, block=_block(parts, _DEPTH * 2 // usual) if tile.panel else 0)
    rows, wide = options.schedule.rows, min(options.schedule.vectors or usual, MOST_VECTORS)
    most = MOST_VECTORS // wide
    looped = parts.sums[:-1] if tile.dot else parts.sums
    by_rows = bool(parts.left) and _row_major(parts, parts.left) > _row_major(parts, parts.right)
    return replace(
        tile,
        rows=min(rows or MOST_ROWS, most) if rows or most < MOST_ROWS else 0,
        vectors=tile.vectors if tile.dot else wide,
        parts=_lengths(parts, tile),
        unroll=len(looped) > 1 and looped[-1][1] <= options.short_loop,
        along="rows" if by_rows else "columns",
        vector=not rest_in_order(parts, parts.left if by_rows else parts.right),
    )


def _block(parts: Parts, depth: int) -> int:
    """How many iterations of the first sum a panel takes, about the same each time; 0 if all fit into one.

    One panel that is a little deeper is better than two.
    """
    if points(parts.sums) <= depth * 7 // 5:
        return 0
    size = parts.sums[0][1]
    most = max(1, depth // points(parts.sums[1:]))
    return -(-size // -(-size // most))


def _lengths(parts: Parts, tile: Tile) -> tuple[int, ...]:
    """How many products a register adds up at most, and others of those sums."""
    sizes, most = [size for _, size in parts.sums], _ROUNDINGS
    nests = [sizes]
    if tile.dot:  # as if vectors were narrow; their lanes are added up across at the end
        *outer, last = sizes
        nests = [[*outer, last // (16 // numpy_type(parts.total.dtype).itemsize)], *([outer] if last % 16 else [])]
        most -= _HALVINGS
    if tile.block:
        return _PARTS
    if sum(map(prod, nests)) <= most:
        return ()
    ways = ((most - count, count) for count in range(2, most // 2))
    found = (each for each, count in ways if sum(number_of_parts(one, each) for one in nests) <= count)
    return next(((each,) for each in found), _PARTS)
