"""Primitive scalar operations and expressions over them."""

from weft.ops.scalar import Call, Num, Number, Scalar, call, leaves, scalar, substitute, where
from weft.ops.table import OPS, Op, accumulator, apply, find

__all__ = [
    "OPS",
    "Call",
    "Num",
    "Number",
    "Op",
    "Scalar",
    "accumulator",
    "apply",
    "call",
    "find",
    "leaves",
    "scalar",
    "substitute",
    "where",
]
