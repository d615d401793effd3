"""A transformer from one sequence of tokens to another."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from weft.nn.attention import head_size
from weft.nn.checks import of_tokens, one_of, whole
from weft.nn.decoding import decoding
from weft.nn.generation import language_model
from weft.nn.linear import linear
from weft.nn.position_encoding import learned_positions, sinusoidal_positions
from weft.nn.transformer import POST_NORM, TransformerStyle, transformer_decoder, transformer_encoder
from weft.tensor.layers import op
from weft.tensor.lookups import take
from weft.tensor.params import normal, param
from weft.tensor.reductions import cross_entropy, mean
from weft.tensor.tensor import Tensor

PositionKind: TypeAlias = Literal["learned", "sinusoidal", "none"]


@language_model
def transformer(
    source: Tensor,
    target: Tensor,
    *,
    vocab_size: int,
    num_encoder_layers: int,
    num_decoder_layers: int,
    num_heads: int,
    d_enc: int,
    d_dec: int,
    d_ff: int,
    max_len: int,
    source_vocab_size: int | None = None,
    positions: PositionKind = "learned",
    style: TransformerStyle = POST_NORM,
    lengths: Tensor | None = None,
    source_lengths: Tensor | None = None,
) -> Tensor:
    """Scores of the token that follows each one of `target`, given `source`: ids `...,t|1` and `...,s|1`.

    `model.generate(prompt, source=ids, max_new=20)` goes on with a target.

    >>> source, target = (wf.data(np.zeros((2, n), "int32"), batch=2) for n in (3, 5))
    >>> model = wf.nn.transformer(
    ...     vocab_size=11, num_encoder_layers=1, num_decoder_layers=1, num_heads=2, d_enc=8, d_dec=8, d_ff=16, max_len=9
    ... )
    >>> print(model(source, target).dims)
    2,5|11
    """
    one_of("transformer", ("learned", "sinusoidal", "none"), positions=positions)
    with decoding(None):  # the source is there as a whole, however the target comes
        entered = _entered("source", source, source_vocab_size or vocab_size, d_enc, max_len, positions)
        encoder = transformer_encoder(
            num_layers=num_encoder_layers,
            num_heads=num_heads,
            d_k=head_size("transformer", d_enc, num_heads),
            d_ff=d_ff,
            style=style,
            label="encoder",
        )
        encoded = encoder(entered, lengths=source_lengths)
    decoder = transformer_decoder(
        num_layers=num_decoder_layers,
        num_heads=num_heads,
        d_k=head_size("transformer", d_dec, num_heads),
        d_ff=d_ff,
        style=style,
        label="decoder",
    )
    entered = _entered("target", target, vocab_size, d_dec, max_len, positions)
    decoded = decoder(entered, encoded, lengths=lengths, source_lengths=source_lengths)
    return linear(o=vocab_size, bias=style.bias, label="head")(decoded)  # type: ignore[no-any-return]


def _entered(name: str, ids: Tensor, vocabulary: int, width: int, max_len: int, positions: PositionKind) -> Tensor:
    """What stands for each token and its position."""
    whole("transformer", vocab_size=vocabulary, max_len=max_len)
    of_tokens("transformer", ids)
    x = take(param(f"{name}_tokens", o=(vocabulary, width), init=normal(0.0, width**-0.5)), ids)
    if positions == "sinusoidal":
        return sinusoidal_positions(x, d_model=width, max_len=max_len)
    if positions == "learned":
        return learned_positions(max_len=max_len, label=f"{name}_positions")(x)  # type: ignore[no-any-return]
    return x


@op
def transformer_with_loss(source: Tensor, target: Tensor, ids: Tensor, *, model: Any) -> Any:
    """How badly a model from `source` to `target` foresees the tokens `ids`, one further on; and its scores.

    >>> source, target = (wf.data(np.zeros((2, n), "int32"), batch=2) for n in (3, 5))
    >>> model = wf.nn.transformer(
    ...     vocab_size=11, num_encoder_layers=1, num_decoder_layers=1, num_heads=2, d_enc=8, d_dec=8, d_ff=16, max_len=9
    ... )
    >>> loss, logits = wf.nn.transformer_with_loss(source, target, target, model=model)
    >>> print(loss.dims, logits.dims)
    1 2,5|11
    """
    logits = model(source, target)
    loss = mean(cross_entropy(logits, ids), "...|... => 0")
    return loss, logits
