"""The rows of C's mathematical library, and of what CUDA's has besides.

C computes what its library has for both precisions in that of the operands, the rest in double precision
(backends/c_family/library.h); NumPy here in double precision throughout (special.py). Either is rounded once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from math import log, pi, sqrt
from typing import Any

import numpy as np

from weft.ops import special, typing
from weft.ops.row import Op, Partials, flat, no_gradient
from weft.ops.scalar import Number, Scalar, call, where
from weft.ops.special import in_double, keeps_whole
from weft.ops.typing import Typing

_LN10 = log(10)
_TWO_OVER_ROOT_PI = 2 / sqrt(pi)


def _recip(x: Number) -> Scalar:
    return call("recip", x)


def _row(
    name: str, meaning: Callable[..., Any], gradient: Partials, arity: int, c: str, typed: Typing, triton: str = ""
) -> Op:
    given = f"({', '.join(f'{{{at}}}' for at in range(arity))})"
    return Op(name, arity, name, meaning, c + given, (triton or f"libdevice.{name}") + given, gradient, typed)


def _library(name: str, meaning: Callable[..., Any], gradient: Partials, arity: int = 1) -> Op:
    """A row that C spells as it is called here, in the precision of its operands."""
    return _row(name, in_double(meaning), gradient, arity, name, typing.reals)


def _special(name: str, meaning: Callable[..., Any], gradient: Partials, arity: int = 1) -> Op:
    """A row that C spells by a function of ours, for each precision."""
    return _row(name, in_double(meaning), gradient, arity, f"weft_{name}_{{t}}", typing.reals)


def _number(name: str, meaning: Callable[..., Any], gradient: Partials, arity: int = 1) -> Op:
    """A row that leaves whole numbers whole."""
    return _row(name, meaning, gradient, arity, f"weft_{name}_{{t}}", typing.alike, f"weft_{name}_{{t}}")


def _hypot(*args: Any) -> Any:
    return reduce(np.hypot, args)


def _norm_gradient(*args: Scalar) -> tuple[Number, ...]:
    *parts, length = args
    return tuple(one / length for one in parts)


def _inverse_norm_gradient(*args: Scalar) -> tuple[Number, ...]:
    *parts, inverse = args
    return tuple(-(one * inverse * inverse * inverse) for one in parts)


def _sine_over(x: Scalar) -> Scalar:
    """sqrt(1 - x²), also where x is next to 1."""
    return call("sqrt", (1 - x) * (1 + x))


def _at_zero(x: Scalar, value: float, otherwise: Scalar) -> Scalar:
    return where(call("eq", x, 0), value, otherwise)


def _atan2_gradient(y: Scalar, x: Scalar, z: Scalar) -> tuple[Number, ...]:
    """x / (x² + y²) and -y / (x² + y²), without squares that overflow."""
    size = call("hypot", x, y)
    return x / size / size, -(y / size / size)


def _copysign_gradient(x: Scalar, y: Scalar, z: Scalar) -> tuple[Number, ...]:
    return _at_zero(x, 0, call("copysign", 1, x) * call("copysign", 1, y)), 0


def _fmax_gradient(x: Scalar, y: Scalar, z: Scalar) -> tuple[Number, ...]:
    """Ties are the first one's; what is not a number counts for nothing."""
    return call("or", y <= x, call("ne", y, y)), call("or", x < y, call("ne", x, x))


def _fmin_gradient(x: Scalar, y: Scalar, z: Scalar) -> tuple[Number, ...]:
    return call("or", x <= y, call("ne", y, y)), call("or", y < x, call("ne", x, x))


LIBRARY: tuple[Op, ...] = (
    # trigonometry
    _library("tan", np.tan, lambda x, y: (1 + y * y,)),
    _library("acos", np.arccos, lambda x, y: (-_recip(_sine_over(x)),)),
    _library("asin", np.arcsin, lambda x, y: (_recip(_sine_over(x)),)),
    _library("atan", np.arctan, lambda x, y: (_recip(1 + x * x),)),
    _library("atan2", np.arctan2, _atan2_gradient, 2),
    _special("sinpi", special.sinpi, lambda x, y: (call("cospi", x) * pi,)),
    _special("cospi", special.cospi, lambda x, y: (call("sinpi", x) * -pi,)),
    _library("sinh", np.sinh, lambda x, y: (call("cosh", x),)),
    _library("cosh", np.cosh, lambda x, y: (call("sinh", x),)),
    _library("asinh", np.arcsinh, lambda x, y: (_recip(call("hypot", x, 1)),)),
    _library("acosh", np.arccosh, lambda x, y: (_recip(call("sqrt", x - 1) * call("sqrt", x + 1)),)),
    _library("atanh", np.arctanh, lambda x, y: (_recip((1 - x) * (1 + x)),)),
    # exponentials, logarithms and roots
    _special("exp10", lambda x: np.power(10.0, x), lambda x, y: (y * _LN10,)),
    _library("expm1", np.expm1, lambda x, y: (call("exp", x),)),
    _library("log10", np.log10, lambda x, y: (_recip(x * _LN10),)),
    replace(_special("log1p", np.log1p, lambda x, y: (_recip(1 + x),)), vectorised=True),
    _library("logb", special.exponent, flat),
    _library("cbrt", np.cbrt, lambda x, y: (_recip(3 * (y * y)),)),
    _special("rcbrt", lambda x: 1 / np.cbrt(x), lambda x, y: (y * y * y * y * (-1 / 3),)),
    replace(_library("hypot", _hypot, _norm_gradient, 2), commutative=True),
    replace(_special("rhypot", lambda x, y: 1 / _hypot(x, y), _inverse_norm_gradient, 2), commutative=True),
    _special("norm3d", _hypot, _norm_gradient, 3),
    _special("rnorm3d", lambda x, y, z: 1 / _hypot(x, y, z), _inverse_norm_gradient, 3),
    _special("norm4d", _hypot, _norm_gradient, 4),
    _special("rnorm4d", lambda x, y, z, w: 1 / _hypot(x, y, z, w), _inverse_norm_gradient, 4),
    # rounding, remainders, and parts of numbers
    replace(_number("ceil", keeps_whole(np.ceil), flat), idempotent=True),
    replace(_number("trunc", keeps_whole(np.trunc), flat), idempotent=True),
    replace(_number("round", keeps_whole(special.rounded), flat), idempotent=True),
    _library("fmod", np.fmod, lambda x, y, z: (1, -((x - z) / y)), 2),
    _library("remainder", special.remainder, lambda x, y, z: (1, -((x - z) / y)), 2),
    replace(
        _library("copysign", np.copysign, _copysign_gradient, 2), associative=True, idempotent=True, instruction=True
    ),
    replace(
        _row("nextafter", np.nextafter, no_gradient("nextafter"), 2, "nextafter", typing.last_digits), idempotent=True
    ),
    replace(
        _number("fmax", np.fmax, _fmax_gradient, 2), commutative=True, associative=True, idempotent=True
    ),
    replace(
        _number("fmin", np.fmin, _fmin_gradient, 2), commutative=True, associative=True, idempotent=True
    ),
    _number("fdim", special.positive_difference, lambda x, y, z: (y < x, where(y < x, -1, 0)), 2),
    # the error function, and the normal distribution
    _special("erfc", special.erfc, lambda x, y: (call("exp", -(x * x)) * -_TWO_OVER_ROOT_PI,)),
    _special("erfcx", special.erfcx, lambda x, y: (2 * x * y - _TWO_OVER_ROOT_PI,)),
    _special("erfinv", special.erfinv, lambda x, y: (call("exp", y * y) / _TWO_OVER_ROOT_PI,)),
    _special("erfcinv", special.erfcinv, lambda x, y: (call("exp", y * y) / -_TWO_OVER_ROOT_PI,)),
    _special("normcdf", special.normcdf, lambda x, y: (call("exp", x * x * -0.5) * (1 / sqrt(2 * pi)),)),
    _special("normcdfinv", special.normcdfinv, lambda x, y: (call("exp", y * y * 0.5) * sqrt(2 * pi),)),
    # the gamma function
    _special("lgamma", special.lgamma, lambda x, y: (call("digamma", x),)),
    _special("tgamma", special.tgamma, lambda x, y: (y * call("digamma", x),)),
    _special("digamma", special.digamma, lambda x, y: (call("trigamma", x),)),
    _special("trigamma", special.trigamma, no_gradient("trigamma")),
    # Bessel functions
    _special("j0", special.j0, lambda x, y: (-call("j1", x),)),
    _special("j1", special.j1, lambda x, y: (_at_zero(x, 0.5, call("j0", x) - y / x),)),
    _special("y0", special.y0, lambda x, y: (-call("y1", x),)),
    _special("y1", special.y1, lambda x, y: (call("y0", x) - y / x,)),
    _special("cyl_bessel_i0", special.i0, lambda x, y: (call("cyl_bessel_i1", x),)),
    _special("cyl_bessel_i1", special.i1, lambda x, y: (_at_zero(x, 0.5, call("cyl_bessel_i0", x) - y / x),)),
)  # fmt: skip
