"""Sequences of different lengths, in batches of similar ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.data.batching import Batches, Examples, check_cut, cut
from weft.data.shuffling import RowNumbers, draws, permutation
from weft.data.validation import Array, Last, checked_seed, checked_whole, examples
from weft.errors import WeftError
from weft.tensor.leaves import numbers


def buckets(
    sequences: Sequence[npt.ArrayLike],
    *others: Any,
    batch_size: int = 32,
    edges: Sequence[int] | None = None,
    fill: float = 0,
    shuffle: bool = False,
    seed: int = 0,
    last: Last = "keep",
    prefetch: int = 0,
) -> Batches:
    """Batches of sequences of similar lengths, padded to the edge of their bucket: `values`, `lengths`, then `others`.

    A bucket holds lengths up to its edge, and above the edge before. Without `edges` they are powers of two, so that
    few lengths are compiled for. `wf.data.mask(lengths, seq_len)` is 1 where something was.

    >>> values, lengths = next(iter(wf.data.buckets([[1, 2, 3], [4]], edges=[4])))
    >>> values.tolist(), lengths.tolist()
    ([[1, 2, 3, 0], [4, 0, 0, 0]], [3, 1])
    """
    rows = _sequences(sequences)
    lengths = np.array([len(one) for one in rows], np.int32)
    more = examples((lengths, *others), "wf.data.buckets(sequences, labels, batch_size=32)")[1:]
    widths = _widths(lengths, edges)
    seed = checked_seed(seed)
    groups = [np.flatnonzero(widths == width) for width in np.unique(widths)]

    def plan(epoch: int) -> list[RowNumbers]:
        if not shuffle:
            return [part for group in groups for part in cut(group, batch_size, last)]
        mixed = permutation(len(rows), seed=seed, epoch=epoch)
        found = [part for group in groups for part in cut(mixed[np.isin(mixed, group)], batch_size, last)]
        return [found[at] for at in np.argsort(draws(len(found), seed, epoch, stream=1), kind="stable")]

    def take(at: RowNumbers) -> Examples:
        values = np.full((len(at), widths[at[0]], *rows[0].shape[1:]), fill, rows[0].dtype)
        for one, number in zip(values, at, strict=True):
            one[: lengths[number]] = rows[number]
        return (values, lengths[at], *(array[at] for array in more))

    check_cut(max(map(len, groups)), batch_size, last)
    settings = {"examples": len(rows), "batch_size": batch_size, "shuffle": shuffle, "seed": seed, "last": last}
    return Batches(plan, take, settings=settings, ahead=checked_whole("prefetch", prefetch))


def mask(lengths: npt.ArrayLike, seq_len: int, dtype: str = "float32") -> Array:
    """1 at the places of padded sequences where something was, else 0.

    >>> wf.data.mask([1, 3], 4, "int32").tolist()
    [[1, 0, 0, 0], [1, 1, 1, 0]]
    """
    found = np.asarray(lengths)
    if (
        found.dtype.kind not in "iu"
        or found.min(initial=0) < 0
        or found.max(initial=0) > checked_whole("seq_len", seq_len)
    ):
        what = f"lengths are whole numbers from 0 to `seq_len` {seq_len}, not {found.tolist()}"
        raise WeftError(what, fix="give the lengths that come with the batch, and values.shape[1]")
    return (np.arange(seq_len) < found[..., None]).astype(dtype)


def _sequences(given: Sequence[npt.ArrayLike]) -> list[Array]:
    if isinstance(given, str) or not hasattr(given, "__len__"):
        what = f"sequences are a list of arrays, not {type(given).__name__}"
        raise WeftError(what, fix="wf.data.buckets([tokenizer.encode(one) for one in texts], batch_size=32)")
    rows = [numbers(one) for one in given]
    if not rows:
        raise WeftError("the data has no examples", fix="give at least one sequence")
    for number, row in enumerate(rows):
        if not row.ndim or row.shape[1:] != rows[0].shape[1:] or row.dtype != rows[0].dtype:
            what = f"sequence {number} is {row.dtype} of shape {row.shape}, and the first {rows[0].dtype} of shape "
            raise WeftError(what + str(rows[0].shape), fix="sequences differ in their first axis alone")
    return rows


def _widths(lengths: npt.NDArray[np.int32], edges: Sequence[int] | None) -> npt.NDArray[Any]:
    """The edge of each length's bucket."""
    if edges is None:
        return np.array([1 << max(int(length) - 1, 0).bit_length() for length in lengths])
    ends = np.array([checked_whole("edge", one, 1) for one in edges])
    if not len(ends) or np.any(np.diff(ends) <= 0):
        what = f"edges of buckets grow from one to the next, not {list(edges)}"
        raise WeftError(what, fix="write edges=[16, 32, 64]")
    if lengths.max() > ends[-1]:
        what = f"a sequence has {lengths.max()} elements, and the last bucket holds {ends[-1]}"
        raise WeftError(what, fix=f"write edges=[…, {lengths.max()}], or cut the sequence")
    return ends[np.searchsorted(ends, lengths)]
