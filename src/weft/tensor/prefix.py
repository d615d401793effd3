"""Running totals along an axis: scans whose carry is the total so far, which the compiler keeps in a variable.

Sums and products grow, and are stored, in what those of whole axes are (docs/precisions.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from weft.assign.dtype_inference import Peek
from weft.ops import Num
from weft.ops.dtypes import accumulator_type, decided, is_float, total
from weft.tensor.functions import cast, each_point, maximum
from weft.tensor.scan import scan
from weft.tensor.scan_axis import LAST_OUTPUT_AXIS, ScanAxis
from weft.tensor.scope import as_tensor
from weft.tensor.tensor import Tensor, TensorLike


def cumsum(x: TensorLike, spec: str = LAST_OUTPUT_AXIS, *, label: str = "", **sizes: int) -> Tensor:
    """Sums of all elements so far: along the last output axis, or along the one axis that the spec leaves out.

    >>> print(ctx[wf.cumsum(wf.tensor([1, 2, 3, 4]))])
    [ 1.  3.  6. 10.]
    """
    x = as_tensor(x, "cumsum")
    return _running("cumsum", x, spec, _nothing(0, x), lambda so_far, one: so_far + one, label, sizes, grows=True)


def cumprod(x: TensorLike, spec: str = LAST_OUTPUT_AXIS, *, label: str = "", **sizes: int) -> Tensor:
    """Products of all elements so far: along the last output axis, or along the one axis that the spec leaves out.

    >>> print(ctx[wf.cumprod(wf.tensor([1, 2, 3, 4]))])
    [ 1.  2.  6. 24.]
    """
    x = as_tensor(x, "cumprod")
    return _running("cumprod", x, spec, _nothing(1, x), lambda so_far, one: so_far * one, label, sizes, grows=True)


def cummax(x: TensorLike, spec: str = LAST_OUTPUT_AXIS, *, label: str = "", **sizes: int) -> Tensor:
    """The largest element so far: along the last output axis, or along the one axis that the spec leaves out.

    >>> print(ctx[wf.cummax(wf.tensor([2, 1, 3, 0]))])
    [2. 2. 3. 3.]
    """
    return _running("cummax", as_tensor(x, "cummax"), spec, lambda front: front[0], maximum, label, sizes)


def _nothing(neutral: int, x: Tensor) -> Callable[[Tensor], Tensor]:
    """The total of no elements, in the shape of an element: a number alone would fit any shape."""
    number = Num(float(neutral) if is_float(Peek()(x.node.precision)) else neutral)
    return lambda front: each_point("nothing", lambda one: number, front[0])


def _running(
    user: str,
    x: Tensor,
    spec: str,
    init: Callable[[Tensor], Tensor],
    step: Callable[[Tensor, Tensor], Tensor],
    label: str,
    sizes: Mapping[str, int],
    *,
    grows: bool = False,
) -> Tensor:
    """What a step makes of the total so far and each element, in the place of the element; `grows`: as sums do."""
    axis, own = ScanAxis.of(spec, user), Peek()(x.node.precision)
    stored = decided(total(own)) if grows else own
    wide = accumulator_type(stored) if grows else own
    front = axis.front(x if wide == own else cast(x, wide), sizes)
    totals, _ = scan(step, front, init=init(front))
    return axis.back(totals if wide == stored else cast(totals, stored), label or user)
