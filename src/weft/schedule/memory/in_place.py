"""In-place reuse: may a buffer take the memory of another whose last use is in the kernel of its definition?

    for i: { t = d[i];  b[i] = t * t }      yes: d[i] is read for the last time just before b[i] is written

It may if every cell of the old buffer has its last use before the same cell of the new one is written. In every block,
what touches the old alone comes first, what touches the new alone comes last, and one statement between may touch both:
a write of the new that reads the old, or a loop in whose block the same holds. Iterations of that loop must touch
disjoint cells, or no value of either buffer may be alive from one iteration to the next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weft.loops import Buffer
from weft.loops.affine_accesses import Site, separated
from weft.loops.walk import Cell, retargeted
from weft.ops import Scalar
from weft.schedule.kernel_templates import touched
from weft.schedule.nodes import Kernel


def takes_over(new: Sequence[Site], old: Sequence[Site], *, private: bool) -> bool:
    """May a new buffer take the memory of an old one? Given are the sites of both in the kernel where both are alive.

    `private`: no other kernel touches either of them, and every read of them is covered by earlier writes.
    """
    defined, dying = new[0].access.buffer, old[0].access.buffer
    return (defined.shape, defined.dtype) == (dying.shape, dying.dtype) and _ordered(new, old, 0, private)


def coalesced(kernels: Sequence[Kernel], shares: Mapping[Buffer, Buffer]) -> list[Kernel]:
    """The kernels with every buffer that takes another's memory, as `shares` says, replaced by that other."""
    first = {new: _first(new, shares) for new in shares}

    def cell(buffer: Buffer, at: tuple[Scalar, ...]) -> Cell:
        return first.get(buffer, buffer), at

    return [
        one if first.keys().isdisjoint(own) else one.with_body(retargeted(one.body, cell))
        for one, own in zip(kernels, touched(kernels), strict=True)
    ]


def _first(buffer: Buffer, shares: Mapping[Buffer, Buffer]) -> Buffer:
    while buffer in shares:
        buffer = shares[buffer]
    return buffer


def _ordered(new: Sequence[Site], old: Sequence[Site], depth: int, private: bool) -> bool:
    """Are the uses of the old before those of the new in a block, whose statements stand `depth` steps down?"""
    last, first = max(one.steps[depth].position for one in old), min(one.steps[depth].position for one in new)
    if last != first:
        return last < first
    private = private and all(one.steps[depth].position == first for one in (*new, *old))
    new = [one for one in new if one.steps[depth].position == first]
    if any(len(one.steps) == depth + 1 and not one.access.writes for one in new):
        return False  # the new is read where the old is touched, in a value or in a test
    old = [one for one in old if one.steps[depth].position == first and len(one.steps) > depth + 1]
    if not old:
        return True  # the old is read in a value or in a test, and not touched after it
    if new[0].steps[depth].staged and len({(one.access.at, one.loops) for one in (*new, *old)}) > 1:
        return False  # the backend chooses the order, unless it is one cell at one point
    loop = new[0].steps[depth].loop
    if loop is not None and loop[1] > 1 and not private and not separated(loop[0], [*new, *old], depth):
        return False
    return _ordered(new, old, depth + 1, private)
