"""Blocks of neural networks written as OCANNL writes them: sizes are found, heads have weights of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

import weft as wf
from parity import blocks

Array = npt.NDArray[np.float64]


def batch(*shape: int, axes: int = 1) -> tuple[Array, wf.Tensor]:
    values = np.random.default_rng(len(shape)).normal(size=shape)
    return values, wf.data(values, batch=axes, label="x")


def shapes(result: wf.Tensor) -> dict[str, str]:
    return {param.label: str(param.dims) for param in result.params}


def softmax(x: Array, axis: int) -> Array:
    above = np.exp(x - x.max(axis, keepdims=True))
    return above / above.sum(axis, keepdims=True)


def test_layers_of_given_widths() -> None:
    _, x = batch(5, 3)
    result = blocks.mlp(widths=(6, 4), label="mlp")(x)
    target = wf.data(np.zeros((5, 2)), batch=1)
    wf.einsum("...|... => 0", (result - target) ** 2)
    assert shapes(result) == {
        "mlp.L0.w": "3->6", "mlp.L0.b": "6", "mlp.L1.w": "6->4", "mlp.L1.b": "4", "mlp.w_out": "4->2",
    }  # fmt: skip


def test_a_softmax_over_the_axes_a_spec_forgets() -> None:
    values, x = batch(2, 3, 4)
    ctx = wf.Context("interp")
    np.testing.assert_allclose(ctx[blocks.softmax(x, spec="...|i,j => ...|i,0")], softmax(values, 2))
    both = np.exp(values) / np.exp(values).sum((1, 2), keepdims=True)
    np.testing.assert_allclose(ctx[blocks.softmax(x, spec="...|... => ...|0")], both)


def test_every_head_of_attention_has_weights_of_its_own() -> None:
    values, x = batch(2, 5, 3, axes=2)
    causal = np.tril(np.ones((5, 5), bool))
    mask = wf.einsum("st => s|t -> 0", wf.data(causal))
    result = blocks.attention(heads=4, d=2, mask=mask, label="A")(x)
    out = result + wf.param("b", o=3, init=0.0)
    assert shapes(out) == {"A.w_q": "3->4,2", "A.w_k": "3->4,2", "A.w_v": "3->4,2", "A.w_o": "4,2->3", "b": "3"}
    ctx = wf.Context("interp")
    w_q, w_k, w_v, w_o = (ctx[one].astype(float) for one in result.params)
    q, k, v = (np.einsum("hdi,bsi->bshd", one, values) for one in (w_q, w_k, w_v))
    scores = np.where(causal[:, :, None], np.einsum("bshd,bthd->bsth", q, k) / np.sqrt(2), -1e9)
    mixed = np.einsum("bsth,bthe->bshe", softmax(scores, 2), v)
    np.testing.assert_allclose(ctx[out], np.einsum("ohe,bshe->bso", w_o, mixed), rtol=1e-5)


def test_attention_with_turned_queries_finds_its_sizes_backwards() -> None:
    _, x = batch(1, 4, 6, axes=2)
    frequencies = wf.data(np.array([1.0, 0.1, 0.01]), label="frequencies")
    positions = wf.einsum("s => s|0", wf.data(np.arange(4.0)))
    result = blocks.attention(heads=2, d=6, turn=(frequencies, positions), label="A")(x)
    loss = wf.einsum("...|... => 0", (result - x) ** 2)
    assert shapes(result) == {"A.w_q": "6->2,6", "A.w_k": "6->2,6", "A.w_v": "6->2,6", "A.w_o": "2,6->6"}
    ctx = wf.Context("interp")
    ctx.compile(wf.grad_update(loss), keep=[one.grad for one in loss.params])()
    assert all(np.abs(ctx[one.grad]).max() > 0 for one in loss.params)
    assert not frequencies.differentiable


def test_turning_pairs_by_an_angle() -> None:
    values, x = batch(3, 4)
    frequencies = np.array([1.0, 0.1])
    positions = wf.einsum("s => s|0", wf.data(np.arange(3.0)))
    angles = np.arange(3.0)[:, None] * frequencies
    turned = (values[:, ::2] + 1j * values[:, 1::2]) * np.exp(1j * angles)
    found = wf.Context("interp")[blocks.rope(x, wf.data(frequencies), positions)]
    np.testing.assert_allclose(found, np.stack([turned.real, turned.imag], -1).reshape(3, 4))


def test_a_norm_of_a_layer_of_any_rank() -> None:
    for shape in ((2, 6), (2, 3, 4)):
        values, x = batch(*shape)
        inner = tuple(range(1, len(shape)))
        result = blocks.layer_norm(label="ln")(x)
        expected = (values - values.mean(inner, keepdims=True)) / np.sqrt(values.var(inner, keepdims=True) + 1e-5)
        np.testing.assert_allclose(wf.Context("interp")[result], expected, rtol=1e-6)
        assert set(shapes(result).values()) == {",".join(map(str, shape[1:]))}


def test_a_decoder_that_looks_at_what_was_encoded() -> None:
    _, x = batch(2, 4, 6, axes=2)
    _, encoded = batch(2, 5, 6, axes=2)
    block = blocks.decoder_block(heads=2, d=3, d_ff=8, label="D")
    result = block(x, encoded)
    assert str(result.dims) == "2,4|6"
    found = shapes(result)
    assert [found[f"D.{name}"] for name in ("self.w_q", "cross.w_k", "ffn.L0.w", "ffn.w_out", "ln3.gamma")] == [
        "6->2,3", "6->2,3", "6->8", "8->6", "6",
    ]  # fmt: skip
    assert np.isfinite(wf.Context("interp")[result]).all()


def test_a_transformer_with_its_loss() -> None:
    causal = wf.einsum("st => s|t -> 0", wf.data(np.tril(np.ones((4, 4), bool))))
    source, target = (
        wf.data(np.eye(size)[np.arange(2 * length).reshape(2, length) % size], batch=2)
        for length, size in ((5, 7), (4, 6))
    )
    logits = blocks.transformer(length=4, d=6, mask=causal, label="T")(source, target)
    loss = softmax_loss(logits, target)
    found = shapes(loss)
    assert [found[f"T.{name}"] for name in ("source_embed", "target_embed", "place", "w_out")] == [
        "7->6", "6->6", "4|6", "6->6",
    ]  # fmt: skip
    assert str(logits.dims) == "2,4|6"
    ctx = wf.Context("interp")
    ctx.compile(wf.grad_update(loss), keep=[one.grad for one in loss.params])()
    assert all(np.isfinite(ctx[one.grad]).all() for one in loss.params)


# Images


def correlate(x: Array, kernel: Array) -> Array:
    """Windows of odd sizes that are padded on both sides, channels last."""
    high, wide = kernel.shape[1:3]
    padded = np.pad(x, ((0, 0), (high // 2,) * 2, (wide // 2,) * 2, (0, 0)))
    windows: Any = np.lib.stride_tricks.sliding_window_view(padded, (high, wide), (1, 2))
    found: Array = np.einsum("bhwcij,oijc->bhwo", windows, kernel)
    return found


def test_a_convolution_whose_channels_are_a_row() -> None:
    values, x = batch(2, 5, 4, 3)
    result = blocks.conv2d(size=3, channels=4, label="C")(x)
    assert (str(result.dims), shapes(result)) == ("2|5,4,4", {"C.kernel": "3,3,3->4", "C.bias": "5,4,4"})
    ctx = wf.Context("interp")
    kernel = ctx[result.params[0]].astype(float)
    np.testing.assert_allclose(ctx[result], correlate(values, kernel), rtol=1e-5, atol=1e-6)
    assert str(blocks.conv2d(size=3, stride=2, channels=4)(batch(2, 6, 6, 3)[1]).dims) == "2|3,3,4"


def test_a_convolution_of_each_channel_and_then_of_all() -> None:
    result = blocks.depthwise(channels=4, label="S")(batch(2, 5, 5, 3)[1])
    assert (str(result.dims), shapes(result)) == ("2|5,5,4", {"S.deep": "3,3,3", "S.point": "3->4"})


def test_pools() -> None:
    values, x = batch(2, 4, 6, 3)
    cells = values.reshape(2, 2, 2, 3, 2, 3)
    ctx = wf.Context("interp")
    np.testing.assert_array_equal(ctx[blocks.pool2d(x)], cells.max((2, 4)))
    np.testing.assert_allclose(ctx[blocks.pool2d(x, accum="+")], cells.mean((2, 4)))
    np.testing.assert_allclose(ctx[blocks.global_average(x)], values.mean((1, 2), keepdims=True))


def test_a_norm_of_a_batch_over_everything_but_channels() -> None:
    values, x = batch(2, 3, 4, 5)
    expected = (values - values.mean((0, 1, 2))) / np.sqrt(values.var((0, 1, 2)) + 1e-5)
    np.testing.assert_allclose(wf.Context("interp")[blocks.batch_norm2d()(x)], expected, rtol=1e-6)


def test_a_norm_of_a_batch_of_vectors() -> None:
    values, x = batch(5, 3)
    expected = (values - values.mean(0)) / np.sqrt(values.var(0) + 1e-5)
    np.testing.assert_allclose(wf.Context("interp")[blocks.batch_norm1d()(x)], expected, rtol=1e-6)


def test_a_block_around_a_shortcut_finds_its_channels() -> None:
    result = blocks.resnet_block(channels=4, label="R")(batch(2, 5, 5, 3)[1])
    found = shapes(result)
    assert (found["R.conv1.kernel"], found["R.conv2.kernel"]) == ("3,3,3->4", "3,3,4->3")
    assert str(result.dims) == "2|5,5,3"
    assert (wf.Context("interp")[result] >= 0).all()


def test_lenet_learns() -> None:
    values, x = batch(6, 8, 8, 1)
    labels = (values.mean((1, 2, 3)) > 0).astype(int)
    logits = blocks.lenet(classes=2, label="net")(x)
    chosen = softmax_loss(logits, wf.data(np.eye(2)[labels], batch=1))
    assert shapes(logits)["net.fc.w"] == "2,2,16->20"
    ctx = wf.Context("interp")
    step = ctx.compile(wf.seq(wf.grad_update(chosen), wf.optim.sgd(chosen, lr=0.2)))
    losses = []
    for _ in range(4):
        step()
        losses.append(float(ctx[chosen][0]))
    assert losses[-1] < losses[0] - 0.05


def softmax_loss(logits: wf.Tensor, wanted: wf.Tensor) -> wf.Tensor:
    likely = blocks.softmax(logits, spec="...|... => ...|0")
    return -wf.einsum("...|...; ...|... => 0", wanted, wf.log(likely)) / 6
