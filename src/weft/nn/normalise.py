"""Layers that normalise: each says by a spec which elements belong together, and learns a scale and a shift.

layer_norm      "...|...->... => ...|...->0"     the output row of each example
batch_norm      "...|..., c => c"                each channel, over all examples and places
instance_norm   "...|..., c => ...|c"            each channel of an example, over all places
"""

from __future__ import annotations

from weft.einsum.nodes import ShapeSpec
from weft.nn.checks import channels_of, divides, fraction, of_places, positive, whole
from weft.nn.mode import current_training
from weft.ops import Scalar, call
from weft.tensor.assignments import cd
from weft.tensor.einsum import einsum
from weft.tensor.groups import OUTPUT_ROW, Groups, group_size, reduce_groups, related
from weft.tensor.layers import op
from weft.tensor.params import param, statistic
from weft.tensor.reductions import mean, var
from weft.tensor.tensor import Tensor, stop_gradient

_EACH_CHANNEL = "...|..., c => c"


@op
def layer_norm(x: Tensor, *, spec: str = OUTPUT_ROW, eps: float = 1e-5, bias: bool = True) -> Tensor:
    """The output row with mean 0 and variance 1, times `gamma` plus `beta`, which have the axes normalised over.

    A spec says what else is normalised over: of `"...|t, d => ...|t"` the last axis alone.

    >>> x = wf.data(np.array([[1.0, 2.0, 3.0], [0.0, 0.0, 6.0]]), batch=1)
    >>> print(ctx[wf.nn.layer_norm(x)].round(3))
    [[-1.225  0.     1.225]
     [-0.707 -0.707  1.414]]
    """
    positive("layer_norm", eps=eps)
    groups = Groups.plain(spec, "layer_norm")
    return _scaled(_standard(x, spec, eps), groups, groups.within, bias=bias)


@op
def rms_norm(x: Tensor, *, spec: str = OUTPUT_ROW, eps: float = 1e-6) -> Tensor:
    """The output row, or what a spec leaves out, divided by the root of its mean square, times `gamma`.

    >>> print(ctx[wf.nn.rms_norm(wf.data(np.array([1.0, 1.0, 2.0, 0.0])))].round(3))
    [0.816 0.816 1.633 0.   ]
    """
    positive("rms_norm", eps=eps)
    groups = Groups.plain(spec, "rms_norm")
    reads = [(groups.element, x), (groups.group, mean(x * x, spec))]
    found = related("normalised", lambda x, square: x * call("recip_sqrt", square + eps), reads, groups.element)
    return _scaled(found, groups, groups.within, bias=False)


@op
def group_norm(x: Tensor, *, groups: int, eps: float = 1e-5) -> Tensor:
    """Channels in so many groups, each with mean 0 and variance 1 over all places; a scale and a shift of each channel.

    >>> x = wf.data(np.arange(8.0).reshape(1, 2, 4), batch=1)
    >>> print(ctx[wf.nn.group_norm(x, groups=2)].round(2))
    [[[-1.21 -0.73 -1.21 -0.73]
      [ 0.73  1.21  0.73  1.21]]]
    """
    positive("group_norm", eps=eps)
    whole("group_norm", groups=groups)
    divides("group_norm", groups, channels_of(x, "group_norm"), "channels")
    apart = einsum("...|..s.., g&c => ...|..s.., g, c", x, g=groups)
    found = einsum("...|..s.., g, c => ...|..s.., g&c", _standard(apart, "...|..s.., g, c => ...|g", eps))
    return _scaled_by_channel(found)


@op
def instance_norm(x: Tensor, *, eps: float = 1e-5) -> Tensor:
    """Each channel of each example with mean 0 and variance 1 over all places; a scale and a shift of each channel.

    >>> x = wf.data(np.arange(6.0).reshape(1, 3, 2), batch=1)
    >>> print(ctx[wf.nn.instance_norm(x)].round(2)[0, :, 0])
    [-1.22  0.    1.22]
    """
    positive("instance_norm", eps=eps)
    return _scaled_by_channel(_standard(x, "...|..., c => ...|c", eps))


@op
def batch_norm(x: Tensor, *, spec: str = _EACH_CHANNEL, momentum: float = 0.1, eps: float = 1e-5) -> Tensor:
    """Each channel with mean 0 and variance 1 over the batch and all places; a scale and a shift of each channel.

    To be trained, the batch is normalised by itself, and its mean and variance are left to be mixed into the running
    ones, `momentum` of the new (`wf.nn.training`). To be used, it is normalised by those.

    >>> x = wf.data(np.array([[1.0], [3.0]]), batch=1)
    >>> with wf.nn.training(step=0):
    ...     trained = wf.nn.batch_norm(x)
    >>> print(ctx[trained].ravel().round(3), ctx[wf.nn.batch_norm(x)].ravel().round(3))
    [-1.  1.] [1. 3.]
    """
    return _batch_norm("batch_norm", x, spec, momentum, eps)


@op
def batch_norm1d(x: Tensor, *, momentum: float = 0.1, eps: float = 1e-5) -> Tensor:
    """`batch_norm` of each number of the output row, over the batch alone.

    >>> print(wf.nn.batch_norm1d(wf.data(np.ones((5, 3)), batch=1)).dims)
    5|3
    """
    return _batch_norm("batch_norm1d", x, "...|..c.. => ..c..", momentum, eps)


@op
def batch_norm2d(x: Tensor, *, momentum: float = 0.1, eps: float = 1e-5) -> Tensor:
    """`batch_norm` of images, over the batch, their heights and their widths.

    >>> layer = wf.nn.batch_norm2d(label="bn")
    >>> y = layer(wf.data(np.ones((5, 4, 4, 3)), batch=1))
    >>> print(layer)
    <layer bn()
      running_mean: 3
      running_var: 3
      gamma: 3
      beta: 3>
    """
    of_places("batch_norm2d", x, 2, 1)
    return _batch_norm("batch_norm2d", x, "...|h, w, ..c.. => ..c..", momentum, eps)


def _batch_norm(user: str, x: Tensor, spec: str, momentum: float, eps: float) -> Tensor:
    positive(user, eps=eps)
    fraction(user, momentum=momentum)
    groups = Groups.plain(spec, user)
    running = statistic("running_mean", init=0.0), statistic("running_var", init=1.0)
    found = _normalised(x, groups, *running, eps)  # built in either mode: it gives the statistics their shape
    if mode := current_training():
        now, spread, unbiased = _statistics(x, spec, groups)
        found = _normalised(x, groups, now, spread, eps)
        for kept, seen in zip(running, (now, unbiased), strict=True):
            mode.leave(_mixed(kept, stop_gradient(seen), momentum))
    return _scaled(found, groups, groups.group)


def _statistics(x: Tensor, spec: str, groups: Groups) -> tuple[Tensor, Tensor, Tensor]:
    """The mean of each group, its variance, and its variance as estimated from a sample."""
    total = reduce_groups(x, spec, {})
    count = group_size(total, groups)
    now = total / count
    reads = [(groups.operand, x), (groups.group, now)]
    squares = related("squares", lambda x, mean: (x - mean) * (x - mean), reads, groups.group, accum="add")
    return now, squares / count, squares / call("max", count - 1, 1)


@cd
def _mixed(kept: Tensor, seen: Tensor, momentum: float) -> None:
    kept[:] = (1.0 - momentum) * kept + momentum * seen


def _standard(x: Tensor, spec: str, eps: float) -> Tensor:
    """Each group with mean 0 and variance 1."""
    return _normalised(x, Groups.plain(spec, "a norm"), mean(x, spec), var(x, spec), eps)


def _normalised(x: Tensor, groups: Groups, mean: Tensor, variance: Tensor, eps: float) -> Tensor:
    def value(x: Scalar, mean: Scalar, variance: Scalar) -> Scalar:
        return (x - mean) * call("recip_sqrt", variance + eps)

    reads = [(groups.element, x), (groups.group, mean), (groups.group, variance)]
    return related("normalised", value, reads, groups.element)


def _scaled(x: Tensor, groups: Groups, along: ShapeSpec, *, bias: bool = True) -> Tensor:
    """Times `gamma` plus `beta`, which have the axes that `along` names."""
    gamma = (along, param("gamma", init=1.0))
    if not bias:
        return related("scaled", lambda x, gamma: x * gamma, [(groups.element, x), gamma], groups.element)
    reads = [(groups.element, x), gamma, (along, param("beta", init=0.0))]
    return related("scaled", lambda x, gamma, beta: x * gamma + beta, reads, groups.element)


def _scaled_by_channel(x: Tensor) -> Tensor:
    channels = Groups.plain(_EACH_CHANNEL, "a norm")
    return _scaled(x, channels, channels.group)
