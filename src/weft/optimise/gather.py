"""Recognition of gathers and scatters: a sum with a one-hot becomes an indirect access.

    for k: y[b] += where(labels[b] == k, w[k], 0)      becomes      k = labels[b];  if 0 <= k < size: y[b] += w[k]

Where the index found depends on loops inside the one it replaces, it is computed in those. Only the term for which the
comparison holds is computed. The others are zeros, which leave a sum that is never -0.0 unchanged. A product with a
one-hot is no selection: it is NaN where the other factor is NaN or infinite. It becomes a gather where the other
factors are integers or finite constants, and under fast math.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from weft.affine import Affine
from weft.loops.constants import constant_value
from weft.loops.insert_casts import dtype_of
from weft.loops.names import BlockNames
from weft.loops.nodes import DEEPEST, Buffer, Cast, For, If, Inside, Let, Local, Set, Stmt, Update
from weft.loops.walk import around, bottom_up, depth, expanded, free, map_scalars, operations, rewritten, walk
from weft.ops import Call, Num, Scalar
from weft.ops.dtypes import is_float, numpy_type
from weft.optimise.signed_zeros import Positive, never_minus_zero

#: Values of more parts, with variables expanded, are not searched for a one-hot: a variable that is read twice doubles
#: what expanding it takes.
_LONGEST = 4 * DEEPEST


def gathered(body: tuple[Stmt, ...], fast: bool = False, positive: Collection[Buffer] = ()) -> tuple[Stmt, ...]:
    """A block with loops over one-hots replaced by the one iteration that contributes.

    `positive` are buffers that never hold -0.0; `fast` allows fast math.
    """
    if "eq" not in operations(body):
        return body
    return bottom_up(body, _Gathering(fast, never_minus_zero(body, positive), BlockNames(body)).rule)


def compares(scalar: Scalar) -> tuple[Scalar, Scalar] | None:
    """The integers that a one-hot compares."""
    match scalar:
        case Cast(value=value):  # a truth value is 1 or 0 in every type
            return compares(value)
        case Call(op="ne", args=(value, zero)) if constant_value(zero) == 0:
            return compares(value) if isinstance(value, Cast | Call) else None
        case Call(op="eq", args=args):
            left, right = map(_uncast, args)
            return (left, right) if isinstance(left, Affine) or isinstance(right, Affine) else None
    return None


@dataclass(frozen=True, slots=True)
class OneEffect:
    """The one statement of a loop's body with an effect, with the loops around it and the values of variables."""

    outer: tuple[For, ...]
    core: Set | Update
    values: Mapping[Local, Scalar]


@dataclass(frozen=True, slots=True)
class _Gathering:
    fast: bool
    positive: Positive
    names: BlockNames

    def rule(self, stmt: Stmt) -> tuple[Stmt, ...]:
        """A loop over a one-hot without the loop."""
        found = self._one_point(stmt.loop, stmt.size, stmt.body) if isinstance(stmt, For) else None
        return (stmt,) if found is None else found

    def _one_point(self, loop: str, size: int, body: tuple[Stmt, ...]) -> tuple[Stmt, ...] | None:
        """A loop in which one iteration contributes, without the loop."""
        effect = one_effect(body, {})
        value = added_by(effect.core) if effect else None
        if effect is None or value is None or not self._ignores_zeros(effect.core):
            return None
        added = expanded(value, effect.values)
        for hot, rest in self._split(added) if _is_short(added) else ():
            found = _solved(hot, loop)
            if found is not None:
                index = Local(self.names.fresh(f"{loop}_at"), "int64")
                return _at_one_point(effect, loop, size, index, found, rest)
        return None

    def _ignores_zeros(self, core: Set | Update) -> bool:
        """Is a sum unchanged if zeros are not added to it?"""
        target = core.local if isinstance(core, Set) else core.buffer
        return self.fast or not is_float(target.dtype) or target in self.positive

    def _split(self, value: Scalar) -> Iterator[tuple[Scalar, Scalar]]:
        """The ways to split a value into a comparison and its value where that holds; elsewhere it is zero."""
        match value:
            case Call(op="select", args=(condition, chosen)):
                yield condition, chosen
            case Call(op="where", args=(condition, chosen, other)) if constant_value(other) == 0:
                yield condition, chosen
            case Cast(dtype=dtype, value=Call() as inner) if inner.op != "eq":
                yield from ((hot, Cast(dtype, rest)) for hot, rest in self._split(inner))
        factors = _factors(value)
        for at, factor in enumerate(factors):
            rest = [*factors[:at], *factors[at + 1 :]]
            if self.fast or all(map(_is_finite, rest)):
                yield factor, _product(rest, dtype_of(value))


def _at_one_point(
    effect: OneEffect, loop: str, size: int, index: Local, found: Scalar, rest: Scalar
) -> tuple[Stmt, ...]:
    """What the one contributing iteration does, inside of the loops that its index depends on."""
    names = free(found)
    depth = max((at for at, one in enumerate(effect.outer, 1) if one.loop in names), default=0)
    new = reindexed(_rebuilt(effect.outer[depth:], effect.core, rest), loop, index)
    outside = [(one.loop, one.size) for one in effect.outer[:depth]]
    return around(outside, (Let(index, found), If((Inside(index, size),), new)))


def _is_finite(factor: Scalar) -> bool:
    """Is zero times a factor zero?"""
    constant = constant_value(factor)
    inner = factor.value if isinstance(factor, Cast) and constant is None else factor
    return not is_float(dtype_of(inner)) or (constant is not None and bool(np.isfinite(constant)))


def one_effect(body: tuple[Stmt, ...], values: Mapping[Local, Scalar]) -> OneEffect | None:
    *lead, last = body
    known = dict(values)
    for stmt in lead:
        if not isinstance(stmt, Let):
            return None
        known[stmt.local] = expanded(stmt.value, known)
        if not _is_short(known[stmt.local]):
            return None
    match last:
        case For(body=inner):
            found = one_effect(inner, known)
            return found and OneEffect((last, *found.outer), found.core, found.values)
        case Set(local=local) if local not in known:
            return OneEffect((), last, known)
        case Update():
            return OneEffect((), last, known)
    return None


def added_by(core: Set | Update) -> Scalar | None:
    """What a sum adds."""
    match core:
        case Update(op="add", value=value):
            return value
        case Set(local=local, value=Call(op="add", args=(old, value))) if old == local:
            return value
    return None


def _is_short(scalar: Scalar) -> bool:
    """Is a scalar, with variables expanded wherever they are read, short enough for a statement?"""
    return len(walk(scalar)) <= _LONGEST and depth(scalar) <= DEEPEST // 2


def _factors(scalar: Scalar) -> list[Scalar]:
    if isinstance(scalar, Call) and scalar.op == "mul":
        return [factor for arg in scalar.args for factor in _factors(arg)]
    return [scalar]


def _product(factors: list[Scalar], dtype: str) -> Scalar:
    return reduce(lambda left, right: Call("mul", (left, right)), factors) if factors else Cast(dtype, Num(1))


def _solved(factor: Scalar, loop: str) -> Scalar | None:
    """The index of a loop for which a one-hot holds."""
    sides = compares(factor)
    if sides is None:
        return None
    for mine, other in (sides, sides[::-1]):
        if not isinstance(mine, Affine) or loop in free(other):
            continue
        if mine.coefficient(loop) != 1:
            continue
        rest = mine.without([loop])
        whole = _whole(other)
        return whole if rest == Affine() else Call("sub", (whole, rest))
    return None


def _whole(scalar: Scalar) -> Scalar:
    return scalar if dtype_of(scalar) == "int64" else Cast("int64", scalar)


def _uncast(scalar: Scalar) -> Scalar:
    """An integer without the conversions that preserve it."""
    while (
        isinstance(scalar, Cast)
        and not isinstance(scalar.value, Num)
        and _is_exact(dtype_of(scalar.value), scalar.dtype)
    ):
        scalar = scalar.value
    return scalar


def _is_exact(source: str, target: str) -> bool:
    whole = "int" in source and "int" in target
    return whole and bool(np.can_cast(numpy_type(source), numpy_type(target), "safe"))


def _rebuilt(outer: tuple[For, ...], core: Set | Update, value: Scalar) -> tuple[Stmt, ...]:
    new = Call("add", (core.local, value)) if isinstance(core, Set) else value
    return around([(one.loop, one.size) for one in outer], (replace(core, value=new),))


def reindexed(body: tuple[Stmt, ...], loop: str, index: Local) -> tuple[Stmt, ...]:
    """A block with a loop replaced by a variable found at run time."""

    def leaf(one: Scalar) -> Scalar | None:
        coefficient = one.coefficient(loop) if isinstance(one, Affine) else 0
        if not isinstance(one, Affine) or not coefficient:
            return None
        rest = one.without([loop])
        scaled: Scalar = index if coefficient == 1 else Call("mul", (index, Cast("int64", Num(coefficient))))
        return scaled if rest == Affine() else Call("add", (scaled, rest))

    return tuple(map_scalars(stmt, lambda scalar: rewritten(scalar, leaf)) for stmt in body)
