"""Packing of what does not change: contractions in a loop read a factor from a copy that is laid out for their tiles.

    for t: product of left j; right i; sums k: … u[j, k] * h[t, i, k] …

    becomes

    for j: for k: for j_2: u_packed[j, k, j_2] = u[32 j + j_2, k]
    for t: product of left j, j_2; right i; sums k: … u_packed[j, k, j_2] * h[t, i, k] …

Vectors then lie along `j_2`, and a tile walks through memory; without that, tiles of `h` are transposed in every
iteration. A contraction in no loop packs panels of its own (`tile.py`); but rows that it would pack again and again,
for each of many columns, are copied once:

    product of left i; right j; sums k: … a[k, i] * b[k, j] …

    becomes

    for k_2: for i: for k: for i_3: for i_2: a_packed[8 i + i_3, 64 k_2 + k, i_2] = a[64 k_2 + k, 64 i + 8 i_3 + i_2]
    product of left i, i_2; right j; sums k: … a_packed[i, k, i_2] * b[k, j] …

and so are rows that lie in another type, where several tiles of columns would convert them:

    product of left i; right j; sums k: … float32(a[i, k]) * b[k, j] …

    becomes

    for i: for k: a_packed[i, k] = float32(a[i, k])
    product of left i; right j; sums k: … a_packed[i, k] * b[k, j] …
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from weft.affine import Affine
from weft.loops import Cast, For, Let, Read, Staged, Stmt, Store, dtype_of
from weft.loops.effects import effects, sources
from weft.loops.legality import points
from weft.loops.names import BlockNames
from weft.loops.nests import stride_of
from weft.loops.nodes import Role
from weft.loops.staged import Parts, parts_of, staged_product, with_indices
from weft.loops.walk import (
    Loop,
    around,
    block_at,
    free,
    perfect,
    reads,
    rename,
    top_down,
    with_body,
)
from weft.ops import Scalar
from weft.schedule.compile_options import DEFAULTS, CompileOptions
from weft.schedule.products.tile import best_tile, lanes_of, steps_of
from weft.thresholds import Thresholds


def with_packed_invariants(body: Sequence[Stmt], options: CompileOptions = DEFAULTS) -> tuple[Stmt, ...]:
    """A block whose loops have contractions read from copies what none of their iterations writes, where that pays."""
    return _block(body, BlockNames(body), options, frozenset())


def _block(body: Sequence[Stmt], names: BlockNames, options: CompileOptions, outer: frozenset[str]) -> tuple[Stmt, ...]:
    """A block in some loops: what one of its own does not change is copied before that."""

    def packed(stmt: Stmt) -> tuple[Stmt, ...]:
        match stmt:
            case For():
                return _packed(stmt, names, options, outer)
            case Staged() if not outer:
                *copies, product = _with_rows_converted(stmt, names, options)
                assert isinstance(product, Staged)
                return *copies, *_with_rows_copied(product, names, options)
        return (stmt,)

    return tuple(one for stmt in body for one in packed(stmt))


def _with_rows_converted(staged: Staged, names: BlockNames, options: CompileOptions) -> tuple[Stmt, ...]:
    """A contraction after a copy of its rows in its own type, if several tiles of columns would convert them; or as it
    is. Columns are converted as they are packed."""
    converts = any(isinstance(one, Cast) for one in parts_of(staged).factors)
    best = best_tile(staged, options) if converts else None
    if best is None or best.what.tile is None or best.what.tile.interleaved > 1:
        return (staged,)
    parts, wide = parts_of(best), options.thresholds.tile_vectors * lanes_of(parts_of(best), options.machine)
    match parts.factors[0]:
        case Cast(value=Read() as read) if points(parts.right) > wide and not parts.tests:
            loops = sorted((*parts.left, *parts.sums), key=lambda one: -abs(stride_of(read, one[0]) or 0))
            if {name for name, _ in loops} == set(free(read)) and points(loops) <= prod(read.buffer.shape):
                return _laid_out(parts, 0, loops, names)
    return (staged,)


def _with_rows_copied(staged: Staged, names: BlockNames, options: CompileOptions) -> tuple[Stmt, ...]:
    """A contraction after the copy of its rows, tile by tile, that it reads; or as it is."""
    best, thresholds = best_tile(staged, options), options.thresholds
    if best is None or best.what.tile is None or not best.what.tile.strips or best.what.tile.interleaved > 1:
        return (staged,)
    parts, tile = parts_of(best), best.what.tile
    factor, rows, many = parts.factors[0], parts.left[-1], thresholds.group_panels * tile.vectors * tile.lanes
    whole = {name for name, _ in (*parts.left, *parts.sums)} == set(free(factor))
    if not isinstance(factor, Read) or not whole or rows[1] % tile.rows or points(parts.right) <= many:
        return (staged,)
    if points((*parts.left, *parts.sums)) > prod(factor.buffer.shape):
        return (staged,)
    rest = parts.left[:-1]
    parts, tiles = _split(parts, rows, tile.rows, names.fresh(rows[0]))
    copy, product = _laid_out(parts, 0, [*rest, tiles, *parts.sums, (rows[0], tile.rows)], names)
    return _several_tiles_at_once(copy, len(rest), thresholds, names), product


def _several_tiles_at_once(copy: Stmt, depth: int, thresholds: Thresholds, names: BlockNames) -> Stmt:
    """A copy whose loop over tiles, so deep inside, does some of them at each sum: what they read lies side by side.

    All tiles are done for some sums before the next, so that the lines that one has read in part are near to others.
    """
    loops, body = perfect((copy,))
    (name, size), (summed, sums) = loops[depth : depth + 2]
    at_once, some = _divisor(size, thresholds.packed_strips), _divisor(sums, thresholds.copied_sums)
    some = some if 4 * some >= thresholds.copied_sums else sums  # fewer are not worth a loop of their own
    inner, outer = (names.fresh(name), at_once), (names.fresh(summed), sums // some)
    blocks = [outer] if some < sums else []
    order = [*loops[:depth], *blocks, (name, size // at_once), (summed, some), *loops[depth + 2 : -1], inner, loops[-1]]
    moved = {name: Affine(((at_once, name), (1, inner[0])))}
    if blocks:
        moved[summed] = Affine(((some, outer[0]), (1, summed)))
    return around(order, block_at(body, moved))[0]


def _divisor(size: int, most: int) -> int:
    """The largest number up to some limit that divides a size."""
    return next(count for count in range(min(most, size), 0, -1) if size % count == 0)


def _packed(loop: For, names: BlockNames, options: CompileOptions, outer: frozenset[str]) -> tuple[Stmt, ...]:
    """A loop after the copies that its contractions read."""
    written, copies = effects((loop,)).buffers, list[Stmt]()

    def rule(stmt: Stmt) -> Sequence[Stmt] | None:
        if not isinstance(stmt, Staged):
            return None
        for side in (0, 1):
            factor = parts_of(stmt).factors[side]
            found = (
                None if written.intersection(sources(factor)) else _copied(parts_of(stmt), side, names, options, outer)
            )
            if found and _pays(factor, stmt, found[1], options):
                copies.append(found[0])
                return found[1:]
        return (stmt,)

    (changed,) = top_down((loop,), rule)
    assert isinstance(changed, For)
    inside = _block(changed.body, names, options, outer | {loop.loop})
    return (*copies, with_body(changed, inside))


def _pays(factor: Scalar, before: Staged, after: Staged, options: CompileOptions) -> bool:
    """Is a contraction cheaper where it reads a copy; or as cheap, and the first cache does not hold the factor?"""
    size = sum(one.bytes for one in sources(factor))
    old, new = (steps_of(one, options) for one in (before, after))
    return new < old or (new == old and size > options.machine.caches[0])


def _copied(
    parts: Parts, side: int, names: BlockNames, options: CompileOptions, outer: frozenset[str]
) -> tuple[Stmt, Staged] | None:
    """A factor copied, with the largest of its loops that are no sums innermost, and the contraction that reads it.

    None if it varies with what is around the contraction, would be copied to several cells, or is used for few rows.
    """
    own, other = (parts.left, parts.right)[:: -1 if side else 1]
    loops = {name for name, _ in (*own, *parts.sums)}
    factor, thresholds = parts.factors[side], options.thresholds
    if not isinstance(factor, Read) or not own or loops != set(free(factor)) - outer:
        return None
    if points(other) < thresholds.tile_rows or points((*own, *parts.sums)) > prod(factor.buffer.shape):
        return None
    last = max(own, key=lambda one: one[1])
    wide = thresholds.tile_vectors * lanes_of(parts, options.machine)
    rest = [one for one in own if one != last]
    order = [*parts.sums, *rest, last]
    if last[1] % wide == 0 < last[1] - wide:
        parts, tiles = _split(parts, last, wide, names.fresh(last[0]))
        order = [*rest, tiles, *parts.sums, (last[0], wide)]
    return _laid_out(parts, side, order, names)


def _split(parts: Parts, loop: Loop, wide: int, outer: str) -> tuple[Parts, Loop]:
    """A contraction with a loop in two, the inner one of so many iterations; and the outer one."""
    name, tiles = loop[0], (outer, loop[1] // wide)
    moved = {name: Affine(((wide, outer), (1, name)))}
    left, right = (
        tuple(one for each in group for one in ([tiles, (name, wide)] if each == loop else [each]))
        for group in (parts.left, parts.right)
    )
    return replace(with_indices(parts, moved), left=left, right=right), tiles


def _laid_out(parts: Parts, side: int, order: Sequence[Loop], names: BlockNames) -> tuple[Stmt, Staged]:
    """The copy of a factor whose axes are loops in some order, and the contraction that reads it."""
    factor, at = parts.factors[side], tuple(Affine.of(name) for name, _ in order)
    read = reads(factor)[0]
    buffer = read.buffer.beside(Role.PACKED, shape=tuple(size for _, size in order), dtype=dtype_of(factor))
    buffer = replace(buffer, name=names.fresh(f"{read.buffer.name}_packed"))
    nest = around(order, (Store(buffer, at, factor),))
    copy = rename(nest, lambda stmt: names.fresh(stmt.loop if isinstance(stmt, For) else stmt.local.name))
    one, other = (Read(buffer, at) if each == side else parts.factors[each] for each in (0, 1))
    start = Let(parts.total, parts.start)
    return copy[0], staged_product(parts.left, parts.right, parts.sums, start, parts.ops, (one, other), parts.rest)
