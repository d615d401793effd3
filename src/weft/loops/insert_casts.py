"""Types made explicit: operands are converted to what an operation computes in, values to what they are stored in.

    y[i] = x[i] * 0.5      with x and y in float16 becomes      y[i] = float16(float32(x[i]) * 0.5)

In a typed program a number stands directly under a `Cast` that gives its type, what narrow types hold is widened where
it is computed with, and a backend converts where a `Cast` stands and nowhere else.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.affine import Affine
from weft.loops.nodes import Cast, Let, Local, Program, Read, Set, Stmt, Store, Update
from weft.loops.walk import bottom_up, parts, with_parts
from weft.ops import OPS, Call, Num, Scalar, computed, scalar_type
from weft.ops.dtypes import WEAK_FLOAT, WEAK_INT, carrier, digits, is_float, is_weak
from weft.ops.trampoline import Steps, finished
from weft.ops.typing import drawn


def typed(program: Program) -> Program:
    """The program with every conversion written out."""
    return Program(bottom_up(program.body, _stmt))


def dtype_of(scalar: Scalar) -> str:
    """The type of a scalar of a typed program."""
    if isinstance(scalar, Call):
        return OPS[scalar.op].typing(*map(dtype_of, scalar.args))[1]
    return "int64" if isinstance(scalar, Affine) else scalar_type(scalar, _leaf)


def type_before(scalar: Scalar) -> str:
    """The type of a scalar of a program that is not typed yet."""
    return scalar_type(scalar, _leaf)


def combined(update: Update) -> Scalar:
    """What an update of a typed program stores."""
    return combine(update.op, Read(update.buffer, update.at), update.value, update.buffer.dtype)


def combine(op: str, old: Scalar, value: Scalar, dtype: str) -> Scalar:
    """An old value of a typed program combined with a new one, as it is stored in `dtype`."""
    return stored(Call(op, (old, value)), dtype)


def stored(value: Scalar, dtype: str) -> Scalar:
    """A value, computed in its own type, as it is stored in `dtype`; what is typed in it already stays as it is."""
    return finished(_stored(value, dtype))


def _stmt(stmt: Stmt) -> tuple[Stmt]:
    """A statement, whose body is typed already."""
    match stmt:
        case Store(buffer=buffer, at=at, value=value):
            return (Store(buffer, tuple(map(_index, at)), finished(_stored(value, buffer.dtype))),)
        case Update(buffer=buffer, at=at, op=op, value=value):
            types = _Types(value)
            (_, wanted), _ = OPS[op].typing(buffer.dtype, types.of(value))
            return (Update(buffer, tuple(map(_index, at)), op, finished(_computed(value, wanted, types))),)
        case Let(local=local, value=value) | Set(local=local, value=value):
            return (with_parts(stmt, (finished(_stored(value, local.dtype)),)),)
    return (with_parts(stmt, tuple(map(_index, parts(stmt)))),)


class _Types:
    """The types that the calls of a scalar have by their operands, and what is typed of it already."""

    def __init__(self, scalar: Scalar) -> None:
        self._calls: dict[int, str] = {}
        self.done: dict[tuple[int, str], Scalar] = {}
        computed(scalar, self.of, self._call)

    def of(self, scalar: Scalar) -> str:
        return self._calls[id(scalar)] if isinstance(scalar, Call) else scalar_type(scalar, _leaf)

    def _call(self, call: Call, types: Sequence[str]) -> str:
        found = self._calls[id(call)] = OPS[call.op].typing(*types)[1]
        return found


def _leaf(scalar: Scalar) -> str:
    if isinstance(scalar, Read):
        return scalar.buffer.dtype
    if isinstance(scalar, Cast | Local):
        return scalar.dtype
    assert isinstance(scalar, Affine), f"not a scalar of the loop language: {scalar!r}"
    return WEAK_INT


def _index(scalar: Scalar) -> Scalar:
    return finished(_typed_index(scalar))


def _typed_index(scalar: Scalar) -> Steps[Scalar]:
    return scalar if isinstance(scalar, Affine) else (yield _computed(scalar, "int64", _Types(scalar)))


def _read(read: Read) -> Steps[Scalar]:
    at = []
    for one in read.at:
        at.append((yield _typed_index(one)))
    return Read(read.buffer, tuple(at))


def _stored(value: Scalar, dtype: str) -> Steps[Scalar]:
    """The value, computed in its own type, as it is stored in `dtype`."""
    while isinstance(value, Cast) and value.dtype == dtype:
        value = value.value
    match value:
        case Read(buffer=buffer):
            return _cast((yield _read(value)), buffer.dtype, dtype)
        case Local(dtype=own):
            return _cast(value, own, dtype)
        case Cast(dtype=own, value=inner):
            return _cast((yield _stored(inner, own)), own, dtype)
        case Num():
            return Cast(dtype, value)
    types = _Types(value)
    own = types.of(value)
    if is_weak(own):
        own = dtype if own == WEAK_INT or is_float(dtype) else "float64"
    return _cast((yield _computed(value, own, types)), carrier(own), dtype)


def _computed(scalar: Scalar, dtype: str, types: _Types) -> Steps[Scalar]:
    """The scalar in the carrier of `dtype`; where it has no type of its own, computed in that."""
    to = carrier(dtype)
    match scalar:
        case Num():
            return Cast(to, scalar)
        case Cast(dtype=own, value=value):
            return _cast((yield _stored(value, own)), own, to)
        case Read(buffer=buffer):
            return _cast((yield _read(scalar)), buffer.dtype, to)
        case Call(op="type_as", args=(value, like)):
            own = types.of(like)
            made = carrier(dtype) if is_weak(own) else own
            inner = _computed(value, dtype, types) if is_weak(own) else _stored(value, own)
            return _cast((yield inner), made, to)
        case Call(op=op, args=args):
            found = types.done.get((id(scalar), dtype))
            if found is not None:
                return found
            args = _with_digits(op, args, dtype)
            wanted, own = OPS[op].typing(*map(types.of, args))
            if own == WEAK_FLOAT and is_float(dtype):
                wanted = tuple(dtype if one == WEAK_FLOAT else one for one in wanted)
            typed_args = []
            for arg, one in zip(args, wanted, strict=True):
                typed_args.append((yield _computed(arg, one, types)))
            made = OPS[op].typing(*map(carrier, wanted))[1]
            done = types.done[id(scalar), dtype] = _cast(Call(op, tuple(typed_args)), made, to)
            return done
        case Local(dtype=own):
            return _cast(scalar, own, to)
    return _cast(scalar, "int64", to)


def _with_digits(op: str, args: tuple[Scalar, ...], dtype: str) -> tuple[Scalar, ...]:
    """Random numbers get no more digits than their type holds: rounded, a number below 1 might become 1."""
    match args:
        case (*bits, Num(value=wanted)) if OPS[op].typing is drawn:
            return *bits, Num(min(wanted, digits(dtype if op == "uniform" else carrier(dtype))))
    return args


def _cast(scalar: Scalar, own: str, dtype: str) -> Scalar:
    """A scalar of one type in another."""
    return scalar if own == dtype else Cast(dtype, scalar)
