"""Element types and builtin functions, by the names they have in the language.

A builtin is a row of the table of operations, from which typing, gradients and every backend follow.
"""

from __future__ import annotations

from collections.abc import Mapping

from weft.ops import OPS
from weft.ops.dtypes import ELEMENT_TYPES
from weft.ops.library import LIBRARY
from weft.ops.row import Op

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


#: The functions of Tensor Comprehensions, which are those of CUDA: rows of the table of operations.
_FUNCTIONS = ("exp", "exp2", "log", "log2", "sin", "cos", "sqrt", "tanh", "erf", "floor", "pow", "fma")

#: Functions that Tensor Comprehensions does not have: a definition may use their names for something of its own.
EXTRAS: Mapping[str, Op] = {name: OPS[name] for name in ("abs", "relu", "sigmoid", "digamma", "trigamma")}

BUILTINS: Mapping[str, Op] = {
    **{name: OPS[name] for name in (*_FUNCTIONS, *(op.name for op in LIBRARY))},
    "fabs": OPS["abs"],
    "rsqrt": OPS["recip_sqrt"],
    "fdivide": OPS["div"],
    "min": OPS["min"],
    "max": OPS["max"],
    **EXTRAS,
}

#: The function that each row of the table is written as.
WRITTEN: Mapping[str, str] = {one.name: name for name, one in BUILTINS.items() if one.name != "div"}

#: What no tensor, value or definition can be called, and why.
TAKEN: Mapping[str, str] = {
    **{name: "a builtin" for name in BUILTINS if name not in EXTRAS},
    **dict.fromkeys(_WORDS, "an element type"),
}
