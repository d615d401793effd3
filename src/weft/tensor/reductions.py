"""Reductions over the output row, or over whatever a spec of one operand leaves out, and what is made of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from weft.einsum.nodes import KINDS
from weft.errors import EinsumError, OpenSizeError, ShapeError
from weft.ops import Scalar, call, where
from weft.ops.dtypes import is_float
from weft.shape.text import as_dim
from weft.tensor.class_ids import check_order, named_classes, swapped, whole_ids
from weft.tensor.functions import each_point, pointwise
from weft.tensor.groups import OUTPUT_ROW, Groups, group_size, reduce_groups, related
from weft.tensor.scope import as_tensor
from weft.tensor.tensor import Tensor, TensorLike, stop_gradient

#: The output row of one axis.
_ONE_AXIS = "...|...->c => ...|...->0"
#: Positions are stored in this type.
_POSITION = "int32"


def sum(x: TensorLike, spec: str = OUTPUT_ROW, *, label: str = "", **sizes: int) -> Tensor:  # noqa: A001
    """The sum of the output row, or of what the spec leaves out.

    >>> x = wf.tensor([[1, 2, 3], [4, 5, 6]])
    >>> print(ctx[wf.sum(x)], ctx[wf.sum(x, "ij => i")])
    [21.] [ 6. 15.]
    """
    return reduce_groups(x, spec, sizes, label=label)


def prod(x: TensorLike, spec: str = OUTPUT_ROW, *, label: str = "", **sizes: int) -> Tensor:
    """The product of the output row, or of what the spec leaves out.

    >>> print(ctx[wf.prod(wf.tensor([2, 3, 4]))])
    [24.]
    """
    return reduce_groups(x, spec, sizes, accum="*", label=label)


def max(x: TensorLike, spec: str = OUTPUT_ROW, *, label: str = "", **sizes: int) -> Tensor:  # noqa: A001
    """The largest of the output row, or of what the spec leaves out; of two tensors `wf.maximum`.

    >>> print(ctx[wf.max(wf.tensor([[1, 5], [4, 2]]), "ij => j")])
    [4. 5.]
    """
    return reduce_groups(x, spec, sizes, accum="max", label=label)


def min(x: TensorLike, spec: str = OUTPUT_ROW, *, label: str = "", **sizes: int) -> Tensor:  # noqa: A001
    """The smallest of the output row, or of what the spec leaves out; of two tensors `wf.minimum`.

    >>> print(ctx[wf.min(wf.tensor([[1, 5], [4, 2]]))])
    [1.]
    """
    return reduce_groups(x, spec, sizes, accum="min", label=label)


def mean(x: TensorLike, spec: str = OUTPUT_ROW, *, label: str = "", **sizes: int) -> Tensor:
    """The mean of the output row, or of what the spec leaves out.

    >>> print(ctx[wf.mean(wf.tensor([1, 2, 6]))])
    [3.]
    """
    return _mean(x, spec, sizes, "mean", label)


def var(x: TensorLike, spec: str = OUTPUT_ROW, *, ddof: int = 0, label: str = "", **sizes: int) -> Tensor:
    """The mean square distance from the mean; `ddof=1` divides by one less than there are.

    >>> print(ctx[wf.var(wf.tensor([1, 2, 6]))].round(4))
    [4.6667]
    """
    return _variance(x, spec, ddof, sizes, "var", label)


def std(x: TensorLike, spec: str = OUTPUT_ROW, *, ddof: int = 0, label: str = "", **sizes: int) -> Tensor:
    """The root of `wf.var`; its gradient is 0 where all are equal.

    >>> print(ctx[wf.std(wf.tensor([1, 2, 6]))].round(4))
    [2.1602]
    """
    return each_point("std", _root, _variance(x, spec, ddof, sizes, "std"), label=label)


def norm(x: TensorLike, spec: str = OUTPUT_ROW, *, label: str = "", **sizes: int) -> Tensor:
    """The Euclidean length of the output row, or of what the spec leaves out; its gradient is 0 where it is 0.

    >>> print(ctx[wf.norm(wf.tensor([3, 4]))])
    [5.]
    """
    x = as_tensor(x, "norm")
    return each_point("norm", _root, reduce_groups(x * x, spec, sizes), label=label)


def logsumexp(x: TensorLike, spec: str = OUTPUT_ROW, *, label: str = "", **sizes: int) -> Tensor:
    """The logarithm of the sum of exponentials, which does not overflow.

    >>> print(ctx[wf.logsumexp(wf.tensor([1000, 1000]))].round(2))
    [1000.69]
    """
    Groups.of(spec, "logsumexp")
    return reduce_groups(x, spec, sizes, accum="logsumexp", label=label)


def softmax(x: TensorLike, spec: str = OUTPUT_ROW, *, label: str = "", **sizes: int) -> Tensor:
    """Exponentials divided by their sum: over the output row, or over what the spec leaves out.

    >>> print(ctx[wf.softmax(wf.tensor([[1, 1], [1, 3]]), "ij => i")].round(3))
    [[0.5   0.5  ]
     [0.119 0.881]]
    """
    x, groups = as_tensor(x, "softmax"), Groups.plain(spec, "softmax")
    top = stop_gradient(reduce_groups(x, spec, sizes, accum="max"))
    exps = related("exps", _exp_above, [(groups.element, x), (groups.group, top)], groups.element, sizes=sizes)
    reads = [(groups.element, exps), (groups.group, reduce_groups(exps, spec, sizes))]
    return related("softmax", lambda exps, sums: exps / sums, reads, groups.element, label=label, sizes=sizes)


def log_softmax(x: TensorLike, spec: str = OUTPUT_ROW, *, label: str = "", **sizes: int) -> Tensor:
    """The logarithm of `wf.softmax`, exact also where that is 0.

    >>> print(ctx[wf.log_softmax(wf.tensor([0, 1000]))])
    [-1000.     0.]
    """
    groups = Groups.plain(spec, "log_softmax")
    x, top, logs = _log_weights(as_tensor(x, "log_softmax"), spec, groups, sizes)
    reads = [(groups.element, x), (groups.group, top), (groups.group, logs)]
    return related("log_softmax", lambda x, top, logs: x - top - logs, reads, groups.element, label=label, sizes=sizes)


def cross_entropy(
    logits: TensorLike,
    ids: TensorLike,
    spec: str = OUTPUT_ROW,
    *,
    ignore_index: int | None = None,
    label: str = "",
    **sizes: int,
) -> Tensor:
    """How unlikely softmax finds the class that each id names, as minus its logarithm: a number for each example.

    The classes lie along the output row, or along what the spec leaves out; ids have the shape of its result. What is
    `ignore_index` costs nothing; any other id that names no class is refused when it is met.

    >>> x, ids = wf.data(np.eye(3), batch=1), wf.data(np.array([0, 1, -1]), batch=1)
    >>> print(ctx[wf.cross_entropy(x, ids, ignore_index=-1)].ravel().round(4))
    [0.5514 0.5514 0.    ]
    """
    x, ids = as_tensor(logits, "cross_entropy"), as_tensor(ids, "cross_entropy")
    check_order(x, ids, "cross_entropy")
    ids = whole_ids(ids, "cross_entropy")
    spec = _ONE_AXIS if spec == OUTPUT_ROW and len(x.shape.output.axes or ()) == 1 else spec
    groups = Groups.plain(spec, "cross_entropy")
    x, top, logs = _log_weights(x, spec, groups, sizes)
    (one_each, ones), along = groups.one_each(), groups.along(x)
    reads = [(groups.operand if along else groups.element, x), (groups.group, top), (groups.group, logs)]
    if along:
        reads.append((replace(one_each, along=along), ids))
    else:
        reads += [(one_each, ids), groups.positions(groups.element, _POSITION)]
    count = group_size(logs.children[0], groups)
    try:
        found = related(
            "cross_entropy",
            _unlikely if along else _unlikely_if_named,
            reads,
            groups.group,
            accum="add",
            label=label,
            sizes={**sizes, **ones},
            outside="skip" if along else "check",
            watched=[named_classes(ids, count, ignore_index, "cross_entropy")],
        )
    except ShapeError:
        if (stored := x.node.precision.settled) and not is_float(stored) and ids.node.precision.settled is None:
            raise swapped(x, ids, "cross_entropy") from None
        raise _unlike("cross_entropy", ids, f"{x.label} is {x.shape}, and results in {_shape(top)}", x) from None
    return found if ignore_index is None else each_point("counted", partial(_counted, ignore_index), found, ids)


def one_hot(
    ids: TensorLike,
    num_classes: int,
    spec: str = "...|...->c => ...|...->0",
    *,
    dtype: str | None = None,
    label: str = "",
) -> Tensor:
    """1 at the position that each id names, else 0. The spec is that of the reduction it undoes, as of `wf.argmax`.

    >>> print(ctx[wf.one_hot(wf.data(np.array([2, 0]), batch=1), 3)])
    [[0 0 1]
     [1 0 0]]
    >>> print(ctx[wf.one_hot(wf.tensor([2, 0]), 3, "i, c => i")])
    [[0 0 1]
     [1 0 0]]
    """
    groups = Groups.plain(spec, "one_hot")
    ids = whole_ids(ids, "one_hot")
    new = groups.left_out
    if len(new) != 1 or new[0] in KINDS:
        what = f"one_hot makes one axis, and the spec leaves out {len(new)}"
        raise EinsumError(what, text=groups.text, fix='name one: "...|t, c => ...|t"')
    one_each, ones = groups.one_each()
    reads = [(one_each, ids), groups.positions(groups.operand, _POSITION)]
    sizes = {**ones, new[0]: as_dim(num_classes, "`num_classes`").size}
    try:
        return related("one_hot", _same, reads, groups.operand, label=label, sizes=sizes, dtype=dtype)
    except ShapeError:
        raise _unlike("one_hot", ids, f"the spec is {groups.text}") from None


def argmax(x: TensorLike, spec: str = OUTPUT_ROW, *, label: str = "", **sizes: int) -> Tensor:
    """The position of the largest in its output row, or along what the spec leaves out: of several, the first.

    Several axes count in memory order. It is an int32, and has no gradient.

    >>> print(ctx[wf.argmax(wf.tensor([[1, 5, 5], [4, 2, 0]]), "ij => i")])
    [1 0]
    """
    return _position(x, spec, "argmax", label, sizes)


def argmin(x: TensorLike, spec: str = OUTPUT_ROW, *, label: str = "", **sizes: int) -> Tensor:
    """The position of the smallest in its output row, or along what the spec leaves out, as `wf.argmax` has it.

    >>> print(ctx[wf.argmin(wf.tensor([[1, 5, 5], [4, 2, 0]]), "ij => i")])
    [0 2]
    """
    return _position(x, spec, "argmin", label, sizes)


def _mean(x: TensorLike, spec: str, sizes: Mapping[str, int], user: str, label: str = "") -> Tensor:
    found = reduce_groups(x, spec, sizes)
    return pointwise("div", found, group_size(found, Groups.of(spec, user)), label=label)


def _variance(x: TensorLike, spec: str, ddof: int, sizes: Mapping[str, int], user: str, label: str = "") -> Tensor:
    x, groups = as_tensor(x, user), Groups.of(spec, user)
    reads = [(groups.operand, x), (groups.group, _mean(x, spec, sizes, user))]
    squares = related("squares", _squared_distance, reads, groups.group, accum="add", sizes=sizes)
    count = group_size(squares, groups)
    return pointwise("div", squares, count - ddof if ddof else count, label=label)


def _squared_distance(x: Scalar, mean: Scalar) -> Scalar:
    return (x - mean) * (x - mean)


def _position(x: TensorLike, spec: str, name: str, label: str, sizes: Mapping[str, int]) -> Tensor:
    """A position is that of an element: each axis of the operand has a name, or is one of a row."""
    Groups.plain(spec, name)
    return reduce_groups(x, spec, sizes, accum=name, label=label)


def _log_weights(x: Tensor, spec: str, groups: Groups, sizes: Mapping[str, int]) -> tuple[Tensor, Tensor, Tensor]:
    """`x`, each group's largest, and the logarithm of the sum of exponentials of how far each is below that."""
    top = stop_gradient(reduce_groups(x, spec, sizes, accum="max"))
    reads = [(groups.operand, x), (groups.group, top)]
    exps = related("exps", _exp_above, reads, groups.group, accum="add", sizes=sizes)
    return x, top, pointwise("log", exps)


def _exp_above(x: Scalar, top: Scalar) -> Scalar:
    return call("exp", x - top)


def _unlikely(x: Scalar, top: Scalar, logs: Scalar) -> Scalar:
    return logs - (x - top)


def _unlikely_if_named(x: Scalar, top: Scalar, logs: Scalar, number: Scalar, position: Scalar) -> Scalar:
    return call("select", _same(number, position), _unlikely(x, top, logs))


def _counted(ignored: int, cost: Scalar, number: Scalar) -> Scalar:
    return where(call("eq", number, ignored), 0, cost)


def _same(number: Scalar, position: Scalar) -> Scalar:
    return call("eq", number, position)


def _root(square: Scalar) -> Scalar:
    """The square root, with a gradient of 0 at 0."""
    return where(call("eq", square, 0), 0, call("sqrt", square))


def _shape(x: Tensor) -> object:
    """The sizes of a tensor, as far as they are decided before a call."""
    try:
        return x.dims
    except OpenSizeError:
        return x.shape


def _unlike(user: str, ids: Tensor, groups: str, x: Tensor | None = None) -> ShapeError:
    """Ids do not fit the groups they are to name an element of."""
    fix = f'say which axes ids have, and which is that of classes: wf.{user}(…, "...|t, c => ...|t")'
    if x is not None and str(x.shape) == str(ids.shape):
        fix = f"they have the shape of `{x.label}`: if they are one-hot, wf.argmax({ids.label}) has their ids"
    elif x is not None and x.shape.batch.axes == () and str(ids.shape) != "1":
        fix = f"`{x.label}` has no batch axis: if the first axes of data hold examples, wf.data(…, batch=1) says so"
    what = f"{user} takes ids of the shape that its spec results in"
    return ShapeError(what, notes=[f"{ids.label} is {ids.shape}", groups], fix=fix)
