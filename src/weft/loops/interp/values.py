"""What scalars and subscripts come to, at one point or on a whole grid of points."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from weft.affine import Affine
from weft.loops import Buffer, Cast, Local, Read, Update, combined, dtype_of, show_scalar
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
    match scalar:
        case Cast(dtype=dtype, value=Num(value=value)):
            return typed_constant(value, dtype)
        case Cast(dtype=dtype, value=value):
            return convert(evaluated(value, memory, env), dtype)
        case Local():
            return env[scalar][0]
        case Affine(terms=terms, offset=offset):
            total: Any = np.int64(offset)
            for coefficient, name in terms:
                total = total + coefficient * np.asarray(env[name], np.int64)
            return total
        case Read(buffer=buffer, at=at):
            return memory[buffer][cells_of(at, memory, env)]
        case Call(op=op, args=args):
            value = OPS[op].meaning(*(evaluated(arg, memory, env) for arg in args))
            return np.asarray(value).astype(numpy_type(dtype_of(scalar)), copy=False)[()]
    raise AssertionError(f"not a scalar of the typed loop language: {scalar!r}")


def updated(stmt: Update, memory: Memory, env: Env) -> Any:
    """What becomes of a cell; where memory holds it in a wider type it is not rounded to its own."""
    if memory[stmt.buffer].dtype == numpy_type(stmt.buffer.dtype):
        return evaluated(combined(stmt), memory, env)
    return OPS[stmt.op].meaning(memory[stmt.buffer][cells_of(stmt.at, memory, env)], evaluated(stmt.value, memory, env))


def cells_of(at: tuple[Scalar, ...], memory: Memory, env: Env) -> tuple[Any, ...]:
    """The subscripts of a cell, or of a cell for each point."""
    cells = tuple(evaluated(one, memory, env) for one in at)
    for one, cell in zip(at, cells, strict=True):
        if not isinstance(one, Affine) and np.any(np.asarray(cell) < 0):  # NumPy would count from the end
            raise IndexError(f"{show_scalar(one)} is negative: it lies outside its axis")
    return cells
