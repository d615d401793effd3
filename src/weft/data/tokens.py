"""Files that are mapped into memory, and windows of rows of tokens."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from weft.data.batching import Batches, check_cut, cut
from weft.data.files import written_whole
from weft.data.shuffling import RowNumbers, draws, permutation
from weft.data.validation import Array, Last, checked_path, checked_seed, checked_whole, token_ids
from weft.errors import WeftError
from weft.ops.dtypes import element_type, numpy_type

#: Where the windows of an epoch begin.
Order: TypeAlias = Literal["random", "shuffled", "sequential"]


def mapped(path: str | os.PathLike[str], dtype: npt.DTypeLike | None = None) -> Array:
    """A file as an array that is read where it is used: `.npy`, or with a `dtype` a flat row of numbers.

    Only what is used of it is ever in memory. It cannot be written to.

        images, tokens = wf.data.mapped("images.npy"), wf.data.mapped("tokens.bin", "uint16")
    """
    name = checked_path(path, 'wf.data.mapped("train.npy"), or wf.data.mapped("train.bin", "uint16")')
    if not os.path.isfile(name):
        raise WeftError(f"there is no file {name!r}", fix="np.save writes .npy, wf.data.write_tokens a row of tokens")
    if dtype is None:
        return _npy(name)
    kind = numpy_type(element_type(dtype))
    rest = os.path.getsize(name) % kind.itemsize
    if rest:
        what = f"{name!r} does not hold a whole number of {kind}: {rest} bytes are left over"
        raise WeftError(what, fix="say the type it was written in")
    if not os.path.getsize(name):
        return np.zeros(0, kind)  # nothing cannot be mapped
    return np.memmap(name, kind, "r")


def _npy(name: str) -> Array:
    try:
        found: Array = np.load(name, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        what = f"{name!r} cannot be mapped as .npy: {error}"
        raise WeftError(what, fix='a flat file needs its type: wf.data.mapped("train.bin", "uint16")') from None
    if not isinstance(found, np.ndarray):
        found.close()
        raise WeftError(f"{name!r} holds several arrays", fix="save each by itself: np.save(path, array)")
    return found


def write_tokens(path: str | os.PathLike[str], ids: npt.ArrayLike, dtype: str | None = None) -> str:
    """Write a row of tokens as a flat file and return its type: uint16 if that holds all of them, else uint32.

    The file is there whole or not at all.

        tokens = wf.data.mapped("tokens.bin", wf.data.write_tokens("tokens.bin", tokenizer.encode(text)))
    """
    name, row = checked_path(path, 'wf.data.write_tokens("train.bin", ids)'), token_ids(ids)
    most = int(row.max(initial=0))
    kind = dtype or ("uint16" if most < 1 << 16 else "uint32")
    if kind not in ("uint16", "uint32"):
        raise WeftError(f"tokens are written as uint16 or uint32, not {kind!r}", fix="leave dtype= out")
    if row.min(initial=0) < 0 or most > np.iinfo(kind).max:
        what = f"{kind} does not hold tokens from {row.min()} to {most}"
        raise WeftError(what, fix="tokens are whole numbers from 0 on; uint32 holds those below 2**32")
    written_whole(name, row.astype(kind).tobytes())
    return kind


def windows(
    tokens: npt.ArrayLike,
    seq_len: int,
    *,
    batch_size: int = 32,
    order: Order = "random",
    seed: int = 0,
    last: Last = "drop",
    prefetch: int = 0,
) -> Batches:
    """Batches of windows of a row of tokens for a language model: `x`, and `y`, which is the token after each of `x`.

    Windows begin at random places, or lie side by side, "shuffled" or "sequential". An epoch has as many as lie side by
    side.

    >>> x, y = next(iter(wf.data.windows(np.arange(10), 4, batch_size=2, order="sequential")))
    >>> x.tolist(), y.tolist()
    ([[0, 1, 2, 3], [4, 5, 6, 7]], [[1, 2, 3, 4], [5, 6, 7, 8]])
    """
    row, seq_len, seed = token_ids(tokens), checked_whole("length", seq_len, 1), checked_seed(seed)
    total = (len(row) - 1) // seq_len
    if total < 1:
        what = f"{len(row)} tokens hold no window of {seq_len} and the token after it"
        raise WeftError(what, fix=f"write seq_len={max(len(row) - 1, 1)} or less, or give more tokens")
    if not isinstance(order, str) or order not in ("random", "shuffled", "sequential"):
        raise WeftError(f"there is no order {order!r}", fix='use "random", "shuffled" or "sequential"')
    check_cut(total, batch_size, last)

    def plan(epoch: int) -> Sequence[RowNumbers]:
        return cut(_starts(order, total, seq_len, len(row), seed, epoch), batch_size, last)

    kind = np.dtype("int32" if row.dtype.itemsize <= 2 else "int64" if row.dtype.itemsize > 4 else _signed(row.dtype))
    within = np.arange(seq_len + 1)

    def take(starts: RowNumbers) -> tuple[Array, Array]:
        found = row[starts[:, None] + within].astype(kind)
        return np.ascontiguousarray(found[:, :-1]), np.ascontiguousarray(found[:, 1:])

    settings = {
        "tokens": len(row),
        "seq_len": seq_len,
        "batch_size": batch_size,
        "order": order,
        "seed": seed,
        "last": last,
    }
    return Batches(plan, take, settings=settings, ahead=checked_whole("prefetch", prefetch))


def _signed(kind: np.dtype[Any]) -> str:
    return "int64" if kind.kind == "u" else "int32"


def _starts(order: Order, total: int, length: int, tokens: int, seed: int, epoch: int) -> RowNumbers:
    """Where the windows of an epoch begin."""
    if order == "random":
        return (draws(total, seed, epoch, stream=1) % np.uint64(tokens - length)).astype(np.int64)
    numbers = permutation(total, seed=seed, epoch=epoch) if order == "shuffled" else np.arange(total)
    return numbers * length
