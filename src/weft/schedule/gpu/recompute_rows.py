"""Rematerialisation in a launch: values of long rows are recomputed where that reads no more than storing them would.

    for k: { e[i, k] = exp(x[i, k] - m);  s = s + e[i, k] }
    for j: y[i, j] = e[i, j] * s

    becomes

    for k: s = s + exp(x[i, k] - m)
    for j: y[i, j] = exp(x[i, j] - m) * s

Rows that registers hold are kept there (`map_to_grid.py`); this is for longer ones, of which memory would have to hold
every value until the last loop has read it. Nobody else reads them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from weft.affine import Affine
from weft.loops import Buffer, For, Let, Local, Read, Stmt, Store
from weft.loops.effects import effects
from weft.loops.walk import Access, Body, accesses, expanded, map_scalars, reads, rewritten, substituted, variables
from weft.ops import Scalar
from weft.schedule.products.contractions import values_of


def with_recomputed_rows(body: Sequence[Stmt], own: Collection[Buffer]) -> Body:
    """A block of loops over rows, without those of its own buffers that are as soon computed again."""
    for buffer in sorted(effects(body).buffers.intersection(own), key=lambda one: one.id):
        found = _row(body, buffer)
        if found is not None:
            body = _without(body, found)
    return tuple(body)


class _StoredRow(NamedTuple):
    """A store in a loop, the number of that loop in its block, and the value by the loop and variables outside."""

    store: Store
    at: int
    axis: int
    value: Scalar


def _row(body: Sequence[Stmt], buffer: Buffer) -> _StoredRow | None:
    """Where a buffer is stored, if that is once, and all that is read of it afterwards can be computed again."""
    writing = [(at, one) for at, one in enumerate(body) if any(cell.writes for cell in _cells([one], buffer))]
    if len(writing) != 1:
        return None
    at, loop = writing[0]
    if not isinstance(loop, For):
        return None
    stores = [one for one in loop.body if isinstance(one, Store) and one.buffer == buffer]
    if len(stores) != 1 or len(_cells([loop], buffer)) != 1:
        return None
    store = stores[0]
    lets = [one for one in loop.body[: loop.body.index(store)] if isinstance(one, Let)]
    value = expanded(store.value, values_of(lets))
    axes = [axis for axis, one in enumerate(store.at) if loop.loop in getattr(one, "names", ())]
    inner = {one.local for one in lets}
    if len(axes) != 1 or store.at[axes[0]] != Affine.of(loop.loop) or loop.size != buffer.shape[axes[0]]:
        return None
    if inner.intersection(variables(value)):
        return None
    found = _StoredRow(store, at, axes[0], value)
    return found if _is_known(body, found) and not _reads_several(found, loop.loop) else None


def _cells(body: Sequence[Stmt], buffer: Buffer) -> list[Access]:
    return [one for one in accesses(body) if one.buffer == buffer]


def _is_known(body: Sequence[Stmt], found: _StoredRow) -> bool:
    """Is what a value is made of the same wherever it is read, later, at a cell of the same row?"""
    written, rest = effects(body).buffers, body[found.at + 1 :]
    used: set[Local] = set(variables(found.value))
    if any(one.buffer in written for one in reads(found.value)) or used & effects(body[found.at :]).sets:
        return False
    cells = [Read(one.buffer, one.at or ()) for one in accesses(rest) if one.buffer == found.store.buffer]
    early = accesses(body[: found.at])
    others = [(axis, index) for axis, index in enumerate(found.store.at) if axis != found.axis]
    return not any(one.buffer == found.store.buffer for one in early) and all(
        isinstance(one.at[found.axis], Affine) and all(one.at[axis] == index for axis, index in others) for one in cells
    )


def _reads_several(found: _StoredRow, loop: str) -> bool:
    """Does a value take cells of several long rows, where it would be one by itself?"""
    moving = {one for one in reads(found.value) if any(loop in getattr(index, "names", ()) for index in one.at)}
    return len(moving) > 1


def _without(body: Sequence[Stmt], found: _StoredRow) -> Body:
    """A block that computes a row again where it was read, and does not store it."""
    store, loop = found.store, body[found.at]
    assert isinstance(loop, For)

    def again(scalar: Scalar) -> Scalar | None:
        match scalar:
            case Read(buffer=buffer, at=at) if buffer == store.buffer:
                index = at[found.axis]
                assert isinstance(index, Affine)
                return substituted(found.value, {loop.loop: index})
        return None

    shorter = For(loop.loop, loop.size, tuple(one for one in loop.body if one is not store), loop.how)
    rest = [map_scalars(one, lambda scalar: rewritten(scalar, again)) for one in body[found.at + 1 :]]
    return (*body[: found.at], shorter, *rest)
