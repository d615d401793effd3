"""Element types and builtin functions, by the names they have in the language.

A builtin is written in terms of the table of operations, so that typing, gradients and every backend follow from the
rows it is made of. One of CUDA's that no rows make up is listed in `LACKING`, and said so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import log

from weft.ops import Scalar, call, where
from weft.ops.dtypes import ELEMENT_TYPES

#: weft's name of each element type of the language. The first spelling of a type is how it is printed.
SCALAR_TYPES: Mapping[str, str] = {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "int": "int32",
    "byte": "uint8",
    "char": "int8",
    "short": "int16",
    "long": "int64",
    "uint": "uint32",
    **{name: name for name in ELEMENT_TYPES},
}
_PRINTED = {"float32": "float", "float64": "double", "float16": "half"}


def spelled(dtype: str) -> str:
    """An element type as the language writes it."""
    return _PRINTED.get(dtype, dtype)


@dataclass(frozen=True, slots=True)
class Builtin:
    """How many arguments a function takes, and the scalar expression it stands for."""

    arity: int
    build: Callable[..., Scalar]


def _row(op: str, arity: int = 1) -> Builtin:
    return Builtin(arity, lambda *args: call(op, *args))


def _ceil(x: Scalar) -> Scalar:
    return -call("floor", -x)


def _trunc(x: Scalar) -> Scalar:
    return where(x < 0, _ceil(x), call("floor", x))


def _round(x: Scalar) -> Scalar:
    """Halves go away from zero, as in C."""
    return where(x < 0, _ceil(x - 0.5), call("floor", x + 0.5))


BUILTINS: Mapping[str, Builtin] = {
    **{name: _row(name) for name in ("exp", "exp2", "log", "log2", "sin", "cos", "sqrt", "tanh", "erf", "abs")},
    **{name: _row(name) for name in ("floor", "relu")},
    "fabs": _row("abs"),
    "rsqrt": _row("recip_sqrt"),
    "min": _row("min", 2),
    "max": _row("max", 2),
    "fmin": _row("min", 2),
    "fmax": _row("max", 2),
    "pow": _row("pow", 2),
    "fma": _row("fma", 3),
    "ceil": Builtin(1, _ceil),
    "trunc": Builtin(1, _trunc),
    "round": Builtin(1, _round),
    "tan": Builtin(1, lambda x: call("sin", x) / call("cos", x)),
    "sigmoid": Builtin(1, lambda x: call("recip", 1 + call("exp", -x))),
    "sinh": Builtin(1, lambda x: (call("exp", x) - call("exp", -x)) * 0.5),
    "cosh": Builtin(1, lambda x: (call("exp", x) + call("exp", -x)) * 0.5),
    "erfc": Builtin(1, lambda x: 1 - call("erf", x)),
    "exp10": Builtin(1, lambda x: call("exp", x * log(10))),
    "log10": Builtin(1, lambda x: call("log", x) * (1 / log(10))),
    "fdim": Builtin(2, lambda x, y: call("max", x - y, 0)),
    "fdivide": Builtin(2, lambda x, y: x / y),
    "fmod": Builtin(2, lambda x, y: x - _trunc(x / y) * y),
    "hypot": Builtin(2, lambda x, y: call("sqrt", x * x + y * y)),
}

#: Functions of CUDA's that nothing in the table of operations makes up.
LACKING = frozenset(
    [
        "acos",
        "acosh",
        "asin",
        "asinh",
        "atan",
        "atan2",
        "atanh",
        "cbrt",
        "copysign",
        "cospi",
        "cyl_bessel_i0",
        "cyl_bessel_i1",
        "erfcinv",
        "erfcx",
        "erfinv",
        "expm1",
        "j0",
        "j1",
        "lgamma",
        "log1p",
        "logb",
        "nextafter",
        "norm3d",
        "norm4d",
        "normcdf",
        "normcdfinv",
        "rcbrt",
        "remainder",
        "rhypot",
        "rnorm3d",
        "rnorm4d",
        "sinpi",
        "tgamma",
        "y0",
        "y1",
    ]
)
