"""Convolutions, their transposes, and pools."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft as wf
from nn.differential import check_batches, check_block
from nn.reference import conv, conv_transpose, pool

CHANNELS = 4
PLACES = {1: (8,), 2: (8, 4), 3: (4, 2, 4)}
IMAGES = {axes: np.random.default_rng(axes).normal(size=(2, *places, CHANNELS)) for axes, places in PLACES.items()}
CONV = {1: wf.nn.conv1d, 2: wf.nn.conv2d, 3: wf.nn.conv3d}
TRANSPOSED = {1: wf.nn.conv_transpose1d, 2: wf.nn.conv_transpose2d, 3: wf.nn.conv_transpose3d}
MAX = {1: wf.nn.max_pool1d, 2: wf.nn.max_pool2d, 3: wf.nn.max_pool3d}
AVG = {1: wf.nn.avg_pool1d, 2: wf.nn.avg_pool2d, 3: wf.nn.avg_pool3d}


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize(
    "how",
    [
        {},
        {"kernel_size": 2, "stride": 2},
        {"kernel_size": 2, "stride": 2, "padded": False},
        {"kernel_size": 3, "dilation": 2, "groups": 2},
    ],
    ids=str,
)
def test_a_convolution(axes: int, how: dict[str, Any]) -> None:
    layer = CONV[axes](out_channels=6, label="conv", **how)
    numpy = {name: one for name, one in how.items() if name != "kernel_size"}
    check_block(layer, IMAGES[axes], lambda x, p: conv(x, p["kernel"], axes=axes, **numpy) + p["bias"])
    assert [p.label for p in layer.params] == ["conv.kernel", "conv.bias"]
    assert layer.param("bias").dims.array_shape == (6,)


def test_a_convolution_in_c() -> None:
    layer = wf.nn.conv2d(out_channels=6, stride=2, bias=False)
    check_block(layer, IMAGES[2], lambda x, p: conv(x, p["kernel"], axes=2, stride=2), backend="cc")


def test_windows_of_an_odd_dilation_that_stay_inside() -> None:
    layer = wf.nn.conv2d(out_channels=2, kernel_size=2, dilation=3, padded=False)
    check_block(layer, IMAGES[2], lambda x, p: conv(x, p["kernel"], axes=2, dilation=3, padded=False) + p["bias"])


def test_images_without_an_axis_of_channels() -> None:
    x = IMAGES[2][..., 0]
    layer = wf.nn.conv2d(out_channels=3)
    check_block(layer, x, lambda x, p: conv(x[..., None], p["kernel"][..., None], axes=2) + p["bias"])


@pytest.mark.parametrize(
    ("layer", "shape", "batch", "fix"),
    [
        (wf.nn.conv2d(out_channels=3), (6, 8, 4, 3), 0, "wf.data(array, batch=1)"),
        (wf.nn.conv_transpose1d(out_channels=3), (6, 8, 3), 0, "wf.data(array, batch=1)"),
        (wf.nn.max_pool2d(), (6, 8, 4, 3), 0, "wf.data(array, batch=1)"),
        (wf.nn.conv2d(out_channels=3), (6, 8), 1, "array[..., None]"),
        (wf.nn.depthwise_conv2d(), (6, 8, 4), 1, "array[..., None]"),
        (wf.nn.batch_norm2d(), (6, 8, 4), 1, "array[..., None]"),
        (wf.nn.global_avg_pool2d(), (6, 8, 4), 1, "array[..., None]"),
    ],
)
def test_images_of_other_axes_are_told_how_to_have_them(layer: Any, shape: Any, batch: int, fix: str) -> None:
    x = wf.data(np.ones(shape), batch=batch, label="x")
    with pytest.raises(wf.ShapeError, match="and channels, and `x` is") as refused:
        layer(x)
    assert fix in refused.value.fix


def test_channels_that_the_use_asks_for() -> None:
    layer = wf.nn.conv2d(label="conv")
    x = wf.data(IMAGES[2], batch=1, label="x")
    loss = wf.nn.mse(layer(x), wf.data(np.ones((2, 8, 4, 5)), batch=1, label="y"))
    assert loss.dims.array_shape == (1,)
    assert str(layer.param("kernel").dims) == "3,3,4->5"
    assert str(layer.param("bias").dims) == "5"


def test_convolutions_take_batch_axes_along() -> None:
    check_batches(wf.nn.conv2d(out_channels=3, stride=2), IMAGES[2][0])
    check_batches(wf.nn.conv2d(out_channels=2, groups=2), IMAGES[2][0])
    check_batches(wf.nn.conv_transpose1d(out_channels=2), IMAGES[1][0])
    check_batches(wf.nn.max_pool2d(), IMAGES[2][0])


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize(
    "how", [{}, {"stride": 2}, {"stride": 2, "padded": False}, {"kernel_size": 2, "dilation": 3, "stride": 2}], ids=str
)
def test_the_transpose_of_a_convolution(axes: int, how: dict[str, Any]) -> None:
    layer = TRANSPOSED[axes](out_channels=3, **how)
    numpy = {name: one for name, one in how.items() if name != "kernel_size"}
    check_block(layer, IMAGES[axes], lambda x, p: conv_transpose(x, p["kernel"], axes=axes, **numpy) + p["bias"])


def test_each_channel_by_itself() -> None:
    def deep(x: np.ndarray, kernel: np.ndarray, stride: int) -> np.ndarray:
        one_each = kernel[:, None, ..., None]  # a group for each channel
        return conv(x, one_each, axes=2, groups=CHANNELS, stride=stride)

    x = IMAGES[2]
    check_block(wf.nn.depthwise_conv2d(stride=2), x, lambda x, p: deep(x, p["kernel"], 2))
    check_block(
        wf.nn.depthwise_separable_conv2d(out_channels=6),
        x,
        lambda x, p: deep(x, p["dw_kernel"], 1) @ p["pw_kernel"].T + p["bias"],
    )


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize(
    "how", [{}, {"kernel_size": 2, "stride": 1}, {"kernel_size": 3, "stride": 2, "padded": True}], ids=str
)
def test_pools(axes: int, how: dict[str, Any]) -> None:
    size, stride = how.get("kernel_size", 2), how.get("stride", 2)
    numpy = {"axes": axes, "size": size, "stride": stride, "padded": how.get("padded", False)}
    check_block(MAX[axes](**how), IMAGES[axes], lambda x, p: pool(x, np.max, **numpy))
    check_block(AVG[axes](**how), IMAGES[axes], lambda x, p: pool(x, np.mean, **numpy))


def test_pools_of_all_places() -> None:
    for axes, x in IMAGES.items():
        over = tuple(range(1, axes + 1))
        check_block(wf.nn.global_avg_pool(), x, lambda x, p, over=over: x.mean(over))
        check_block(wf.nn.global_max_pool(), x, lambda x, p, over=over: x.max(over))
    check_block(wf.nn.global_avg_pool2d(), IMAGES[2], lambda x, p: x.mean((1, 2), keepdims=True))


x = wf.data(IMAGES[2], batch=1, label="x")


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        (
            lambda: wf.nn.conv2d(x, out_channels=2, stride=0),
            "conv2d takes a whole number from 1 on for `stride`, not 0",
        ),
        (
            lambda: wf.nn.conv2d(x, out_channels=2, stride=3),
            "conv2d moves padded windows by 3, and the height of `x` is 8: 8 is not a multiple of 3",
        ),
        (
            lambda: wf.nn.conv2d(x, out_channels=2, stride=2, padded=False),
            "conv2d moves windows of 3 by 2, and the height of `x` is 8: 8 - 3 is not a multiple of 2",
        ),
        (
            lambda: wf.nn.conv2d(x, out_channels=3, groups=2),
            "conv2d cannot share 3 output channels among 2 groups: 3 is not a multiple of 2",
        ),
        (
            lambda: wf.nn.conv2d(x, out_channels=3, groups=3),
            "conv2d cannot share 4 input channels among 3 groups: 4 is not a multiple of 3",
        ),
        (lambda: wf.nn.conv2d(x, groups=2), "conv2d in groups needs to know its output channels"),
        (
            lambda: wf.nn.conv1d(x, out_channels="2"),
            "conv1d takes a whole number from 1 on for `out_channels`, not '2'",
        ),
        (lambda: wf.nn.conv2d(bias=3, label="c"), "`conv2d` takes True or False for `bias`, not 3"),
        (lambda: wf.nn.conv2d(x, channels=3), "`conv2d` has no configuration `channels`"),
        (
            lambda: wf.nn.conv_transpose2d(x, out_channels=1, kernel_size=-1),
            "conv_transpose2d takes a whole number from 1 on for `kernel_size`, not -1",
        ),
        (lambda: wf.nn.max_pool2d(x, kernel_size=0), "max_pool2d takes a whole number from 1 on for `kernel_size`"),
        (
            lambda: wf.nn.avg_pool2d(x, kernel_size=3),
            "avg_pool2d moves windows of 3 by 3, and the height of `x` is 8: 8 - 3",
        ),
        (
            lambda: wf.nn.conv2d(x, out_channels=1, kernel_size=9, padded=False),
            "conv2d has windows of 9, and the height",
        ),
    ],
)
def test_wrong_use_is_told(wrong: object, what: str) -> None:
    with pytest.raises(wf.WeftError) as caught:
        wrong()  # type: ignore[operator]
    assert caught.value.what.startswith(what)


@pytest.mark.parametrize("size", [1, None])
def test_a_pool_of_too_few_places_is_told_by_its_name(size: int | None) -> None:
    """Also where the batch is open, and after pools that left one place."""
    few = (
        wf.input("few", b="batch", o=(3, 3, 2))
        if size is None
        else wf.data(np.ones((2, 4, size, 2)), batch=1, label="few")
    )
    place, label = ("width", "few") if size else ("height", "max_pool2d.few")
    with pytest.raises(wf.ShapeError) as caught:
        wf.nn.max_pool2d(few if size else wf.nn.max_pool2d(few, kernel_size=3))
    assert caught.value.what == f"max_pool2d has windows of 2, and the {place} of `{label}` is 1"
    assert caught.value.fix.startswith("take larger images, fewer pools before it, or a smaller kernel_size")


def test_channels_that_come_first_are_noticed() -> None:
    """Of what is given, by sizes that images have; what layers compute may have any."""
    first, last = (wf.data(np.ones(shape, "float32"), batch=1) for shape in ((2, 3, 8, 8), (2, 8, 8, 3)))
    conv = wf.nn.conv2d(out_channels=4, label="conv")
    with pytest.warns(wf.WeftWarning, match="its channels seem to come first") as caught:
        conv(first)
    assert "np.moveaxis(array, 1, -1)" in str(caught[0].message)
    wf.nn.conv2d(out_channels=4, label="other")(last)
    wf.nn.conv2d(out_channels=4, label="third")(wf.relu(first))
