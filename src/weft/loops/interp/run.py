"""Runs the loop language in NumPy.

`run_scalar` walks the program one cell at a time: it is the meaning of the language. `run` does a whole perfect nest at
once where the order of its points cannot matter, that is where the buffer it writes is not read at other places, a
block of independent points likewise (`blocks.py`), and walks the rest. The tests compare the two.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from math import prod
from typing import Any, assert_never

import numpy as np

from weft.affine import AccessMap, Affine, are_affine, injective
from weft.loops import Buffer, Fill, For, If, Let, Program, Remark, Set, Staged, Stmt, Store, Update, dtype_of
from weft.loops.interp.blocks import run_block
from weft.loops.interp.values import (
    Array,
    Env,
    Memory,
    cells_of,
    combination,
    evaluated,
    grid_of,
    points_inside,
    spread_cells,
    updated,
)
from weft.loops.walk import accesses, everything, perfect, reads
from weft.ops import OPS, Scalar
from weft.ops.convert import convert, typed_constant
from weft.ops.dtypes import numpy_type


def run(
    program: Program, memory: Memory, given: Mapping[str, int] | None = None, *, most_points: int = 1 << 22
) -> None:
    """Run the program on `memory`, a nest at a time; one of more points than `most_points` is cut."""
    with np.errstate(all="ignore"):
        _run_all(program.body, memory, {**(given or {})}, most_points)


def run_scalar(program: Program, memory: Memory, given: Mapping[str, int] | None = None) -> None:
    """Run the program on `memory`, a cell at a time."""
    with np.errstate(all="ignore"):
        _walk_all(program.body, memory, {**(given or {})})


def _walk(stmt: Stmt, memory: Memory, env: Env) -> None:
    match stmt:
        case For(loop=loop, size=size, body=body):
            for at in range(size):
                _walk_all(body, memory, {**env, loop: at})
        case If(tests=tests, body=body):
            if all(0 <= evaluated(test.index, memory, env) < test.size for test in tests):
                _walk_all(body, memory, dict(env))
        case Store(buffer=buffer, at=at, value=value):
            memory[buffer][cells_of(at, memory, env)] = evaluated(value, memory, env)
        case Update(buffer=buffer, at=at):
            memory[buffer][cells_of(at, memory, env)] = combination(stmt, memory, env)
        case Fill(buffer=buffer, value=number):
            memory[buffer][...] = typed_constant(number, buffer.dtype)
        case Let(local=local, value=value):
            env[local] = [evaluated(value, memory, env)]
        case Set(local=local, value=value):
            env[local][0] = evaluated(value, memory, env)
        case Remark(body=body) | Staged(body=body):
            _walk_all(body, memory, dict(env))
        case _:
            assert_never(stmt)


def _walk_all(body: tuple[Stmt, ...], memory: Memory, env: Env) -> None:
    for one in body:
        _walk(one, memory, env)


def _run_all(body: tuple[Stmt, ...], memory: Memory, env: Env, most: int) -> None:
    for one in body:
        _run(one, memory, env, most)


def _run(stmt: Stmt, memory: Memory, env: Env, most: int) -> None:
    match stmt:
        case Remark(body=body) | Staged(body=body):
            _run_all(body, memory, dict(env), most)
        case For(loop=loop, size=size, body=body):
            loops, core = _perfect(stmt)
            found = _totals(body) if core is None else _total(core, loops)
            if totals := [one for one in found if memory[one].dtype == np.float32]:
                wide = {one: memory[one].astype(np.float64) for one in totals}  # sums accumulate in double precision
                _run(stmt, {**memory, **wide}, env, most)
                for one in totals:
                    memory[one][...] = wide[one]
            elif core is None and run_block(stmt, memory, env, most // 4):  # it holds several values at each point
                return
            elif core is None:
                for at in range(size):
                    _run_all(body, memory, {**env, loop: at}, most)
            elif prod(loops.values()) > most and len(loops) > 1:
                for at in range(size):
                    _run(body[0], memory, {**env, loop: at}, most)
            else:
                _whole(loops, core, memory, env)
        case Update(buffer=buffer, at=at):
            memory[buffer][cells_of(at, memory, env)] = updated(stmt, memory, env)
        case _:
            _walk(stmt, memory, env)


def _total(stmt: Stmt, loops: dict[str, int]) -> list[Buffer]:
    """The buffer in which a nest adds up, if it does."""
    inner = stmt.body[0] if isinstance(stmt, If) else stmt
    adds = isinstance(inner, Update) and inner.op == "add" and not _distinct(inner.at, loops)
    return [inner.buffer] if adds and isinstance(inner, Update) else []


def _totals(body: tuple[Stmt, ...]) -> list[Buffer]:
    """The buffers that a block adds to, and does nothing else with."""
    adds = Counter(one.buffer for one in everything(body) if isinstance(one, Update) and one.op == "add")
    touched = Counter(one.buffer for one in accesses(body)) if adds else Counter()
    return [one for one, count in adds.items() if touched[one] == 2 * count]  # each reads and writes it


def _perfect(stmt: Stmt) -> tuple[dict[str, int], Stmt | None]:
    """The loops of a nest with a single statement inside that may run in any order, and that statement."""
    found, block = perfect((stmt,))
    loops = dict(found)
    match block:
        case (If(tests=tests, body=(inner,)),):
            guards = [test.index for test in tests]
        case (inner,):
            guards = []
        case _:
            return loops, None
    match inner:
        case Store(buffer=buffer, at=at, value=value):
            own = [read for one in (value, *at, *guards) for read in reads(one) if read.buffer == buffer]
            ordered = any(read.at != at for read in own) or (bool(own) and not _distinct(at, loops))
        case Update(buffer=buffer, at=at, op=op, value=value):
            rewrites = any(read.buffer == buffer for one in (value, *at, *guards) for read in reads(one))
            ordered = rewrites or not isinstance(OPS[op].meaning, np.ufunc)
        case _:
            ordered = True
    return loops, None if ordered else block[0]


def _distinct(at: tuple[Scalar, ...], loops: dict[str, int]) -> bool:
    """Does every point of the nest have a cell of its own?"""
    affine_indices = tuple([index for index in at if isinstance(index, Affine)])
    return injective([AccessMap(affine_indices, tuple(loops.items()))])


def _whole(loops: dict[str, int], stmt: Stmt, memory: Memory, env: Env) -> None:
    """All points of a nest at once: loop variables become the axes of an open grid."""
    grid: Env = {**env, **grid_of(loops)}
    shape = tuple(loops.values())
    if isinstance(stmt, If):
        inside = points_inside(stmt.tests, memory, grid, shape)
        points = dict(zip(loops, np.nonzero(inside), strict=True))
        grid, shape, stmt = {**env, **points}, (int(inside.sum()),), stmt.body[0]
        loops = {}
        if not shape[0]:
            return
    match stmt:
        case Store(buffer=buffer, at=at, value=value):
            cells = spread_cells(at, memory, grid, shape)
            memory[buffer][cells] = np.broadcast_to(evaluated(value, memory, grid), shape)
        case Update(buffer=buffer, at=at):
            cells = spread_cells(at, memory, grid, shape)
            if _distinct(at, loops) and loops:
                memory[buffer][cells] = np.broadcast_to(updated(stmt, memory, grid), shape)
            elif dtype_of(stmt.value) == buffer.dtype:
                _accumulate(stmt, memory, shape, loops, grid)
            else:  # each step rounds to the target's type
                _accumulate_in_order(stmt, memory, cells, grid)


def _accumulate(stmt: Update, memory: Memory, shape: tuple[int, ...], loops: dict[str, int], grid: Env) -> None:
    """Accumulate a grid of values into cells, summing the loops the cells do not mention in one reduction."""
    ufunc: Any = OPS[stmt.op].meaning
    values = np.broadcast_to(np.asarray(evaluated(stmt.value, memory, grid)), shape)
    mentioned = {name for index in stmt.at if isinstance(index, Affine) for _, name in index.terms}
    forgotten = tuple(axis for axis, name in enumerate(loops) if name not in mentioned)
    affine = are_affine(stmt.at)
    if forgotten and affine and ufunc in (np.add, np.multiply, np.maximum, np.minimum):
        values = ufunc.reduce(values, axis=forgotten, keepdims=True, dtype=memory[stmt.buffer].dtype)
    ufunc.at(memory[stmt.buffer], spread_cells(stmt.at, memory, grid, values.shape), values)


def _accumulate_in_order(stmt: Update, memory: Memory, cells: tuple[Array, ...], grid: Env) -> None:
    target, ufunc = memory[stmt.buffer], OPS[stmt.op].meaning
    wanted = numpy_type(dtype_of(stmt.value))
    values = np.broadcast_to(np.asarray(evaluated(stmt.value, memory, grid)), cells[0].shape).ravel()
    for *cell, one in zip(*(every.ravel() for every in cells), values, strict=True):
        old = convert(target[*cell], wanted.name)
        target[*cell] = convert(ufunc(old, one), stmt.buffer.dtype)
