"""Running totals along an axis: scans whose carry is the total so far, which the compiler keeps in a variable.

Totals are stored as sums and products of the same numbers are, and grow as these do: whole numbers in 64 bits, narrow
floats in float32, float32 in float64.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from weft.assign.dtype_inference import Peek
from weft.ops import call
from weft.ops.dtypes import accumulator_type
from weft.tensor.einsum import contract
from weft.tensor.functions import cast, each_point
from weft.tensor.scan import scan
from weft.tensor.scan_axis import FIRST_BATCH_AXIS, LAST_OUTPUT_AXIS, ScanAxis
from weft.tensor.scope import as_tensor
from weft.tensor.tensor import Tensor, TensorLike


def cumsum(x: TensorLike, spec: str = LAST_OUTPUT_AXIS, *, label: str = "", **sizes: int) -> Tensor:
    """Sums of all elements so far: along the last output axis, or along the one axis that the spec leaves out.

    >>> print(ctx[wf.cumsum(wf.tensor([1, 2, 3, 4]))])
    [ 1.  3.  6. 10.]
    """
    return _running("cumsum", x, spec, "add", label, sizes)


def cumprod(x: TensorLike, spec: str = LAST_OUTPUT_AXIS, *, label: str = "", **sizes: int) -> Tensor:
    """Products of all elements so far: along the last output axis, or along the one axis that the spec leaves out.

    >>> print(ctx[wf.cumprod(wf.tensor([1, 2, 3, 4]))])
    [ 1.  2.  6. 24.]
    """
    return _running("cumprod", x, spec, "mul", label, sizes)


def cummax(x: TensorLike, spec: str = LAST_OUTPUT_AXIS, *, label: str = "", **sizes: int) -> Tensor:
    """The largest element so far: along the last output axis, or along the one axis that the spec leaves out.

    >>> print(ctx[wf.cummax(wf.tensor([2, 1, 3, 0]))])
    [2. 2. 3. 3.]
    """
    return _running("cummax", x, spec, "max", label, sizes)


def _running(user: str, x: TensorLike, spec: str, op: str, label: str, sizes: Mapping[str, int]) -> Tensor:
    """What an operation makes of the total so far and each element, in the place of the element."""
    axis = ScanAxis.of(spec, user)
    front = axis.front(as_tensor(x, user), sizes)
    nothing = contract(FIRST_BATCH_AXIS, [front[0:0]], accum=op, label="nothing")  # the total of no elements
    stored = Peek()(nothing.node.precision)
    wide = stored if op == "max" else "float64" if stored == "float32" else accumulator_type(stored)

    def step(total: Tensor, one: Tensor) -> tuple[Tensor, Tensor]:
        total = each_point("total", partial(call, op), total, one)
        return total, total if wide == stored else each_point(user, partial(call, "type_as"), total, nothing)

    totals, _ = scan(step, front, init=nothing if wide == stored else cast(nothing, wide))
    return axis.back(totals, label or user)
