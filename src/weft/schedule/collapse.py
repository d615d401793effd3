"""Two loops as one, where the cells they touch follow each other as if they were: a long loop fills vectors better.

    for h in range(28): for w in range(28): y[h, w] = x[h, w]

is one loop of 784 cells: in memory `x[0, 28]` is `x[1, 0]`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from weft.loops import Collapse, For, Stmt
from weft.loops.legality import collapsed_loops, illegal
from weft.schedule.annotate import replaced


def collapsed(body: Sequence[Stmt]) -> tuple[Stmt, ...]:
    """A block with loops made one where they can be, from the innermost out."""
    return replaced(body, lambda loop: (_collapsed(replace(loop, body=collapsed(loop.body))),))


def _collapsed(loop: For) -> For:
    match loop.body:
        case (For() as inner,):
            count = 1 + len(collapsed_loops(inner)[0])
            one = replace(loop, body=(replace(inner, how=()),), how=(Collapse(count),))
            return loop if illegal(one) else one
    return loop
