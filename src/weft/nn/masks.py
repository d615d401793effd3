"""Which positions attend to which: the scores of the others become so low that they get no weight.

A number is added to them, rather than put in their place: gradients go through a sum as they are, whereas those of a
choice must be kept from what was not chosen, in all that is below it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from weft.einsum import parse_spec
from weft.errors import WeftError
from weft.nn.decoding import Decoding
from weft.ops import Number, Scalar, call, where
from weft.tensor.creation import arange
from weft.tensor.einsum import einsum
from weft.tensor.functions import equal, logical_and
from weft.tensor.groups import related
from weft.tensor.leaves import offsets
from weft.tensor.tensor import Tensor

#: What is added to the score of what is hidden: exp gives 0.
HIDDEN = -1e9


@dataclass(frozen=True, slots=True)
class Mask:
    """What hides keys from queries: the order of positions, a window, and the lengths of sequences.

    `mask` is not 0 where a query sees a key, of shape `...,t|s`; `lengths` counts keys, of shape `...|1`.
    """

    causal: bool = False
    window: int | None = None
    mask: Tensor | None = None
    lengths: Tensor | None = None

    def __post_init__(self) -> None:
        _check_window(self.window)

    def applied(self, scores: Tensor, heads: str, decoding: Decoding | None = None) -> Tensor:
        """Scores `..., heads, t|s` with those of hidden keys lowered; queries are where `decoding` says, or from 0."""
        scores = self._in_order(scores, heads, decoding)
        if self.mask is None:
            return scores
        alike = ", ".join("0" for _ in heads.split(","))
        hidden: Tensor = equal(einsum(f"..., t|s => ..., {alike}, t|s", self.mask), 0)
        return scores + HIDDEN * hidden

    def _in_order(self, scores: Tensor, heads: str, decoding: Decoding | None) -> Tensor:
        at: Number = 0 if decoding is None else decoding.at
        tests: list[Callable[..., Scalar]] = []
        shape, operands = f"..., {heads}, t|s", [scores, offsets(dtype="int32"), offsets(dtype="int32")]
        if self.causal:
            tests.append(lambda query, key, *_: key <= query + at)
        if self.window is not None:
            span = self.window
            tests.append(lambda query, key, *_: query + at < key + span)
            if not self.causal:
                tests.append(lambda query, key, *_: key < query + at + span)
        if self.lengths is not None:
            operands.append(self.lengths)
            tests.append(lambda _, key, *limits: key < limits[0])
        elif decoding is not None:
            operands.append(decoding.starts)
            tests.append(lambda _, key, *limits: limits[0] <= key)
        if not tests:
            return scores

        def visible(score: Scalar, *at: Scalar) -> Scalar:
            seen = tests[0](*at)
            for test in tests[1:]:
                seen = call("and", seen, test(*at))
            return score + where(seen, 0.0, HIDDEN)

        spec = parse_spec(f"{shape}; t; s{'; ...|0' * (len(operands) - 3)} => {shape}")
        return related("masked", visible, list(zip(spec.operands, operands, strict=True)), spec.result)


def causal_mask(seq_len: int, *, window: int | None = None) -> Tensor:
    """1 where a query sees a key, itself or one before it, else 0: `size|size`, the queries being the batch row.

    With `window` it sees that many keys, itself among them.

    >>> print(ctx[wf.nn.causal_mask(3)].astype(int), ctx[wf.nn.causal_mask(3, window=2)].astype(int))
    [[1 0 0]
     [1 1 0]
     [1 1 1]] [[1 0 0]
     [1 1 0]
     [0 1 1]]
    """
    query, key = einsum("t => t|0", arange(seq_len, dtype="int32")), arange(seq_len, dtype="int32")
    _check_window(window)
    return key <= query if window is None else logical_and(key <= query, query < key + window)


def padding_mask(lengths: Tensor, seq_len: int) -> Tensor:
    """1 for the first keys of each sequence, as many as its length: `...,1|size` of lengths `...|1`.

    >>> lengths = wf.data(np.array([1, 3]), batch=1)
    >>> print(ctx[wf.nn.padding_mask(lengths, 3)].astype(int).tolist())
    [[[1, 0, 0]], [[1, 1, 1]]]
    """
    return arange(seq_len, dtype="int32") < einsum("...|0 => ..., 0|0", lengths)


def _check_window(window: int | None) -> None:
    if window is not None and (isinstance(window, bool) or window < 1):
        raise WeftError(f"a window has 1 position or more, not {window}", fix="window=None hides nothing")
