"""Software prefetching: while a row is worked on, the next one comes from memory.

    for i: { for row: for lane: s[lane] += x[i, 64 row + lane];  …;  for j: y[i, j] = x[i, j] * t }

    becomes

    for i prefetching 1 ahead: …

A loop that passes over its rows several times, as softmax and layer norm do, waits for memory in the first pass alone,
and for that to be written in the last; meanwhile memory has nothing to do. So the loops inside ask for a part of the
next row each (`loops/streams.py`). It is worth it where all the rows are more than the second cache holds.

    for i: { row = ids[i];  for d: y[i, d] = table[row, d] }

waits for every row that it gathers from a large table: so it asks for those of some iterations to come.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.loops import For, PrefetchRows, Stmt
from weft.loops.legality import collapsed_loops, illegal
from weft.loops.streams import GatheredRow, MemoryStream, fetched_by, gathered_rows, passes_over
from weft.loops.walk import Body, body_of, everything
from weft.schedule.annotate import annotated, hot_replaced
from weft.schedule.compile_options import DEFAULTS, CompileOptions


def prefetching_rows(body: Sequence[Stmt], options: CompileOptions = DEFAULTS) -> Body:
    """A block whose loops over rows fetch the next ones, but for those that others run as one with."""
    inner = {id(one) for stmt in everything(body) if isinstance(stmt, For) for one in _collapsed_into(stmt)}

    def change(loop: For) -> Sequence[Stmt] | None:
        if id(loop) in inner:
            return None
        # of a single pass over memory a processor sees the end
        streams = [one for found in fetched_by(loop).values() for one in found]
        if streams and passes_over(loop, streams) > 1 and _is_worth_it(streams, options):
            ahead = 1
        elif not (ahead := _gathered_ahead(gathered_rows(loop), options)):
            return None
        fetching = annotated(loop, PrefetchRows(ahead))
        return None if illegal(fetching) else (fetching,)

    return hot_replaced(body, change)


def _gathered_ahead(rows: Sequence[GatheredRow], options: CompileOptions) -> int:
    """How many iterations ahead rows are fetched that are gathered from what the second cache does not hold; 0 if they
    are short, or very long, or it does."""
    line, cache = options.machine.line_bytes, options.machine.caches[1]
    far = [-(-one.size // line) for one in rows if one.first.buffer.bytes > cache]
    if not far or min(far) < options.thresholds.fetched_lines:
        return 0
    return min(options.thresholds.gathered_lines // sum(far), PrefetchRows.limits[1])


def _collapsed_into(loop: For) -> Sequence[Stmt]:
    """The loops inside one that it runs as one with."""
    nested: list[Stmt] = [loop]
    for _ in collapsed_loops(loop)[0][1:]:
        nested += body_of(nested[-1])
    return nested[1:]


def _is_worth_it(streams: Sequence[MemoryStream], options: CompileOptions) -> bool:
    """Do buffers fill the second cache, but neither this row and the next, and are rows longer than a few lines?"""
    machine = options.machine
    row = sum(one.size for one in streams)
    everywhere = sum(one.bytes for one in {one.buffer for one in streams})
    long = min(one.size for one in streams) >= options.thresholds.fetched_lines * machine.line_bytes
    return long and everywhere > machine.caches[1] and 4 * row <= machine.caches[1]
