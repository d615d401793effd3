"""Scalar expressions over the primitive operations.

scalar = Num(value) | Call(op, args) | the leaves of whoever builds the expression
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias


class Scalar:
    """A scalar expression. Python's operators build larger ones; leaves are subclasses."""

    __slots__ = ()

    def __add__(self, other: Number) -> Scalar:
        return call("add", self, other)

    def __radd__(self, other: Number) -> Scalar:
        return call("add", other, self)

    def __sub__(self, other: Number) -> Scalar:
        return call("sub", self, other)

    def __rsub__(self, other: Number) -> Scalar:
        return call("sub", other, self)

    def __mul__(self, other: Number) -> Scalar:
        return call("mul", self, other)

    def __rmul__(self, other: Number) -> Scalar:
        return call("mul", other, self)

    def __truediv__(self, other: Number) -> Scalar:
        return call("div", self, other)

    def __rtruediv__(self, other: Number) -> Scalar:
        return call("div", other, self)

    def __pow__(self, other: Number) -> Scalar:
        return call("pow", self, other)

    def __mod__(self, other: Number) -> Scalar:
        return call("mod", self, other)

    def __neg__(self) -> Scalar:
        return call("neg", self)

    def __lt__(self, other: Number) -> Scalar:
        return call("lt", self, other)

    def __le__(self, other: Number) -> Scalar:
        return call("le", self, other)

    def __gt__(self, other: Number) -> Scalar:
        return call("lt", other, self)

    def __ge__(self, other: Number) -> Scalar:
        return call("le", other, self)


@dataclass(frozen=True, slots=True)
class Num(Scalar):
    value: float | int | bool


@dataclass(frozen=True, slots=True)
class Call(Scalar):
    op: str
    args: tuple[Scalar, ...]


Number: TypeAlias = Scalar | float | int


def scalar(value: Number) -> Scalar:
    return value if isinstance(value, Scalar) else Num(value)


def call(op: str, *args: Number) -> Call:
    """The application of an operation; plain numbers become constants."""
    return Call(op, tuple(scalar(arg) for arg in args))


def leaves(expression: Scalar) -> Iterator[Scalar]:
    """Everything in the expression that is not a call, in the order written."""
    if isinstance(expression, Call):
        for arg in expression.args:
            yield from leaves(arg)
    else:
        yield expression


def substitute(expression: Scalar, leaf: Callable[[Scalar], Scalar]) -> Scalar:
    """The expression with every leaf replaced."""
    if isinstance(expression, Call):
        return Call(expression.op, tuple(substitute(arg, leaf) for arg in expression.args))
    return leaf(expression)


def where(condition: Number, then: Number, otherwise: Number) -> Call:
    return call("where", condition, then, otherwise)
