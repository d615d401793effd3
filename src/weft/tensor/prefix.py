"""Running totals along an axis: scans whose carry is the total so far, which the compiler keeps in a variable."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from weft.assign.dtype_inference import Peek
from weft.einsum.nodes import Axis, Label, Position, Row, ShapeSpec, Spec
from weft.einsum.show import show_spec
from weft.errors import EinsumError
from weft.ops.dtypes import is_float
from weft.tensor.einsum import contract
from weft.tensor.functions import maximum
from weft.tensor.groups import Groups
from weft.tensor.scan import scan
from weft.tensor.scope import as_tensor
from weft.tensor.tensor import Tensor, TensorLike

#: The last output axis.
LAST_AXIS = "...|...->...t => ...|...->...0"


def cumsum(x: TensorLike, spec: str = LAST_AXIS, *, label: str = "", **sizes: int) -> Tensor:
    """Sums of all elements so far: along the last output axis, or along the one axis that the spec leaves out.

    >>> print(ctx[wf.cumsum(wf.tensor([1, 2, 3, 4]))])
    [ 1.  3.  6. 10.]
    """
    x = as_tensor(x, "cumsum")
    zero = 0.0 if is_float(Peek()(x.node.precision)) else 0
    return _running("cumsum", x, spec, lambda front: zero, lambda total, one: total + one, label, sizes)


def cumprod(x: TensorLike, spec: str = LAST_AXIS, *, label: str = "", **sizes: int) -> Tensor:
    """Products of all elements so far: along the last output axis, or along the one axis that the spec leaves out.

    >>> print(ctx[wf.cumprod(wf.tensor([1, 2, 3, 4]))])
    [ 1.  2.  6. 24.]
    """
    x = as_tensor(x, "cumprod")
    one = 1.0 if is_float(Peek()(x.node.precision)) else 1
    return _running("cumprod", x, spec, lambda front: one, lambda total, factor: total * factor, label, sizes)


def cummax(x: TensorLike, spec: str = LAST_AXIS, *, label: str = "", **sizes: int) -> Tensor:
    """The largest element so far: along the last output axis, or along the one axis that the spec leaves out.

    >>> print(ctx[wf.cummax(wf.tensor([2, 1, 3, 0]))])
    [2. 2. 3. 3.]
    """
    return _running("cummax", as_tensor(x, "cummax"), spec, lambda front: front[0], maximum, label, sizes)


def _running(
    user: str,
    x: Tensor,
    spec: str,
    init: Callable[[Tensor], TensorLike],
    step: Callable[[Tensor, Tensor], Tensor],
    label: str,
    sizes: Mapping[str, int],
) -> Tensor:
    """What a step makes of the total so far and each element, in the place of the element."""
    element, front = _moved(Groups.plain(spec, user), user)
    moved = contract(show_spec(Spec((element,), front)), [x], sizes=sizes)
    totals, _ = scan(step, moved, init=init(moved))
    return contract(show_spec(Spec((front,), element)), [totals], label=label or user)


def _moved(groups: Groups, user: str) -> tuple[ShapeSpec, ShapeSpec]:
    """The operand, and the same with the axis that is run along as its leftmost batch axis."""
    element, kept = groups.element, groups.names(groups.group)
    along = [axis for axis in element.axes if isinstance(axis, Label) and axis.name not in kept]
    if len(along) != 1:
        what = f"{user} runs along one axis, and the spec leaves out {len(along)}"
        fix = 'leave out one label: "...|t, d => ...|d" runs along t'
        raise EinsumError(what, text=groups.text, spans=[axis.span for axis in along], fix=fix)

    def without(row: Row) -> Row:
        lead, trail = (tuple(_left_out(axis, along[0]) for axis in axes) for axes in (row.lead, row.trail))
        return replace(row, lead=lead, trail=trail)

    rest = ShapeSpec(without(element.batch), without(element.input), without(element.output))
    return element, replace(rest, batch=replace(rest.batch, lead=(along[0], *rest.batch.lead)))


def _left_out(axis: Axis, along: Label) -> Axis:
    return Position(0) if axis == along else axis
