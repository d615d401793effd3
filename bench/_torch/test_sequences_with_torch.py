"""Blocks of sequences of `wf.nn` against PyTorch's modules: values and gradients, in double precision."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import weft as wf

Array = np.ndarray[Any, np.dtype[Any]]

BATCH, TIME, SOURCE, WIDTH, HEADS, SIZE = 2, 5, 4, 6, 2, 3
X = np.random.default_rng(0).normal(size=(BATCH, TIME, WIDTH))
ENCODED = np.random.default_rng(1).normal(size=(BATCH, SOURCE, WIDTH))
LENGTHS = np.array([3, 5])
CAUSAL = torch.triu(torch.ones(TIME, TIME, dtype=torch.bool), 1)
BEYOND = torch.arange(TIME) >= torch.tensor(LENGTHS)[:, None]

Module = Callable[[torch.Tensor], torch.Tensor]


def compare(
    layer: Any, apply: Callable[[wf.Tensor], wf.Tensor], module: nn.Module, use: Module, names: Mapping[str, Any]
) -> None:
    """Values, and gradients by what is given and by the weights, which PyTorch draws."""
    module.double()
    with torch.no_grad():
        for one in module.parameters():
            one.normal_(std=0.5, generator=torch.Generator().manual_seed(7))
    ctx, data = wf.Context("cc"), wf.require_grad(wf.data(X, batch=2, label="x"))
    y = apply(data)
    weights = np.random.default_rng(2).normal(size=y.dims.array_shape)
    loss = wf.einsum("...|...; ...|... => 0", y, wf.data(weights, batch=len(y.dims.batch)))
    state = {name: one.detach().numpy() for name, one in module.named_parameters()}
    ctx.restore(layer, wf.nn.from_torch(state, names, layer))
    ctx.compile(wf.grad_update(loss), keep=[y, data.grad, *(one.grad for one in layer.params)])()
    given = torch.tensor(X, requires_grad=True)
    expected = use(given)
    (expected * torch.tensor(weights)).sum().backward()
    assert given.grad is not None
    np.testing.assert_allclose(ctx[y], expected.detach().numpy(), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(ctx[data.grad], given.grad.numpy(), rtol=1e-8, atol=1e-9)
    gradients = {name: one.grad.numpy() for name, one in module.named_parameters() if one.grad is not None}
    for own in layer.params:  # a sum of two has the gradient of each
        stored = names[own.label]
        first = stored[0] if isinstance(stored, tuple) else stored
        found = wf.nn.from_torch(gradients, {own.label: first}, {own.label: ctx[own]})[own.label]
        np.testing.assert_allclose(ctx[own.grad], found, rtol=1e-8, atol=1e-9, err_msg=own.label)


ATTENTION = {"causal": {"causal": True}, "lengths": {"lengths": True}, "all": {}}


@pytest.mark.parametrize("seen", ATTENTION)
def test_attention_is_the_module(seen: str) -> None:
    chosen = ATTENTION[seen]
    layer = wf.nn.multi_head_attention(
        num_heads=HEADS,
        d_k=WIDTH // HEADS,
        qkv_bias=True,
        out_bias=True,
        d_model=WIDTH,
        causal="causal" in chosen,
        label="attention",
    )
    module = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
    lengths = wf.data(LENGTHS, batch=1, label="lengths") if "lengths" in chosen else None

    def use(x: torch.Tensor) -> torch.Tensor:
        hidden = CAUSAL if "causal" in chosen else None
        found: torch.Tensor = module(
            x, x, x, attn_mask=hidden, key_padding_mask=BEYOND if "lengths" in chosen else None, need_weights=False
        )[0]
        return found

    here, there = "stack.block0.", "layers.0.self_attn."
    names = {
        label.removeprefix(here): replace(one, name=one.name.removeprefix(there))
        for label, one in wf.nn.transformer_names(1, label="stack").items()
        if ".attention." in label
    }
    compare(layer, lambda x: layer(x, lengths=lengths) if lengths is not None else layer(x), module, use, names)


STYLES = {
    "norms first": (wf.nn.TransformerStyle(activation="gelu"), {"activation": "gelu", "norm_first": True}),
    "norms last": (
        wf.nn.TransformerStyle(activation="relu", pre_norm=False),
        {"activation": "relu", "norm_first": False},
    ),
}
SIZES = {"num_layers": 2, "num_heads": HEADS, "d_k": WIDTH // HEADS, "d_ff": 8}


def ending(style: wf.nn.TransformerStyle) -> nn.Module | None:
    return nn.LayerNorm(WIDTH) if style.pre_norm else None


@pytest.mark.parametrize("how", STYLES)
@pytest.mark.parametrize("causal", [False, True])
def test_an_encoder_is_the_module(how: str, causal: bool) -> None:
    style, options = STYLES[how]
    layer = (wf.nn.decoder_only if causal else wf.nn.transformer_encoder)(**SIZES, style=style, label="stack")
    one = nn.TransformerEncoderLayer(WIDTH, HEADS, 8, 0.0, batch_first=True, **options)
    module = nn.TransformerEncoder(one, 2, ending(style), enable_nested_tensor=False)
    names = wf.nn.transformer_names(2, label="stack")
    compare(layer, layer, module, lambda x: module(x, mask=CAUSAL if causal else None), names)


@pytest.mark.parametrize("how", STYLES)
def test_a_decoder_is_the_module(how: str) -> None:
    style, options = STYLES[how]
    layer = wf.nn.transformer_decoder(**SIZES, style=style, label="stack")
    one = nn.TransformerDecoderLayer(WIDTH, HEADS, 8, 0.0, batch_first=True, **options)
    module = nn.TransformerDecoder(one, 2, ending(style))
    encoded = wf.data(ENCODED, batch=2, label="encoded")
    names = wf.nn.transformer_names(2, decoder=True, label="stack")
    use: Module = lambda x: module(x, torch.tensor(ENCODED), tgt_mask=CAUSAL)  # noqa: E731
    compare(layer, lambda x: layer(x, encoded), module, use, names)


RECURRENT = {"rnn": (wf.nn.rnn, nn.RNN), "lstm": (wf.nn.lstm, nn.LSTM), "gru": (wf.nn.gru, nn.GRU)}


@pytest.mark.parametrize("kind", RECURRENT)
@pytest.mark.parametrize("both", [False, True])
def test_a_recurrent_layer_is_the_module(kind: Any, both: bool) -> None:
    own, theirs = RECURRENT[kind]
    layers = 2 if both else 1
    layer = own(size=SIZE, num_layers=layers, bidirectional=both, label=kind)
    module = theirs(WIDTH, SIZE, layers, batch_first=True, bidirectional=both)
    names = wf.nn.recurrent_names(kind, layers, bidirectional=both)
    compare(layer, lambda x: layer(x)[0], module, lambda x: module(x)[0], names)


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_sequences_end_after_their_lengths(kind: Any) -> None:
    own, theirs = RECURRENT[kind]
    layer, module = own(size=SIZE, label=kind), theirs(WIDTH, SIZE, batch_first=True)
    lengths = wf.data(LENGTHS, batch=1, label="lengths")

    def last(state: Any) -> Any:
        return state[0] if isinstance(state, tuple) else state

    def use(x: torch.Tensor) -> torch.Tensor:
        packed = nn.utils.rnn.pack_padded_sequence(x, torch.tensor(LENGTHS), batch_first=True, enforce_sorted=False)
        found: torch.Tensor = last(module(packed)[1])[0]
        return found

    apply = lambda x: last(layer(x, lengths=lengths)[1])  # noqa: E731
    compare(layer, apply, module, use, wf.nn.recurrent_names(kind))
