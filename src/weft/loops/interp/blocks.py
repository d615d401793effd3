"""Blocks of several statements run for all points of the loops around them at once.

That is right where every point keeps to cells of its own: each buffer the block writes is accessed, wherever it is, at
places that name every loop alone in the same axis, and it sets no numbers but its own. Loops inside the block run one
after another.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np

from weft.affine import Affine
from weft.loops import Buffer, Fill, For, If, Let, Remark, Set, Staged, Stmt, Store, Update, combined
from weft.loops.interp.values import Env, Memory, cells_of, value_of
from weft.loops.walk import reads
from weft.ops import Scalar

#: A block for more points than this is run loop by loop.
MOST_POINTS = 1 << 20


def run_block(stmt: For, memory: Memory, env: Env) -> bool:
    """Run a nest all points at once, if its points are independent; else do nothing and say so."""
    loops, body = _outer(stmt)
    while loops and not (_independent(loops, body) and prod(loops.values()) <= MOST_POINTS):
        name, size = loops.popitem()
        body = (For(name, size, body),)
    if not loops:
        return False
    grids = np.meshgrid(*(np.arange(size) for size in loops.values()), indexing="ij", sparse=True)
    _block(body, memory, {**env, **dict(zip(loops, grids, strict=True))}, tuple(loops.values()))
    return True


def _outer(stmt: Stmt) -> tuple[dict[str, int], tuple[Stmt, ...]]:
    loops: dict[str, int] = {}
    body: tuple[Stmt, ...] = (stmt,)
    while len(body) == 1 and isinstance(body[0], For):
        loops[body[0].loop] = body[0].size
        body = body[0].body
    return loops, body


def _independent(loops: dict[str, int], body: tuple[Stmt, ...]) -> bool:
    if not {one.local for one in _locals(body, Set)} <= {one.local for one in _locals(body, Let)}:
        return False
    accesses = list(_accesses(body))
    written = {buffer for buffer, _, writes in accesses if writes}
    axes: dict[tuple[Buffer, str], set[tuple[int, Affine]]] = {}
    for buffer, at, _ in accesses:
        if buffer not in written:
            continue
        alone = {
            (one.terms[0][1], axis, one)
            for axis, one in enumerate(at)
            if isinstance(one, Affine) and len(one.terms) == 1
        }
        for loop in loops:
            here = {(axis, place) for name, axis, place in alone if name == loop}
            axes[buffer, loop] = axes.get((buffer, loop), here) & here
    return all(axes.values())


def _locals(body: tuple[Stmt, ...], kind: type[Let] | type[Set]) -> Iterator[Let | Set]:
    for stmt in body:
        if isinstance(stmt, For | If | Remark | Staged):
            yield from _locals(stmt.body, kind)
        elif isinstance(stmt, kind):
            yield stmt


def _accesses(body: tuple[Stmt, ...]) -> Iterator[tuple[Buffer, tuple[Scalar, ...], bool]]:
    for stmt in body:
        values: tuple[Scalar, ...] = ()
        match stmt:
            case For(body=inner) | Remark(body=inner) | Staged(body=inner):
                yield from _accesses(inner)
            case If(tests=tests, body=inner):
                values = tuple(test.place for test in tests)
                yield from _accesses(inner)
            case Store(buffer=buffer, at=at, value=value) | Update(buffer=buffer, at=at, value=value):
                values = (*at, value)
                yield buffer, at, True
            case Let(value=value) | Set(value=value):
                values = (value,)
            case Fill(buffer=buffer):
                yield buffer, (), True
        yield from ((read.buffer, read.at, False) for value in values for read in reads(value))


def _block(body: tuple[Stmt, ...], memory: Memory, env: Env, shape: tuple[int, ...]) -> None:
    for stmt in body:
        _statement(stmt, memory, env, shape)


def _statement(stmt: Stmt, memory: Memory, env: Env, shape: tuple[int, ...]) -> None:
    def spread(value: Any) -> Any:
        return np.broadcast_to(value, shape)

    match stmt:
        case For(loop=loop, size=size, body=body):
            for at in range(size):
                _block(body, memory, {**env, loop: at}, shape)
        case Remark(body=body) | Staged(body=body):
            _block(body, memory, dict(env), shape)
        case If():
            _guarded(stmt, memory, env, shape)
        case Let(local=local, value=value):
            env[local] = [spread(value_of(value, memory, env))]
        case Set(local=local, value=value):
            env[local][0] = spread(value_of(value, memory, env))
        case Store(buffer=buffer, at=at, value=value):
            cells = tuple(spread(one) for one in cells_of(at, memory, env))
            memory[buffer][cells] = spread(value_of(value, memory, env))
        case Update(buffer=buffer, at=at):
            cells = tuple(spread(one) for one in cells_of(at, memory, env))
            memory[buffer][cells] = spread(value_of(combined(stmt), memory, env))
        case Fill():
            raise AssertionError("a fill is not independent for each point")


def _guarded(stmt: If, memory: Memory, env: Env, shape: tuple[int, ...]) -> None:
    """The block inside for those points whose tests hold; what it sets is set for them alone."""
    held = np.ones(shape, bool)
    for test in stmt.tests:
        place = value_of(test.place, memory, env)
        held &= (place >= 0) & (place < test.size)
    points = int(held.sum())
    if not points:
        return

    def chosen(value: Any) -> Any:
        return np.broadcast_to(value, shape)[held]

    inner: Env = {
        name: [chosen(value[0])] if isinstance(value, list) else chosen(value) if np.ndim(value) else value
        for name, value in env.items()
    }
    _block(stmt.body, memory, inner, (points,))
    for local in {one.local for one in _locals(stmt.body, Set)} & env.keys():
        merged = np.array(np.broadcast_to(env[local][0], shape))
        merged[held] = inner[local][0]
        env[local][0] = merged
