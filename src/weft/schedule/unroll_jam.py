"""Unroll and jam: a sum over an outer axis takes its cells from memory once for several iterations.

    for i in range(9): for j: y[j] += x[i, j]

    runs as

    for i in range(2): for j: { y[j] += x[4 i, j];  y[j] += x[4 i + 1, j];  y[j] += ...;  y[j] += x[4 i + 3, j] }
    for i in range(1): for j: y[j] += x[8 + i, j]

A cell is added to in the same order as before, so its value is the same to the bit.
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
        light = found is not None and len(walk(found[1].value)) <= options.jam_operations
        return (jam,) if light and not illegal(jam) else None

    return replaced(body, change)
