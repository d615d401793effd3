"""Models for images: the output row of an image is height, width, channels, and that of the result a number a class."""

from __future__ import annotations

from collections.abc import Sequence

from weft.nn.checks import one_of, positive, several, whole
from weft.nn.convolve import conv2d, depthwise_separable_conv2d
from weft.nn.image_blocks import conv_bn_relu, inverted_residual, relu6, resnet_block, vgg_block
from weft.nn.linear import dropout, linear, mlp_layer
from weft.nn.normalise import batch_norm
from weft.nn.pool import global_avg_pool, max_pool2d
from weft.tensor.functions import relu
from weft.tensor.layers import op
from weft.tensor.tensor import Tensor

#: How many channels a stage of VGG-11 has, and how many convolutions.
_VGG11 = ((1, 64), (1, 128), (2, 256), (2, 512), (2, 512))
#: Of each stage of MobileNetV2: how much wider inside, how many channels, how many blocks, the first one's stride.
_MOBILE = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))


@op
def lenet(
    x: Tensor, *, num_classes: int = 10, out_channels: Sequence[int] = (6, 16), hid_dims: Sequence[int] = (120, 84)
) -> Tensor:
    """LeNet: padded convolutions of 5 by 5 with pools, then layers of the given widths.

    >>> model = wf.nn.lenet(num_classes=10, label="lenet")
    >>> print(model(wf.data(np.ones((5, 28, 28)), batch=1)).dims, *(p.label for p in model.params[:2]))
    5|10 lenet.conv1.kernel lenet.conv1.bias
    """
    several("lenet", out_channels=out_channels, hid_dims=hid_dims)
    for at, width in enumerate(out_channels, 1):
        x = max_pool2d(relu(conv2d(out_channels=width, kernel_size=5, label=f"conv{at}")(x)))
    for at, width in enumerate(hid_dims, 1):
        x = mlp_layer(hid_dim=width, label=f"fc{at}")(x)
    logits: Tensor = linear(o=num_classes, label="logits")(x)
    return logits


@op
def vgg(
    x: Tensor,
    *,
    num_classes: int = 1000,
    stages: Sequence[tuple[int, int]] = _VGG11,
    hid_dims: Sequence[int] = (4096, 4096),
    dropout_rate: float = 0.5,
) -> Tensor:
    """VGG-11, or stages of `(convolutions, channels)` of your own; then layers of the given widths with dropout.

    >>> model = wf.nn.vgg(num_classes=10, stages=[(1, 4), (2, 8)], hid_dims=[16], label="vgg")
    >>> print(model(wf.data(np.ones((5, 8, 8, 3)), batch=1)).dims)
    5|10
    """
    several("vgg", hid_dims=hid_dims)
    for at, (num_convs, channels) in enumerate(stages, 1):
        x = vgg_block(num_convs=num_convs, out_channels=channels, label=f"stage{at}")(x)
    for at, width in enumerate(hid_dims, 1):
        x = dropout(mlp_layer(hid_dim=width, label=f"fc{at}")(x), rate=dropout_rate)
    logits: Tensor = linear(o=num_classes, label="logits")(x)
    return logits


@op
def resnet(
    x: Tensor,
    *,
    num_classes: int = 1000,
    blocks: Sequence[int] = (2, 2, 2, 2),
    out_channels: int = 64,
    stem: str = "large",
) -> Tensor:
    """ResNet-18, or so many blocks a stage; each stage after the first has twice the channels on half the size.

    A `"large"` stem makes images four times smaller before the first stage, a `"small"` one keeps their size.

    >>> model = wf.nn.resnet(num_classes=10, blocks=[1, 1], out_channels=4, stem="small", label="resnet")
    >>> print(model(wf.data(np.ones((5, 8, 8, 3)), batch=1)).dims)
    5|10
    """
    several("resnet", blocks=blocks)
    one_of("resnet", ("large", "small"), stem=stem)
    whole("resnet", out_channels=out_channels)
    large = stem == "large"
    x = conv_bn_relu(out_channels=out_channels, kernel_size=7 if large else 3, stride=2 if large else 1, label="stem")(
        x
    )
    if large:
        x = max_pool2d(x, kernel_size=3, stride=2, padded=True)
    for stage, count in enumerate(blocks):
        for block in range(count):
            stride = 2 if stage and not block else 1
            x = resnet_block(
                out_channels=out_channels << stage, stride=stride, label=f"stage{stage + 1}.block{block + 1}"
            )(x)
    logits: Tensor = linear(o=num_classes, label="logits")(global_avg_pool(x))
    return logits


@op
def mobilenet(
    x: Tensor,
    *,
    num_classes: int = 1000,
    width_mult: float = 1.0,
    stages: Sequence[tuple[int, int, int, int]] = _MOBILE,
    head: int = 1280,
    dropout_rate: float = 0.2,
) -> Tensor:
    """MobileNetV2, or stages of `(expand, channels, blocks, stride)` of your own, all widths times `width_mult`.

    >>> model = wf.nn.mobilenet(num_classes=10, width_mult=0.5, stages=[(1, 16, 1, 1), (6, 24, 2, 2)], head=32)
    >>> print(model(wf.data(np.ones((5, 16, 16, 3)), batch=1)).dims)
    5|10
    """
    positive("mobilenet", width_mult=width_mult)
    x = conv_bn_relu(out_channels=_width(32, width_mult), stride=2, activation=relu6, label="stem")(x)
    for stage, (expand, channels, count, first) in enumerate(stages, 1):
        for block in range(count):
            x = inverted_residual(
                out_channels=_width(channels, width_mult),
                expand=expand,
                stride=1 if block else first,
                label=f"stage{stage}.block{block + 1}",
            )(x)
    x = conv_bn_relu(out_channels=head, kernel_size=1, activation=relu6, label="head")(x)
    logits: Tensor = linear(o=num_classes, label="logits")(dropout(global_avg_pool(x), rate=dropout_rate))
    return logits


@op
def mobile_cnn(x: Tensor, *, num_classes: int = 1000, width_mult: float = 1.0) -> Tensor:
    """A small network of depthwise separable convolutions, for images whose sizes are multiples of 8.

    >>> print(wf.nn.mobile_cnn(wf.data(np.ones((2, 8, 8, 3)), batch=1), num_classes=5, width_mult=0.25).dims)
    2|5
    """
    positive("mobile_cnn", width_mult=width_mult)
    x = conv_bn_relu(out_channels=_width(32, width_mult), stride=2, label="conv_init")(x)
    for at, (channels, stride) in enumerate(((64, 1), (128, 2), (128, 1), (256, 2)), 1):
        conv = depthwise_separable_conv2d(out_channels=_width(channels, width_mult), stride=stride, label=f"dw{at}")
        x = relu(conv(x))
    pooled = global_avg_pool(batch_norm(label="bn_final")(x))
    logits: Tensor = linear(o=num_classes, label="classifier")(pooled)
    return logits


@op
def sokoban_cnn(x: Tensor, *, num_actions: int = 4, out_channels: int = 32) -> tuple[Tensor, Tensor]:
    """Logits of actions, and a value, for a grid world: three convolutions with norms, then the mean of all places.

    >>> logits, value = wf.nn.sokoban_cnn(wf.data(np.ones((2, 5, 5, 3)), batch=1), out_channels=4)
    >>> print(logits.dims, value.dims)
    2|4 2|1
    """

    for at in (1, 2, 3):
        x = conv_bn_relu(out_channels=out_channels, label=f"conv{at}")(x)
    pooled = global_avg_pool(x)
    logits, value = linear(o=num_actions, label="action")(pooled), linear(o=1, label="value")(pooled)
    return logits, value


def _width(channels: int, width_mult: float) -> int:
    """A multiple of 8 near so many channels times a factor, as MobileNetV2 rounds."""
    wanted = channels * width_mult
    near = max(8, int(wanted + 4) // 8 * 8)
    return near + 8 if near < 0.9 * wanted else near
