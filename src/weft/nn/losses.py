"""Losses: one number to make small.

`reduction` says what becomes of the numbers that a loss is made of: their mean, their sum, or (`"none"`) they stay.
Losses of elements compare two tensors of one shape; the others have a number for each example.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

from weft.errors import ShapeError
from weft.nn.checks import below_one, one_of, positive
from weft.ops import Scalar, call, where
from weft.ops.dtypes import is_float
from weft.tensor import functions, reductions
from weft.tensor.activations import softplus
from weft.tensor.einsum import einsum
from weft.tensor.functions import cast, maximum, not_equal
from weft.tensor.groups import OUTPUT_ROW, Groups, related
from weft.tensor.reductions import logsumexp, mean, norm
from weft.tensor.scope import as_tensor
from weft.tensor.tensor import Tensor, TensorLike

Reduction: TypeAlias = Literal["mean", "sum", "none"]

_REDUCTIONS = ("mean", "sum", "none")
_ALL = "...|...->... => 0"
_ELEMENT = Groups.plain(_ALL, "a loss").operand


def mse(x: TensorLike, y: TensorLike, *, reduction: Reduction = "mean", label: str = "mse") -> Tensor:
    """The squared differences of two tensors of one shape.

    >>> print(ctx[wf.nn.mse(wf.tensor([1, 2]), wf.tensor([1, 4]))])
    [2.]
    """
    return _of_elements("mse", lambda x, y: (x - y) * (x - y), x, y, reduction, label)


def l1(x: TensorLike, y: TensorLike, *, reduction: Reduction = "mean", label: str = "l1") -> Tensor:
    """The absolute differences of two tensors of one shape.

    >>> print(ctx[wf.nn.l1(wf.tensor([1, 2]), wf.tensor([1, 4]))])
    [1.]
    """
    return _of_elements("l1", lambda x, y: call("abs", x - y), x, y, reduction, label)


def huber(
    x: TensorLike, y: TensorLike, *, delta: float = 1.0, reduction: Reduction = "mean", label: str = "huber"
) -> Tensor:
    """Half of squared differences up to `delta`, and beyond it a line with the slope that they have there.

    >>> print(ctx[wf.nn.huber(wf.tensor([1, 2]), wf.tensor([1.5, 5]), reduction="none")])
    [0.125 2.5  ]
    """
    positive("huber", delta=delta)

    def value(x: Scalar, y: Scalar) -> Scalar:
        far = call("abs", x - y)
        return where(call("lt", far, delta), 0.5 * far * far, delta * (far - 0.5 * delta))

    return _of_elements("huber", value, x, y, reduction, label)


def hinge(
    scores: TensorLike,
    y: TensorLike,
    *,
    margin: float = 1.0,
    reduction: Reduction = "mean",
    label: str = "hinge",
) -> Tensor:
    """How far scores are from being on their side, 1 or -1, by the margin.

    >>> print(ctx[wf.nn.hinge(wf.tensor([2, 0.5]), wf.tensor([1, -1]), reduction="none")])
    [0.  1.5]
    """
    positive("hinge", margin=margin)
    return _of_elements("hinge", lambda x, y: call("relu", margin - x * y), scores, y, reduction, label)


def binary_cross_entropy(
    logits: TensorLike, y: TensorLike, *, reduction: Reduction = "mean", label: str = "binary_cross_entropy"
) -> Tensor:
    """How unlikely the sigmoid of logits finds truth values, or probabilities of truth, as minus the logarithm.

    It is computed from the logits themselves, so nothing overflows.

    >>> x, y = wf.tensor([0, 100, 100]), wf.tensor([1, 1, 0])
    >>> print(ctx[wf.nn.binary_cross_entropy(x, y, reduction="none")].round(4))
    [  0.6931   0.     100.    ]
    """
    x = as_tensor(logits, "binary_cross_entropy")
    y = as_tensor(y, "binary_cross_entropy")
    found = same_shape("binary_cross_entropy", lambda x, y, plus: plus - x * y, x, y, softplus(x))
    return reduced_loss("binary_cross_entropy", found, reduction, label)


def cross_entropy(
    logits: TensorLike,
    ids: TensorLike,
    spec: str = OUTPUT_ROW,
    *,
    smoothing: float = 0.0,
    ignore_index: int | None = None,
    reduction: Reduction = "mean",
    label: str = "cross_entropy",
) -> Tensor:
    """How unlikely softmax finds the class that each id names, as minus its logarithm: a number for each example.

    Classes lie along the output row, or along what the spec leaves out, as for `wf.cross_entropy`. `smoothing` is the
    part of the truth that is shared among all classes. Examples whose id is `ignore_index` cost nothing, and the mean
    is over the others.

    >>> x, ids = wf.data(np.eye(3), batch=1), wf.data(np.array([0, 1, -1]), batch=1)
    >>> print(ctx[wf.nn.cross_entropy(x, ids, ignore_index=-1)].round(4))
    [0.5514]
    """
    below_one("cross_entropy", smoothing=smoothing)
    one_of("cross_entropy", _REDUCTIONS, reduction=reduction)
    x, ids = as_tensor(logits, "cross_entropy"), as_tensor(ids, "cross_entropy")
    found = reductions.cross_entropy(x, ids, spec, ignore_index=ignore_index)
    if smoothing:
        found = (1.0 - smoothing) * found + smoothing * (logsumexp(x, spec) - mean(x, spec))
    if ignore_index is None:
        return reduced_loss("cross_entropy", found, reduction, label)
    counts = not_equal(ids, ignore_index)
    found = functions.where(counts, found, 0.0) if smoothing else found
    if reduction != "mean":
        return reduced_loss("cross_entropy", found, reduction, label)
    counted: Tensor = maximum(reductions.sum(cast(counts, "int32"), _ALL), 1)
    return (reductions.sum(found, _ALL) / counted).named(label)


def kl_divergence(
    log_probs: TensorLike, y: TensorLike, *, reduction: Reduction = "mean", label: str = "kl_divergence"
) -> Tensor:
    """How much less likely `y` is by `log_probs` than by itself: a number for each example.

    Both have one shape; `y` are probabilities, which sum to 1 over the output row. One that is 0 costs nothing.

    >>> p = wf.tensor([0.5, 0.5, 0])
    >>> print(ctx[wf.nn.kl_divergence(wf.log_softmax(wf.tensor([0, 0, 0])), p)].round(4))
    [0.4055]
    """

    def value(log_q: Scalar, p: Scalar) -> Scalar:
        return where(call("lt", 0, p), p * (call("log", p) - log_q), 0)

    found = reductions.sum(same_shape("kl_divergence", value, log_probs, y))
    return reduced_loss("kl_divergence", found, reduction, label)


def contrastive(
    x: Tensor, y: Tensor, *, temperature: float = 0.1, reduction: Reduction = "mean", label: str = "contrastive"
) -> Tensor:
    """InfoNCE: each example of `x` is to find its own among all those of `y` along the last batch axis, by their angle.

    >>> x = wf.data(np.eye(3), batch=1)
    >>> print(ctx[wf.nn.contrastive(x, x, temperature=1.0)].round(4))
    [0.5514]
    """
    positive("contrastive", temperature=temperature)
    x, y = as_tensor(x, "contrastive"), as_tensor(y, "contrastive")
    same_shape("contrastive", lambda x, y: x - y, x, y)
    unit = [one / maximum(norm(one), 1e-12) for one in (x, y)]
    angles = einsum("... s|..d..; ... t|..d.. => ... s|t", *unit) / temperature
    own = einsum("... s|..d..; ... s|..d.. => ... s|0", *unit) / temperature
    return reduced_loss("contrastive", logsumexp(angles) - own, reduction, label)


def _of_elements(
    user: str,
    value: Callable[[Scalar, Scalar], Scalar],
    x: TensorLike,
    y: TensorLike,
    reduction: str,
    label: str,
) -> Tensor:
    return reduced_loss(user, same_shape(user, value, x, y), reduction, label)


def same_shape(user: str, value: Callable[..., Scalar], x: TensorLike, y: TensorLike, *more: TensorLike) -> Tensor:
    """What `value` makes of elements at one place; nothing broadcasts, which of a loss is hardly meant."""
    tensors = [as_tensor(one, user) for one in (x, y, *more)]
    try:
        return related(user, value, [(_ELEMENT, one) for one in tensors], _ELEMENT)
    except ShapeError as error:
        notes = [f"{one.label} is {one.shape}" for one in tensors[:2]]
        fix = "the axes of both are alike: wf.data(y, batch=1) says how many of them hold examples"
        stored = tensors[1].node.precision.settled
        if stored and not is_float(stored) and tensors[0].dims.batch == tensors[1].dims.batch:
            fix += f"; ids of classes are for wf.nn.cross_entropy, or wf.one_hot({tensors[1].label}, n) spells them out"
        raise ShapeError(f"{user} compares tensors of one shape", notes=notes, fix=fix) from error


def reduced_loss(user: str, found: Tensor, reduction: str, label: str) -> Tensor:
    one_of(user, _REDUCTIONS, reduction=reduction)
    if reduction == "none":
        return found.named(label)
    return (mean if reduction == "mean" else reductions.sum)(found, _ALL, label=label)
