"""Primitive scalar operations and expressions over them."""

from weft.ops.row import Op
from weft.ops.scalar import Call, Num, Number, Scalar, call, computed, fold_tree, leaves, scalar, substitute, where
from weft.ops.table import OPS, accumulator, find, scalar_type, starter

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
    "fold_tree",
    "leaves",
    "scalar",
    "starter",
    "substitute",
    "scalar_type",
    "where",
]
