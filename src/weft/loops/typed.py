"""Types made explicit: operands are converted to what an operation computes in, values to what they are stored in.

    y[i] = x[i] * 0.5      with x and y in float16 becomes      y[i] = float16(float32(x[i]) * 0.5)

In a typed program a number stands directly under a `Cast` that gives its type, what narrow types hold is widened where
it is computed with, and a backend converts where a `Cast` stands and nowhere else.
"""

from __future__ import annotations

from weft.loops.nodes import (
    Cast,
    Fill,
    For,
    If,
    Inside,
    Let,
    Local,
    Place,
    Program,
    Read,
    Remark,
    Set,
    Staged,
    Stmt,
    Store,
    Update,
)
from weft.ops import OPS, Call, Num, Scalar, type_of
from weft.ops.dtypes import WEAK_FLOAT, WEAK_INT, carrier, is_float, is_weak


def typed(program: Program) -> Program:
    """The program with every conversion written out."""
    return Program(tuple(_stmt(one) for one in program.body))


def dtype_of(scalar: Scalar) -> str:
    """The type of a scalar of a typed program."""
    return type_of(scalar, _typed_leaf)


def combined(update: Update) -> Scalar:
    """What an update of a typed program stores."""
    return combine(update.op, Read(update.buffer, update.at), update.value, update.buffer.dtype)


def combine(op: str, old: Scalar, value: Scalar, dtype: str) -> Scalar:
    """An old value of a typed program combined with a new one, as it is stored in `dtype`."""
    return _stored(Call(op, (old, value)), dtype)


def _stmt(stmt: Stmt) -> Stmt:
    match stmt:
        case For(loop=loop, size=size, body=body):
            return For(loop, size, tuple(map(_stmt, body)))
        case If(tests=tests, body=body):
            return If(tuple(Inside(_place(one.place), one.size) for one in tests), tuple(map(_stmt, body)))
        case Remark(text=text, body=body):
            return Remark(text, tuple(map(_stmt, body)))
        case Staged(what=what, body=body):
            return Staged(what, tuple(map(_stmt, body)))
        case Store(buffer=buffer, at=at, value=value):
            return Store(buffer, tuple(map(_place, at)), _stored(value, buffer.dtype))
        case Update(buffer=buffer, at=at, op=op, value=value):
            (_, wanted), _ = OPS[op].typing(buffer.dtype, type_of(value, _leaf))
            return Update(buffer, tuple(map(_place, at)), op, _computed(value, wanted))
        case Let(local=local, value=value):
            return Let(local, _stored(value, local.dtype))
        case Set(local=local, value=value):
            return Set(local, _stored(value, local.dtype))
        case Fill():
            return stmt


def _leaf(scalar: Scalar) -> str:
    if isinstance(scalar, Read):
        return scalar.buffer.dtype
    if isinstance(scalar, Cast | Local):
        return scalar.dtype
    assert isinstance(scalar, Place), f"not a scalar of the loop language: {scalar!r}"
    return WEAK_INT


def _typed_leaf(scalar: Scalar) -> str:
    return "int64" if isinstance(scalar, Place) else _leaf(scalar)


def _read(read: Read) -> Read:
    return Read(read.buffer, tuple(map(_place, read.at)))


def _place(scalar: Scalar) -> Scalar:
    return scalar if isinstance(scalar, Place) else _computed(scalar, "int64")


def _stored(value: Scalar, dtype: str) -> Scalar:
    """The value, computed in its own type, as it is stored in `dtype`."""
    match value:
        case Cast(dtype=own, value=inner) if own == dtype:
            return _stored(inner, dtype)
        case Read():
            return _cast(_read(value), dtype)
        case Local():
            return _cast(value, dtype)
        case Num():
            return Cast(dtype, value)
    own = type_of(value, _leaf)
    if is_weak(own):
        own = dtype if own == WEAK_INT or is_float(dtype) else "float64"
    return _cast(_computed(value, own), dtype)


def _computed(scalar: Scalar, dtype: str) -> Scalar:
    """The scalar in the carrier of `dtype`; where it has no type of its own, computed in that."""
    to = carrier(dtype)
    match scalar:
        case Num():
            return Cast(to, scalar)
        case Cast(dtype=own, value=value):
            return _cast(_stored(value, own), to)
        case Read():
            return _cast(_read(scalar), to)
        case Call(op=op, args=args):
            wanted, own = OPS[op].typing(*(type_of(arg, _leaf) for arg in args))
            if own == WEAK_FLOAT and is_float(dtype):
                wanted = tuple(dtype if one == WEAK_FLOAT else one for one in wanted)
            return _cast(Call(op, tuple(map(_computed, args, wanted))), to)
    return _cast(scalar, to)


def _cast(scalar: Scalar, dtype: str) -> Scalar:
    return scalar if dtype_of(scalar) == dtype else Cast(dtype, scalar)
