"""Element types: which there are, what meets what, and in which type each is computed.

A tensor is *stored* in one of `ELEMENT_TYPES`. It is *computed* in the carrier of its type: whole numbers in 64 bits,
so that nothing wraps before it is stored; floats narrower than single precision in single precision, so that each
assignment rounds once. A number written in the program has a weak type, which takes the type of what it meets.

Types are ordered by what meets in what: `promote` gives the least type above some others, and what operations make of
types rises with them. That is why types can be inferred in any order. Two kinds of number have no element type below
all that they may still meet: what truth values add up to, and a sum of unsigned numbers. They are open until nothing
raises them any more.

An accumulation may carry several numbers: their types together are an *aggregate*, written `float32.int64`. Buffers and
variables of the loop language have such a type until they are split; no tensor is stored in one.
"""

from __future__ import annotations

from difflib import get_close_matches
from functools import cache
from math import inf
from typing import Any

import ml_dtypes
import numpy as np

from weft.errors import WeftError

#: The types of numbers that take the type of what they meet.
WEAK_INT, WEAK_FLOAT = "int", "float"
#: The types of what is not known yet, of what truth values come to as numbers, of sums of unsigned numbers.
UNKNOWN, WHOLE, NATURAL = "unknown", "whole", "natural"
#: What a number is stored in where nothing says otherwise.
DEFAULT = "float32"

_FLOATS = ("float16", "bfloat16", "float32", "float64")
_FLOATS8 = ("float8_e4m3fn", "float8_e5m2")
_SIGNED = ("int8", "int16", "int32", "int64")
_UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
_DIGITS = {"float8_e5m2": 3, "float8_e4m3fn": 4, "bfloat16": 8, "float16": 11, "float32": 24, "float64": 53}
#: Every type a tensor can be stored in, by NumPy's name.
ELEMENT_TYPES = ("bool", *_SIGNED, *_UNSIGNED, *_FLOATS8, *_FLOATS)


def aggregate(*names: str) -> str:
    """The type of several numbers together, of these types: the state of an accumulation. Tensors are of one each."""
    return ".".join(names)


def fields(name: str) -> tuple[str, ...]:
    """The types of the numbers in a value: several in an aggregate."""
    return tuple(name.split("."))


@cache
def numpy_type(name: str) -> np.dtype[Any]:
    """The NumPy type of an element type, or of an aggregate."""
    if "." in name:
        return np.dtype([(f"f{at}", numpy_type(one)) for at, one in enumerate(fields(name))])
    return np.dtype(getattr(ml_dtypes, name) if name in ("bfloat16", *_FLOATS8) else name)


@cache
def name_of(dtype: np.dtype[Any]) -> str:
    """What NumPy calls a type; asking NumPy takes microseconds."""
    return dtype.name


def element_type(dtype: Any) -> str:
    """The name of an element type a person gave: a name, a NumPy type, a type of ml_dtypes."""
    try:
        found = numpy_type(dtype) if isinstance(dtype, str) and dtype in ELEMENT_TYPES else np.dtype(dtype)
    except (TypeError, ValueError):
        found = np.dtype(object)
    if dtype is None or not found.isnative or found.name not in ELEMENT_TYPES:  # None is float64 to NumPy
        near = get_close_matches(dtype, ELEMENT_TYPES, 1) if isinstance(dtype, str) else []
        fix = f"use one of {', '.join(ELEMENT_TYPES)}" + (f"; did you mean {near[0]!r}?" if near else "")
        raise WeftError(f"{dtype!r} is not an element type", fix=fix)
    return found.name


def is_weak(name: str) -> bool:
    """Does a value of this type take the type of what it meets?"""
    return name in (WEAK_INT, WEAK_FLOAT)


def is_float(name: str) -> bool:
    return name in _FLOATS or name in _FLOATS8 or name == WEAK_FLOAT


@cache
def limits(name: str) -> tuple[float, float]:
    """The least and the greatest number of a type; of floats they are infinite."""
    kind = numpy_type(name)
    if kind.kind not in "iu":
        return (0, 1) if name == "bool" else (-inf, inf)
    return int(np.iinfo(kind).min), int(np.iinfo(kind).max)


@cache
def decided(name: str) -> str:
    """The element type of a number that nothing raises any more."""
    return {WHOLE: "int64", NATURAL: "uint64", UNKNOWN: DEFAULT, WEAK_INT: DEFAULT, WEAK_FLOAT: DEFAULT}.get(name, name)


@cache
def carrier(name: str) -> str:
    """The type a value stored so is computed in: bool, int64, uint64, float32 or float64, or an aggregate of these."""
    if name in ("bool", "uint64", "float64") or "." in name:
        return name
    return "float32" if is_float(name) else "int64"


@cache
def digits(name: str) -> int:
    """How many binary digits a float type holds; one that is not known yet counts as single precision."""
    return _DIGITS.get(name, 24)


@cache
def arithmetic_type(name: str) -> str:
    """The type arithmetic starts from: eight-bit floats are only stored."""
    return "float32" if name in _FLOATS8 else name


@cache
def numeric(name: str) -> str:
    """The type of a number: a truth value is the number 1 or 0."""
    return WHOLE if name == "bool" else name


@cache
def real(name: str) -> str:
    """The type of an operation that has no whole-number meaning, such as an exponential."""
    return arithmetic_type(name) if is_float(name) else WEAK_FLOAT


@cache
def total(name: str) -> str:
    """The type of a sum or product: whole numbers are added up in 64 bits."""
    if name in _UNSIGNED:
        return name if name == "uint64" else NATURAL
    return "int64" if name in _SIGNED else numeric(arithmetic_type(name))


@cache
def accumulator_type(name: str) -> str:
    """The type a sum stored so is accumulated in."""
    return "float32" if name in ("float16", "bfloat16", *_FLOATS8) else name


@cache
def promote(*names: str) -> str:
    """The type in which values of some types meet.

    A float keeps its precision beside whole numbers and numbers of the program; two kinds of narrow float need 32 bits.
    """
    floats = {name for name in names if is_float(name) and name != WEAK_FLOAT}
    if floats:
        return _float(floats)
    if WEAK_FLOAT in names:
        return WEAK_FLOAT
    kinds = set(names) - {UNKNOWN}
    whole = kinds - {"bool", WEAK_INT, WHOLE}
    if whole:
        return _whole(whole)
    return kinds.pop() if len(kinds) == 1 else WHOLE if kinds else UNKNOWN


def _float(names: set[str]) -> str:
    if len(names) == 1:
        return names.pop()
    return "float64" if "float64" in names else "float32"


def _whole(names: set[str]) -> str:
    signed = [_SIGNED.index(name) for name in names if name in _SIGNED]
    unsigned = [_UNSIGNED.index(name) for name in names if name in _UNSIGNED]
    if not signed:
        return "uint64" if "uint64" in names else NATURAL if NATURAL in names else _UNSIGNED[max(unsigned)]
    if "uint64" in names:
        raise WeftError(
            f"no whole-number type holds both uint64 and {_SIGNED[max(signed)]}",
            fix='convert one of them first: wf.cast(t, "int64")',
        )
    return "int64" if NATURAL in names else _SIGNED[max(*signed, max(unsigned, default=-1) + 1)]
