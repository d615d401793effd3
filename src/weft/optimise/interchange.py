"""Loop interchange: a recurrence of one nest runs along its innermost loop where that walks memory best.

    for t: for i: { a = h[t, i] + x[i, t];  h[t + 1, i] = a }

becomes

    for i: for t: { a = h[t, i] + x[i, t];  h[t + 1, i] = a }

Nothing depends on other iterations of `i`, so they may run in any order, one after another too. What is carried does
not count: it is in a variable then (`schedule/fusion/forward_stores.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.affine import Affine
from weft.loops.nests import stride_of
from weft.loops.nodes import Buffer, Let, Read, Stmt, Store
from weft.loops.walk import Access, Body, Loop, accesses, around, perfect
from weft.ops import Scalar


def interchanged(carrying: Loop, body: Sequence[Stmt]) -> Body | None:
    """A loop around a perfect nest, moved inside it; None if it had better stay, or must."""
    loops, block = perfect(body)
    if not loops or not all(isinstance(one, Let | Store) for one in block):
        return None
    touched = accesses(block)
    written = {one.buffer for one in touched if one.writes}
    if not all(_apart(name, touched, written) for name, _ in loops):
        return None
    others = [Read(one.buffer, one.at) for one in touched if one.buffer not in written and one.at is not None]
    if _jumps(others, carrying[0]) >= _jumps(others, loops[-1][0]):
        return None
    return around([*loops, carrying], block)


def _apart(loop: str, touched: Sequence[Access], written: set[Buffer]) -> bool:
    """Do iterations of a loop touch cells of their own in all that is written?"""
    return all(
        any(_is_loop(index, loop) for index in one.at or ()) for one in touched if one.buffer in written
    ) and all(len({_axis(one, loop) for one in touched if one.buffer == buffer}) == 1 for buffer in written)


def _axis(one: Access, loop: str) -> int | None:
    """The axis that a loop alone indexes."""
    return next((axis for axis, index in enumerate(one.at or ()) if _is_loop(index, loop)), None)


def _is_loop(index: Scalar, loop: str) -> bool:
    return isinstance(index, Affine) and index == Affine.of(loop)


def _jumps(touched: Sequence[Read], loop: str) -> int:
    """How many cells lie far from the one before when a loop goes on."""
    steps = [stride_of(cell, loop) for cell in touched]
    return sum(step is None or abs(step) > 1 for step in steps)
