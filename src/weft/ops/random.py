"""Random numbers, the same on every backend to the last bit.

Bits come from a counter. Whatever is made of them is made of operations that are exact or rounded once everywhere,
`+ - * /`, roots and comparisons, in an order that is written down: here, and in C in `primitives.h`.
"""

from __future__ import annotations

from math import factorial, log, pi
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_ROTATIONS = ((10, 26), (11, 21), (13, 27), (23, 5), (6, 20), (17, 11), (25, 10), (18, 20))
_PARITY = np.uint32(0x1BD11BDA)
#: Of the logarithm, by the square of (x - 1) / (x + 1); of sine and cosine, by the square of the angle. How many terms
#: count depends on the precision.
_LOGARITHM = [1 / (2 * k + 1) for k in range(12)]
_SINE = [(-1) ** k / factorial(2 * k + 1) for k in range(9)]
_COSINE = [(-1) ** k / factorial(2 * k) for k in range(9)]
_TERMS = {np.dtype(np.float32): (6, 5, 6), np.dtype(np.float64): (12, 9, 9)}


def threefry4x32(key: npt.ArrayLike, counter: npt.ArrayLike) -> Array:
    """Threefry-4x32 with 20 rounds: 64 random bits for a 64-bit key and a 64-bit counter, the other words zero."""
    key_words = _words(key)
    key_words.append(key_words[0] ^ key_words[1] ^ _PARITY)
    schedule = [key_words[0], key_words[1], np.zeros_like(key_words[0]), np.zeros_like(key_words[0]), key_words[2]]
    words = [*_words(counter)]
    words += [np.zeros_like(words[0]), np.zeros_like(words[0])]
    with np.errstate(over="ignore"):
        words = [word + schedule[at] for at, word in enumerate(words)]
        for round_index in range(20):
            words = _round(words, round_index)
            if round_index % 4 == 3:
                words = _inject(words, schedule, round_index // 4 + 1)
    return np.asarray(words[0].astype(np.uint64) | (words[1].astype(np.uint64) << np.uint64(32)))


def unit_interval(bits: npt.ArrayLike, digits: npt.ArrayLike) -> Array:
    """A number in [0, 1) from 64 random bits: so many of the highest, exact in the type the digits are given in."""
    number = np.asarray(digits)
    number = np.where((number >= 1) & (number <= 53), number, 53).astype(number.dtype)
    top = np.asarray(bits).astype(np.uint64) >> (64 - number).astype(np.uint64)
    return np.asarray(np.ldexp(top.astype(number.dtype), -number.astype(np.int32)))


def standard_normal(first: npt.ArrayLike, second: npt.ArrayLike, digits: npt.ArrayLike) -> Array:
    """A standard normal number from twice 64 random bits, by the method of Box and Muller."""
    radius = np.sqrt(2 * _minus_log(1 - unit_interval(first, digits)))
    return np.asarray(radius * _cosine_of_turns(unit_interval(second, digits)))


def _minus_log(x: Array) -> Array:
    """The logarithm of 1 / x, for x above 0 and at most 1: x is brought between 2/3 and 4/3."""
    halvings = np.zeros_like(x)
    for step in (32, 16, 8, 4, 2, 1):
        small = x < x.dtype.type(4 / 3 * 2.0**-step)
        x, halvings = np.where(small, x * x.dtype.type(2.0**step), x), np.where(small, halvings + step, halvings)
    ratio = (x - 1) / (x + 1)
    return np.asarray(halvings * log(2) - 2 * ratio * _polynomial(_LOGARITHM[: _TERMS[x.dtype][0]], ratio * ratio))


def _cosine_of_turns(x: Array) -> Array:
    """The cosine of so many turns, by quarters."""
    quarter = np.floor(4 * x + 0.5)
    angle = (4 * x - quarter) * (pi / 2)
    _, sines, cosines = _TERMS[x.dtype]
    sine = angle * _polynomial(_SINE[:sines], angle * angle)
    cosine = _polynomial(_COSINE[:cosines], angle * angle)
    size = np.where((quarter == 1) | (quarter == 3), sine, cosine)
    return np.where((quarter == 1) | (quarter == 2), -size, size)


def _polynomial(coefficients: list[float], x: Array) -> Array:
    total = np.full_like(x, coefficients[-1])
    for one in reversed(coefficients[:-1]):
        total = total * x + x.dtype.type(one)
    return total


def _words(value: npt.ArrayLike) -> list[Array]:
    bits = np.asarray(value).astype(np.uint64)
    return [(bits & np.uint64(0xFFFFFFFF)).astype(np.uint32), (bits >> np.uint64(32)).astype(np.uint32)]


def _round(words: list[Array], round_index: int) -> list[Array]:
    first, second = _ROTATIONS[round_index % 8]
    a, b, c, d = words if round_index % 2 == 0 else (words[0], words[3], words[2], words[1])
    a = a + b
    b = _rotate(b, first) ^ a
    c = c + d
    d = _rotate(d, second) ^ c
    return [a, b, c, d] if round_index % 2 == 0 else [a, d, c, b]


def _inject(words: list[Array], schedule: list[Array], number: int) -> list[Array]:
    mixed = [word + schedule[(number + at) % 5] for at, word in enumerate(words)]
    mixed[3] = mixed[3] + np.uint32(number)
    return mixed


def _rotate(word: Array, by: int) -> Array:
    rotated: Array = (word << np.uint32(by)) | (word >> np.uint32(32 - by))
    return rotated
