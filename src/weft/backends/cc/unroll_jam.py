"""Unroll and jam: a sum over an outer axis takes its cells from memory once for several turns.

    for i in range(9): for j: y[j] += x[i, j]

    becomes

    for i in range(2): for j: { y[j] += x[4 i, j];  y[j] += x[4 i + 1, j];  y[j] += ...;  y[j] += x[4 i + 3, j] }
    for i in range(1): for j: y[j] += x[8 + i, j]

A cell is added to in the same order as before, so its value is the same to the bit.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.affine import Affine
from weft.loops import For, If, Remark, Stmt, Update, reads, walk
from weft.loops.effects import mapped, with_body
from weft.loops.nests import Loop, around, free, moved

#: So many turns are done at once, where what is added is no longer than this, written out.
_TURNS, _SHORT = 4, 12


def jammed(body: Sequence[Stmt]) -> tuple[Stmt, ...]:
    """A block with its sums over outer axes jammed."""
    return tuple(new for stmt in body for new in _jammed(stmt))


def _jammed(stmt: Stmt) -> tuple[Stmt, ...]:
    if isinstance(stmt, For) and stmt.size >= _TURNS and (found := _added(stmt)):
        return _at_once(stmt, *found)
    return (with_body(stmt, jammed(stmt.body)),) if isinstance(stmt, For | If | Remark) else (stmt,)


def _added(loop: For) -> tuple[list[Loop], Update] | None:
    """The loops inside one, and what they add to, if each of its turns adds to the same cells, one by one."""
    inner, body = [], loop.body
    while len(body) == 1 and isinstance(body[0], For):
        inner.append((body[0].loop, body[0].size))
        body = body[0].body
    if not inner or len(body) != 1 or not isinstance(body[0], Update):
        return None
    update = body[0]
    if any(not isinstance(place, Affine) or len(place.terms) > 1 for place in update.at):
        return None
    moving = {name for place in update.at for name in free(place)}
    light = sum(1 for _ in walk(update.value)) <= _SHORT
    alone = all(read.buffer != update.buffer for read in reads(update.value))
    return (
        (inner, update)
        if light and alone and moving.issuperset(name for name, _ in inner) and loop.loop not in moving
        else None
    )


def _at_once(loop: For, inner: Sequence[Loop], update: Update) -> tuple[Stmt, ...]:
    whole, rest = divmod(loop.size, _TURNS)

    def at(factor: int, offset: int) -> Stmt:
        place = Affine(((factor, loop.loop),), offset)
        return mapped(update, lambda scalar: moved(scalar, {loop.loop: place}))

    several = For(loop.loop, whole, around(inner, tuple(at(_TURNS, turn) for turn in range(_TURNS))))
    last = For(loop.loop, rest, around(inner, (at(1, whole * _TURNS),)))
    return (several, last) if rest else (several,)
