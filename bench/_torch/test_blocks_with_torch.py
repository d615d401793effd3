"""Blocks of `wf.nn` against PyTorch's modules: values, gradients, running statistics; in double precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import weft as wf

VECTORS = np.random.default_rng(0).normal(size=(6, 8))
SEQUENCES = np.random.default_rng(1).normal(size=(2, 8, 4))
IMAGES = np.random.default_rng(2).normal(size=(2, 8, 8, 4))
VOLUMES = np.random.default_rng(3).normal(size=(2, 4, 4, 4, 4))


def kernel(one: np.ndarray) -> np.ndarray:
    """From `outputs, window…, inputs` to `outputs, inputs, window…`."""
    return np.moveaxis(one, -1, 1)


def grouped(one: np.ndarray) -> np.ndarray:
    return kernel(one.reshape(-1, *one.shape[2:]))


def transposed(one: np.ndarray) -> np.ndarray:
    return np.moveaxis(kernel(one), 0, 1)


def depthwise(one: np.ndarray) -> np.ndarray:
    return one[:, None]


def as_it_is(one: np.ndarray) -> np.ndarray:
    return one


#: How PyTorch calls a parameter, and how weft's lies there.
Names = dict[str, tuple[str, Callable[[np.ndarray], np.ndarray]]]
LINEAR: Names = {"weight": ("w", as_it_is), "bias": ("b", as_it_is)}
NORM: Names = {"weight": ("gamma", as_it_is), "bias": ("beta", as_it_is)}


def conv(lies: Callable[[np.ndarray], np.ndarray] = kernel) -> Names:
    return {"weight": ("kernel", lies), "bias": ("bias", as_it_is)}


BLOCKS: dict[str, tuple[Any, nn.Module, Names, np.ndarray]] = {
    "linear": (wf.nn.linear(o=5), nn.Linear(8, 5), LINEAR, VECTORS),
    "layer_norm": (wf.nn.layer_norm(), nn.LayerNorm(8), NORM, VECTORS),
    "rms_norm": (wf.nn.rms_norm(), nn.RMSNorm(8, eps=1e-6), {"weight": NORM["weight"]}, VECTORS),
    "group_norm": (wf.nn.group_norm(groups=2), nn.GroupNorm(2, 4), NORM, IMAGES),
    "instance_norm": (wf.nn.instance_norm(), nn.InstanceNorm2d(4, affine=True), NORM, IMAGES),
    "batch_norm used": (wf.nn.batch_norm(), nn.BatchNorm2d(4).eval(), NORM, IMAGES),
    "conv1d": (wf.nn.conv1d(out_channels=6), nn.Conv1d(4, 6, 3, padding=1), conv(), SEQUENCES),
    "conv2d": (wf.nn.conv2d(out_channels=6, stride=2), nn.Conv2d(4, 6, 3, stride=2, padding=1), conv(), IMAGES),
    "even conv2d": (
        wf.nn.conv2d(out_channels=6, kernel_size=4, stride=2, padded=False),
        nn.Conv2d(4, 6, 4, stride=2),
        conv(),
        IMAGES,
    ),
    "dilated conv2d": (
        wf.nn.conv2d(out_channels=6, dilation=2),
        nn.Conv2d(4, 6, 3, padding=2, dilation=2),
        conv(),
        IMAGES,
    ),
    "conv2d in groups": (
        wf.nn.conv2d(out_channels=6, groups=2),
        nn.Conv2d(4, 6, 3, padding=1, groups=2),
        conv(grouped),
        IMAGES,
    ),
    "conv3d": (wf.nn.conv3d(out_channels=2), nn.Conv3d(4, 2, 3, padding=1), conv(), VOLUMES),
    "depthwise_conv2d": (
        wf.nn.depthwise_conv2d(),
        nn.Conv2d(4, 4, 3, padding=1, groups=4, bias=False),
        {"weight": ("kernel", depthwise)},
        IMAGES,
    ),
    "conv_transpose1d": (
        wf.nn.conv_transpose1d(out_channels=3, stride=2),
        nn.ConvTranspose1d(4, 3, 3, stride=2, padding=1, output_padding=1),
        conv(transposed),
        SEQUENCES,
    ),
    "conv_transpose2d": (
        wf.nn.conv_transpose2d(out_channels=3, stride=2, padded=False),
        nn.ConvTranspose2d(4, 3, 3, stride=2),
        conv(transposed),
        IMAGES,
    ),
    "conv_transpose3d": (
        wf.nn.conv_transpose3d(out_channels=3, stride=2),
        nn.ConvTranspose3d(4, 3, 3, stride=2, padding=1, output_padding=1),
        conv(transposed),
        VOLUMES,
    ),
    "max_pool2d": (wf.nn.max_pool2d(), nn.MaxPool2d(2), {}, IMAGES),
    "padded max_pool2d": (
        wf.nn.max_pool2d(kernel_size=3, stride=2, padded=True),
        nn.MaxPool2d(3, 2, padding=1),
        {},
        IMAGES,
    ),
    "padded avg_pool2d": (
        wf.nn.avg_pool2d(kernel_size=3, stride=2, padded=True),
        nn.AvgPool2d(3, 2, padding=1),
        {},
        IMAGES,
    ),
    "avg_pool3d": (wf.nn.avg_pool3d(), nn.AvgPool3d(2), {}, VOLUMES),
    "avg_pool2d": (wf.nn.avg_pool2d(kernel_size=4, stride=2), nn.AvgPool2d(4, 2), {}, IMAGES),
    "avg_pool1d": (wf.nn.avg_pool1d(), nn.AvgPool1d(2), {}, SEQUENCES),
    "max_pool1d": (wf.nn.max_pool1d(kernel_size=4), nn.MaxPool1d(4), {}, SEQUENCES),
    "max_pool3d": (wf.nn.max_pool3d(), nn.MaxPool3d(2), {}, VOLUMES),
    "global_avg_pool": (wf.nn.global_avg_pool(), nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten()), {}, IMAGES),
    "global_max_pool": (wf.nn.global_max_pool(), nn.Sequential(nn.AdaptiveMaxPool3d(1), nn.Flatten()), {}, VOLUMES),
    "softmax": (wf.nn.softmax(spec="...|..., c"), nn.Softmax(1), {}, IMAGES),
}


def first(x: np.ndarray) -> torch.Tensor:
    """With channels first, as PyTorch has them."""
    return torch.tensor(np.moveaxis(x, -1, 1).copy(), dtype=torch.float64, requires_grad=True)


def last(x: torch.Tensor | None) -> np.ndarray:
    assert x is not None
    return np.moveaxis(x.detach().numpy(), 1, -1)


@pytest.mark.parametrize("name", BLOCKS)
def test_a_block_is_the_module(name: str) -> None:
    block, module, names, x = BLOCKS[name]
    ctx, random = wf.Context("cc"), np.random.default_rng(4)
    data = wf.require_grad(wf.data(x, batch=1, label="x"))
    y = block(data)
    for _, (own, _) in names.items():
        ctx[block.param(own)] = random.normal(size=block.param(own).dims.array_shape)
    module.double()
    for theirs, (own, lies) in names.items():
        getattr(module, theirs).data = torch.tensor(lies(ctx[block.param(own)]).copy())
    given = first(x)
    expected = module(given)
    weights = random.normal(size=y.dims.array_shape)
    loss = wf.einsum("...|...; ...|... => 0", y, wf.data(weights, batch=1))
    params = [block.param(own) for own, _ in names.values()]
    ctx.compile(wf.grad_update(loss), keep=[y, data.grad, *(one.grad for one in params)])()
    (expected * torch.tensor(np.moveaxis(weights, -1, 1).copy())).sum().backward()
    np.testing.assert_allclose(ctx[y], last(expected), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(ctx[data.grad], last(given.grad), rtol=1e-8, atol=1e-9)
    for theirs, (own, lies) in names.items():
        gradient = getattr(module, theirs).grad.numpy()
        np.testing.assert_allclose(lies(ctx[block.param(own).grad]), gradient, rtol=1e-8, atol=1e-9)


def test_running_statistics_are_those_of_the_module() -> None:
    norm, module = wf.nn.batch_norm(label="bn"), nn.BatchNorm2d(4).double()
    x = wf.input("x", b="batch", o=(8, 8, 4), dtype="float64")
    with wf.nn.training(step=wf.counter("n")) as mode:
        y = norm(x)
    ctx = wf.Context("cc")
    step = ctx.function(x, code=wf.seq(y.forward, mode.updates), returns=y)
    used = ctx.function(x, returns=norm(x))
    for scale in (1.0, 3.0, 0.5):
        np.testing.assert_allclose(step(scale * IMAGES + 1), last(module(first(scale * IMAGES + 1))), rtol=1e-9)
        np.testing.assert_allclose(ctx[norm["running_mean"]], module.running_mean.numpy(), rtol=1e-9)
        np.testing.assert_allclose(ctx[norm["running_var"]], module.running_var.numpy(), rtol=1e-9)
    np.testing.assert_allclose(used(IMAGES), last(module.eval()(first(IMAGES))), rtol=1e-9)


def test_an_embedding_is_the_module() -> None:
    ids, table = np.array([[3, 1, 3], [0, 4, 1]]), np.random.default_rng(6).normal(size=(5, 2)).astype("float32")
    block, module, ctx = wf.nn.embedding(vocab_size=5, o=2, label="e"), nn.Embedding(5, 2), wf.Context("cc")
    y = block(wf.data(ids, batch=2))
    loss = wf.einsum("...|... => 0", y * y * y)
    ctx[block.param("table")] = table
    ctx.compile(wf.grad_update(loss), keep=[y, block.param("table").grad])()
    module.weight.data = torch.tensor(table)
    expected = module(torch.tensor(ids))
    (expected**3).sum().backward()
    np.testing.assert_allclose(ctx[y], expected.detach().numpy(), rtol=1e-6)
    assert module.weight.grad is not None
    np.testing.assert_allclose(ctx[block.param("table").grad], module.weight.grad.numpy(), rtol=1e-5)


def cosines(x: torch.Tensor) -> torch.Tensor:
    """Of each row and each other one, how near their directions are, ten times."""
    unit = nn.functional.normalize
    return unit(x) @ unit(torch.tensor(OTHER)).T / 0.1


IDS = np.array([0, 3, 1, 7, 3, 2])
TRUTH = (VECTORS > 0).astype("float64")
OTHER = np.random.default_rng(5).normal(size=VECTORS.shape)

LOSSES: dict[str, tuple[Callable[[wf.Tensor], Any], Callable[[torch.Tensor], torch.Tensor]]] = {
    "mse": (lambda x: wf.nn.mse(x, wf.data(OTHER, batch=1)), lambda x: nn.MSELoss()(x, torch.tensor(OTHER))),
    "l1": (lambda x: wf.nn.l1(x, wf.data(OTHER, batch=1)), lambda x: nn.L1Loss()(x, torch.tensor(OTHER))),
    "huber": (
        lambda x: wf.nn.huber(x, wf.data(OTHER, batch=1), delta=0.5),
        lambda x: nn.HuberLoss(delta=0.5)(x, torch.tensor(OTHER)),
    ),
    "binary_cross_entropy": (
        lambda x: wf.nn.binary_cross_entropy(x, wf.data(TRUTH, batch=1)),
        lambda x: nn.BCEWithLogitsLoss()(x, torch.tensor(TRUTH)),
    ),
    "cross_entropy": (
        lambda x: wf.nn.cross_entropy(x, wf.data(IDS, batch=1), smoothing=0.1, ignore_index=3),
        lambda x: nn.CrossEntropyLoss(label_smoothing=0.1, ignore_index=3)(x, torch.tensor(IDS)),
    ),
    "hinge": (
        lambda x: wf.nn.hinge(x, wf.data(2 * TRUTH - 1, batch=1)),
        lambda x: torch.relu(1 - x * torch.tensor(2 * TRUTH - 1)).mean(),
    ),
    "contrastive": (
        lambda x: wf.nn.contrastive(x, wf.data(OTHER, batch=1)),
        lambda x: nn.CrossEntropyLoss()(cosines(x), torch.arange(len(x))),
    ),
    "kl_divergence": (
        lambda x: wf.nn.kl_divergence(wf.log_softmax(x), wf.softmax(wf.data(OTHER, batch=1))),
        lambda x: nn.KLDivLoss(reduction="batchmean")(x.log_softmax(1), torch.tensor(OTHER).softmax(1)),
    ),
}


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_is_the_module(name: str) -> None:
    own, theirs = LOSSES[name]
    data, ctx = wf.require_grad(wf.data(VECTORS, batch=1, label="x")), wf.Context("cc")
    loss = own(data)
    ctx.compile(wf.grad_update(loss), keep=[data.grad])()
    given = torch.tensor(VECTORS, requires_grad=True)
    expected = theirs(given)
    expected.backward()
    np.testing.assert_allclose(ctx[loss], [expected.item()], rtol=1e-9)
    assert given.grad is not None
    np.testing.assert_allclose(ctx[data.grad], given.grad.numpy(), rtol=1e-8, atol=1e-12)
