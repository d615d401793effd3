"""Does every read stay inside its tensor? Proved over the ranges of a statement, or said why not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import islpy as isl

from weft.comprehension.accesses import Access
from weft.comprehension.mistakes import Mistake
from weft.comprehension.nodes import Binary, Int
from weft.comprehension.piecewise import Piecewise, Range
from weft.comprehension.range_inference import guarded
from weft.comprehension.scalars import Known
from weft.comprehension.show import show_expr


def outside(reads: Sequence[Access], ranges: Mapping[str, Range], known: Known, points: Piecewise) -> list[Mistake]:
    """The reads that leave their tensors, where that does not depend on what tensors hold."""
    box = points.box(ranges)
    wrong: list[Mistake] = []
    for access in reads if not box.is_empty() else ():
        size = known.shapes[access.tensor][access.axis]
        value = points.value(access.at)
        if value is None:
            continue
        leaves = box.intersect(points.below(value).union(points.above(value, size)))
        if not leaves.is_empty():
            reached = guarded(box, access.guards, points)
            if not reached.intersect(leaves).is_empty():
                wrong.append(_leaves(access, value.intersect_domain(reached), size))
    return wrong


def _leaves(access: Access, value: isl.PwAff, size: int) -> Mistake:
    values = isl.Map.from_pw_aff(value).range()  # isl asks functions for extremes only where no piece is a fraction
    low, high = values.dim_min_val(0).to_python(), values.dim_max_val(0).to_python()
    subscript = show_expr(access.subscript)
    takes = f"is {low}" if low == high else f"takes the values {low} to {high}"
    what = f"`{subscript}` {takes}, and axis {access.axis} of `{access.tensor}` is {size}"
    guard = Binary(">=", access.subscript, Int(0)) if low < 0 else Binary("<", access.subscript, Int(size))
    fix = f"stay in 0:{size}: give a range by `where`, or choose: `{show_expr(guard)} ? … : …`"
    return Mistake(what, access.span, fix)
