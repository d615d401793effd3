"""Sums with a one-hot become gathers and scatters.

    for k: y[b] += (labels[b] == k) * w[k]      becomes      k = labels[b];  if 0 <= k < size: y[b] += w[k]

Where the place found depends on loops inside the one it replaces, it is found in those. Only the term where the
comparison holds is computed. The others are zero times something: that counts as nothing, also
where the something is infinite or not a number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from weft.loops.nests import around, free, rewritten
from weft.loops.nodes import Cast, For, If, Inside, Let, Local, Place, Remark, Set, Stmt, Store, Update
from weft.loops.typed import dtype_of
from weft.ops import Call, Num, Scalar
from weft.ops.dtypes import numpy_type


def gather(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """A block with loops over one-hots replaced by the one point that counts."""
    return tuple(new for stmt in body for new in _gathered(stmt))


def compares(scalar: Scalar) -> tuple[Scalar, Scalar] | None:
    """The whole numbers that a one-hot compares."""
    inner = scalar
    while isinstance(inner, Cast):  # a truth value is 1 or 0 in every type
        inner = inner.value
    if isinstance(inner, Call) and inner.op == "eq":
        left, right = (_uncast(arg) for arg in inner.args)
        if isinstance(left, Place) or isinstance(right, Place):
            return left, right
    return None


def _gathered(stmt: Stmt) -> tuple[Stmt, ...]:
    match stmt:
        case For(loop=loop, size=size, body=body):
            inner = gather(body)
            found = _one_point(loop, size, inner)
            return found if found is not None else (For(loop, size, inner),)
        case If(tests=tests, body=body):
            return (If(tests, gather(body)),)
        case Remark(text=text, body=body):
            return (Remark(text, gather(body)),)
    return (stmt,)


@dataclass(frozen=True, slots=True)
class _Effect:
    """The one statement of a loop's body that does something, with the numbers and loops around it."""

    outer: tuple[For, ...]
    core: Set | Update
    values: Mapping[Local, Scalar]


def _one_point(loop: str, size: int, body: tuple[Stmt, ...]) -> tuple[Stmt, ...] | None:
    effect = _effect(body, {})
    if effect is None:
        return None
    core = effect.core
    value = _added(core)
    if value is None:
        return None
    known = _expanded(value, effect.values)
    for factor in _factors(known):
        place = _solved(factor, loop)
        if place is not None:
            break
    else:
        return None
    rest = _product([one for one in _factors(known) if one is not factor], core)
    index = Local(f"{loop}_at", "int64")
    names = free(place)
    depth = max((at for at, one in enumerate(effect.outer, 1) if one.loop in names), default=0)
    new = _moved_all(_rebuilt(effect.outer[depth:], core, rest), loop, index)
    outside = [(one.loop, one.size) for one in effect.outer[:depth]]
    return around(outside, (Let(index, place), If((Inside(index, size),), new)))


def _effect(body: tuple[Stmt, ...], values: Mapping[Local, Scalar]) -> _Effect | None:
    *lead, last = body
    known = dict(values)
    for stmt in lead:
        if not isinstance(stmt, Let):
            return None
        known[stmt.local] = _expanded(stmt.value, known)
    match last:
        case For(body=inner):
            found = _effect(inner, known)
            return found and _Effect((last, *found.outer), found.core, found.values)
        case Set(local=local) if local not in known:
            return _Effect((), last, known)
        case Update():
            return _Effect((), last, known)
    return None


def _added(core: Set | Update) -> Scalar | None:
    """What a sum adds."""
    match core:
        case Update(op="add", value=value):
            return value
        case Set(local=local, value=Call(op="add", args=(old, value))) if old == local:
            return value
    return None


def _expanded(scalar: Scalar, values: Mapping[Local, Scalar]) -> Scalar:
    return rewritten(scalar, lambda one: values.get(one) if isinstance(one, Local) else None)


def _factors(scalar: Scalar) -> list[Scalar]:
    if isinstance(scalar, Call) and scalar.op == "mul":
        return [factor for arg in scalar.args for factor in _factors(arg)]
    return [scalar]


def _product(factors: list[Scalar], core: Set | Update) -> Scalar:
    if not factors:
        dtype = core.local.dtype if isinstance(core, Set) else core.buffer.dtype
        return Cast(dtype, Num(1))
    total = factors[0]
    for factor in factors[1:]:
        total = Call("mul", (total, factor))
    return total


def _solved(factor: Scalar, loop: str) -> Scalar | None:
    """What the loop equals where a one-hot holds."""
    sides = compares(factor)
    if sides is None:
        return None
    for mine, other in (sides, sides[::-1]):
        if not isinstance(mine, Place) or loop in free(other):
            continue
        factors = {name: coefficient for coefficient, name in mine.terms}
        if factors.get(loop) != 1:
            continue
        rest = Place(tuple(term for term in mine.terms if term[1] != loop), mine.offset)
        whole = _whole(other)
        return whole if rest == Place(()) else Call("sub", (whole, rest))
    return None


def _whole(scalar: Scalar) -> Scalar:
    return scalar if dtype_of(scalar) == "int64" else Cast("int64", scalar)


def _uncast(scalar: Scalar) -> Scalar:
    """A whole number without the conversions that keep it."""
    while (
        isinstance(scalar, Cast) and not isinstance(scalar.value, Num) and _keeps(dtype_of(scalar.value), scalar.dtype)
    ):
        scalar = scalar.value
    return scalar


def _keeps(source: str, target: str) -> bool:
    whole = "int" in source and "int" in target
    return whole and bool(np.can_cast(numpy_type(source), numpy_type(target), "safe"))


def _rebuilt(outer: tuple[For, ...], core: Set | Update, value: Scalar) -> tuple[Stmt, ...]:
    loops = [(one.loop, one.size) for one in outer]
    match core:
        case Set(local=local):
            return around(loops, (Set(local, Call("add", (local, value))),))
        case Update(buffer=buffer, at=at, op=op):
            return around(loops, (Update(buffer, at, op, value),))


def _moved_all(body: tuple[Stmt, ...], loop: str, index: Local) -> tuple[Stmt, ...]:
    """A block with a loop replaced by a number found at run time."""

    def leaf(one: Scalar) -> Scalar | None:
        if not isinstance(one, Place) or loop not in free(one):
            return None
        coefficient = next(factor for factor, name in one.terms if name == loop)
        rest = Place(tuple(term for term in one.terms if term[1] != loop), one.offset)
        scaled: Scalar = index if coefficient == 1 else Call("mul", (index, Cast("int64", Num(coefficient))))
        return scaled if rest == Place(()) else Call("add", (scaled, rest))

    def change(stmt: Stmt) -> Stmt:
        match stmt:
            case For(loop=name, size=size, body=inner):
                return For(name, size, tuple(map(change, inner)))
            case Set(local=local, value=value):
                return Set(local, rewritten(value, leaf))
            case Update(buffer=buffer, at=at, op=op, value=value):
                return Update(buffer, tuple(rewritten(one, leaf) for one in at), op, rewritten(value, leaf))
            case Store(buffer=buffer, at=at, value=value):
                return Store(buffer, tuple(rewritten(one, leaf) for one in at), rewritten(value, leaf))
        return stmt

    return tuple(map(change, body))
