"""Blocks that models for images repeat: convolutions with norms, shortcuts, gates."""

from __future__ import annotations

from typing import Any

from weft.errors import WeftError
from weft.nn.checks import channels_of, whole
from weft.nn.convolve import conv2d, depthwise_conv2d
from weft.nn.linear import Activation, linear
from weft.nn.normalise import batch_norm
from weft.nn.pool import global_avg_pool, max_pool2d
from weft.tensor.elementary import clip
from weft.tensor.functions import relu, sigmoid
from weft.tensor.layers import op
from weft.tensor.tensor import Tensor


@op
def residual(x: Tensor, *, layer: Any) -> Tensor:
    """What a layer makes of `x`, plus `x` itself. The layer is any function of a tensor.

    >>> block = wf.nn.residual(layer=wf.nn.mlp(hid_dims=[8], label="inner"), label="block")
    >>> print(block(wf.data(np.ones((5, 3)), batch=1)).dims, block.param("layer.w_out").dims)
    5|3 8->3
    """
    if not callable(layer):
        raise WeftError(f"residual goes around a layer, not {layer!r}", fix="residual(layer=wf.nn.linear(label=…))")
    inner: Tensor = layer(x)
    return x + inner


@op
def conv_bn_relu(
    x: Tensor,
    *,
    out_channels: int | None = None,
    kernel_size: int = 3,
    stride: int = 1,
    activation: Activation | None = relu,
) -> Tensor:
    """A padded convolution without a bias, normalised over the batch, and an activation, if any.

    >>> layer = wf.nn.conv_bn_relu(out_channels=4, label="stem")
    >>> print(layer(wf.data(np.ones((5, 8, 8, 3)), batch=1)).dims, *(p.label for p in layer.params))
    5|8,8,4 stem.conv.kernel stem.bn.gamma stem.bn.beta
    """
    conv = conv2d(out_channels=out_channels, kernel_size=kernel_size, stride=stride, bias=False, label="conv")
    y: Tensor = batch_norm(label="bn")(conv(x))
    return activation(y) if activation else y


@op
def resnet_block(x: Tensor, *, out_channels: int | None = None, stride: int = 1) -> Tensor:
    """Two convolutions of 3 by 3 with norms, plus a shortcut: `x`, or where the size changes, `x` convolved 1 by 1.

    >>> images = wf.data(np.ones((5, 8, 8, 3)), batch=1)
    >>> print(wf.nn.resnet_block(images, out_channels=4, stride=2).dims)
    5|4,4,4
    """
    before = channels_of(x, "resnet_block")
    out_channels = before if out_channels is None else out_channels
    inner = conv_bn_relu(out_channels=out_channels, stride=stride, label="first")(x)
    inner = conv_bn_relu(out_channels=out_channels, activation=None, label="second")(inner)
    if stride > 1 or out_channels != before:
        x = conv_bn_relu(out_channels=out_channels, kernel_size=1, stride=stride, activation=None, label="shortcut")(x)
    y: Tensor = relu(inner + x)
    return y


@op
def vgg_block(x: Tensor, *, num_convs: int, out_channels: int, kernel_size: int = 3) -> Tensor:
    """So many convolutions with norms, then the largest of each window of 2 by 2.

    >>> print(wf.nn.vgg_block(wf.data(np.ones((5, 8, 8, 3)), batch=1), num_convs=2, out_channels=4).dims)
    5|4,4,4
    """
    whole("vgg_block", num_convs=num_convs)
    for at in range(1, num_convs + 1):
        x = conv_bn_relu(out_channels=out_channels, kernel_size=kernel_size, label=f"conv{at}")(x)
    pooled: Tensor = max_pool2d(x)
    return pooled


@op
def squeeze_excite(x: Tensor, *, ratio: int = 4) -> Tensor:
    """Channels times gates between 0 and 1, found from their means through a layer `ratio` times narrower.

    >>> print(wf.nn.squeeze_excite(wf.data(np.ones((5, 8, 8, 4)), batch=1)).dims)
    5|8,8,4
    """
    whole("squeeze_excite", ratio=ratio)
    channels = channels_of(x, "squeeze_excite")
    few = max(channels // ratio, 1)
    narrow = relu(linear(o=few, label="squeeze")(global_avg_pool(x)))
    gates: Tensor = sigmoid(linear(o=channels, i=few, label="excite")(narrow))
    return x * gates


@op
def inverted_residual(
    x: Tensor,
    *,
    out_channels: int,
    expand: int = 6,
    kernel_size: int = 3,
    stride: int = 1,
    squeeze: bool = False,
    activation: Activation | None = None,
) -> Tensor:
    """A mobile block: `expand` times the channels, each convolved by itself, then few again; plus `x` if it fits.

    The activation is `relu6` unless another is given. With `squeeze` there is a `squeeze_excite` in the middle.

    >>> print(wf.nn.inverted_residual(wf.data(np.ones((5, 8, 8, 4)), batch=1), out_channels=6, stride=2).dims)
    5|4,4,6
    """
    whole("inverted_residual", out_channels=out_channels, expand=expand)
    before, act = channels_of(x, "inverted_residual"), activation or relu6
    y: Tensor = x
    if expand > 1:
        y = conv_bn_relu(out_channels=expand * before, kernel_size=1, activation=act, label="expand")(x)
    deep = depthwise_conv2d(kernel_size=kernel_size, stride=stride, label="depthwise")
    y = act(batch_norm(label="bn")(deep(y)))
    if squeeze:
        y = squeeze_excite(label="gate")(y)
    y = conv_bn_relu(out_channels=out_channels, kernel_size=1, activation=None, label="project")(y)
    return x + y if stride == 1 and out_channels == before else y


def relu6(x: Tensor) -> Tensor:
    """`wf.relu`, and never above 6.

    >>> print(ctx[wf.nn.relu6(wf.tensor([-1, 2, 9]))])
    [0. 2. 6.]
    """
    y: Tensor = clip(x, 0.0, 6.0)
    return y
