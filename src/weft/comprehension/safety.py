"""Does every read stay inside its tensor? Proved over the ranges of a statement, or said why not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import islpy as isl

from weft.comprehension.affine import Affine, Known, Range
from weft.comprehension.intervals import Bounds, inside
from weft.comprehension.mistakes import Mistake
from weft.comprehension.nodes import Binary, Comprehension, Int, Let, Read
from weft.comprehension.rounds import Access, guarded
from weft.comprehension.show import show_expr


def outside(
    statement: Comprehension, reads: Sequence[Access], ranges: Mapping[str, Range], known: Known
) -> tuple[list[Read], list[Access], list[Mistake]]:
    """The reads that only their guards keep inside, those to be checked while running, and those that leave."""
    lets = [clause for clause in statement.where if isinstance(clause, Let)]
    affine = Affine(tuple(ranges), known, lets)
    bounds = Bounds(known, ranges, lets)
    box = affine.box(ranges)
    held: list[Read] = []
    unknown: list[Access] = []
    wrong: list[Mistake] = []
    for access in reads if not box.is_empty() else ():
        assert access.read is not None
        size = known.shapes[access.tensor][access.axis]
        value = affine.value(access.subscript)
        if value is None:
            if not inside(bounds.of(access.subscript), (0, size - 1)):
                unknown.append(access)
            continue
        leaves = box.intersect(affine.below(value).union(affine.above(value, size)))
        if leaves.is_empty():
            continue
        reached = guarded(box, access.guards, affine)
        if reached.intersect(leaves).is_empty():
            held.append(access.read)
        else:
            wrong.append(_leaves(access, value.intersect_domain(reached), size))
    return held, unknown, wrong


def _leaves(access: Access, value: isl.PwAff, size: int) -> Mistake:
    low, high = value.min_val().to_python(), value.max_val().to_python()
    subscript = show_expr(access.subscript)
    takes = f"is {low}" if low == high else f"takes the values {low} to {high}"
    what = f"`{subscript}` {takes}, and axis {access.axis} of `{access.tensor}` is {size}"
    guard = Binary(">=", access.subscript, Int(0)) if low < 0 else Binary("<", access.subscript, Int(size))
    fix = f"stay in 0:{size}: give a range by `where`, or choose: `{show_expr(guard)} ? … : …`"
    return Mistake(what, access.span, fix)
