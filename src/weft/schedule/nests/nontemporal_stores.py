"""Non-temporal stores: what is stored and not read soon bypasses the caches.

    for i: for j on vectors: y[i, j] = x[i, j] * t

    becomes

    for i: for j on vectors, non-temporal: y[i, j] = x[i, j] * t

A store into a cache first reads the line from memory, and what the line takes the place of is written there. Where the
cells that a kernel touches are more than the last cache holds, none of what it stores is found there afterwards: past
the caches it moves half as much, and the caches keep what is read again. Where a loop passes over its rows several
times, and they hardly fit into the first cache with the next ones, what it stores would take the place of what its next
pass reads. Who stores a cell and touches it elsewhere in the kernel, or stores its own memory, wants it in the caches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import prod

from weft.loops import Buffer, For, NonTemporal, Parallel, Read, Role, Stmt
from weft.loops.legality import collapsed_loops, illegal, points
from weft.loops.streams import LINE_BYTES, MemoryStream, bypassing, bytes_with_next, passes_over, piece_of, streams_of
from weft.loops.walk import Body, accesses, everything, own_accesses, scoped, with_body
from weft.ops.dtypes import numpy_type
from weft.schedule.annotate import annotated, hot_replaced
from weft.schedule.compile_options import DEFAULTS, CompileOptions


def with_nontemporal_stores(body: Sequence[Stmt], options: CompileOptions = DEFAULTS) -> Body:
    """A block whose loops store past the caches what nothing else in it touches, where it touches enough: as a whole,
    or in the iterations of a loop."""
    every, most = accesses(body), options.machine.caches[1]
    if not any(one.writes and one.buffer.bytes > most for one in every):
        return tuple(body)
    touched = Counter(one.buffer for one in every)

    def change(loop: For) -> Sequence[Stmt] | None:
        loops, inside = collapsed_loops(loop)
        stored = bypassing(loops[-1][0], inside)
        chunk = next((one.chunk for one in loop.how if isinstance(one, Parallel)), points(loops))
        pieces = [piece_of(Read(one.buffer, one.at), {loops[-1][0]: chunk}) for one in stored]
        if not all(one and touched[one.buffer] == 1 and _is_large(one, options) for one in pieces):
            return None
        past = annotated(loop, NonTemporal())
        return None if illegal(past) else (past,)

    def of_rows(loop: For) -> Sequence[Stmt] | None:
        return (with_body(loop, hot_replaced(loop.body, change)),) if _fills_first_cache(loop, options) else None

    return hot_replaced(body, change if _touched(body) > options.machine.caches[-1] else of_rows)


def _touched(body: Sequence[Stmt]) -> int:
    """The bytes of memory that a block touches at most: of what it gathers, no more than it comes to."""
    found = Counter[Buffer]()
    for stmt, scope in scoped(body):
        for one in own_accesses(stmt):
            if one.buffer.role is not Role.PRIVATE:
                found[one.buffer] += points(scope.loops) if one.at is not None else prod(one.buffer.shape)
    return sum(min(cells * numpy_type(one.dtype).itemsize, one.bytes) for one, cells in found.items())


def _fills_first_cache(loop: For, options: CompileOptions) -> bool:
    """Do several passes over what an iteration touches, and over the next rows, take most of the first cache?"""
    most = options.thresholds.rows_share * options.machine.caches[0]
    inside = [one for one in everything(loop.body) if isinstance(one, For)]
    return _passes(loop) > 1 and bytes_with_next(loop) > most and not any(_passes(one) > 1 for one in inside)


def _passes(loop: For) -> int:
    return passes_over(loop, streams_of(loop))


def _is_large(piece: MemoryStream, options: CompileOptions) -> bool:
    """Is it some whole lines, of more than the second cache holds, where others may find it?"""
    least = options.thresholds.bypassed_lines * LINE_BYTES
    return piece.is_whole_lines and piece.size >= least and piece.buffer.bytes > options.machine.caches[1]
