"""All rewriting of a block of typed code: simpler scalars, straight lines, shared and hoisted computations."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from weft.loops.names import distinct
from weft.loops.nodes import Buffer, Stmt
from weft.optimise.cse import eliminate_common
from weft.optimise.hoist import hoist
from weft.optimise.propagate import propagate

#: More rounds than any code needs: each makes it simpler.
_MOST_ROUNDS = 16


def rewrite(
    body: tuple[Stmt, ...], ranges: Mapping[str, int], fast: bool = False, positive: Collection[Buffer] = ()
) -> tuple[Stmt, ...]:
    """A block of a typed program that does the same with less work.

    `ranges` are those of the static indices and of the loops around the block; `fast` allows fast math; `positive` are
    buffers that never hold -0.0.
    """
    body = distinct(body, ranges)
    for _ in range(_MOST_ROUNDS):
        before = body
        body = propagate(body, ranges, fast, positive)
        body = eliminate_common(body, fast)
        body = hoist(body, fast)
        if body == before:
            break
    return body
