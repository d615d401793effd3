"""Models of text: scores of the token that follows each one of a sequence of ids, `...,t|1`."""

from __future__ import annotations

from weft.nn.attention import head_size
from weft.nn.checks import of_tokens, whole
from weft.nn.generation import language_model
from weft.nn.position_encoding import learned_positions
from weft.nn.transformer import TransformerStyle, decoder_only_block
from weft.tensor.einsum import einsum
from weft.tensor.lookups import take
from weft.tensor.params import normal, param
from weft.tensor.tensor import Tensor

#: Norms before each part, and GELU by its formula with tanh.
GPT_STYLE = TransformerStyle(activation="gelu_tanh")


@language_model
def gpt(
    ids: Tensor,
    *,
    vocab_size: int,
    max_len: int,
    d_model: int,
    num_layers: int,
    num_heads: int,
    d_ff: int | None = None,
    tied: bool = True,
    style: TransformerStyle = GPT_STYLE,
) -> Tensor:
    """A model like GPT-2: learned positions, norms before each part, a head that shares the table of tokens if `tied`.

    >>> model = wf.nn.gpt(vocab_size=50, max_len=16, d_model=8, num_layers=2, num_heads=2)
    >>> print(model(wf.data(np.zeros((3, 10), "int32"), batch=2)).dims, model.param("block1.attention.q").dims)
    3,10|50 8->2,4
    """
    whole("gpt", vocab_size=vocab_size, max_len=max_len, d_model=d_model, num_layers=num_layers)
    tokens = _table("gpt", ids, vocab_size, d_model)
    x = learned_positions(max_len=max_len, label="positions")(take(tokens, ids))
    return _scores(_blocks(x, num_layers, num_heads, d_model, d_ff or 4 * d_model, style), tokens, vocab_size, tied)


@language_model
def llama(
    ids: Tensor,
    *,
    vocab_size: int,
    d_model: int,
    num_layers: int,
    num_heads: int,
    d_ff: int,
    num_kv_heads: int | None = None,
    window: int | None = None,
    rope_base: float = 10000.0,
    interleaved: bool = True,
    eps: float = 1e-5,
    dropout_rate: float = 0.0,
    tied: bool = False,
) -> Tensor:
    """A model like Llama: rotary positions, RMS norms, gated perceptrons, heads that share keys and values, no biases.

    >>> model = wf.nn.llama(vocab_size=50, d_model=8, num_layers=2, num_heads=4, num_kv_heads=2, d_ff=16)
    >>> print(model(wf.data(np.zeros((3, 10), "int32"), batch=2)).dims, model.param("block1.attention.k").dims)
    3,10|50 8->2,2
    """
    whole("llama", vocab_size=vocab_size, d_model=d_model, num_layers=num_layers)
    style = TransformerStyle(
        norm="rms",
        activation="swiglu",
        bias=False,
        eps=eps,
        dropout_rate=dropout_rate,
        num_kv_heads=num_kv_heads,
        window=window,
        rope=True,
        rope_base=rope_base,
        interleaved=interleaved,
    )
    tokens = _table("llama", ids, vocab_size, d_model)
    return _scores(_blocks(take(tokens, ids), num_layers, num_heads, d_model, d_ff, style), tokens, vocab_size, tied)


def _table(user: str, ids: Tensor, vocab_size: int, d_model: int) -> Tensor:
    of_tokens(user, ids)
    return param("tokens", o=(vocab_size, d_model), init=normal(0.0, 0.02))


def _blocks(x: Tensor, num_layers: int, num_heads: int, width: int, d_ff: int, style: TransformerStyle) -> Tensor:
    d_k = head_size("a language model", width, num_heads)
    for at in range(num_layers):
        x = decoder_only_block(num_heads=num_heads, d_k=d_k, d_ff=d_ff, style=style, label=f"block{at}")(x)
    return style.ended(x)


def _scores(x: Tensor, tokens: Tensor, vocab_size: int, tied: bool) -> Tensor:
    if tied:
        return einsum("v, d; ...|d => ...|v", tokens, x)
    return param("head", o=vocab_size) @ x
