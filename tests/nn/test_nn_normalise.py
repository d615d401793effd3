"""Norms, and the running statistics of those over batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft as wf
from nn.differential import Arrays, check_batches, check_block
from nn.reference import normalise

ROWS = np.random.default_rng(1).normal(1.0, 2.0, size=(5, 3, 4))
IMAGES = np.random.default_rng(2).normal(1.0, 2.0, size=(3, 2, 2, 4))


def test_a_norm_of_each_row() -> None:
    layer = wf.nn.layer_norm(label="ln")
    check_block(layer, ROWS, lambda x, p: normalise(x, (1, 2)) * p["gamma"] + p["beta"])
    assert [(p.label, p.dims.array_shape) for p in layer.params] == [("ln.gamma", (3, 4)), ("ln.beta", (3, 4))]
    check_batches(wf.nn.layer_norm(), ROWS[0])


def test_a_norm_along_the_axis_that_a_spec_leaves_out() -> None:
    layer = wf.nn.layer_norm(spec="...|t, d => ...|t", eps=0.1, bias=False)
    check_block(layer, ROWS, lambda x, p: normalise(x, (2,), 0.1) * p["gamma"])
    assert [p.dims.array_shape for p in layer.params] == [(4,)]


def test_a_norm_by_the_mean_square() -> None:
    def reference(x: np.ndarray, p: Arrays, axes: tuple[int, ...] = (1, 2)) -> np.ndarray:
        return x / np.sqrt((x**2).mean(axes, keepdims=True) + 1e-6) * p["gamma"]

    check_block(wf.nn.rms_norm(), ROWS, reference)
    check_block(wf.nn.rms_norm(spec="...|..., d => ...|..., 0"), ROWS, lambda x, p: reference(x, p, (2,)))
    check_batches(wf.nn.rms_norm(), ROWS[0])


def test_a_norm_of_groups_of_channels() -> None:
    def reference(x: np.ndarray, p: Arrays) -> np.ndarray:
        parts = [normalise(part, tuple(range(1, x.ndim))) for part in np.split(x, 2, axis=-1)]
        return np.concatenate(parts, -1) * p["gamma"] + p["beta"]

    check_block(wf.nn.group_norm(groups=2), IMAGES, reference)
    check_block(wf.nn.group_norm(groups=2), IMAGES[:, 0, 0], reference)
    check_batches(wf.nn.group_norm(groups=2), IMAGES[0])


def test_a_norm_of_each_channel_of_an_image() -> None:
    check_block(wf.nn.instance_norm(), IMAGES, lambda x, p: normalise(x, (1, 2)) * p["gamma"] + p["beta"])


BATCH = {
    "vectors": (wf.nn.batch_norm, IMAGES[:, 0, 0], (0,)),
    "images": (wf.nn.batch_norm, IMAGES, (0, 1, 2)),
    "rows": (wf.nn.batch_norm1d, IMAGES, (0,)),
    "height and width": (wf.nn.batch_norm2d, IMAGES, (0, 1, 2)),
}


@pytest.mark.parametrize("case", BATCH)
def test_a_batch_is_normalised_by_itself_to_be_trained(case: str) -> None:
    make, x, axes = BATCH[case]
    layer = make(label="bn")

    def train(data: wf.Tensor) -> wf.Tensor:
        with wf.nn.training(step=0):
            return layer(data)  # type: ignore[no-any-return]

    check_block(train, x, lambda x, p: normalise(x, axes))
    fresh = make(label="bn")
    spread = np.random.default_rng(0).uniform(0.5, 2.0, x.shape[len(axes) :])
    check_block(
        fresh,
        x,
        lambda x, p: (x - p["running_mean"]) / np.sqrt(spread + 1e-5) * p["gamma"] + p["beta"],
        values={"running_var": spread},
    )
    assert [p.label for p in fresh.params] == ["bn.gamma", "bn.beta"]


@pytest.mark.parametrize("backend", ["interp", "cc"])
def test_running_statistics_follow_those_of_the_batches(backend: str) -> None:
    random = np.random.default_rng(3)
    x, y = wf.input("x", b="batch", o=(2, 4)), wf.input("y", b="batch", o=3)
    norm, head = wf.nn.batch_norm(momentum=0.3, label="bn"), wf.nn.linear(o=3, label="head")

    def model(x: wf.Tensor) -> Any:
        return head(norm(x))

    with wf.nn.training(step=wf.counter("n")) as mode:
        loss = wf.nn.mse(model(x), y)
    ctx = wf.Context(backend)
    code = wf.seq(wf.grad_update(loss), mode.updates, wf.optim.sgd(loss, lr=0.1))
    step, used = ctx.function(x, y, code=code, returns=loss), ctx.function(x, returns=norm(x))
    mean, var = np.zeros(4), np.ones(4)
    for size in (6, 9, 6):
        seen = random.normal(2.0, 3.0, size=(size, 2, 4)).astype("float32")
        step(seen, random.normal(size=(size, 3)).astype("float32"))
        mean = 0.7 * mean + 0.3 * seen.mean((0, 1))
        var = 0.7 * var + 0.3 * seen.var((0, 1), ddof=1)
        np.testing.assert_allclose(ctx[norm["running_mean"]], mean, rtol=1e-5)
        np.testing.assert_allclose(ctx[norm["running_var"]], var, rtol=1e-5)
    gamma, beta = ctx[norm["gamma"]], ctx[norm["beta"]]
    assert (gamma != 1).all(), "the scale is learned"
    np.testing.assert_allclose(used(seen), (seen - mean) / np.sqrt(var + 1e-5) * gamma + beta, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(used(seen[:1]), used(seen)[:1], rtol=1e-6)


def test_one_example_alone_has_no_variance_to_mix_in() -> None:
    layer, x = wf.nn.batch_norm(label="bn"), wf.data(np.ones((1, 3)), batch=1, label="x")
    with wf.nn.training(step=0) as mode:
        y = layer(x)
    ctx = wf.Context("interp")
    ctx.compile(wf.seq(y.forward, mode.updates))()
    np.testing.assert_allclose(ctx[layer["running_var"]], [0.9] * 3)
    np.testing.assert_allclose(ctx[layer["running_mean"]], [0.1] * 3)


def test_statistics_are_no_parameters() -> None:
    layer = wf.nn.batch_norm(label="bn")
    y = layer(wf.data(np.ones((2, 3)), batch=1, label="x"))
    assert [p.label for p in y.params] == ["bn.gamma", "bn.beta"]
    assert layer["running_var"].label == "bn.running_var"
    assert not layer["running_var"].differentiable


x = wf.data(IMAGES, batch=1, label="x")


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        (
            lambda: wf.nn.group_norm(x, groups=3),
            "group_norm cannot share 4 channels among 3 groups: 4 is not a multiple of 3",
        ),
        (lambda: wf.nn.group_norm(x, groups=0), "group_norm takes a whole number from 1 on for `groups`, not 0"),
        (lambda: wf.nn.group_norm(wf.param("open"), groups=2), "group_norm needs to know how many channels `open` has"),
        (lambda: wf.nn.batch_norm(x, momentum=1.5), "batch_norm takes a number from 0 to 1 for `momentum`, not 1.5"),
        (lambda: wf.nn.batch_norm2d(x, eps=0.0), "batch_norm2d takes a number above 0 for `eps`, not 0.0"),
        (lambda: wf.nn.layer_norm(x, eps=-1.0), "layer_norm takes a number above 0 for `eps`, not -1.0"),
        (lambda: wf.nn.rms_norm(x, spec="i; j => i"), "rms_norm reads one tensor, and the spec has 2 operands"),
    ],
)
def test_wrong_use_is_told(wrong: object, what: str) -> None:
    with pytest.raises(wf.WeftError) as caught:
        wrong()  # type: ignore[operator]
    assert caught.value.what.startswith(what)
