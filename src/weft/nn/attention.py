"""Attention: each position of a sequence reads from others, by how well its query fits their keys."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

from weft.errors import WeftError
from weft.nn import position_encoding
from weft.nn.checks import along_time, divides, whole
from weft.nn.decoding import current_decoding, refuse_decoding
from weft.nn.masks import Mask
from weft.nn.mode import dropped
from weft.tensor.einsum import einsum
from weft.tensor.layers import op
from weft.tensor.params import param
from weft.tensor.reductions import softmax
from weft.tensor.tensor import Tensor


@op
def multi_head_attention(
    x: Tensor,
    source: Tensor | None = None,
    *,
    num_heads: int,
    d_k: int,
    d_v: int | None = None,
    num_kv_heads: int | None = None,
    causal: bool = False,
    window: int | None = None,
    mask: Tensor | None = None,
    lengths: Tensor | None = None,
    rope: bool = False,
    rope_base: float = 10000.0,
    interleaved: bool = True,
    temperature: float = 1.0,
    dropout_rate: float = 0.0,
    qkv_bias: bool = False,
    out_bias: bool = False,
    d_model: int | None = None,
) -> Tensor:
    """Attention of a sequence `...,t|d` to itself, or to a `source` `...,s|d`, by heads of `d_k` and `d_v` numbers.

    `num_kv_heads` are shared among the heads. A position sees itself and what comes before where it is `causal`, those
    less than `window` positions away, the first `lengths` positions of each sequence, `...|1`, and those that a `mask`,
    `...,t|s`, is not 0 for. `rope` turns queries and keys by their positions. The result has the features that its use
    asks for, or `d_model`.

    >>> x = wf.data(np.ones((2, 5, 8)), batch=2)
    >>> attention = wf.nn.multi_head_attention(num_heads=4, d_k=3, num_kv_heads=2, causal=True, d_model=8)
    >>> print(attention(x).dims, *(p.dims for p in attention.params))
    2,5|8 8->2,2,3 8->2,3 8->2,3 2,2,3->8
    """
    along_time("attention", x)
    heads = Heads(num_heads, d_k, d_v or d_k, num_kv_heads)
    seen, decoding = x if source is None else source, current_decoding() if source is None else None
    q, k, v = heads.queries(x, qkv_bias), *heads.keys_and_values(seen, qkv_bias)
    if rope:
        q, k = (position_encoding.rope(one, d=d_k, base=rope_base, interleaved=interleaved) for one in (q, k))
    if decoding is not None:
        _check_decoded(causal, mask, lengths)
        k, v = decoding.cached("k_cache", k, heads.keys), decoding.cached("v_cache", v, heads.values)
    elif source is not None:
        k, v = _of_source(k, v)
    scores = Mask(causal, window, mask, lengths).applied(heads.scores(q, k, temperature), heads.names, decoding)
    return _given_out(heads.mixed(dropped(softmax(scores), dropout_rate), v), d_model, out_bias)


@op
def cross_attention(
    x: Tensor,
    source: Tensor,
    *,
    num_heads: int,
    d_k: int,
    d_v: int | None = None,
    lengths: Tensor | None = None,
    temperature: float = 1.0,
    dropout_rate: float = 0.0,
    bias: bool = False,
) -> Tensor:
    """Attention of a sequence `...,t|d` to what an encoder made of another one, `...,s|e`, of the given `lengths`.

    >>> x, encoded = wf.data(np.ones((2, 5, 8)), batch=2), wf.data(np.ones((2, 3, 6)), batch=2)
    >>> print((x + wf.nn.cross_attention(x, encoded, num_heads=2, d_k=4)).dims)
    2,5|8
    """
    along_time("attention", x)
    heads = Heads(num_heads, d_k, d_v or d_k)
    q, (k, v) = heads.queries(x, bias), _of_source(*heads.keys_and_values(source, bias))
    scores = Mask(lengths=lengths).applied(heads.scores(q, k, temperature), heads.names)
    return _given_out(heads.mixed(dropped(softmax(scores), dropout_rate), v), None, bias)


def _of_source(k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Keys and values of another sequence: token by token, they are made once."""
    decoding = current_decoding()
    return (k, v) if decoding is None else (decoding.of_source("k_source", k), decoding.of_source("v_source", v))


@op
def multi_head_att_workshop(x: Tensor, *, num_heads: int, d_k: int, d_v: int | None = None) -> Tensor:
    """Attention of a sequence to itself with nothing else: no mask, no positions, no biases.

    >>> x = wf.data(np.ones((5, 8)), batch=1)
    >>> print((x + wf.nn.multi_head_att_workshop(x, num_heads=2, d_k=4)).dims)
    5|8
    """
    refuse_decoding("attends to what follows as well", "wf.nn.multi_head_attention has causal=True")
    along_time("attention", x)
    heads = Heads(num_heads, d_k, d_v or d_k)
    q, k, v = heads.queries(x), *heads.keys_and_values(x)
    return _given_out(heads.mixed(softmax(heads.scores(q, k)), v))


@dataclass(frozen=True, slots=True)
class Heads:
    """How many heads there are and how big; `num_kv_heads` of keys and values are shared among them in groups."""

    num_heads: int
    d_k: int
    d_v: int
    num_kv_heads: int | None = None

    def __post_init__(self) -> None:
        whole("attention", num_heads=self.num_heads, d_k=self.d_k, d_v=self.d_v)
        if self.num_kv_heads is not None:
            whole("attention", num_kv_heads=self.num_kv_heads)
            divides("attention", self.num_kv_heads, self.num_heads, "heads")

    @property
    def shared(self) -> int:
        """How many heads share keys and values."""
        return self.num_heads // (self.num_kv_heads or self.num_heads)

    @property
    def names(self) -> str:
        """The axes of heads in a spec: groups, and those in each where there are several."""
        return "g, r" if self.shared > 1 else "g"

    @property
    def keys(self) -> tuple[int, int]:
        return self.num_heads // self.shared, self.d_k

    @property
    def values(self) -> tuple[int, int]:
        return self.num_heads // self.shared, self.d_v

    def queries(self, x: Tensor, bias: bool = False) -> Tensor:
        groups, d = self.keys
        return _projected("q", x, (groups, self.shared, d) if self.shared > 1 else (groups, d), bias)

    def keys_and_values(self, x: Tensor, bias: bool = False) -> tuple[Tensor, Tensor]:
        return _projected("k", x, self.keys, bias), _projected("v", x, self.values, bias)

    def scores(self, q: Tensor, k: Tensor, temperature: float = 1.0) -> Tensor:
        """How well queries fit keys: `..., heads, t|s`."""
        spec = f"..., t|{self.names}, d; ..., s|g, d => ..., {self.names}, t|s"
        return einsum(spec, q, k) / (sqrt(self.d_k) * temperature)

    def mixed(self, weights: Tensor, v: Tensor) -> Tensor:
        """The values that each position and head reads."""
        return einsum(f"..., {self.names}, t|s; ..., s|g, d => ..., t|{self.names}, d", weights, v)


def head_size(user: str, width: int, num_heads: int) -> int:
    """How many numbers each head has of the width of a model."""
    whole(user, d_model=width, num_heads=num_heads)
    if width % num_heads:
        what = f"{user} cannot share d_model={width} among {num_heads} heads"
        raise WeftError(what, fix=f"d_model={width - width % num_heads + num_heads}, or other heads")
    return width // num_heads


def _projected(name: str, x: Tensor, sizes: tuple[int, ...], bias: bool) -> Tensor:
    found = param(name, o=sizes) @ x
    return found + param(f"{name}_bias", o=sizes, init=0.0) if bias else found


def _given_out(mixed: Tensor, width: int | None = None, bias: bool = False) -> Tensor:
    out = param("o", o=width) @ mixed
    return out + param("o_bias", o=width, init=0.0) if bias else out


def _check_decoded(causal: bool, mask: Tensor | None, lengths: Tensor | None) -> None:
    if not causal:
        refuse_decoding("attends to what follows as well", "causal=True lets each position see those before it")
    if mask is not None or lengths is not None:
        refuse_decoding("has a mask of whole sequences", "hide by causal=True and window=…, which go by positions")
