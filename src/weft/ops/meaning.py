"""The NumPy meaning of the primitives NumPy does not have."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_ROTATIONS = ((10, 26), (11, 21), (13, 27), (23, 5), (6, 20), (17, 11), (25, 10), (18, 20))
_PARITY = np.uint32(0x1BD11BDA)
_erf = np.vectorize(math.erf, otypes=[np.float64])


def erf(x: npt.ArrayLike) -> Array:
    """The error function, in the operand's precision."""
    values = np.asarray(x)
    dtype = values.dtype if values.dtype.kind == "f" else np.dtype(np.float64)
    return np.asarray(_erf(values)).astype(dtype)


def floor_divide(x: npt.ArrayLike, y: npt.ArrayLike) -> Array:
    """The quotient rounded down; whole numbers divided by zero give zero."""
    quotient = np.floor_divide(x, y) if np.result_type(x, y).kind in "iu" else np.floor(np.divide(x, y))
    return np.asarray(quotient)


def power(x: npt.ArrayLike, y: npt.ArrayLike) -> Array:
    """The power; a whole number to a negative one is the quotient of 1 by its power, cut off."""
    if np.result_type(x, y).kind != "i":
        return np.asarray(np.power(x, y))
    base, exponent = np.broadcast_arrays(np.asarray(x), np.asarray(y))
    sign = np.where(exponent % 2 == 0, 1, base)
    return np.where(exponent >= 0, np.power(base, np.maximum(exponent, 0)), np.where(abs(base) == 1, sign, 0))


def fused(x: npt.ArrayLike, y: npt.ArrayLike, z: npt.ArrayLike) -> Array:
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


def threefry4x32(key: npt.ArrayLike, counter: npt.ArrayLike) -> Array:
    """Threefry-4x32 with 20 rounds: 64 random bits for a 64-bit key and a 64-bit counter, the other words zero."""
    key_words = _words(key)
    key_words.append(key_words[0] ^ key_words[1] ^ _PARITY)
    schedule = [key_words[0], key_words[1], np.zeros_like(key_words[0]), np.zeros_like(key_words[0]), key_words[2]]
    words = [*_words(counter)]
    words += [np.zeros_like(words[0]), np.zeros_like(words[0])]
    with np.errstate(over="ignore"):
        words = [word + schedule[at] for at, word in enumerate(words)]
        for turn in range(20):
            words = _round(words, turn)
            if turn % 4 == 3:
                words = _inject(words, schedule, turn // 4 + 1)
    return np.asarray(words[0].astype(np.uint64) | (words[1].astype(np.uint64) << np.uint64(32)))


def unit_interval(bits: npt.ArrayLike) -> Array:
    """A number in [0, 1) from 64 random bits: the top 24 bits, exact in single precision."""
    top = np.asarray(bits).astype(np.uint64) >> np.uint64(40)
    return (top.astype(np.float32) * np.float32(2.0**-24)).astype(np.float32)


def _words(value: npt.ArrayLike) -> list[Array]:
    bits = np.asarray(value).astype(np.uint64)
    return [(bits & np.uint64(0xFFFFFFFF)).astype(np.uint32), (bits >> np.uint64(32)).astype(np.uint32)]


def _round(words: list[Array], turn: int) -> list[Array]:
    first, second = _ROTATIONS[turn % 8]
    a, b, c, d = words if turn % 2 == 0 else (words[0], words[3], words[2], words[1])
    a = a + b
    b = _rotate(b, first) ^ a
    c = c + d
    d = _rotate(d, second) ^ c
    return [a, b, c, d] if turn % 2 == 0 else [a, d, c, b]


def _inject(words: list[Array], schedule: list[Array], number: int) -> list[Array]:
    mixed = [word + schedule[(number + at) % 5] for at, word in enumerate(words)]
    mixed[3] = mixed[3] + np.uint32(number)
    return mixed


def _rotate(word: Array, by: int) -> Array:
    rotated: Array = (word << np.uint32(by)) | (word >> np.uint32(32 - by))
    return rotated
