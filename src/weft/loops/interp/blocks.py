"""Blocks of several statements run for all points of the loops around them at once.

That is right where every point keeps to cells of its own (`sites.independent`), but for buffers in which one statement
accumulates and which nothing else touches: it does so in the order of the points. Loops inside the block run one after
another. Of what each thread or program has for itself, every point has its own: array expansion.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from math import prod
from typing import Any, assert_never

import numpy as np

from weft.affine import Affine
from weft.loops import Buffer, Fill, For, If, Let, Remark, Role, Set, Staged, Stmt, Store, Update, dtype_of
from weft.loops.affine_accesses import independent, sites
from weft.loops.effects import effects
from weft.loops.interp.values import Env, Memory, evaluated, grid_of, points_inside, spread_cells, updated
from weft.loops.legality import is_on_grid, is_shared
from weft.loops.reaching_writes import covered
from weft.loops.walk import Body, accesses, perfect, retargeted
from weft.ops import OPS


def run_block(stmt: For, memory: Memory, env: Env, most: int) -> bool:
    """Run a nest all points at once, so many at most, if they are independent; else do nothing and say so."""
    found, body = perfect((stmt,))
    loops = dict(found)
    while loops:
        own = _expanded(loops, body) if is_on_grid(stmt) or is_shared(stmt) else {}
        block = _with_own_cells(loops, body, own) if own else body
        points = max(prod(one.shape) for one in own.values()) if own else prod(loops.values())
        if points <= most and _points_are_apart(loops, block):
            break
        name, size = loops.popitem()
        body = (For(name, size, body),)
    else:
        return False
    memory = {**memory, **{new: np.empty(new.shape, memory[old].dtype) for old, new in own.items()}}
    _block(block, memory, {**env, **grid_of(loops)}, tuple(loops.values()))
    return True


def _expanded(loops: Mapping[str, int], body: Body) -> dict[Buffer, Buffer]:
    """For buffers that a thread has for itself, and writes before it reads: with cells for every point of the loops."""
    private = {one.buffer for one in accesses(body) if one.buffer.role is Role.PRIVATE}
    if not all(map(covered, sites(body, private).values())):
        return {}
    return {one: one.beside(Role.EXPANDED, shape=(*loops.values(), *one.shape)) for one in private}


def _with_own_cells(loops: Iterable[str], body: Body, own: Mapping[Buffer, Buffer]) -> Body:
    """The block with expanded buffers: of h[k] inside a loop i, h[i, k]."""
    point = tuple(map(Affine.of, loops))
    return retargeted(body, lambda buffer, at: (own[buffer], (*point, *at)) if buffer in own else (buffer, at))


def _points_are_apart(loops: dict[str, int], body: tuple[Stmt, ...]) -> bool:
    """Are iterations of each loop independent, wherever the loops inside it stand?"""
    accumulators = _accumulators(body)
    for loop, size in reversed(loops.items()):
        nest = For(loop, size, body)
        if not independent(nest, accumulators):
            return False
        body = (nest,)
    return True


def _accumulators(body: tuple[Stmt, ...]) -> set[Buffer]:
    """Buffers that one statement of a block accumulates in, once at each point, and that nothing else touches."""
    touched = Counter(one.buffer for one in accesses(body))
    updates = [one for one in body if isinstance(one, Update) and _in_order(one)]
    return {one.buffer for one in updates if touched[one.buffer] == 2}  # it reads and writes it


def _in_order(stmt: Update) -> bool:
    """Can NumPy accumulate one value after another as the statement does?"""
    return isinstance(OPS[stmt.op].meaning, np.ufunc) and dtype_of(stmt.value) == stmt.buffer.dtype


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
            env[local] = [spread(evaluated(value, memory, env))]
        case Set(local=local, value=value):
            env[local][0] = spread(evaluated(value, memory, env))
        case Store(buffer=buffer, at=at, value=value):
            memory[buffer][spread_cells(at, memory, env, shape)] = spread(evaluated(value, memory, env))
        case Update(buffer=buffer, at=at, op=op, value=value) if _in_order(stmt):
            ufunc: Any = OPS[op].meaning
            ufunc.at(memory[buffer], spread_cells(at, memory, env, shape), spread(evaluated(value, memory, env)))
        case Update(buffer=buffer, at=at):
            memory[buffer][spread_cells(at, memory, env, shape)] = spread(updated(stmt, memory, env))
        case Fill(buffer=buffer, value=number):  # points that are independent and fill all of it: there is but one
            memory[buffer][...] = number
        case _:
            assert_never(stmt)


def _guarded(stmt: If, memory: Memory, env: Env, shape: tuple[int, ...]) -> None:
    """The block inside for those points whose tests hold; what it sets is set for them alone."""
    inside = points_inside(stmt.tests, memory, env, shape)
    points = int(inside.sum())
    if points == inside.size:
        _block(stmt.body, memory, dict(env), shape)
    if points in (0, inside.size):
        return

    def chosen(value: Any) -> Any:
        if isinstance(value, list):
            return [chosen(value[0])]
        return np.broadcast_to(value, shape)[inside] if isinstance(value, np.ndarray) and value.ndim else value

    inner: Env = {name: chosen(value) for name, value in env.items()}
    _block(stmt.body, memory, inner, (points,))
    for local in effects(stmt.body).sets & env.keys():
        merged = np.array(np.broadcast_to(env[local][0], shape))
        merged[inside] = inner[local][0]
        env[local][0] = merged
