"""Innermost loops that run on vectors: their iterations are independent of each other, but for what they add up.

    for i: { y[i] = x[i] * 2;  total = total + y[i] }

A compiler is asked for vectors loop by loop and invents none (`backends/cc/compiler_bugs.py` says why). Sums may be
added in any order. A sum in one cell becomes a variable first, in double precision:

    for i: y[0] += x[i]      becomes      y_sum: float64 = 0;  for i: y_sum = y_sum + float64(x[i]);  y[0] += y_sum
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from weft.loops import Cast, For, Let, Local, Read, Set, Stmt, Store, Unroll, Update, Vector, combine, reads
from weft.loops.legality import as_one, illegal, points, sums_of
from weft.loops.names import Names
from weft.loops.walk import around, free
from weft.ops import Num
from weft.schedule.annotate import annotated, is_innermost, replaced

#: Shorter loops are written as they stand: what only stores, and what adds up.
_LONG, _LONG_SUM = 4, 8
#: Sums over loops shorter than this have so many lanes: compilers add those up one by one at the end.
_LANES = ((64, 4), (128, 8))


def vectorised(body: Sequence[Stmt], lanes: int = 0, unroll: int = 0) -> tuple[Stmt, ...]:
    """A block with its innermost loops on vectors, of so many lanes; or unrolled so many times, if they are no sums."""
    names = Names(body)

    def change(loop: For) -> Sequence[Stmt] | None:
        if not is_innermost(as_one(loop)[1]):
            return None
        before, one, after = _in_variable(loop, names)
        return (*before, _chosen(one, lanes, unroll), *after)

    return replaced(body, change)


def _chosen(loop: For, lanes: int, unroll: int) -> For:
    loops, block = as_one(loop)
    size, sums = points(loops), sums_of(block)
    few = next((few for most, few in _LANES if size < most), 0) if sums else 0
    vector = annotated(loop, Vector(lanes or few))
    if size >= (_LONG_SUM if sums else _LONG) and (sums or not unroll) and not illegal(vector):
        return vector
    return annotated(loop, Unroll(unroll)) if unroll else loop


def _in_variable(loop: For, names: Names) -> tuple[tuple[Stmt, ...], For, tuple[Stmt, ...]]:
    """A loop that adds up in one cell, adding up in a variable instead; what comes before it, and after."""
    loops, block = as_one(loop)
    match block:
        case (Update(op="add", buffer=buffer, at=at, value=value),) if buffer.dtype in ("float32", "float64"):
            moves = {name for one in at for name in free(one)}.intersection(name for name, _ in loops)
            if not moves and all(read.buffer != buffer for read in reads(value)):
                total = Local(names.fresh(f"{buffer.name}_sum"), "float64")
                added = Set(total, combine("add", total, value, total.dtype))
                stored = Store(buffer, at, combine("add", Read(buffer, at), total, buffer.dtype))
                (inside,) = around(loops, (added,))
                assert isinstance(inside, For)
                return (Let(total, Cast(total.dtype, Num(0))),), replace(inside, how=loop.how), (stored,)
    return (), loop, ()
