"""Races of a launch, found by enumeration: what `legality.py` proves of loops that programs or lanes share, it counts.

The interpreter runs programs one after another, so a cell that two of them touch shows in no result of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.affine import Affine
from weft.loops import Blocks, Buffer, For, Grid, Lanes, Product, Role, Simt, Staged, Stmt
from weft.loops.affine_accesses import Site, sites
from weft.loops.effects import effects
from weft.loops.folded_sums import folded_sums
from weft.loops.legality import collapsed_loops
from weft.loops.staged import parts_of
from weft.loops.walk import Body, Loop, around, everything, mentioned, perfect, scoped

Array = npt.NDArray[Any]
#: Where so many points are not enough, loops that are not shared run for their ends alone.
MOST = 1 << 21


def race(body: Sequence[Stmt]) -> str:
    """What two iterations that run at once touch and one of them stores; nothing if there is no such cell."""
    for stmt, scope in scoped(body):
        for loops, inside in _shared(stmt):
            for buffer, touching in sites(around(loops, inside), _stored(inside)).items():
                if cell := _met(buffer, touching, loops, scope.loops):
                    return f"iterations of {', '.join(name for name, _ in loops)} that run at once share {cell}"
    return ""


def _stored(body: Body) -> list[Buffer]:
    return [one for one in effects(body).buffers if one.role is not Role.PRIVATE]


def _shared(stmt: Stmt) -> Iterator[tuple[tuple[Loop, ...], Body]]:
    """The loops whose iterations a statement runs at once, with what these do."""
    match stmt:
        case For(how=how) if any(isinstance(one, Grid | Lanes | Simt) for one in how):
            yield collapsed_loops(stmt)
        case For(how=()):
            outer, core = perfect((stmt,))
            match core:
                case (Staged() as staged,) if _is_shared_in_blocks(staged):
                    yield from ((loops, around(outer, done)) for loops, done in _points_of(staged))
        case Staged() as staged if _is_shared_in_blocks(staged):
            yield from _points_of(staged)


def _is_shared_in_blocks(staged: Staged) -> bool:
    """Do programs share a product, rather than lanes of one?"""
    inside = everything(staged.body)
    return (
        isinstance(staged.what, Product)
        and isinstance(staged.what.blocks, Blocks)
        and not any(isinstance(one, For) and one.how for one in inside)
    )


def _points_of(staged: Staged) -> Iterator[tuple[tuple[Loop, ...], Body]]:
    found = parts_of(staged)
    rest, folded = folded_sums(found.left, found.right, found.rest)
    loops = (*found.left, *found.right)
    yield loops, rest
    for one in folded:
        yield tuple(loop for loop in loops if loop not in one.loops), (one.update,)


def _met(buffer: Buffer, touching: Sequence[Site], loops: Sequence[Loop], outer: Sequence[Loop]) -> str:
    """A cell that different iterations touch, in the same iterations of the loops around them."""
    named = mentioned(*(index for one in touching for index in _indices(one)))
    outer = [one for one in outer if one[0] in named]
    together = named.intersection(name for name, _ in (*loops, *outer))
    axes = [at for at in range(len(buffer.shape)) if all(_is_known(one, at) for one in touching)]
    keys, owners, stores = list[Array](), list[Array](), list[Array]()
    for one in touching:
        key, owner = _cells(one, buffer, axes, loops, outer, together)
        keys.append(key)
        owners.append(owner)
        stores.append(np.full(len(key), one.access.writes))
    key, owner, stored = map(np.concatenate, (keys, owners, stores))
    cells, group = np.unique(key, return_inverse=True)
    least, most = np.full(len(cells), owner.max(initial=0)), np.zeros(len(cells), int)
    np.minimum.at(least, group, owner)
    np.maximum.at(most, group, owner)
    wrong = cells[(least != most) & (np.bincount(group, stored, len(cells)) > 0)]
    if not len(wrong):
        return ""
    where = np.unravel_index(wrong[0] % prod(buffer.shape), buffer.shape)
    return f"`{buffer.name}[{', '.join(str(one) if at in axes else '…' for at, one in enumerate(where))}]`"


def _indices(site: Site) -> list[Affine]:
    every = [*(site.access.at or ()), *(test.index for test in site.tests)]
    return [one for one in every if isinstance(one, Affine)]


def _is_known(site: Site, axis: int) -> bool:
    return site.access.at is not None and isinstance(site.access.at[axis], Affine)


def _cells(
    site: Site, buffer: Buffer, axes: Sequence[int], loops: Sequence[Loop], outer: Sequence[Loop], together: set[str]
) -> tuple[Array, Array]:
    """The cells a site touches, and in which iterations of the loops in question: all of them, of some `together`."""
    ranges, shared = dict([*outer, *site.loops]), dict(loops)
    known = mentioned(*_indices(site)) | together
    values = {name: _values(size, name in known, name in shared) for name, size in ranges.items()}
    if np.prod([float(len(one)) for one in values.values()]) > MOST:
        values |= {name: one[[0, 1, -1]] for name, one in values.items() if name not in shared and len(one) > 3}
    grids = dict(zip(values, np.meshgrid(*values.values(), indexing="ij", sparse=True), strict=True))
    shape = tuple(map(len, values.values()))
    held = np.ones(shape, bool)
    for test in site.tests:
        if isinstance(test.index, Affine):
            index = _value(test.index, grids)
            held &= (index >= 0) & (index < test.size)
    number = _number(outer, grids)
    for at, size in enumerate(buffer.shape):
        index = site.access.at[at] if site.access.at is not None and at in axes else Affine()
        assert isinstance(index, Affine)
        number = number * size + _value(index, grids)
    return np.broadcast_to(number, shape)[held], np.broadcast_to(_number(loops, grids), shape)[held]


def _values(size: int, known: bool, shared: bool) -> Array:
    """Iterations of a loop: all, if cells move with it; else two that are shared, or one."""
    return np.arange(size) if known else np.arange(min(size, 2 if shared else 1))


def _value(index: Affine, grids: Mapping[str, Array]) -> Any:
    return index.offset + sum(factor * grids.get(name, np.int64(0)) for factor, name in index.terms)


def _number(loops: Sequence[Loop], grids: Mapping[str, Array]) -> Any:
    total: Any = np.int64(0)
    for name, size in loops:
        total = total * size + grids[name]
    return total
