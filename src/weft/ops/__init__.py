"""Primitive scalar operations and expressions over them."""

from weft.ops.monoid import Monoid as Monoid
from weft.ops.monoids import BUILTIN as BUILTIN
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
    accumulating_op as accumulating_op,
    accumulator as accumulator,
    exists as exists,
    find as find,
    monoid_row as monoid_row,
    scalar_type as scalar_type,
    starter as starter,
)
