"""Primitive scalar operations and expressions over them."""

from weft.ops.row import Op as Op
from weft.ops.scalar import Call as Call
from weft.ops.scalar import Num as Num
from weft.ops.scalar import Number as Number
from weft.ops.scalar import Scalar as Scalar
from weft.ops.scalar import call as call
from weft.ops.scalar import computed as computed
from weft.ops.scalar import fold as fold
from weft.ops.scalar import leaves as leaves
from weft.ops.scalar import scalar as scalar
from weft.ops.scalar import substitute as substitute
from weft.ops.scalar import where as where
from weft.ops.table import OPS as OPS
from weft.ops.table import accumulator as accumulator
from weft.ops.table import find as find
from weft.ops.table import starter as starter
from weft.ops.table import type_of as type_of
