"""Functions of mathematics that NumPy does not have, in double precision.

This is what the interpreter computes with, so it is written to be seen to be right: sums that converge, equations that
are solved, identities. Values are within a few units of the last place of the larger of the value and, where a
function crosses zero, 1 (tests/ops/test_ops_library.py says how many).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]

_ROOT_2, _ROOT_PI = math.sqrt(2), math.sqrt(math.pi)
#: 1 / sqrt(2) to twice the precision.
_HALF_ROOT, _HALF_ROOT_REST = 0.7071067811865476, -4.833646656726457e-17
_EULER = 0.5772156649015329
#: The Bernoulli numbers B2, B4, … of the series below.
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)


def in_double(function: Callable[..., Array]) -> Callable[..., Array]:
    """A function computed in double precision and rounded once to that of its operands."""

    def meaning(*args: npt.ArrayLike) -> Array:
        arrays = [np.asarray(one) for one in args]
        common = np.result_type(*arrays)
        dtype = common if common.kind == "f" else np.dtype(np.float64)
        with np.errstate(all="ignore"):
            return np.asarray(function(*(one.astype(np.float64) for one in arrays))).astype(dtype)

    return meaning


def each(function: Callable[..., float], failing: Callable[..., float]) -> Callable[..., Array]:
    """A function of Python's `math`, cell by cell; `failing` gives the value where it refuses to."""

    def one(*args: float) -> float:
        try:
            return function(*args)
        except (ValueError, OverflowError):
            return failing(*args)

    lifted = np.vectorize(one, otypes=[np.float64])
    return in_double(lambda *args: lifted(*args))


# The error function and its relatives


erfc = np.vectorize(math.erfc, otypes=[np.float64])
_erf = np.vectorize(math.erf, otypes=[np.float64])


def erfcx(x: Array) -> Array:
    """exp(x²) erfc(x); far out, where those leave the range of numbers, its expansion in 1 / x²."""
    near = np.minimum(x, 25.0)
    high, low = _product(near, near)
    small = 1 / (2 * np.square(np.maximum(x, 25.0)))
    series = 1 - small * (1 - 3 * small * (1 - 5 * small * (1 - 7 * small * (1 - 9 * small * (1 - 11 * small)))))
    nearby = np.where(near < -27, np.inf, np.exp(high) * erfc(near) * (1 + low))
    return np.where(x < 25, nearby, np.where(np.isnan(x), x, series / (x * _ROOT_PI)))


def erfinv(x: Array) -> Array:
    """Where the error function is x: near 0 by itself, near its ends by its complement."""
    size = np.abs(x)
    nearby = _inverted(np.minimum(size, 0.5), _erf, np.log1p(-np.square(np.minimum(size, 0.5))), 1.0)
    return np.copysign(np.where(size <= 0.5, nearby, _erfcinv_of_less(1 - size)), x)


def erfcinv(x: Array) -> Array:
    """Where the complementary error function is x."""
    middle = erfinv(1 - x)  # exact there, as 1 - x is
    return np.where(x < 0.5, _erfcinv_of_less(x), np.where(x <= 1.5, middle, -_erfcinv_of_less(2 - x)))


def _erfcinv_of_less(x: Array) -> Array:
    """The inverse of erfc for x from 0 to 1."""
    inside = np.where((x > 0) & (x <= 1), x, 0.5)
    found = _inverted(inside, erfc, np.log(inside) + np.log(2 - inside), -1.0)
    return np.where(x == 0, np.inf, np.where((x > 0) & (x <= 1), found, np.nan))


def _inverted(x: Array, function: Callable[[Array], Array], logarithm: Array, sign: float) -> Array:
    """Halley's steps for `function(y) = x` from a guess by Winitzki, given the logarithm of 1 - erf(y)²."""
    half = 2 / (math.pi * 0.147) + logarithm / 2
    found = np.sqrt(np.maximum(np.sqrt(np.square(half) - logarithm / 0.147) - half, 0.0))
    for _ in range(3):
        step = sign * (function(found) - x) * np.exp(np.square(found)) * (_ROOT_PI / 2)
        found = found - step / (1 + found * step)
    return found


def normcdf(x: Array) -> Array:
    """The normal distribution: erfc(-x / sqrt(2)) / 2, with what rounding its argument takes away put back."""
    near = np.clip(x, -40.0, 40.0)  # further out it is 0 or 1
    at, rest = _product(near, np.full_like(x, _HALF_ROOT))
    slope = np.exp(-np.square(at)) * (2 / _ROOT_PI)
    return np.asarray(0.5 * (erfc(-at) + slope * (rest + near * _HALF_ROOT_REST)))


def normcdfinv(x: Array) -> Array:
    """Where the normal distribution is x."""
    return np.asarray(-_ROOT_2 * erfcinv(2 * x) + 0.0)


def _product(x: Array, y: Array) -> tuple[Array, Array]:
    """A product and what rounding took away from it (Dekker)."""
    (a, b), (c, d) = _split(x), _split(y)
    product = x * y
    return product, ((a * c - product) + a * d + b * c) + b * d


def _split(x: Array) -> tuple[Array, Array]:
    """A number as two of half as many digits."""
    shifted = x * 134217729.0
    high = shifted - (shifted - x)
    return high, x - high


# The gamma function and its logarithmic derivatives


def lgamma(x: Array) -> Array:
    """The logarithm of the gamma function's size; around 1 and 2, where it is 0, by its series there."""
    near = np.where((x > 0.5) & (x < 2.5), x, 2.0)
    from_2 = np.where(near < 1.5, near - 1, near - 2)
    series = from_2 * (1 - _EULER)
    for k in range(30, 1, -1):
        series = series + (-from_2) ** k * (_hurwitz(k, np.asarray(2.0)) / k)
    series = np.where(near < 1.5, series - np.log1p(from_2), series)
    return np.where(near == x, series, _lgamma(x))


_lgamma = each(math.lgamma, lambda x: math.inf)
tgamma = each(math.gamma, lambda x: math.copysign(math.inf, x) if abs(x) < 1 or x > 1 else math.nan)


def digamma(x: Array) -> Array:
    """The derivative of the logarithm of the gamma function: its expansion at x + 10, reflected where x is negative."""
    from_0 = np.where(x < 0, 1 - x, x)
    far = from_0 + 10
    found = np.log(far) - 1 / (2 * far)
    for k, number in reversed(list(enumerate(_BERNOULLI, 1))):
        found = found - number / (2 * k) * far ** (-2.0 * k)
    for n in range(9, -1, -1):
        found = found - 1 / (from_0 + n)
    turn = sinpi(x) / cospi(x)
    pole = np.where(x == 0, np.copysign(np.inf, -x), np.nan)
    return np.where((x <= 0) & (np.floor(x) == x), pole, np.where(x < 0, found - math.pi / turn, found))


def trigamma(x: Array) -> Array:
    """The derivative of `digamma`: the sum of 1 / (x + n)², reflected where x is negative."""
    found = _hurwitz(2, np.where(x < 0, 1 - x, x))
    return np.where(x < 0, np.square(math.pi / sinpi(x)) - found, found)


def _hurwitz(s: int, x: Array) -> Array:
    """The sum of (x + n)^-s over n = 0, 1, …, for s > 1 and x >= 0: ten terms, the rest by Euler and Maclaurin."""
    far = x + 10
    found = far ** (1.0 - s) / (s - 1) + far ** (-1.0 * s) / 2
    rising, factorial = float(s), 2.0
    for k, number in enumerate(_BERNOULLI, 1):
        found = found + number * rising / factorial * far ** (1.0 - s - 2 * k)
        rising *= (s + 2 * k - 1) * (s + 2 * k)
        factorial *= (2 * k + 1) * (2 * k + 2)
    for n in range(9, -1, -1):
        found = found + (x + n) ** (-1.0 * s)
    return np.asarray(found)


# Bessel functions


_ANGLES = 2 * np.pi * np.arange(128) / 128
#: From here on the expansion at infinity is exact to the last digit.
_FAR = 25.0


def j0(x: Array) -> Array:
    return np.where(np.abs(x) < _FAR, _first_kind(x)[..., 0], _at_infinity(0, np.abs(x))[0])


def j1(x: Array) -> Array:
    found = _first_kind(x)
    nearby = np.where(np.abs(x) < 2, x / 2 * (found[..., 0] + found[..., 2]), found[..., 1])
    return np.where(np.abs(x) < _FAR, nearby, np.copysign(1, x) * _at_infinity(1, np.abs(x))[0])


def y0(x: Array) -> Array:
    found = _first_kind(x)
    orders = np.arange(2, 64, 2)
    rest = (found[..., orders] * (-1.0) ** (orders // 2) / (orders // 2)).sum(-1)
    nearby = 2 / math.pi * ((np.log(x / 2) + _EULER) * found[..., 0] - 2 * rest)
    return _second_kind(x, np.where(x < _FAR, nearby, _at_infinity(0, np.maximum(x, _FAR))[1]))


def y1(x: Array) -> Array:
    found = _first_kind(x)
    orders = np.arange(2, 63, 2)
    slopes = (found[..., orders - 1] - found[..., orders + 1]) / 2
    rest = (slopes * (-1.0) ** (orders // 2) / (orders // 2)).sum(-1)
    grows = (np.log(x / 2) + _EULER) * j1(x)
    nearby = 2 / math.pi * (grows + 2 * rest - found[..., 0] / x)
    return _second_kind(x, np.where(x < _FAR, nearby, _at_infinity(1, np.maximum(x, _FAR))[1]))


def _second_kind(x: Array, found: Array) -> Array:
    return np.where(x == 0, -np.inf, np.where(x < 0, np.nan, found))


def _first_kind(x: Array) -> Array:
    """J0(x), J1(x), …: the mean of exp(i (x sin t - n t)) over a turn, which so many points give exactly."""
    inside = np.where(np.abs(x) < _FAR, x, 0.0)
    waves = np.exp(1j * inside[..., None] * np.sin(_ANGLES))
    return np.asarray(np.fft.fft(waves).real / len(_ANGLES))


def _at_infinity(order: int, x: Array) -> tuple[Array, Array]:
    """The functions of both kinds by Hankel's expansion in 1 / x."""
    x = np.maximum(x, _FAR)
    term, even, odd = np.ones_like(x), np.zeros_like(x), np.zeros_like(x)
    for k in range(24):
        sign = -1 if k // 2 % 2 else 1
        even, odd = (even, odd + sign * term) if k % 2 else (even + sign * term, odd)
        term = term * (4 * order**2 - (2 * k + 1) ** 2) / (8 * (k + 1) * x)
    plus, minus = np.cos(x) + np.sin(x), np.sin(x) - np.cos(x)
    cosine, sine = (plus, minus) if order == 0 else (minus, -plus)
    size = 1 / (_ROOT_PI * np.sqrt(x))
    far = (size * (cosine * even - sine * odd), size * (sine * even + cosine * odd))
    return np.where(np.isinf(x), 0.0, far[0]), np.where(np.isinf(x), 0.0, far[1])


def i0(x: Array) -> Array:
    return _modified(0, np.abs(x))


def i1(x: Array) -> Array:
    return np.copysign(_modified(1, np.abs(x)), x)


def _modified(order: int, x: Array) -> Array:
    """The power series up to 20, from there the expansion at infinity; all terms that matter are positive."""
    near, far = np.minimum(x, 20.0), np.maximum(x, 20.0)
    series, square = np.ones_like(x), np.square(near) / 4
    for k in range(50, 0, -1):
        series = 1 + series * square / (k * (k + order))
    term, expansion = np.ones_like(x), np.ones_like(x)
    for k in range(24):
        term = term * ((2 * k + 1) ** 2 - 4 * order**2) / (8 * (k + 1) * far)
        expansion = expansion + term
    beyond = expansion / np.sqrt(2 * math.pi * far) * np.exp(far / 2) * np.exp(far / 2)
    found = np.where(x < 20, series * (near / 2) ** order, np.where(np.isinf(x), np.inf, beyond))
    return np.where(np.isnan(x), x, found)


# Others


def sinpi(x: Array) -> Array:
    """sin(πx), exact at multiples of a half."""
    quarter, rest = _quarters(x)
    found = np.where(quarter % 2 == 0, np.sin(math.pi * rest), np.cos(math.pi * rest))
    found = np.where(quarter % 4 >= 2, -found, found)
    return np.where(np.floor(x) == x, np.where(np.isinf(x), np.nan, np.copysign(0.0, x)), found)


def cospi(x: Array) -> Array:
    """cos(πx), exact at multiples of a half."""
    quarter, rest = _quarters(x)
    found = np.where(quarter % 2 == 0, np.cos(math.pi * rest), np.sin(math.pi * rest))
    found = np.where((quarter + 1) % 4 >= 2, -found, found)
    return np.where(quarter % 2 == 0, found, found + 0.0)


def _quarters(x: Array) -> tuple[Array, Array]:
    """How many halves x is next to, of a turn of 4, and what is left, at most a quarter."""
    inside = np.fmod(x, 2.0)
    halves = np.rint(2 * inside)
    return halves % 4, inside - halves / 2


def remainder(x: Array, y: Array) -> Array:
    """x less the multiple of y it is next to, the even one of two."""
    return np.asarray(_remainder(x, y))


_remainder = each(math.remainder, lambda x, y: math.nan)


def keeps_whole(function: Callable[..., Any]) -> Callable[..., Array]:
    """A function that changes nothing about whole numbers."""

    def meaning(x: npt.ArrayLike) -> Array:
        values = np.asarray(x)
        return np.asarray(function(values)).astype(values.dtype) if values.dtype.kind == "f" else values

    return meaning


def rounded(x: Array) -> Array:
    """The next whole number; halves go away from zero."""
    cut = np.trunc(x)
    return np.where(np.abs(x - cut) >= 0.5, cut + np.copysign(1, x), cut)


def positive_difference(x: npt.ArrayLike, y: npt.ArrayLike) -> Array:
    """x - y where that is positive, else 0; nothing where one is not a number."""
    values, others = np.broadcast_arrays(np.asarray(x), np.asarray(y))
    found = np.where(values > others, values - others, 0).astype(np.result_type(x, y))
    return np.where((values != values) | (others != others), values + others, found)


def exponent(x: Array) -> Array:
    """The exponent of a number's leading binary digit."""
    found = np.frexp(x)[1] - 1.0
    return np.where(np.isfinite(x), np.where(x == 0, -np.inf, found), np.abs(x))
