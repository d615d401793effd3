"""Primitive scalar operations and expressions over them."""

from weft.ops.row import Op as Op
from weft.ops.scalar import (
    Call as Call,
    Num as Num,
    Number as Number,
    Scalar as Scalar,
    call as call,
    computed as computed,
    fold_tree as fold_tree,
    leaves as leaves,
    scalar as scalar,
    substitute as substitute,
    where as where,
)
from weft.ops.table import (
    OPS as OPS,
    accumulator as accumulator,
    find as find,
    scalar_type as scalar_type,
    starter as starter,
)
