"""Parallel scatters: rows may meet in one cell, so each thread takes a block of columns of all rows.

    for i in range(4096): for d in range(256): y[ids[i], d] += x[i, d]

    becomes

    for strip in range(4): for i in range(4096): for d in range(64): y[ids[i], 64 strip + d] += x[i, 64 strip + d]

What iterations do besides, in cells that columns do not tell apart, is done in a loop of its own before, where that
touches nothing else. Each cell takes its values in the order it took them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from weft.affine import Affine
from weft.loops import Buffer, For, If, Let, Parallel, Set, Stmt
from weft.loops.effects import effects, read_in
from weft.loops.legality import illegal
from weft.loops.names import BlockNames
from weft.loops.walk import Body, accesses, block_at, everything, with_body
from weft.ops.dtypes import numpy_type
from weft.schedule.annotate import annotated
from weft.schedule.compile_options import CompileOptions


def in_columns(loop: For, options: CompileOptions, names: BlockNames) -> Body | None:
    """A loop that threads cannot share as one that they can, by columns; None if it has none, or they depend."""
    lets = tuple(one for one in loop.body if isinstance(one, Let))
    wide = tuple(one for one in loop.body if _columns(one) is not None)
    rest = tuple(one for one in loop.body if one not in lets and one not in wide)
    widths = {size for one in wide if (size := _columns(one)) is not None}
    if len(widths) != 1 or not _scatters(wide) or any(isinstance(one, Set) for one in everything(loop.body)):
        return None
    if not _apart((*lets, *rest), wide) or not _apart((*lets, *wide), rest):
        return None
    width = widths.pop()
    strips = _strips(width, effects(wide).buffers, options)
    if strips < 2:
        return None
    strip = names.fresh("strip")
    cut = tuple(_cut(one, strip, width // strips) for one in wide)
    shared = For(strip, strips, (replace(loop, body=(*lets, *cut)),))
    if illegal(annotated(shared, Parallel(1))):
        return None
    return (*((replace(loop, body=(*lets, *rest)),) if rest else ()), shared)


def _columns(stmt: Stmt) -> int | None:
    """How many columns a statement runs over: it is an innermost loop, or that under tests."""
    match stmt:
        case If(body=(inner,)):
            return _columns(inner)
        case For(size=size, body=body) if not any(isinstance(one, For) for one in everything(body)):
            return size
    return None


def _scatters(body: Body) -> bool:
    """Does data say which rows a block writes?"""
    written = (one.at or () for one in accesses(body) if one.writes)
    return any(not isinstance(index, Affine) for at in written for index in at)


def _apart(some: Body, others: Body) -> bool:
    """Does a block touch nothing that another one writes?"""
    return effects(others).buffers.isdisjoint(read_in(some) | effects(some).buffers)


def _strips(width: int, written: Sequence[Buffer] | set[Buffer], options: CompileOptions) -> int:
    """How many strips columns are cut into, each of some whole cache lines: a few for each core."""
    line = (
        max(options.machine.line_bytes // min(numpy_type(one.dtype).itemsize for one in written), 1) if written else 1
    )
    most = min(2 * options.machine.cores, width // (line * options.thresholds.column_lines))
    even = (one for one in range(most, 1, -1) if width % (one * line) == 0)
    return next(even, 1)


def _cut(stmt: Stmt, strip: str, width: int) -> Stmt:
    """A statement that runs over the columns of one strip."""
    if isinstance(stmt, If):
        return with_body(stmt, tuple(_cut(one, strip, width) for one in stmt.body))
    assert isinstance(stmt, For)
    here = {stmt.loop: Affine(((width, strip), (1, stmt.loop)))}
    return replace(stmt, size=width, body=block_at(stmt.body, here))
