"""Scalars made simpler: constants computed, rules applied, conversions that change nothing left out.

    (x[i] * 1.0 + 0.0) ** 2.0      becomes      x[i] * x[i]

Types never change. Subscripts that were affine stay so; others become affine only where they are proved to be inside.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from weft.affine import Affine
from weft.loops.constants import cast_constant, constant_folded, constant_value
from weft.loops.insert_casts import dtype_of
from weft.loops.nodes import Buffer, Cast, Local, Read
from weft.loops.walk import identical
from weft.ops import Call, Num, Scalar
from weft.ops.convert import needless
from weft.optimise.apply_rules import KnownCall, Unsigned, costly, doubling, plainly, simpler

#: Is an index proved to lie inside an axis of some size?
Proof = Callable[[Affine, int], bool]


def simplified(scalar: Scalar, fast: bool = False) -> Scalar:
    """The scalar with every rule applied that applies; with `fast`, those of fast math as well."""
    return Simplifier(fast).scalar(scalar)


def _unknown(local: Local) -> Scalar | None:
    return None


def _constant(index: Affine, size: int) -> bool:
    return not index.terms and 0 <= index.offset < size


@dataclass(slots=True)
class Simplifier:
    """Simplifies scalars where some variables are known to hold the value of a call."""

    fast: bool = False
    definition: KnownCall = _unknown
    proof: Proof = _constant
    unsigned: Unsigned = plainly
    #: What is simple already, by identity.
    done: dict[int, Scalar] = field(default_factory=dict)

    def scalar(self, scalar: Scalar) -> Scalar:
        """The scalar made simpler; the very same if it cannot be."""
        if self.done.get(id(scalar)) is scalar:
            return scalar
        found = self._simpler(scalar)
        self.done[id(found)] = found
        return found

    def at(self, buffer: Buffer, at: tuple[Scalar, ...]) -> tuple[Scalar, ...]:
        """The subscripts of a cell made simpler."""
        found = tuple(self._subscript(one, size) for one, size in zip(at, buffer.shape, strict=True))
        return at if identical(found, at) else found

    def doubled(self, call: Call) -> list[Scalar]:
        """The operands of a call that deserve a name, because a rule would then write them twice."""
        return [one for rule in doubling(call.op) for one in costly(rule, call, self.fast, self.definition)]

    def _simpler(self, scalar: Scalar) -> Scalar:
        match scalar:
            case Cast(value=Num()):
                return scalar
            case Cast(dtype=dtype, value=value):
                inner = self.scalar(value)
                return self._cast(scalar if inner is value else Cast(dtype, inner))
            case Read(buffer=buffer, at=at):
                indices = self.at(buffer, at)
                return scalar if indices is at else Read(buffer, indices)
            case Call(op=op, args=args):
                simple = tuple(map(self.scalar, args))
                return self._call(scalar if identical(simple, args) else Call(op, simple))
        return scalar

    def _subscript(self, index: Scalar, size: int) -> Scalar:
        if isinstance(index, Affine):
            return index
        found = self.scalar(index)
        constant = constant_value(found)
        affine = Affine((), int(constant)) if constant is not None else found
        if isinstance(affine, Affine):
            return affine if self.proof(affine, size) else index
        return found

    def _cast(self, scalar: Cast) -> Scalar:
        dtype, value = scalar.dtype, scalar.value
        own = dtype_of(value)
        if own == dtype:
            return value
        if isinstance(value, Cast) and not isinstance(value.value, Num):
            if needless(dtype_of(value.value), own, dtype):
                return self.scalar(Cast(dtype, value.value))
        found = cast_constant(dtype, value)
        return scalar if found is None else found

    def _call(self, call: Call) -> Scalar:
        for computed in (constant_folded(call), _affine(call)):
            if computed is not None:
                return computed
        found = simpler(call, self.fast, self.definition, self.unsigned)
        return call if found is None else self.scalar(found)


def _affine(call: Call) -> Affine | None:
    """Sums and multiples of indices as one index."""
    if call.op not in ("add", "sub", "neg", "mul"):
        return None
    operands = [one for arg in call.args if (one := _index(arg)) is not None]
    if len(operands) < len(call.args) or all(one.is_constant for one in operands):
        return None
    match call.op, operands:
        case "add", (one, other):
            return one + other
        case "sub", (one, other):
            return one - other
        case "mul", (one, other) if one.is_constant or other.is_constant:
            return other * one.offset if one.is_constant else one * other.offset
        case "neg", (one,):
            return -one
    return None


def _index(scalar: Scalar) -> Affine | None:
    """A scalar as an index: it is one, or an integer constant that cannot overflow as a subscript."""
    if isinstance(scalar, Affine):
        return scalar
    constant = constant_value(scalar)
    is_whole = constant is not None and constant.dtype == np.int64 and abs(int(constant)) < 1 << 31
    return Affine((), int(constant)) if is_whole else None
