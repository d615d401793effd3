"""Unroll and jam: a sum over an outer axis takes its cells from memory once for several iterations.

    for i in range(9): for j: y[j] += x[i, j]

    runs as

    for i in range(2): for j: { y[j] += x[4 i, j];  y[j] += x[4 i + 1, j];  y[j] += ...;  y[j] += x[4 i + 3, j] }
    for i in range(1): for j: y[j] += x[8 + i, j]

A cell is added to in the same order as before, so its value is the same to the bit. Variables before the inner loops,
as where data says what row is added, are those of each iteration; rows are then fetched side by side.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.loops import For, Jam, Stmt, walk
from weft.loops.legality import added_to, collapsed_loops, illegal
from weft.schedule.annotate import annotated, replaced
from weft.schedule.compile_options import DEFAULTS, CompileOptions


def jammed(body: Sequence[Stmt], options: CompileOptions = DEFAULTS) -> tuple[Stmt, ...]:
    """A block with its sums over outer axes jammed."""

    def change(loop: For) -> Sequence[Stmt] | None:
        found, jam = added_to(collapsed_loops(loop)[1]), annotated(loop, Jam(options.jam_iterations))
        values = [*(one.value for one in found[0]), found[2].value] if found else []
        light = all(len(walk(one)) <= options.jam_operations for one in values)
        return (jam,) if found and light and not illegal(jam) else None

    return replaced(body, change)
