"""Blocks and models for images."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import weft as wf
from nn.differential import Arrays, check_batches, check_block
from nn.reference import conv, pool, relu, sigmoid

IMAGES = np.random.default_rng(2).normal(size=(2, 4, 4, 4))
#: Running variances are positive.
SPREAD = 0.8


def norm(x: np.ndarray, p: Arrays, at: str) -> np.ndarray:
    """A batch normalised by its running statistics."""
    return (x - p[f"{at}.running_mean"]) / np.sqrt(SPREAD + 1e-5) * p[f"{at}.gamma"] + p[f"{at}.beta"]


def conv_bn(x: np.ndarray, p: Arrays, at: str, stride: int = 1) -> np.ndarray:
    at = at and f"{at}."
    return norm(conv(x, p[f"{at}conv.kernel"], axes=2, stride=stride), p, f"{at}bn")


def check(block: wf.Layer, reference: Callable[[np.ndarray, Arrays], np.ndarray], x: np.ndarray = IMAGES) -> None:
    block(wf.data(x, batch=1))
    spreads = {name: SPREAD for name, _ in block._paths() if name.endswith("running_var")}
    check_block(block, x, reference, values=spreads)


def test_a_convolution_with_a_norm() -> None:
    check(wf.nn.conv_bn_relu(out_channels=3, stride=2), lambda x, p: relu(conv_bn(x, p, "", 2)))
    check(wf.nn.conv_bn_relu(out_channels=3, activation=None), lambda x, p: conv_bn(x, p, ""))


def test_a_block_around_a_shortcut() -> None:
    check(
        wf.nn.resnet_block(),
        lambda x, p: relu(conv_bn(relu(conv_bn(x, p, "first")), p, "second") + x),
    )


@pytest.mark.parametrize(("channels", "stride"), [(4, 2), (6, 1), (6, 2)])
def test_a_shortcut_is_convolved_where_the_size_changes(channels: int, stride: int) -> None:
    def reference(x: np.ndarray, p: Arrays) -> np.ndarray:
        inner = conv_bn(relu(conv_bn(x, p, "first", stride)), p, "second")
        return relu(inner + conv_bn(x, p, "shortcut", stride))

    check(wf.nn.resnet_block(out_channels=channels, stride=stride), reference)


def test_convolutions_and_a_pool() -> None:
    def reference(x: np.ndarray, p: Arrays) -> np.ndarray:
        deep = relu(conv_bn(relu(conv_bn(x, p, "conv1")), p, "conv2"))
        return pool(deep, np.max, axes=2, size=2, stride=2)

    check(wf.nn.vgg_block(num_convs=2, out_channels=3), reference)


def gated(x: np.ndarray, p: Arrays, at: str = "") -> np.ndarray:
    few = relu(x.mean((1, 2)) @ p[f"{at}squeeze.w"].T + p[f"{at}squeeze.b"])
    return x * sigmoid(few @ p[f"{at}excite.w"].T + p[f"{at}excite.b"])[:, None, None]


def test_channels_are_gated() -> None:
    check(wf.nn.squeeze_excite(ratio=2), gated)
    check(wf.nn.squeeze_excite(ratio=8), gated)
    check_batches(wf.nn.squeeze_excite(), IMAGES[0])


@pytest.mark.parametrize(("out", "stride", "squeeze"), [(4, 1, False), (6, 1, True), (4, 2, False)])
def test_a_mobile_block(out: int, stride: int, squeeze: bool) -> None:
    def reference(x: np.ndarray, p: Arrays) -> np.ndarray:
        wide = np.clip(conv_bn(x, p, "expand"), 0, 6)
        kernel = p["depthwise.kernel"][:, None, ..., None]
        wide = np.clip(norm(conv(wide, kernel, axes=2, groups=8, stride=stride), p, "bn"), 0, 6)
        y = conv_bn(gated(wide, p, "gate.") if squeeze else wide, p, "project")
        return x + y if (out, stride) == (4, 1) else y

    check(wf.nn.inverted_residual(out_channels=out, expand=2, stride=stride, squeeze=squeeze), reference)


def test_lenet() -> None:
    def reference(x: np.ndarray, p: Arrays) -> np.ndarray:
        x = x[..., None]
        first = p["conv1.kernel"][..., None]
        x = pool(relu(conv(x, first, axes=2) + p["conv1.bias"]), np.max, axes=2, size=2, stride=2)
        x = pool(relu(conv(x, p["conv2.kernel"], axes=2) + p["conv2.bias"]), np.max, axes=2, size=2, stride=2)
        x = relu(np.einsum("bijk,oijk->bo", x, p["fc1.w"]) + p["fc1.b"])
        return x @ p["logits.w"].T + p["logits.b"]

    model = wf.nn.lenet(num_classes=3, out_channels=[2, 3], hid_dims=[4], label="lenet")
    check(model, reference, np.random.default_rng(4).normal(size=(2, 8, 8)))
    assert [p.label for p in model.params[:3]] == ["lenet.conv1.kernel", "lenet.conv1.bias", "lenet.conv2.kernel"]


def resnet_block(x: np.ndarray, p: Arrays, at: str, stride: int = 1) -> np.ndarray:
    inner = conv_bn(relu(conv_bn(x, p, f"{at}.first", stride)), p, f"{at}.second")
    return relu(inner + (conv_bn(x, p, f"{at}.shortcut", stride) if f"{at}.shortcut.conv.kernel" in p else x))


def mobile_block(x: np.ndarray, p: Arrays, at: str, stride: int = 1) -> np.ndarray:
    wide = np.clip(conv_bn(x, p, f"{at}.expand"), 0, 6) if f"{at}.expand.conv.kernel" in p else x
    kernel = p[f"{at}.depthwise.kernel"][:, None, ..., None]
    deep = np.clip(norm(conv(wide, kernel, axes=2, groups=len(kernel), stride=stride), p, f"{at}.bn"), 0, 6)
    y = conv_bn(deep, p, f"{at}.project")
    return x + y if x.shape == y.shape else y


def linear(x: np.ndarray, p: Arrays, at: str) -> np.ndarray:
    return x.reshape(len(x), -1) @ p[f"{at}.w"].reshape(len(p[f"{at}.b"]), -1).T + p[f"{at}.b"]


def vgg(x: np.ndarray, p: Arrays) -> np.ndarray:
    for at in ("stage1.conv1", "pool", "stage2.conv1", "stage2.conv2", "pool"):
        x = pool(x, np.max, axes=2, size=2, stride=2) if at == "pool" else relu(conv_bn(x, p, at))
    return linear(relu(linear(x, p, "fc1")), p, "logits")


def small_resnet(x: np.ndarray, p: Arrays) -> np.ndarray:
    x = resnet_block(relu(conv_bn(x, p, "stem")), p, "stage1.block1")
    x = resnet_block(resnet_block(x, p, "stage2.block1", 2), p, "stage2.block2")
    return linear(x.mean((1, 2)), p, "logits")


def large_resnet(x: np.ndarray, p: Arrays) -> np.ndarray:
    x = pool(relu(conv_bn(x, p, "stem", 2)), np.max, axes=2, size=3, stride=2, padded=True)
    return linear(resnet_block(x, p, "stage1.block1").mean((1, 2)), p, "logits")


def mobilenet(x: np.ndarray, p: Arrays) -> np.ndarray:
    x = np.clip(conv_bn(x, p, "stem", 2), 0, 6)
    x = mobile_block(x, p, "stage1.block1")
    x = mobile_block(mobile_block(x, p, "stage2.block1", 2), p, "stage2.block2")
    return linear(np.clip(conv_bn(x, p, "head"), 0, 6).mean((1, 2)), p, "logits")


def mobile_cnn(x: np.ndarray, p: Arrays) -> np.ndarray:
    x = relu(conv_bn(x, p, "conv_init", 2))
    for at, stride in (("dw1", 1), ("dw2", 2), ("dw3", 1), ("dw4", 2)):
        kernel = p[f"{at}.dw_kernel"][:, None, ..., None]
        deep = conv(x, kernel, axes=2, groups=len(kernel), stride=stride)
        x = relu(deep @ p[f"{at}.pw_kernel"].T + p[f"{at}.bias"])
    return linear(norm(x, p, "bn_final").mean((1, 2)), p, "classifier")


def sokoban(x: np.ndarray, p: Arrays) -> np.ndarray:
    for at in ("conv1", "conv2", "conv3"):
        x = relu(conv_bn(x, p, at))
    return linear(x.mean((1, 2)), p, "action") + linear(x.mean((1, 2)), p, "value")


@wf.op
def both_heads(x: wf.Tensor, *, model: wf.Layer) -> wf.Tensor:
    """The sum of what a model of two results gives."""
    action, value = model(x)
    return action + value  # type: ignore[no-any-return]


WHOLE = {
    "vgg": (wf.nn.vgg(num_classes=3, stages=[(1, 2), (2, 3)], hid_dims=[4], label="vgg"), vgg),
    "small resnet": (wf.nn.resnet(num_classes=3, blocks=[1, 2], out_channels=2, stem="small", label="r"), small_resnet),
    "large resnet": (wf.nn.resnet(num_classes=3, blocks=[1], out_channels=3, label="r"), large_resnet),
    "mobilenet": (
        wf.nn.mobilenet(num_classes=3, width_mult=0.1, stages=[(1, 8, 1, 1), (1, 8, 2, 2)], head=4, label="m"),
        mobilenet,
    ),
    "mobile_cnn": (wf.nn.mobile_cnn(num_classes=3, width_mult=0.05, label="m"), mobile_cnn),
    "sokoban_cnn": (
        both_heads(model=wf.nn.sokoban_cnn(num_actions=3, out_channels=3, label="s")),
        lambda x, p: sokoban(x, {name.removeprefix("model."): one for name, one in p.items()}),
    ),
}


@pytest.mark.parametrize("name", WHOLE)
def test_a_whole_model_and_its_gradient(name: str) -> None:
    model, reference = WHOLE[name]
    check(model, reference, np.random.default_rng(3).normal(size=(2, 8, 8, 2)))


MODELS = {
    "lenet": wf.nn.lenet(num_classes=3, out_channels=[4], hid_dims=[8], label="lenet"),
    "vgg": wf.nn.vgg(num_classes=3, stages=[(1, 4), (2, 8)], hid_dims=[5], dropout_rate=0.1, label="vgg"),
    "small resnet": wf.nn.resnet(num_classes=3, blocks=[1, 2], out_channels=4, stem="small", label="small"),
    "large resnet": wf.nn.resnet(num_classes=3, blocks=[1, 1], out_channels=4, label="large"),
    "mobilenet": wf.nn.mobilenet(num_classes=3, width_mult=0.25, stages=[(1, 16, 1, 1), (2, 24, 2, 2)], head=8),
    "mobile_cnn": wf.nn.mobile_cnn(num_classes=3, width_mult=0.125),
    "sokoban_cnn": lambda x: sum(wf.nn.sokoban_cnn(num_actions=3, out_channels=4, label="grid")(x)),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_learns_one_batch(name: str) -> None:
    random = np.random.default_rng(0)
    x = wf.data(random.normal(size=(4, 8, 8, 2)).astype("float32"), batch=1, label="images")
    ids = wf.data(np.array([0, 1, 2, 1]), batch=1, label="ids")
    ctx = wf.Context("cc" if name == "lenet" else "interp")
    with wf.nn.training(step=wf.counter("n")) as mode:
        logits = MODELS[name](x)
        loss = wf.nn.cross_entropy(logits, ids)
    assert str(logits.dims) == "4|3"
    step = ctx.compile(wf.seq(wf.grad_update(loss), mode.updates, wf.optim.adam(loss, lr=0.02)))
    losses = []
    for _ in range(4):
        step()
        losses.append(ctx[wf.given(loss)].item())
    assert losses[-1] < 0.8 * losses[0], losses


def test_resnet_18_has_the_parameters_of_resnet_18() -> None:
    model = wf.nn.resnet(label="resnet18")
    assert str(model(wf.input("x", o=(224, 224, 3))).dims) == "1000"
    assert sum(int(np.prod(p.dims.array_shape)) for p in model.params) == 11_689_512
    labels = [p.label for p in model.params]
    assert labels[0] == "resnet18.stem.conv.kernel"
    assert "resnet18.stage2.block1.shortcut.bn.gamma" in labels


def test_mobilenet_v2_has_the_parameters_of_mobilenet_v2() -> None:
    model = wf.nn.mobilenet(label="mobilenet")
    model(wf.input("x", b="batch", o=(224, 224, 3)))
    assert sum(int(np.prod(p.dims.array_shape)) for p in model.params) == 3_504_872


x = wf.data(IMAGES, batch=1, label="x")


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        (
            lambda: wf.nn.vgg_block(x, num_convs=0, out_channels=2),
            "vgg_block takes a whole number from 1 on for `num_convs`",
        ),
        (lambda: wf.nn.squeeze_excite(x, ratio=0), "squeeze_excite takes a whole number from 1 on for `ratio`"),
        (lambda: wf.nn.squeeze_excite(wf.param("open")), "squeeze_excite needs to know how many channels `open` has"),
        (lambda: wf.nn.resnet(x, stem="huge"), "resnet knows no stem='huge'"),
        (lambda: wf.nn.resnet(x, blocks=2), "resnet takes a list for `blocks`, not 2"),
        (lambda: wf.nn.mobilenet(x, width_mult=0.0), "mobilenet takes a number above 0 for `width_mult`, not 0.0"),
        (lambda: wf.nn.lenet(x, out_channels=6), "lenet takes a list for `out_channels`, not 6"),
        (
            lambda: wf.nn.inverted_residual(x, out_channels=2, expand=0),
            "inverted_residual takes a whole number from 1 on for `expand`, not 0",
        ),
    ],
)
def test_wrong_use_is_told(wrong: object, what: str) -> None:
    with pytest.raises(wf.WeftError) as caught:
        wrong()  # type: ignore[operator]
    assert caught.value.what.startswith(what)


def test_widths_are_multiples_of_8_and_not_much_less_than_asked_for() -> None:
    model = wf.nn.mobile_cnn(num_classes=2, width_mult=0.35)
    model(wf.data(np.ones((1, 8, 8, 3)), batch=1))
    assert str(model.param("conv_init.conv.kernel").dims) == "3,3,3->16"  # of 11.2
    assert str(model.param("dw1.pw_kernel").dims) == "16->24"  # of 22.4
