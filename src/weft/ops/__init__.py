"""Primitive scalar operations and expressions over them."""

from weft.ops.row import Op
from weft.ops.scalar import Call, Num, Number, Scalar, call, computed, fold, leaves, scalar, substitute, where
from weft.ops.table import OPS, accumulator, find, starter, type_of

__all__ = [
    "OPS",
    "Call",
    "Num",
    "Number",
    "Op",
    "Scalar",
    "accumulator",
    "call",
    "computed",
    "find",
    "fold",
    "leaves",
    "scalar",
    "starter",
    "substitute",
    "type_of",
    "where",
]
