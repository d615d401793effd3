"""How operations are typed: from the types of the operands, the types they meet in and the type of the value.

Each row of the table names one of these rules. They work on stored types, to infer what a result is stored in, and on
carriers, to say what is computed in what.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TypeAlias

from weft.ops.dtypes import aggregate, arithmetic_type, fields, numeric, promote, real

#: The types the operands are converted to, and the type of the value.
Typed: TypeAlias = tuple[tuple[str, ...], str]
Typing: TypeAlias = Callable[..., Typed]


@cache
def alike(*types: str) -> Typed:
    """Arithmetic: operands and value have one type."""
    common = numeric(promote(*map(arithmetic_type, types)))
    return (common,) * len(types), common


@cache
def reals(*types: str) -> Typed:
    """Operations on real numbers: whole numbers become floats."""
    common = promote(*map(real, types))
    return (common,) * len(types), common


@cache
def last_digits(*types: str) -> Typed:
    """Operations on the last digits of numbers: those of the type they are computed in, single precision at least."""
    common = promote(*map(real, types))
    common = "float32" if common in ("float16", "bfloat16") else common
    return (common,) * len(types), common


@cache
def compared(*types: str) -> Typed:
    """Comparisons: the operands meet, the value is a truth value."""
    return (promote(*types),) * len(types), "bool"


def truths(*types: str) -> Typed:
    """Logic: everything is a truth value."""
    return ("bool",) * len(types), "bool"


def first(*types: str) -> Typed:
    """The first operand as it is."""
    return types, types[0]


def second(*types: str) -> Typed:
    """The second operand as it is."""
    return types, types[1]


@cache
def selection(condition: str, *types: str) -> Typed:
    """A choice by a truth value between operands that meet."""
    common = promote(*types)
    return ("bool", *(common for _ in types)), common


def bits(*types: str) -> Typed:
    """Operations on 64 bits."""
    return ("uint64",) * len(types), "uint64"


def drawn(*types: str) -> Typed:
    """From 64 random bits, or twice as many, to a number of the type its digits are given in."""
    *_, last = types
    return (*("uint64" for _ in types[1:]), real(last)), real(last)


@cache
def place(of: str) -> Typed:
    """Where a number stands among all of its type; truth values are whole numbers here."""
    return (numeric(of),), "uint64"


def states(left: str, right: str) -> Typed:
    """Two states of an accumulation make another."""
    return (left, left), left


def packed(*types: str) -> Typed:
    """Several numbers together."""
    return types, aggregate(*types)


@cache
def item(number: int) -> Typing:
    """One of several numbers that are together."""
    return lambda whole: ((whole,), fields(whole)[number])


#: The rules of operations that compute nothing.
MOVING = (first, second, packed)
