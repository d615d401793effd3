"""Runs the loop language in NumPy.

`run_scalar` walks the program one cell at a time: it is the meaning of the language. `run` does a whole perfect nest at
once where the order of its points cannot matter, that is where the buffer it writes is not read at other places,
and walks the rest. The tests compare the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from weft.loops import Buffer, Fill, For, If, Place, Program, Read, Remark, Stmt, Store, Update, reads, show_scalar
from weft.ops import OPS, Call, Num, Scalar, apply

Array: TypeAlias = npt.NDArray[Any]
Memory: TypeAlias = Mapping[Buffer, Array]
#: Loops and static indices: a number each in the walk, an open grid in a whole nest.
Env: TypeAlias = dict[str, Any]

#: A nest of more points than this is cut along its outermost loop.
MOST_POINTS = 1 << 22


def run(program: Program, memory: Memory, given: Mapping[str, int] | None = None) -> None:
    """Run the program on `memory`, a nest at a time."""
    with np.errstate(all="ignore"):
        for stmt in program.body:
            _run(stmt, memory, dict(given or {}))


def run_scalar(program: Program, memory: Memory, given: Mapping[str, int] | None = None) -> None:
    """Run the program on `memory`, a cell at a time."""
    with np.errstate(all="ignore"):
        for stmt in program.body:
            _walk(stmt, memory, dict(given or {}))


def _walk(stmt: Stmt, memory: Memory, env: Env) -> None:
    match stmt:
        case For(loop=loop, size=size, body=body):
            for at in range(size):
                for one in body:
                    _walk(one, memory, {**env, loop: at})
        case If(tests=tests, body=body):
            if all(0 <= _value(test.place, memory, env) < test.size for test in tests):
                for one in body:
                    _walk(one, memory, env)
        case Store(buffer=buffer, at=at, value=value):
            memory[buffer][_at(at, memory, env)] = _value(value, memory, env)
        case Update(buffer=buffer, at=at, op=op, value=value):
            cell = _at(at, memory, env)
            memory[buffer][cell] = apply(op, memory[buffer][cell], _value(value, memory, env))
        case Fill(buffer=buffer, value=number):
            memory[buffer][...] = number
        case Remark(body=body):
            for one in body:
                _walk(one, memory, env)


def _run(stmt: Stmt, memory: Memory, env: Env) -> None:
    match stmt:
        case Remark(body=body):
            for one in body:
                _run(one, memory, env)
        case For(loop=loop, size=size, body=body):
            loops, core = _perfect(stmt)
            if core is None:
                for at in range(size):
                    for one in body:
                        _run(one, memory, {**env, loop: at})
            elif prod(loops.values()) > MOST_POINTS and len(loops) > 1:
                for at in range(size):
                    _run(body[0], memory, {**env, loop: at})
            else:
                _whole(loops, core, memory, env)
        case _:
            _walk(stmt, memory, env)


def _perfect(stmt: Stmt) -> tuple[dict[str, int], Stmt | None]:
    """The loops of a nest with a single statement inside that may run in any order, and that statement."""
    loops: dict[str, int] = {}
    while isinstance(stmt, For) and len(stmt.body) == 1:
        loops[stmt.loop] = stmt.size
        stmt = stmt.body[0]
    inner = stmt.body[0] if isinstance(stmt, If) and len(stmt.body) == 1 else stmt
    guards = [test.place for test in stmt.tests] if isinstance(stmt, If) else []
    match inner:
        case Store(buffer=buffer, at=at, value=value):
            own = [read for one in (value, *at, *guards) for read in reads(one) if read.buffer == buffer]
            ordered = any(read.at != at for read in own) or (bool(own) and not _distinct(at, loops))
        case Update(buffer=buffer, at=at, op=op, value=value):
            rewrites = any(read.buffer == buffer for one in (value, *at, *guards) for read in reads(one))
            ordered = rewrites or not isinstance(OPS[op].meaning, np.ufunc)
        case _:
            ordered = True
    return loops, None if ordered else stmt


def _distinct(at: tuple[Scalar, ...], loops: dict[str, int]) -> bool:
    """Does every point of the nest plainly have a cell of its own?"""
    return set(loops) <= {one.terms[0][1] for one in at if isinstance(one, Place) and len(one.terms) == 1}


def _whole(loops: dict[str, int], stmt: Stmt, memory: Memory, env: Env) -> None:
    """All points of a nest at once: loop variables become the axes of an open grid."""
    grids = np.meshgrid(*(np.arange(size) for size in loops.values()), indexing="ij", sparse=True)
    grid = {**env, **dict(zip(loops, grids, strict=True))}
    shape = tuple(loops.values())
    if isinstance(stmt, If):
        held = np.ones(shape, bool)
        for test in stmt.tests:
            place = _value(test.place, memory, grid)
            held &= (place >= 0) & (place < test.size)
        points = dict(zip(loops, np.nonzero(held), strict=True))
        grid, shape, stmt = {**env, **points}, (int(held.sum()),), stmt.body[0]
        loops = {}
        if not shape[0]:
            return
    match stmt:
        case Store(buffer=buffer, at=at, value=value):
            cells = tuple(np.broadcast_to(one, shape) for one in _at(at, memory, grid))
            memory[buffer][cells] = np.broadcast_to(_value(value, memory, grid), shape)
        case Update(buffer=buffer, at=at, op=op, value=value):
            _update(memory[buffer], at, OPS[op].meaning, _value(value, memory, grid), shape, loops, memory, grid)


def _update(
    target: Array,
    at: tuple[Scalar, ...],
    ufunc: Any,
    value: Any,
    shape: tuple[int, ...],
    loops: dict[str, int],
    memory: Memory,
    grid: Env,
) -> None:
    """Accumulate a grid of values into cells, summing the loops the cells do not mention in one reduction."""
    values = np.broadcast_to(np.asarray(value), shape)
    if np.result_type(values, target).kind != target.dtype.kind:  # each step rounds to the target's type
        every = (np.broadcast_to(one, shape).ravel() for one in _at(at, memory, grid))
        for *cell, one in zip(*every, values.ravel(), strict=True):
            target[*cell] = ufunc(target[*cell], one)
        return
    mentioned = {name for place in at if isinstance(place, Place) for _, name in place.terms}
    forgotten = tuple(axis for axis, name in enumerate(loops) if name not in mentioned)
    if forgotten and ufunc in (np.add, np.multiply, np.maximum, np.minimum) and all(isinstance(p, Place) for p in at):
        values = ufunc.reduce(values, axis=forgotten, keepdims=True, dtype=np.result_type(values, target))
        shape = values.shape
    cells = tuple(np.broadcast_to(one, shape) for one in _at(at, memory, grid))
    ufunc.at(target, cells, values.astype(target.dtype, copy=False))


def _at(at: tuple[Scalar, ...], memory: Memory, env: Env) -> tuple[Any, ...]:
    cells = tuple(_value(one, memory, env) for one in at)
    for one, cell in zip(at, cells, strict=True):
        if not isinstance(one, Place) and np.any(np.asarray(cell) < 0):  # NumPy would count from the end
            raise IndexError(f"{show_scalar(one)} is negative: it lies outside its axis")
    return cells


def _value(scalar: Scalar, memory: Memory, env: Env) -> Any:
    match scalar:
        case Num(value=value):
            return value
        case Place(terms=terms, offset=offset):
            total: Any = offset
            for coefficient, name in terms:
                total = total + coefficient * env[name]
            return total
        case Read(buffer=buffer, at=at):
            return memory[buffer][_at(at, memory, env)]
        case Call(op=op, args=args):
            return apply(op, *(_value(arg, memory, env) for arg in args))
    raise AssertionError(f"not a scalar of the loop language: {scalar!r}")
