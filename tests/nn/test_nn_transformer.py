"""Blocks of transformers, stacks of them and models of text and images, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

import weft as wf
from nn.differential import Arrays, check_block
from nn.sequences import attention, before, feed_forward, inner, layer_norm, linear, rms_norm

X = np.random.default_rng(1).normal(size=(2, 3, 4))
SOURCE = np.random.default_rng(2).normal(size=(2, 2, 3))
IDS = np.random.default_rng(3).integers(0, 7, (2, 3)).astype("int32")

Part = Callable[[np.ndarray, Arrays], np.ndarray]
causal = partial(attention, sees=lambda row: before)


def pre_norm(x: np.ndarray, p: Arrays, attend: Part, kind: str, norm: Part = layer_norm) -> np.ndarray:
    x = x + attend(norm(x, inner(p, "ln1")), inner(p, "attention"))
    return x + feed_forward(norm(x, inner(p, "ln2")), inner(p, "ffn"), kind)


def post_norm(x: np.ndarray, p: Arrays, attend: Part, kind: str) -> np.ndarray:
    x = layer_norm(x + attend(x, inner(p, "attention")), inner(p, "ln1"))
    return layer_norm(x + feed_forward(x, inner(p, "ffn"), kind), inner(p, "ln2"))


def values(layer: wf.Layer, ctx: wf.Context) -> Arrays:
    return {path: ctx[param].astype("float64") for path, param in layer._paths()}


def test_a_block_of_an_encoder() -> None:
    layer = wf.nn.transformer_encoder_block(num_heads=2, d_k=2, d_ff=5)
    check_block(layer, X, lambda x, p: post_norm(x, p, attention, "relu"), batch=2)


def test_a_block_of_a_decoder_with_norms_before() -> None:
    style = wf.nn.TransformerStyle(activation="gelu")
    layer = wf.nn.decoder_only_block(num_heads=2, d_k=2, d_ff=5, style=style, label="block")
    check_block(layer, X, lambda x, p: pre_norm(x, p, causal, "gelu"), batch=2)
    assert "block.attention.q" in {p.label for p in layer.params}


def test_a_block_with_rms_norms_and_gates() -> None:
    style = wf.nn.TransformerStyle(norm="rms", activation="swiglu", bias=False)
    layer = wf.nn.decoder_only_block(num_heads=2, d_k=2, d_ff=5, style=style)
    check_block(layer, X, lambda x, p: pre_norm(x, p, causal, "swiglu", rms_norm), batch=2)


def test_a_stack_of_an_encoder_ends_in_a_norm() -> None:
    style = wf.nn.TransformerStyle(activation="gelu_tanh")
    layer = wf.nn.transformer_encoder(num_layers=2, num_heads=2, d_k=2, d_ff=5, style=style)

    def reference(x: np.ndarray, p: Arrays) -> np.ndarray:
        for at in range(2):
            x = pre_norm(x, inner(p, f"block{at}"), attention, "gelu_tanh")
        return layer_norm(x, inner(p, "norm"))

    check_block(layer, X, reference, batch=2)


def test_a_stack_of_a_decoder_alone() -> None:
    layer = wf.nn.decoder_only(num_layers=2, num_heads=2, d_k=2, d_ff=5)

    def reference(x: np.ndarray, p: Arrays) -> np.ndarray:
        for at in range(2):
            x = post_norm(x, inner(p, f"block{at}"), causal, "relu")
        return x

    check_block(layer, X, reference, batch=2)


def test_a_decoder_attends_to_an_encoder() -> None:
    encoded = wf.data(SOURCE, batch=2, label="encoded")
    layer = wf.nn.transformer_decoder(num_layers=1, num_heads=2, d_k=2, d_ff=5, label="decoder")

    def reference(x: np.ndarray, p: Arrays) -> np.ndarray:
        p = inner(p, "block0")
        x = layer_norm(x + causal(x, inner(p, "attention")), inner(p, "ln1"))
        x = layer_norm(x + attention(x, inner(p, "cross"), source=SOURCE), inner(p, "ln2"))
        return layer_norm(x + feed_forward(x, inner(p, "ffn"), "relu"), inner(p, "ln3"))

    ctx = wf.Context("interp")
    y = ctx[layer(wf.data(X, batch=2, label="x"), encoded)]
    np.testing.assert_allclose(y, reference(X, values(layer, ctx)), rtol=1e-6, atol=1e-9)


def test_from_one_sequence_to_another() -> None:
    model = wf.nn.transformer(
        vocab_size=7,
        source_vocab_size=5,
        num_encoder_layers=1,
        num_decoder_layers=1,
        num_heads=2,
        d_enc=4,
        d_dec=6,
        d_ff=5,
        max_len=4,
        label="model",
    )
    source, target = wf.data(IDS % 5, batch=2, label="source"), wf.data(IDS, batch=2, label="target")
    loss, logits = wf.nn.transformer_with_loss(source, target, wf.data(IDS[:, ::-1].copy(), batch=2), model=model)
    ctx = wf.Context("interp")
    found, cost = ctx[logits], ctx[loss]
    p = values(model, ctx)
    enc = p["source_tokens"][IDS % 5] + p["source_positions.table"][:3]
    enc = post_norm(enc, inner(p, "encoder.block0"), attention, "relu")
    x, block = p["target_tokens"][IDS] + p["target_positions.table"][:3], inner(p, "decoder.block0")
    x = layer_norm(x + causal(x, inner(block, "attention")), inner(block, "ln1"))
    x = layer_norm(x + attention(x, inner(block, "cross"), source=enc), inner(block, "ln2"))
    x = layer_norm(x + feed_forward(x, inner(block, "ffn"), "relu"), inner(block, "ln3"))
    expected = linear(x, inner(p, "head"))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    likely = np.exp(expected) / np.exp(expected).sum(-1, keepdims=True)
    picked = np.take_along_axis(likely, IDS[:, ::-1, None], -1)
    np.testing.assert_allclose(cost, -np.log(picked).mean(keepdims=True).ravel(), rtol=1e-5)


@pytest.mark.parametrize("tied", [True, False])
def test_a_model_like_gpt(tied: bool) -> None:
    model = wf.nn.gpt(vocab_size=7, max_len=5, d_model=4, num_layers=2, num_heads=2, tied=tied, label="gpt")
    ctx = wf.Context("interp")
    y = ctx[model(wf.data(IDS, batch=2, label="ids"))]
    p = values(model, ctx)
    x = p["tokens"][IDS] + p["positions.table"][:3]
    for at in range(2):
        x = pre_norm(x, inner(p, f"block{at}"), causal, "gelu_tanh")
    x = layer_norm(x, inner(p, "norm"))
    np.testing.assert_allclose(y, x @ (p["tokens"] if tied else p["head"]).T, rtol=1e-4, atol=1e-6)
    assert "gpt.block1.attention.q" in {param.label for param in model.params}
    assert p["block0.ffn.up.w"].shape == (16, 4)  # four times as wide, unless d_ff says otherwise


def test_a_model_like_llama() -> None:
    model = wf.nn.llama(vocab_size=7, d_model=8, num_layers=1, num_heads=4, num_kv_heads=2, d_ff=5, window=2)
    ctx = wf.Context("interp")
    y = ctx[model(wf.data(IDS, batch=2, label="ids"))]
    p = values(model, ctx)
    attend = partial(attention, sees=lambda row: lambda t, s: t - 2 < s <= t, rope=True)
    x = rms_norm(pre_norm(p["tokens"][IDS], inner(p, "block0"), attend, "swiglu", rms_norm), inner(p, "norm"))
    np.testing.assert_allclose(y, x @ p["head"].T, rtol=1e-4, atol=1e-6)


def test_a_transformer_of_images() -> None:
    layer = wf.nn.vit(num_classes=3, patch_size=2, d_model=4, num_layers=1, num_heads=2, d_ff=5)
    images = np.random.default_rng(4).normal(size=(2, 4, 6, 3))

    def reference(x: np.ndarray, p: Arrays) -> np.ndarray:
        places = [x[:, i : i + 2, j : j + 2].reshape(len(x), -1) for i in range(0, 4, 2) for j in range(0, 6, 2)]
        patches = np.stack(places, 1) @ p["patches"].reshape(4, -1).T + p["bias"]
        x = np.concatenate([np.broadcast_to(p["token"], (len(x), 1, 4)), patches], 1) + p["positions"]
        x = layer_norm(pre_norm(x, inner(p, "encoder.block0"), attention, "gelu"), inner(p, "encoder.norm"))
        return linear(x[:, 0], inner(p, "head"))

    check_block(layer, images, reference)


def test_everything_is_dropped_here_and_there_in_training() -> None:
    style = wf.nn.TransformerStyle(dropout_rate=0.5)
    layer = wf.nn.decoder_only(num_layers=1, num_heads=2, d_k=2, d_ff=5, style=style)
    x, ctx = wf.data(X, batch=2), wf.Context("interp")
    with wf.nn.training(step=0):
        trained = layer(x)
    used = ctx[layer(x)]
    assert not np.allclose(ctx[trained], used)


def test_what_a_style_cannot_be() -> None:
    with pytest.raises(wf.WeftError, match="a transformer knows no norm='batch'") as error:
        wf.nn.TransformerStyle(norm="batch")  # type: ignore[arg-type]
    assert error.value.fix == "say one of 'layer', 'rms'"
    with pytest.raises(wf.WeftError, match="a language model cannot share d_model=10 among 4 heads") as error:
        wf.nn.gpt(wf.data(IDS, batch=2), vocab_size=7, max_len=5, d_model=10, num_layers=1, num_heads=4)
    assert error.value.fix == "d_model=12, or other heads"
    with pytest.raises(wf.WeftError, match="feed_forward knows no activation='elu'"):
        wf.nn.feed_forward(wf.data(X, batch=2), d_ff=4, activation="elu")
