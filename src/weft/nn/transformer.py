"""Transformers: blocks of attention and a perceptron, each added to what it is given, and stacks of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeAlias

from weft.nn.attention import cross_attention, multi_head_attention
from weft.nn.checks import fraction, one_of, positive, whole
from weft.nn.linear import dropout, linear
from weft.nn.normalise import layer_norm, rms_norm
from weft.nn.shared_configuration import configured_as
from weft.public import public_constructor
from weft.tensor.activations import gelu, silu
from weft.tensor.functions import relu
from weft.tensor.layers import op
from weft.tensor.tensor import Tensor

FeedForwardActivation: TypeAlias = Literal["relu", "gelu", "gelu_tanh", "silu", "swiglu", "geglu"]
_ACTIVATIONS: dict[str, Callable[..., Any]] = {
    "relu": relu,
    "gelu": gelu,
    "gelu_tanh": partial(gelu, tanh=True),
    "silu": silu,
    "swiglu": silu,
    "geglu": gelu,
}
_GATED = ("swiglu", "geglu")


@public_constructor
@dataclass(frozen=True, slots=True)
class TransformerStyle:
    """What blocks have in common, all through a model.

    `norm` is "layer" or "rms", before each part of a block where it is `pre_norm`, else after its sum. `activation` is
    that of `wf.nn.feed_forward`; `rope`, `window` and `num_kv_heads` are those of `wf.nn.multi_head_attention`, and are
    about the attention of a sequence to itself.

    >>> print(wf.nn.TransformerStyle(norm="rms", activation="swiglu").pre_norm)
    True
    """

    norm: Literal["layer", "rms"] = "layer"
    pre_norm: bool = True
    activation: FeedForwardActivation = "gelu"
    bias: bool = True
    eps: float = 1e-5
    dropout_rate: float = 0.0
    num_kv_heads: int | None = None
    window: int | None = None
    rope: bool = False
    rope_base: float = 10000.0
    interleaved: bool = True

    def __post_init__(self) -> None:
        one_of("a transformer", ("layer", "rms"), norm=self.norm)
        one_of("a transformer", tuple(_ACTIVATIONS), activation=self.activation)
        positive("a transformer", eps=self.eps)
        fraction("a transformer", dropout_rate=self.dropout_rate)

    def normed(self, x: Tensor, label: str) -> Tensor:
        """Normalised by a layer of this label."""
        if self.norm == "rms":
            return rms_norm(eps=self.eps, label=label)(x)  # type: ignore[no-any-return]
        return layer_norm(eps=self.eps, bias=self.bias, label=label)(x)  # type: ignore[no-any-return]

    def added(self, x: Tensor, part: Callable[[Tensor], Tensor], label: str) -> Tensor:
        """A part of a block, added to what it is given."""
        if self.pre_norm:
            return x + self._dropped(part(self.normed(x, label)))
        return self.normed(x + self._dropped(part(x)), label)

    def _dropped(self, x: Tensor) -> Tensor:
        return dropout(x, rate=self.dropout_rate) if self.dropout_rate else x

    def ended(self, x: Tensor) -> Tensor:
        """What comes out of a stack: blocks that normalise before their parts leave the last norm to it."""
        return self.normed(x, "norm") if self.pre_norm else x

    def attention(self, num_heads: int, d_k: int, d_v: int | None, causal: bool) -> Any:
        """The attention of a sequence to itself."""
        return multi_head_attention(
            num_heads=num_heads,
            d_k=d_k,
            d_v=d_v,
            num_kv_heads=self.num_kv_heads,
            causal=causal,
            window=self.window,
            rope=self.rope,
            rope_base=self.rope_base,
            interleaved=self.interleaved,
            dropout_rate=self.dropout_rate,
            qkv_bias=self.bias,
            out_bias=self.bias,
            label="attention",
        )

    def feed_forward(self, d_ff: int) -> Any:
        return feed_forward(d_ff=d_ff, activation=self.activation, bias=self.bias, label="ffn")


PRE_NORM = TransformerStyle()
#: As in "Attention is all you need".
POST_NORM = TransformerStyle(pre_norm=False, activation="relu", bias=False)


@op
def feed_forward(x: Tensor, *, d_ff: int, activation: FeedForwardActivation = "gelu", bias: bool = True) -> Tensor:
    """A perceptron of one hidden layer, for each token; "swiglu" and "geglu" multiply it with another one.

    >>> x = wf.data(np.ones((5, 4)), batch=1)
    >>> layer = wf.nn.feed_forward(d_ff=16, activation="swiglu", bias=False, label="ffn")
    >>> print((x + layer(x)).dims, *(f"{p.label} {p.dims}" for p in layer.params))
    5|4 ffn.gate.w 4->16 ffn.up.w 4->16 ffn.down.w 16->4
    """
    whole("feed_forward", d_ff=d_ff)
    one_of("feed_forward", tuple(_ACTIVATIONS), activation=activation)
    if activation in _GATED:
        gate = _ACTIVATIONS[activation](linear(o=d_ff, bias=bias, label="gate")(x))
        hidden = gate * linear(o=d_ff, bias=bias, label="up")(x)
    else:
        hidden = _ACTIVATIONS[activation](linear(o=d_ff, bias=bias, label="up")(x))
    return linear(bias=bias, label="down")(hidden)  # type: ignore[no-any-return]


def _self_attending(
    x: Tensor,
    causal: bool,
    *,
    num_heads: int,
    d_k: int,
    d_ff: int,
    d_v: int | None = None,
    style: TransformerStyle = POST_NORM,
    mask: Tensor | None = None,
    lengths: Tensor | None = None,
) -> Tensor:
    """A block of attention of a sequence to itself, and a perceptron."""
    attention = style.attention(num_heads, d_k, d_v, causal)
    x = style.added(x, lambda x: attention(x, mask=mask, lengths=lengths), "ln1")
    return style.added(x, style.feed_forward(d_ff), "ln2")


def _one_after_another(
    block: Callable[..., Any],
    num_layers: int,
    x: Tensor,
    *others: Tensor,
    style: TransformerStyle = POST_NORM,
    **config: Any,
) -> Tensor:
    """So many blocks, all of which are given what says who sees whom."""
    seen = {name: config.pop(name) for name in ("mask", "lengths", "source_lengths") if name in config}
    for at in range(num_layers):
        x = block(**config, style=style, label=f"block{at}")(x, *others, **seen)
    return style.ended(x)


@op
@configured_as(_self_attending)
def transformer_encoder_block(x: Tensor, **config: Any) -> Tensor:
    """Attention of a sequence `...,t|d` to all of itself, and a perceptron; `mask` and `lengths` as for attention.

    >>> x = wf.data(np.ones((2, 5, 8)), batch=2)
    >>> print(wf.nn.transformer_encoder_block(x, num_heads=2, d_k=4, d_ff=16).dims)
    2,5|8
    """
    return _self_attending(x, False, **config)


@op
@configured_as(_self_attending)
def decoder_only_block(x: Tensor, **config: Any) -> Tensor:
    """Attention of each position to itself and those before it, and a perceptron.

    >>> x = wf.data(np.ones((2, 5, 8)), batch=2)
    >>> print(wf.nn.decoder_only_block(x, num_heads=2, d_k=4, d_ff=16).dims)
    2,5|8
    """
    return _self_attending(x, True, **config)


@op
def transformer_decoder_block(
    target: Tensor,
    source: Tensor,
    *,
    num_heads: int,
    d_k: int,
    d_ff: int,
    d_v: int | None = None,
    style: TransformerStyle = POST_NORM,
    mask: Tensor | None = None,
    lengths: Tensor | None = None,
    source_lengths: Tensor | None = None,
) -> Tensor:
    """Attention of each position to those before it, attention to what an encoder made of a source, and a perceptron.

    >>> target, encoded = wf.data(np.ones((2, 5, 8)), batch=2), wf.data(np.ones((2, 3, 6)), batch=2)
    >>> print(wf.nn.transformer_decoder_block(target, encoded, num_heads=2, d_k=4, d_ff=16).dims)
    2,5|8
    """
    attention = style.attention(num_heads, d_k, d_v, causal=True)
    cross = cross_attention(
        num_heads=num_heads, d_k=d_k, d_v=d_v, dropout_rate=style.dropout_rate, bias=style.bias, label="cross"
    )
    x = style.added(target, lambda x: attention(x, mask=mask, lengths=lengths), "ln1")
    x = style.added(x, lambda x: cross(x, source, lengths=source_lengths), "ln2")
    return style.added(x, style.feed_forward(d_ff), "ln3")


@op
@configured_as(_self_attending)
def transformer_encoder(x: Tensor, *, num_layers: int, **config: Any) -> Tensor:
    """Encoder blocks, one after another.

    >>> x = wf.data(np.ones((2, 5, 8)), batch=2)
    >>> print(wf.nn.transformer_encoder(x, num_layers=2, num_heads=2, d_k=4, d_ff=16).dims)
    2,5|8
    """
    return _one_after_another(transformer_encoder_block, num_layers, x, **config)


@op
@configured_as(_self_attending)
def decoder_only(x: Tensor, *, num_layers: int, **config: Any) -> Tensor:
    """Blocks of a language model, one after another.

    >>> x = wf.data(np.ones((2, 5, 8)), batch=2)
    >>> print(wf.nn.decoder_only(x, num_layers=2, num_heads=2, d_k=4, d_ff=16).dims)
    2,5|8
    """
    return _one_after_another(decoder_only_block, num_layers, x, **config)


@op
@configured_as(transformer_decoder_block)
def transformer_decoder(target: Tensor, source: Tensor, *, num_layers: int, **config: Any) -> Tensor:
    """Decoder blocks, one after another, all of which attend to one encoder.

    >>> target, encoded = wf.data(np.ones((2, 5, 8)), batch=2), wf.data(np.ones((2, 3, 6)), batch=2)
    >>> print(wf.nn.transformer_decoder(target, encoded, num_layers=2, num_heads=2, d_k=4, d_ff=16).dims)
    2,5|8
    """
    return _one_after_another(transformer_decoder_block, num_layers, target, source, **config)
