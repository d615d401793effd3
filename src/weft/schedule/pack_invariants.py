"""Packing of what does not change: contractions in a loop read a factor from a copy that is laid out for their tiles.

    for t: product of left j; right i; sums k: … u[j, k] * h[t, i, k] …

    becomes

    for j: for k: for j_2: u_packed[j, k, j_2] = u[32 j + j_2, k]
    for t: product of left j, j_2; right i; sums k: … u_packed[j, k, j_2] * h[t, i, k] …

Vectors then lie along `j_2`, and a tile walks through memory; without that, tiles of `h` are transposed in every
iteration. A contraction in no loop packs panels of its own (`tile.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from weft.affine import Affine
from weft.loops import For, Let, Read, Staged, Stmt, Store
from weft.loops.annotations import Parts, parts_of, staged_product, with_indices
from weft.loops.effects import effects, sources
from weft.loops.legality import points
from weft.loops.names import BlockNames
from weft.loops.nodes import Role
from weft.loops.walk import Loop, around, free, rename, top_down, with_body
from weft.ops import Scalar
from weft.ops.dtypes import numpy_type
from weft.schedule.compile_options import DEFAULTS, CompileOptions
from weft.schedule.tile import lanes_of, steps_of


def with_packed_invariants(body: Sequence[Stmt], options: CompileOptions = DEFAULTS) -> tuple[Stmt, ...]:
    """A block whose loops have contractions read from copies what none of their iterations writes, where that pays."""
    return _block(body, BlockNames(body), options, frozenset())


def _block(body: Sequence[Stmt], names: BlockNames, options: CompileOptions, outer: frozenset[str]) -> tuple[Stmt, ...]:
    """A block in some loops: what one of its own does not change is copied before that."""
    packed = (_packed(stmt, names, options, outer) if isinstance(stmt, For) else (stmt,) for stmt in body)
    return tuple(one for some in packed for one in some)


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
    size = sum(prod(one.shape) * numpy_type(one.dtype).itemsize for one in sources(factor))
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
    assert isinstance(factor, Read)
    buffer = factor.buffer.beside(Role.PACKED, shape=tuple(size for _, size in order))
    buffer = replace(buffer, name=names.fresh(f"{factor.buffer.name}_packed"))
    nest = around(order, (Store(buffer, at, factor),))
    copy = rename(nest, lambda stmt: names.fresh(stmt.loop if isinstance(stmt, For) else stmt.local.name))
    one, other = (Read(buffer, at) if each == side else parts.factors[each] for each in (0, 1))
    start = Let(parts.total, parts.start)
    return copy[0], staged_product(parts.left, parts.right, parts.sums, start, parts.ops, (one, other), parts.rest)
