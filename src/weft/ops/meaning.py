"""The NumPy meaning of the primitives NumPy does not have."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.ops.convert import convert

Array = npt.NDArray[Any]

_erf = np.vectorize(math.erf, otypes=[np.float64])


def erf(x: npt.ArrayLike) -> Array:
    """The error function, in the operand's precision."""
    values = np.asarray(x)
    dtype = values.dtype if values.dtype.kind == "f" else np.dtype(np.float64)
    return np.asarray(_erf(values)).astype(dtype)


def sign(x: npt.ArrayLike) -> Array:
    """-1, 0 or 1; truth values are their own signs."""
    values = np.asarray(x)
    return values if values.dtype == bool else np.asarray(np.sign(values))


def type_as(x: npt.ArrayLike, y: npt.ArrayLike) -> Array:
    """The first as it is stored in the type of the second."""
    first, second = np.broadcast_arrays(x, y)
    return np.asarray(convert(first, second.dtype.name))


def floor_divide(x: npt.ArrayLike, y: npt.ArrayLike) -> Array:
    """The quotient rounded down, once: 1 // 0.1 is 9, since 0.1 is more than a tenth. Whole numbers divided by zero
    give zero."""
    return np.asarray(np.floor_divide(x, y))


def power(x: npt.ArrayLike, y: npt.ArrayLike) -> Array:
    """The power; a whole number to a negative one is the quotient of 1 by its power, cut off."""
    base, exponent = np.broadcast_arrays(x, y)
    if np.result_type(x, y).kind != "i":  # by an exponent that is the same for all, NumPy takes roots: of -inf, not C's
        every = (np.array(one, ndmin=1) for one in (base, exponent))
        return np.asarray(np.power(*every)).reshape(base.shape)
    sign = np.where(exponent % 2 == 0, 1, base)
    return np.where(exponent >= 0, np.power(base, np.maximum(exponent, 0)), np.where(abs(base) == 1, sign, 0))


def sigmoid(x: npt.ArrayLike) -> Array:
    """`1 / (1 + exp(-x))`, by a power that is never too large."""
    power = np.exp(-np.abs(x))
    return np.asarray(np.where(np.less(x, 0), power, np.ones_like(power)) / (1 + power))


def precedes(x: npt.ArrayLike, y: npt.ArrayLike) -> Array:
    """Does `x` come before `y` in order? What is not a number comes last."""
    return np.asarray(np.less(x, y) | (np.not_equal(y, y) & np.equal(x, x)))


def order_place(x: npt.ArrayLike) -> Array:
    """Where a number stands among all of its type, in order: numbers that are equal, or none, stand in one place."""
    values = np.asarray(x)
    if values.dtype.kind == "b":
        values = values.astype(np.int64)
    bits = np.dtype(f"u{values.dtype.itemsize}").type
    first = bits(1 << (8 * values.dtype.itemsize - 1))
    place = np.where(values == 0, np.zeros_like(values), values).view(bits)
    if values.dtype.kind == "f":
        place = np.where(place >= first, ~place, place | first)
        place = np.where(np.isnan(values), ~bits(0), place)
    elif values.dtype.kind == "i":
        place = place ^ first
    return np.asarray(place).astype(np.uint64)


def fused_multiply_add(x: npt.ArrayLike, y: npt.ArrayLike, z: npt.ArrayLike) -> Array:
    """`x * y + z`, rounded once."""
    dtype = np.result_type(x, y, z)
    if dtype.kind != "f":
        return np.asarray(np.add(np.multiply(x, y), z))
    exact = _fused(np.asarray(x), np.asarray(y), np.asarray(z), dtype == np.float64)
    with np.errstate(over="ignore"):
        return np.asarray(exact).astype(dtype)


def _fused_once(x: float, y: float, z: float, double: bool) -> float:
    """The exact value rounded to double precision; towards an odd last digit if it is rounded again afterwards.

    What is rounded so can be rounded to fewer digits as if it were still exact: it never lies halfway by chance.
    """
    if not (math.isfinite(x) and math.isfinite(y)) or not x or not y:
        return x * y + z
    if not math.isfinite(z):
        return z
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    if not exact:
        return 0.0
    try:
        near = exact.numerator / exact.denominator
    except OverflowError:
        return math.inf if exact > 0 else -math.inf
    rest = exact - Fraction(near)
    if double or not rest or int(np.float64(near).view(np.int64)) & 1:
        return near
    return math.nextafter(near, math.inf if rest > 0 else -math.inf)


_fused = np.vectorize(_fused_once, otypes=[np.float64])
