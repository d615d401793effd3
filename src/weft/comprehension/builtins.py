"""Element types and builtin functions, by the names they have in the language.

A builtin is written in terms of the table of operations, so that typing, gradients and every backend follow from the
rows it is made of.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from weft.ops import OPS, Scalar, call
from weft.ops.dtypes import ELEMENT_TYPES
from weft.ops.library import LIBRARY

#: weft's name of each element type of Tensor Comprehensions: these are words of the language.
_WORDS = {
    "float": "float32",
    "double": "float64",
    **{name: name for name in ELEMENT_TYPES if not name.startswith(("bfloat", "float8"))},
}
#: Other names of types: a definition may use them for something of its own.
EXTRA_TYPES: Mapping[str, str] = {
    "half": "float16",
    "int": "int32",
    "byte": "uint8",
    "char": "int8",
    "short": "int16",
    "long": "int64",
    "uint": "uint32",
    **{name: name for name in ELEMENT_TYPES if name not in _WORDS},
}
SCALAR_TYPES: Mapping[str, str] = {**_WORDS, **EXTRA_TYPES}
_PRINTED = {"float32": "float", "float64": "double", "float16": "half"}


def spelled(dtype: str) -> str:
    """An element type as the language writes it."""
    return _PRINTED.get(dtype, dtype)


@dataclass(frozen=True, slots=True)
class Builtin:
    """How many arguments a function takes, and the scalar expression it stands for: a row of the table, or several."""

    arity: int
    build: Callable[..., Scalar]
    row: str | None = None


def _row(op: str) -> Builtin:
    return Builtin(OPS[op].arity, lambda *args: call(op, *args), op)


#: The functions of Tensor Comprehensions, which are those of CUDA: rows of the table of operations.
_FUNCTIONS = ("exp", "exp2", "log", "log2", "sin", "cos", "sqrt", "tanh", "erf", "floor", "pow", "fma")

#: Functions that Tensor Comprehensions does not have: a definition may use their names for something of its own.
EXTRAS: Mapping[str, Builtin] = {
    **{name: _row(name) for name in ("abs", "relu", "digamma", "trigamma")},
    "sigmoid": Builtin(1, lambda x: call("recip", 1 + call("exp", -x))),
}

BUILTINS: Mapping[str, Builtin] = {
    **{name: _row(name) for name in (*_FUNCTIONS, *(op.name for op in LIBRARY))},
    "fabs": _row("abs"),
    "rsqrt": _row("recip_sqrt"),
    "fdivide": _row("div"),
    "min": _row("min"),
    "max": _row("max"),
    **EXTRAS,
}

#: The function that each row of the table is written as.
WRITTEN: Mapping[str, str] = {one.row: name for name, one in BUILTINS.items() if one.row and one.row != "div"}

#: What no tensor, value or definition can be called, and why.
TAKEN: Mapping[str, str] = {
    **{name: "a builtin" for name in BUILTINS if name not in EXTRAS},
    **dict.fromkeys(_WORDS, "an element type"),
}
