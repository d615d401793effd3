"""Validation of data before anything is done with it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from weft.arguments import whole_number
from weft.errors import WeftError
from weft.tensor.leaves import numbers

#: Kept apart from what computes: making data loads nothing of that.
Array: TypeAlias = npt.NDArray[Any]
#: What becomes of the examples that do not fill the last batch.
Last: TypeAlias = Literal["keep", "drop", "wrap"]

#: Seeds are keys of 64 bits.
_SEEDS = 1 << 64


def examples(arrays: Sequence[Any], wanted: str) -> tuple[Array, ...]:
    """Arrays whose first axes count the same examples; files that are mapped into memory stay there."""
    if not arrays:
        raise WeftError("there is no data", fix=f"give arrays: {wanted}")
    found = tuple([one.view(np.ndarray) if isinstance(one, np.ndarray) else numbers(one) for one in arrays])
    if not count_examples(found):
        raise WeftError("the data has no examples", fix=f"give arrays with examples: {wanted}")
    for array in found:
        numbers(array[:0])  # refuses what does not hold numbers
    return found


def count_examples(arrays: Sequence[Array], *, batch: bool = False) -> int:
    """How many examples arrays have, which is the same number for all."""
    for number, array in enumerate(arrays):
        if array.ndim == 0:
            told = f"array {number} of the {'batch' if batch else 'data'} is a single number"
            raise WeftError(told, fix="the first axis of each array counts examples")
    counts = [len(array) for array in arrays]
    if len(set(counts)) > 1:
        told = f"the arrays{' of the batch' * batch} have different numbers of examples: {', '.join(map(str, counts))}"
        raise WeftError(told, fix="the first axis of each array counts examples")
    return counts[0]


def checked_whole(name: str, value: object, least: int = 0) -> int:
    """A whole number from `least` on."""
    if (whole := whole_number(value, least)) is None:
        raise WeftError(f"{name} is a whole number from {least} on, not {value!r}", fix=f"write {name}={max(least, 1)}")
    return whole


def checked_seed(value: object) -> int:
    """A seed: any whole number of 64 bits."""
    seed = checked_whole("seed", value)
    if seed >= _SEEDS:
        raise WeftError(f"a seed has 64 bits, and {value!r} has more", fix="write seed=0, or any number below 2**64")
    return seed


def checked_last(value: object) -> Last:
    if not isinstance(value, str) or value not in ("keep", "drop", "wrap"):
        what = f"there is no last batch {value!r}"
        raise WeftError(what, fix='last="keep" leaves it shorter, "drop" leaves it out, "wrap" fills it from the start')
    return value  # type: ignore[return-value]


def checked_path(path: object, example: str) -> str:
    """The name of a file that there may be."""
    if not isinstance(path, str | os.PathLike):
        raise WeftError(f"a file is named by a path, not {type(path).__name__}", fix=f"write {example}")
    found = os.fspath(path)
    if not isinstance(found, str) or "\0" in found:
        raise WeftError(f"{found!r} names no file", fix=f"write {example}")
    return found


def token_ids(ids: npt.ArrayLike) -> Array:
    """A row of tokens: whole numbers from 0 on."""
    found = ids.view(np.ndarray) if isinstance(ids, np.ndarray) else np.asarray(ids)
    if not found.size:
        found = found.astype("int64")
    if found.ndim != 1 or found.dtype.kind not in "iu":
        what = f"tokens are a row of whole numbers, not {found.dtype} of shape {found.shape}"
        raise WeftError(what, fix="give what a tokenizer's encode returns")
    return found
