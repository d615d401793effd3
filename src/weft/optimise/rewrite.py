"""All rewriting of a block of typed code: simpler scalars, straight lines, shared and hoisted computations."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from weft.loops.names import distinct
from weft.loops.nodes import Buffer
from weft.loops.walk import Body
from weft.optimise.cse import eliminate_common
from weft.optimise.hoist import hoist
from weft.optimise.propagate import propagate

#: More rounds than any code needs: each makes it simpler.
_MOST_ROUNDS = 16


def rewrite(body: Body, ranges: Mapping[str, int], fast: bool = False, positive: Collection[Buffer] = ()) -> Body:
    """A block of a typed program that does the same with less work.

    `ranges` are those of the static indices and of the loops around the block; `fast` allows fast math; `positive` are
    buffers that never hold -0.0.
    """
    body = distinct(body, ranges)
    passes: tuple[Callable[[Body], Body], ...] = (
        lambda block: propagate(block, ranges, fast, positive),
        lambda block: eliminate_common(block, fast),
        lambda block: hoist(block, fast),
    )
    idle = 0  # so many in a row have left it as it is
    for _ in range(_MOST_ROUNDS):
        before = body
        for one in passes:
            found = one(body)
            idle = idle + 1 if found == body else 0
            body = found
            if idle == len(passes):
                return body
        if body == before:
            break
    return body
