"""Innermost loops that run on vectors: their iterations are independent of each other, but for what they add up.

    for i: { y[i] = x[i] * 2;  total = total + y[i] }

A compiler is asked for vectors loop by loop and invents none (`backends/cc/compiler_bugs.py` says why). Sums may be
added in any order. A sum in one cell becomes a variable first, in double precision:

    for i: y[0] += x[i]      becomes      y_sum: float64 = 0;  for i: y_sum = y_sum + float64(x[i]);  y[0] += y_sum

A sum is on vectors from a few terms for each lane on; one whose terms are functions that take long, from one on.

A loop over the lanes of accumulators, few enough for registers, is written out on vectors: compilers keep in registers
what a loop around it accumulates, if no loop is between.

    for i: for l in range(64): part[l] += x[64 i + l]      becomes      for i: for l in range(64) in registers of 16: …
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from weft.loops import (
    Buffer,
    Cast,
    For,
    Let,
    Local,
    Read,
    Registers,
    Role,
    Set,
    Stmt,
    Store,
    Unroll,
    Update,
    Vector,
    combine,
    reads,
)
from weft.loops.effects import effects
from weft.loops.legality import collapsed_loops, illegal, points, sums_of
from weft.loops.names import BlockNames
from weft.loops.product_legality import NARROWEST
from weft.loops.walk import around, everything, free, parts, subexpressions
from weft.machine import Machine
from weft.ops import Call, Num
from weft.ops.dtypes import numpy_type
from weft.optimise.latency import is_long_latency
from weft.schedule.annotate import annotated, hot_replaced, is_innermost
from weft.schedule.compile_options import DEFAULTS, CompileOptions
from weft.schedule.nests.in_registers import in_registers

#: The lanes of the narrowest vectors there are. Shorter loops are written as they stand.
_FEWEST = NARROWEST // numpy_type("float32").itemsize


def vectorised(body: Sequence[Stmt], options: CompileOptions = DEFAULTS, registers: bool = True) -> tuple[Stmt, ...]:
    """A block with its innermost loops on vectors, or unrolled, where that is asked and they are no sums.

    Those over lanes are written out for registers, if a backend can.
    """
    names = BlockNames(body)

    def change(loop: For) -> Sequence[Stmt] | None:
        if not is_innermost(collapsed_loops(loop)[1]):
            return None
        if any(isinstance(one, Registers) for one in loop.how):
            return (loop,)
        before, one, after = in_variable(loop, names)
        return (*before, _chosen(one, options, registers), *after)

    return hot_replaced(body, change)


def _chosen(loop: For, options: CompileOptions, registers: bool) -> For:
    loops, block = collapsed_loops(loop)
    size, sums, unroll = points(loops), sums_of(block), options.schedule.unroll
    given = options.schedule.lanes or unroll
    if registers and not given and (found := _lanes_in_registers(loop, options)) is not None:
        return found
    waits = bool(sums) and _waits(block)
    wanted = _even_lanes(size, options) if waits else _lanes(size // options.short_loop, options.machine) if sums else 0
    vector = annotated(loop, Vector(options.schedule.lanes or wanted))
    if size >= (options.short_loop if sums and not waits else _FEWEST) and (sums or not unroll) and not illegal(vector):
        return vector
    return annotated(loop, Unroll(unroll)) if unroll else loop


def _lanes_in_registers(loop: For, options: CompileOptions) -> For | None:
    """A loop over the lanes of accumulators that registers hold, written out; None if it is none, or too long."""
    cells = (points(collapsed_loops(loop)[0]),)
    held = [one for one in effects(loop.body).buffers if _is_partial(one) and one.shape == cells]
    return in_registers(loop, held, options) if held else None


def _waits(body: Sequence[Stmt]) -> bool:
    """Does a block call functions that take longer than it takes to add up what lanes have?"""
    calls = subexpressions(*(part for stmt in everything(body) for part in parts(stmt)))
    return any(isinstance(one, Call) and is_long_latency(one) for one in calls)


def _is_partial(buffer: Buffer) -> bool:
    """Is a buffer one of partial accumulators, of a thread perhaps, or one of their numbers?"""
    return buffer.role is Role.PARTIAL or (buffer.of is not None and _is_partial(buffer.of))


def _lanes(most: int, machine: Machine) -> int:
    """How many lanes a sum has of which no more are worth it: compilers add those up one by one at the end."""
    whole = _whole(machine)
    return 0 if most >= whole else max(_FEWEST, 1 << max(most.bit_length() - 1, 0))


def _even_lanes(size: int, options: CompileOptions) -> int:
    """How many lanes a sum has whose terms take long, in a vector as long as one by one: so that few are left over."""
    whole = _whole(options.machine)
    if size >= options.short_loop * whole:
        return 0
    some = [lanes for lanes in (_FEWEST << step for step in range(whole.bit_length())) if lanes <= min(whole, size)]
    return min(some, key=lambda lanes: (sum(divmod(size, lanes)), lanes), default=0)


def _whole(machine: Machine) -> int:
    """The lanes of a vector of single precision."""
    return machine.vector_bytes // numpy_type("float32").itemsize


def in_variable(loop: For, names: BlockNames) -> tuple[tuple[Stmt, ...], For, tuple[Stmt, ...]]:
    """A loop that adds up in one cell, adding up in a variable instead; what comes before it, and after."""
    loops, block = collapsed_loops(loop)
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
