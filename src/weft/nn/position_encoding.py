"""Where a token is in its sequence: learned, sinusoidal and rotary positions.

A sequence is `...,t|d`: its time is the last batch axis. So a token is one example, and whatever works on one example,
a linear layer, a norm, a lookup, works on every token. Only what mixes positions names the axis.
"""

from __future__ import annotations

import numpy as np

from weft.einsum import parse_spec
from weft.errors import WeftError
from weft.nn.checks import along_time
from weft.nn.decoding import current_decoding
from weft.ops import Scalar, call
from weft.tensor.einsum import einsum
from weft.tensor.functions import cast, cos, sin
from weft.tensor.groups import related
from weft.tensor.layers import op
from weft.tensor.leaves import constant, data, offsets
from weft.tensor.params import normal, param
from weft.tensor.tensor import Tensor


@op
def learned_positions(x: Tensor, *, max_len: int, std: float = 0.02) -> Tensor:
    """A sequence `...,t|d` plus a parameter for each position, of which there are `max_len`.

    >>> print(wf.nn.learned_positions(wf.data(np.ones((2, 3, 4)), batch=2), max_len=8).dims)
    2,3|4
    """
    along_time("learned_positions", x)
    return x + _rows(param("table", init=normal(0.0, std)), max_len)


def sinusoidal_positions(x: Tensor, *, d_model: int, max_len: int) -> Tensor:
    """A sequence `...,t|d_model` plus the sines and cosines of its positions.

    >>> x = wf.data(np.zeros((2, 4)), batch=1)
    >>> print(ctx[wf.nn.sinusoidal_positions(x, d_model=4, max_len=8)].round(3))
    [[0.    1.    0.    1.   ]
     [0.841 0.54  0.01  1.   ]]
    """
    along_time("sinusoidal_positions", x)
    return x + _rows(sinusoidal_position_encoding(d_model=d_model, max_len=max_len), max_len)


def _rows(table: Tensor, max_len: int) -> Tensor:
    """The rows of a table for the positions of a sequence: `t|d`, or of the tokens that are decoded `...,t|d`."""
    decoding = current_decoding()
    if decoding is None:
        return einsum("max_len, d; t@max_len => t|d", table, offsets(label="position", dtype="int32"), max_len=max_len)
    return einsum("max_len, d; ...|@max_len => ...|d", table, decoding.positions, max_len=max_len)


def sinusoidal_position_encoding(*, d_model: int, max_len: int) -> Tensor:
    """A table `max_len,d_model` of sines, at even places, and cosines of positions, of longer and longer waves.

    >>> print(ctx[wf.nn.sinusoidal_position_encoding(d_model=2, max_len=3)].round(3))
    [[ 0.     1.   ]
     [ 0.841  0.54 ]
     [ 0.909 -0.416]]
    """
    place, wave = np.arange(max_len)[:, None], np.arange(d_model)[None, :]
    angle = place / 10000.0 ** ((wave - wave % 2) / d_model)
    return data(np.where(wave % 2, np.cos(angle), np.sin(angle)).astype("float32"), label="sinusoids")


def rope_frequencies(*, d: int, base: float = 10000.0, dtype: str = "float32") -> Tensor:
    """How far each pair of an axis of size `d` turns from one position to the next.

    >>> print(ctx[wf.nn.rope_frequencies(d=4)])
    [1.   0.01]
    """
    if d % 2:
        raise WeftError(f"rotary positions turn pairs, and d = {d} is odd", fix="give each head an even size")
    return data((base ** (-np.arange(0, d, 2) / d)).astype(dtype), label="frequencies")


def position_indices(*, seq_len: int) -> Tensor:
    """0, 1, … as the time of a sequence: `seq_len|1`.

    >>> print(ctx[wf.nn.position_indices(seq_len=3)].ravel(), wf.nn.position_indices(seq_len=3).dims)
    [0. 1. 2.] 3|1
    """
    return data(np.arange(seq_len, dtype="float32"), batch=1, label="positions")


def rope(x: Tensor, *, d: int, base: float = 10000.0, interleaved: bool = True) -> Tensor:
    """Queries or keys `...,t|...,d` with pairs of their last axis turned by angles that grow with the position.

    Pairs are neighbours; `interleaved=False` pairs the first half of the axis with the second. Angles are computed in
    float64, so that those of far positions are right.

    >>> x = wf.data(np.array([[1.0, 0.0], [1.0, 0.0]]), batch=1)
    >>> print(ctx[wf.nn.rope(x, d=2)].round(3))
    [[1.    0.   ]
     [0.54  0.841]]
    """
    frequencies, decoding = rope_frequencies(d=d, base=base, dtype="float64"), current_decoding()
    if decoding is None:
        time = "t"
        angle = einsum("t; k => t|k", cast(offsets(label="position"), "float64"), frequencies)
    else:
        time = "..., t"
        angle = einsum("...|0; k => ...|k", cast(decoding.positions, "float64"), frequencies)
    cosines, sines = cos(angle), sin(angle)
    first, second = _pairs(x, d // 2, interleaved)

    spec = parse_spec(f"..., t|..., k; {time}|k; 0 => ..., t|..., k")

    def turned(by: Tensor, one: Tensor) -> Tensor:
        operands = (one, by, constant(1.0, dtype="float32"))
        return related("turned", _turned, list(zip(spec.operands, operands, strict=True)), spec.result)

    real = turned(cosines, first) - turned(sines, second)
    imaginary = turned(sines, first) + turned(cosines, second)
    return _joined(real, imaginary, interleaved)


def _turned(one: Scalar, by: Scalar, least: Scalar) -> Scalar:
    """A product in the type of the first, or in that of `least` if that has more digits."""
    return one * call("type_as", by, one * least)


def _pairs(x: Tensor, half: int, interleaved: bool) -> tuple[Tensor, Tensor]:
    """The first and the second of each pair of the last axis."""
    if interleaved:
        return einsum("...|..., 2*k => ...|..., k", x), einsum("...|..., 2*k+1 => ...|..., k", x)
    return einsum("...|..., k^l => ...|..., k", x, k=half), einsum("...|..., k^l => ...|..., l", x, k=half)


def _joined(first: Tensor, second: Tensor, interleaved: bool) -> Tensor:
    if interleaved:
        return einsum("...|..., k => ...|..., 2*k", first) + einsum("...|..., k => ...|..., 2*k+1", second)
    return einsum("...|..., k; ...|..., l => ...|..., k^l", first, second)
