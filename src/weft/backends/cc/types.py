"""The element type of every scalar, by the same rules the oracle computes with: NumPy's."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from weft.errors import WeftError
from weft.loops import Place, Read
from weft.ops import Call, Num, Scalar, apply

#: NumPy's name of an element type, and C's.
C_TYPES = {
    "float32": "float",
    "float64": "double",
    "int8": "int8_t",
    "int16": "int16_t",
    "int32": "int32_t",
    "int64": "int64_t",
    "uint8": "uint8_t",
    "uint16": "uint16_t",
    "uint32": "uint32_t",
    "uint64": "uint64_t",
    "bool": "bool",
}


def c_type(dtype: str) -> str:
    """How C calls an element type."""
    if dtype not in C_TYPES:
        raise WeftError(f"the C backend has no {dtype} yet", fix='use float32 or float64, or Context("interp")')
    return C_TYPES[dtype]


def dtype_of(scalar: Scalar, static: Collection[str]) -> str:
    """The element type of a scalar's value; `static` names the static indices."""
    with np.errstate(all="ignore"):
        return np.asarray(_sample(scalar, static)).dtype.name


def common(scalars: Sequence[Scalar], static: Collection[str]) -> str:
    """The type in which scalars are compared or combined."""
    with np.errstate(all="ignore"):
        return np.result_type(*(_sample(one, static) for one in scalars)).name


def _sample(scalar: Scalar, static: Collection[str]) -> Any:
    """A value of the scalar's type; constants and static indices are Python numbers, which take the type they meet."""
    match scalar:
        case Num(value=value):
            return value
        case Place(terms=terms):
            return 1 if all(name in static for _, name in terms) else np.ones(1, np.int64)
        case Read(buffer=buffer):
            return np.ones(1, buffer.dtype)
        case Call(op=op, args=args):
            return apply(op, *(_sample(arg, static) for arg in args))
    raise AssertionError(f"not a scalar of the loop language: {scalar!r}")
