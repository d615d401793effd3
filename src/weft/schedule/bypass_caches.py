"""Bypassing caches: what is stored and not read soon goes straight to memory.

    for i: for j on vectors: y[i, j] = x[i, j] * t

    becomes

    for i: for j on vectors, past caches: y[i, j] = x[i, j] * t

A store into a cache first reads the line from memory, and what the line takes the place of is written there. Where the
cells that a kernel touches are more than the last cache holds, none of what it stores is found there afterwards: past
the caches it moves half as much, and the caches keep what is read again. Who stores a cell and touches it elsewhere in
the kernel, or stores its own memory, wants it in the caches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import prod

from weft.loops import Buffer, Bypass, For, Parallel, Read, Role, Stmt
from weft.loops.legality import collapsed_loops, illegal, points
from weft.loops.streams import LINE_BYTES, MemoryStream, bypassing, piece_of
from weft.loops.walk import Body, accesses, own_accesses, scoped
from weft.ops.dtypes import numpy_type
from weft.schedule.annotate import annotated, replaced
from weft.schedule.compile_options import DEFAULTS, CompileOptions


def bypassing_caches(body: Sequence[Stmt], options: CompileOptions = DEFAULTS) -> Body:
    """A block whose loops store past the caches what nothing else in it touches, where it touches enough."""
    if _touched(body) <= options.machine.caches[-1]:
        return tuple(body)
    touched = Counter(one.buffer for one in accesses(body))

    def change(loop: For) -> Sequence[Stmt] | None:
        loops, inside = collapsed_loops(loop)
        stored = bypassing(loops[-1][0], inside)
        chunk = next((one.chunk for one in loop.how if isinstance(one, Parallel)), points(loops))
        pieces = [piece_of(Read(one.buffer, one.at), {loops[-1][0]: chunk}) for one in stored]
        if not all(one and touched[one.buffer] == 1 and _is_large(one, options) for one in pieces):
            return None
        past = annotated(loop, Bypass())
        return None if illegal(past) else (past,)

    return replaced(body, change)


def _touched(body: Sequence[Stmt]) -> int:
    """The bytes of memory that a block touches at most: of what it gathers, no more than it comes to."""
    found = Counter[Buffer]()
    for stmt, scope in scoped(body):
        for one in own_accesses(stmt):
            if one.buffer.role is not Role.PRIVATE:
                found[one.buffer] += points(scope.loops) if one.at is not None else prod(one.buffer.shape)
    return sum(min(cells * numpy_type(one.dtype).itemsize, one.bytes) for one, cells in found.items())


def _is_large(piece: MemoryStream, options: CompileOptions) -> bool:
    """Is it some whole lines, of more than the second cache holds, where others may find it?"""
    least = options.thresholds.bypassed_lines * LINE_BYTES
    return piece.is_whole_lines and piece.size >= least and piece.buffer.bytes > options.machine.caches[1]
