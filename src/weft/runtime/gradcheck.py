"""Gradients against central differences, element by element."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from weft.backends import Array
from weft.errors import WeftError
from weft.ops.dtypes import numpy_type
from weft.runtime.context import Context
from weft.tensor.grad import grad
from weft.tensor.leaves import data
from weft.tensor.tensor import Tensor

#: So many elements of a tensor are checked, spread evenly.
_MOST = 256
#: So many roundings a value may be off by, each of the size of all that it is the sum of.
_ROUNDINGS = 4


def gradcheck(
    y: Tensor,
    x: Tensor | Sequence[Tensor] | Mapping[str, Tensor],
    *,
    context: Context | None = None,
    tolerance: float | None = None,
) -> None:
    """Compare `wf.grad(y, x)` with differences of `y`, and raise where they differ, naming the element.

    `x` are tensors whose values can be set: parameters, data. They have the values they have in `context`, or else
    their first ones. Of what is large 256 elements are checked, spread evenly. `tolerance` is relative to the larger of
    the two and of 1; by default it is what differences can show in the type of `x`, 1e-5 in float64, and what rounding
    of `y` hides is allowed on top.

    >>> w = wf.param("w", o=3, init=0.5)
    >>> wf.gradcheck(wf.einsum("i => 0", wf.tanh(w)), w)
    """
    asked = list(x.values()) if isinstance(x, Mapping) else [x] if isinstance(x, Tensor) else list(x)
    weights = np.random.default_rng(0).uniform(0.5, 1.5, y.dims.array_shape)
    seed = weights.astype(numpy_type(y.dtype))
    d = data(seed, batch=len(y.dims.batch), input=len(y.dims.input), label="d")
    pulled = grad(y, tuple(asked), d=d)
    own = Context("interp")
    if context is not None:
        for one in dict.fromkeys([*y.params, *asked]):
            own[one] = context[one]
    forward, digits = own.compile(y.forward, keep=[y]), float(np.finfo(numpy_type(y.dtype)).eps)

    def weighted() -> tuple[float, float]:
        forward()
        values = own[y].astype(np.float64) * weights
        return float(values.sum()), _ROUNDINGS * digits * float(np.abs(values).sum())

    for one, gradient in zip(asked, pulled, strict=True):
        _compare(y, one, own, own[gradient], weighted, tolerance)


def _compare(
    y: Tensor,
    x: Tensor,
    context: Context,
    gradient: Array,
    value: Callable[[], tuple[float, float]],
    tolerance: float | None,
) -> None:
    start, precision = context[x], float(np.finfo(numpy_type(x.dtype)).eps)
    allowed = tolerance if tolerance is not None else max(1e-5, 2 * precision ** (2 / 3) * 100)
    wrong: list[tuple[tuple[int, ...], float, float]] = []
    for flat in np.unique(np.linspace(0, start.size - 1, min(start.size, _MOST)).astype(int)):
        at = tuple(map(int, np.unravel_index(flat, start.shape)))
        slope, noise = _slope(x, context, start, at, value, precision)
        found = float(gradient[at])
        if not abs(slope - found) <= allowed * max(1.0, abs(slope), abs(found)) + noise * (tolerance is None):
            wrong.append((at, found, slope))
    context[x] = start
    if wrong:
        at, found, slope = max(wrong, key=lambda one: abs(one[1] - one[2]))
        what = f"the gradient of `{y.label}` by `{x.label}` is {found:.6g} at [{', '.join(map(str, at))}]"
        others = [f"{len(wrong)} of the elements that were checked differ"] if len(wrong) > 1 else []
        fix = "look at the gradient functions of operators between them; near a kink move the value away from it"
        raise WeftError(f"{what}, and differences say {slope:.6g}", notes=others, fix=fix)


def _slope(
    x: Tensor,
    context: Context,
    start: Array,
    at: tuple[int, ...],
    value: Callable[[], tuple[float, float]],
    precision: float,
) -> tuple[float, float]:
    """A central difference, and how much of it may be rounding; the step is what the type really holds."""
    step = precision ** (1 / 3) * max(1.0, abs(float(start[at])))
    found = []
    for sign in (1, -1):
        moved = start.copy()
        moved[at] += sign * step
        context[x] = moved
        found.append((float(moved[at]), *value()))
    (high, above, off), (low, below, other_off) = found
    return (above - below) / (high - low), (off + other_off) / (high - low)
