"""Unroll and jam: a sum over an outer axis takes its cells from memory once for several iterations.

    for i in range(9): for j: y[j] += x[i, j]

    runs as

    for i in range(2): for j: { y[j] += x[4 i, j];  y[j] += x[4 i + 1, j];  y[j] += ...;  y[j] += x[4 i + 3, j] }
    for i in range(1): for j: y[j] += x[8 + i, j]

A cell is added to in the same order as before, so its value is the same to the bit. Variables before the inner loops,
as where data says what row is added, are those of each iteration; rows are then fetched side by side.

Cells that registers hold are taken from memory once for all iterations: their loop is written out on vectors.

    for l in range(50): { r = ids[l];  for j in range(64): y[j] += x[r, j] }      becomes

    for l in range(50): { r = ids[l];  for j in range(64) in registers of 16: y[j] += x[r, j] }
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from weft.loops import Buffer, For, Jam, Stmt, walk
from weft.loops.legality import added_to, collapsed_loops, illegal
from weft.loops.walk import perfect
from weft.schedule.annotate import annotated, hot_replaced
from weft.schedule.compile_options import DEFAULTS, CompileOptions
from weft.schedule.nests.in_registers import in_registers


def jammed(body: Sequence[Stmt], options: CompileOptions = DEFAULTS, registers: bool = False) -> tuple[Stmt, ...]:
    """A block with its sums over outer axes jammed, or in `registers`, if a backend can."""

    def change(loop: For) -> Sequence[Stmt] | None:
        found, jam = added_to(collapsed_loops(loop)[1]), annotated(loop, Jam(options.jam_iterations))
        values = [*(one.value for one in found[0]), found[2].value] if found else []
        light = all(len(walk(one)) <= options.jam_operations for one in values)
        if not found or not light or illegal(jam):
            return None
        return ((_held(loop, found[2].buffer, options) if registers else None) or jam,)

    return hot_replaced(body, change)


def _held(loop: For, buffer: Buffer, options: CompileOptions) -> For | None:
    """A sum whose inner loop is written out, as registers hold its cells; None if they do not, or it may not be."""
    *lead, inner = loop.body
    asked = options.schedule.lanes or options.schedule.unroll
    if loop.how or asked or not isinstance(inner, For) or len(perfect((inner,))[0]) > 1:
        return None
    written = in_registers(inner, [buffer], options, fewest=1)
    return written and replace(loop, body=(*lead, written))
