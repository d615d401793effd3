"""What scalars and subscripts come to, at one point or on a whole grid of points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from weft.affine import Affine
from weft.loops import Buffer, Cast, Inside, Local, Read, Update, combine, show_scalar
from weft.ops import OPS, Call, Num, Scalar
from weft.ops.convert import convert, typed_constant
from weft.ops.dtypes import numpy_type

Array: TypeAlias = npt.NDArray[Any]
Memory: TypeAlias = Mapping[Buffer, Array]
#: Loops and static indices by name: a number each in the walk, an open grid in a whole nest. Locals: a list of one
#: value, shared by the blocks that see it.
Env: TypeAlias = dict[Any, Any]


def evaluated(scalar: Scalar, memory: Memory, env: Env) -> Any:
    """The value of a scalar of a typed program."""
    return _with_type(scalar, memory, env)[0]


def _with_type(scalar: Scalar, memory: Memory, env: Env) -> tuple[Any, str]:
    """The value of a scalar and its type, so that what it is part of need not look for it."""
    match scalar:
        case Cast(dtype=dtype, value=Num(value=value)):
            return typed_constant(value, dtype), dtype
        case Cast(dtype=dtype, value=value):
            return convert(evaluated(value, memory, env), dtype), dtype
        case Local(dtype=dtype):
            return env[scalar][0], dtype
        case Affine(terms=terms, offset=offset):
            total: Any = offset
            for coefficient, name in terms:
                total = total + coefficient * env[name]
            return np.asarray(total, np.int64)[()], "int64"
        case Read(buffer=buffer, at=at):
            return memory[buffer][cells_of(at, memory, env)], buffer.dtype
        case Call(op=op, args=args):
            parts = [_with_type(arg, memory, env) for arg in args]
            dtype = OPS[op].typing(*[own for _, own in parts])[1]
            made = np.asarray(OPS[op].meaning(*[one for one, _ in parts]))
            return made.astype(numpy_type(dtype), copy=False)[()], dtype
    raise AssertionError(f"not a scalar of the typed loop language: {scalar!r}")


def updated(stmt: Update, memory: Memory, env: Env) -> Any:
    """What becomes of a cell; where memory holds it in a wider type it is not rounded to its own."""
    if memory[stmt.buffer].dtype == numpy_type(stmt.buffer.dtype):
        return combination(stmt, memory, env)
    return OPS[stmt.op].meaning(memory[stmt.buffer][cells_of(stmt.at, memory, env)], evaluated(stmt.value, memory, env))


def combination(stmt: Update, memory: Memory, env: Env) -> Any:
    """What an update stores, in the type of its buffer."""
    value, own = _with_type(stmt.value, memory, env)
    old, new, stored = _combined(stmt.op, stmt.buffer.dtype, own)
    return evaluated(stored, memory, {old: [memory[stmt.buffer][cells_of(stmt.at, memory, env)]], new: [value]})


@cache
def _combined(op: str, dtype: str, own: str) -> tuple[Local, Local, Scalar]:
    """The old value and the new one as variables, and what is stored: the same for all updates of such types."""
    old, new = Local("old", dtype), Local("new", own)
    return old, new, combine(op, old, new, dtype)


def points_inside(tests: Sequence[Inside], memory: Memory, env: Env, shape: tuple[int, ...]) -> npt.NDArray[np.bool_]:
    """Where in a grid of points all tests hold."""
    found = np.ones(shape, bool)
    for test in tests:
        index = evaluated(test.index, memory, env)
        found &= (index >= 0) & (index < test.size)
    return found


def grid_of(loops: Mapping[str, int]) -> Env:
    """Loops as the axes of an open grid."""
    grids = np.meshgrid(*(np.arange(size) for size in loops.values()), indexing="ij", sparse=True)
    return dict(zip(loops, grids, strict=True))


def spread_cells(at: tuple[Scalar, ...], memory: Memory, env: Env, shape: tuple[int, ...]) -> tuple[Array, ...]:
    """The subscripts of a cell for each point of a grid."""
    return tuple(np.broadcast_to(one, shape) for one in cells_of(at, memory, env))


def cells_of(at: tuple[Scalar, ...], memory: Memory, env: Env) -> tuple[Any, ...]:
    """The subscripts of a cell, or of a cell for each point."""
    cells = tuple(evaluated(one, memory, env) for one in at)
    for one, cell in zip(at, cells, strict=True):
        if not isinstance(one, Affine) and np.any(np.asarray(cell) < 0):  # NumPy would count from the end
            raise IndexError(f"{show_scalar(one)} is negative: it lies outside its axis")
    return cells
