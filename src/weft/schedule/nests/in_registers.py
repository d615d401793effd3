"""Register blocking of accumulators: short loops over the cells that a loop around them adds to, unrolled on vectors.

Compilers keep in registers what a loop around them adds to those cells, if no loop is between.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.loops import Buffer, For, Registers
from weft.loops.legality import collapsed_loops, illegal, points
from weft.loops.walk import everything, parts, subexpressions
from weft.ops import Call
from weft.ops.dtypes import numpy_type
from weft.optimise.latency import is_long_latency
from weft.schedule.annotate import annotated
from weft.schedule.compile_options import CompileOptions


def in_registers(loop: For, held: Sequence[Buffer], options: CompileOptions, fewest: int = 2) -> For | None:
    """A loop over cells of some buffers, of `fewest` vectors at least, written out; None if it is too long for that."""
    loops, body = collapsed_loops(loop)
    lanes = options.machine.vector_bytes // max(numpy_type(one.dtype).itemsize for one in held)
    vectors = points(loops) // lanes
    stmts = everything(body)
    calls = [one for one in subexpressions(*(part for stmt in stmts for part in parts(stmt))) if isinstance(one, Call)]
    fits = vectors >= fewest and vectors * len(held) <= options.machine.registers // 2
    short = (len(stmts) + len(calls)) * vectors <= options.thresholds.written_operations
    found = annotated(loop, Registers(lanes))
    return found if fits and short and not any(map(is_long_latency, calls)) and not illegal(found) else None
