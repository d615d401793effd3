"""Accumulations by a monoid: states beside the result, which values join, and of which the result is made.

y =:{mean} x ~logic:"ij=>i"      becomes      y.mean[i] = (0, 0);  y.mean[i] mean= (x[i, j], 1);  y[i] = their quotient
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from math import prod

from weft.affine import Affine
from weft.assign.explicit import Explicit, Run
from weft.assign.scratch import copied_cells, every_cell
from weft.errors import Origin, WeftError
from weft.loops import Buffer, Cast, If, Read, Role, Stmt, Store, Update
from weft.loops.insert_casts import type_before
from weft.loops.walk import around, free
from weft.ops import OPS, Call, Monoid, Num, Scalar, call
from weft.ops.declare import state_types
from weft.ops.dtypes import aggregate, fields, limits, promote


def monoid_nests(
    one: Explicit, static: Collection[str], first: tuple[Affine, ...] = (), origin: Origin | None = None
) -> list[Stmt]:
    """The loops of an accumulation by a monoid: where its states start, what joins them, what comes of them.

    `first` are the subscripts that the target has before all others: where loops around stand.
    """
    monoid, target = OPS[one.accum].monoid, one.target
    assert monoid is not None
    if monoid.positional and len(one.runs) > 1:
        what = f"`{one.accum}` asks where values stand, which parts of a concatenation do not say"
        raise WeftError(
            what, origin=origin, fix="join or split in an assignment of its own, and accumulate what it gives"
        )
    value = promote(*(type_before(run.value) for run in one.runs)) if one.runs else target.dtype
    count = max((prod(size for _, size in _reduced(run)) for run in one.runs), default=0)
    dtype, ranked = aggregate(*state_types(monoid, value, target.dtype, count)), _ranked_axis(one, monoid, len(first))
    shape = tuple(size for axis, size in enumerate(target.shape) if axis != ranked)
    states = target.beside(Role.ACCUMULATOR, f".{one.accum}", dtype=dtype, shape=shape)
    return [
        _started(states, monoid, static, first) if one.reset else copied_cells(states, target, static, first),
        *(_joined(_unranked(run, ranked), states, one, monoid, Num(count)) for run in one.runs),
        _finished(states, target, monoid, ranked, Num(count), static, first),
    ]


def _ranked_axis(one: Explicit, monoid: Monoid, begin: int) -> int | None:
    """The axis of the result that ranks lie along: no value is read there. The first are those of loops around."""
    if not monoid.ranks:
        return None
    read = {name for run in one.runs for name in free(run.value)}
    axes = zip(one.runs[0].at if one.runs else (), one.target.shape, strict=True)
    own = [size == monoid.ranks and isinstance(index, Affine) and read.isdisjoint(free(index)) for index, size in axes]
    return own.index(True, begin)


def _unranked(run: Run, ranked: int | None) -> Run:
    """A run for all ranks at once."""
    if ranked is None:
        return run
    names = free(run.at[ranked])
    loops = tuple(loop for loop in run.loops if loop[0] not in names)
    return replace(run, loops=loops, at=(*run.at[:ranked], *run.at[ranked + 1 :]))


def _started(states: Buffer, monoid: Monoid, static: Collection[str], first: tuple[Affine, ...]) -> Stmt:
    at, loops = every_cell(states, static, first)
    return around(loops, (Store(states, at, start_of(monoid, states.dtype)),))[0]


def start_of(monoid: Monoid, dtype: str) -> Scalar:
    """The neutral element of a monoid whose states are of a type."""
    return _packed([Num(_end(one, kind)) for one, kind in zip(monoid.start, fields(dtype), strict=True)], dtype)


def _end(number: float | int | bool, dtype: str) -> float | int | bool:
    """A number of a start; what is infinite is the end of a type that has no such number."""
    low, high = limits(dtype)
    return number if number == number and low <= number <= high else low if number < low else high


def _joined(run: Run, states: Buffer, one: Explicit, monoid: Monoid, count: Num) -> Stmt:
    state = _packed(monoid.lifted(run.value, _position(run), count), states.dtype)
    core = Update(states, run.at, one.accum, state)
    return around(run.loops, (If(run.guards, (core,)) if run.guards else core,))[0]


def _finished(
    states: Buffer,
    target: Buffer,
    monoid: Monoid,
    ranked: int | None,
    count: Num,
    static: Collection[str],
    first: tuple[Affine, ...],
) -> Stmt:
    at, loops = every_cell(target, static, first)
    cell = Read(states, tuple(index for axis, index in enumerate(at) if axis != ranked))
    rank = None if ranked is None else at[ranked]
    numbers = [cell] if monoid.size == 1 else [call(f"item{number}", cell) for number in range(monoid.size)]
    return around(loops, (Store(target, at, monoid.finished(numbers, rank, count)),))[0]


def _packed(numbers: Sequence[Scalar], dtype: str) -> Scalar:
    typed = tuple(Cast(kind, number) for number, kind in zip(numbers, fields(dtype), strict=True))
    return typed[0] if len(typed) == 1 else Call(f"pack{len(typed)}", typed)


def _position(run: Run) -> Affine:
    """How many values of its cell come before a value, where the loops that it does not mention run in order."""
    reduced = _reduced(run)
    sizes = [size for _, size in reduced]
    return Affine(tuple((prod(sizes[at + 1 :]), name) for at, (name, _) in enumerate(reduced)))


def _reduced(run: Run) -> list[tuple[str, int]]:
    """The loops that the cells of a run do not mention; looking up where a cell is does not count."""
    kept = {name for one in run.at if isinstance(one, Affine) for name in free(one)}
    return [loop for loop in run.loops if loop[0] not in kept]
