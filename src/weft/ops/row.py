"""What a row of the table of operations is (table.py)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from weft.errors import WeftError
from weft.ops import typing
from weft.ops.monoid import Monoid
from weft.ops.scalar import Number, Scalar
from weft.ops.typing import Typing

Neutral: TypeAlias = Callable[[np.dtype[Any]], object]
#: The partial derivatives of an operation, given its arguments and its value.
Partials: TypeAlias = Callable[..., tuple[Number, ...]]

#: What an operation takes, in additions, if not one: about, on any machine (`recompute_operations` weighs it).
_PRICES: Mapping[Typing, int] = {
    typing.reals: 64,
    typing.bits: 128,
    typing.states: 64,
    **dict.fromkeys(typing.MOVING, 0),
}
_INSTRUCTION = 8


@dataclass(frozen=True, slots=True)
class Op:
    """One row of the table."""

    name: str
    arity: int
    text: str
    meaning: Callable[..., Any]
    c: str
    triton: str
    gradient: Partials
    typing: Typing = typing.alike
    neutral: Neutral | None = None
    start: Neutral | None = None
    #: The operations it distributes over: with such a one accumulated over it, it makes a semiring.
    over: tuple[str, ...] = ()
    commutative: bool = False
    associative: bool = False
    idempotent: bool = False
    #: Is its value never negative, nor -0.0?
    unsigned: bool = False
    #: Of real numbers, is it one instruction of the machine, if a slow one? Others are functions, approximated.
    instruction: bool = False
    #: Is it written out in C, so that a compiler runs it on vectors?
    vectorised: bool = False
    #: May an accumulation take its values in any order, though it is no group's operation?
    unordered: bool = False
    #: What it is defined by, where it joins the states of an accumulation.
    monoid: Monoid | None = None

    @property
    def identity(self) -> str:
        """What tells it from every other operation, in any process."""
        return f"{self.name} {self.monoid.definition}" if self.monoid else self.name

    @property
    def truth(self) -> bool:
        """Is its value a truth value, through which no gradient flows?"""
        return self.typing in (typing.compared, typing.truths)

    @property
    def reorderable(self) -> bool:
        """May an accumulation by it take its values in any order, up to rounding?"""
        return self.unordered or (self.commutative and self.associative)

    @property
    def price(self) -> int:
        """What it takes, in additions: nothing to pass a value on, much for a function or random bits."""
        return _INSTRUCTION if self.instruction else _PRICES.get(self.typing, 1)

    @property
    def function(self) -> bool:
        """Is it many operations in a row?"""
        return self.typing is typing.reals and not self.instruction

    @property
    def begins(self) -> Neutral | None:
        """What an assignment that starts afresh begins with: the neutral element, or what takes its place."""
        return self.neutral or self.start

    @property
    def infix(self) -> bool:
        return self.arity == 2 and not self.text.isidentifier()


def unary(
    name: str,
    meaning: Callable[..., Any],
    c: str,
    triton: str,
    gradient: Partials,
    text: str = "",
    typing: Typing = typing.alike,
    **facts: Any,
) -> Op:
    return Op(name, 1, text or name, meaning, c, triton, gradient, typing, None, None, (), **facts)


def flat(*args: Scalar) -> tuple[Number, ...]:
    """The gradient of an operation that is constant almost everywhere."""
    return tuple(0 for _ in args[:-1])


def no_gradient(name: str) -> Partials:
    """What asking for the gradient of an operation that has none comes to."""

    def refuse(*args: Scalar) -> tuple[Number, ...]:
        fix = "differentiate by something else, or compute this apart and pass it in"
        raise WeftError(f"`{name}` has no derivative", fix=fix)

    return refuse
