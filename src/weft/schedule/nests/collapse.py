"""Two loops as one, where the cells they touch follow each other as if they were: a long loop fills vectors better.

    for h in range(28): for w in range(28): y[h, w] = x[h, w]

is one loop of 784 cells: in memory `x[0, 28]` is `x[1, 0]`. A loop whose iterations are independent stays apart from
one that carries something from one iteration to the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from weft.loops import Collapse, For, Stmt
from weft.loops.legality import carried, collapsed_loops, illegal
from weft.schedule.annotate import hot_replaced


def collapsed(body: Sequence[Stmt]) -> tuple[Stmt, ...]:
    """A block with loops made one where they can be, from the innermost out."""
    return hot_replaced(body, lambda loop: (_collapsed(replace(loop, body=collapsed(loop.body))),))


def _collapsed(loop: For) -> For:
    match loop.body:
        case (For() as inner,):
            loops, body = collapsed_loops(inner)
            one = replace(loop, body=(replace(inner, how=()),), how=(Collapse(1 + len(loops)),))
            if illegal(one):
                return loop
            recurrence = not carried(loops, body) and carried([(loop.loop, loop.size), *loops], body)
            return loop if recurrence else one
    return loop
