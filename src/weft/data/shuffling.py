"""Shuffling by counter-based random numbers: the seed and the number of the epoch alone decide an order.

An epoch that was interrupted is therefore found again without repeating the ones before it. Draws are the raw words of
Philox, which every release of NumPy gives alike; what NumPy makes of them may change.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from weft.data.validation import checked_seed, checked_whole

RowNumbers: TypeAlias = npt.NDArray[np.int64]


def permutation(n: int, *, seed: int = 0, epoch: int = 0) -> RowNumbers:
    """The numbers below `n` in an order that `seed` and `epoch` decide, whatever was drawn before.

    >>> wf.data.permutation(5, seed=1, epoch=3)
    array([3, 2, 4, 1, 0])
    """
    drawn = draws(checked_whole("n", n), checked_seed(seed), checked_whole("epoch", epoch))
    return np.argsort(drawn, kind="stable").astype(np.int64, copy=False)


def draws(count: int, seed: int, epoch: int, stream: int = 0) -> npt.NDArray[np.uint64]:
    """So many random words; streams of one epoch have nothing to do with each other."""
    key = np.array([seed, epoch], np.uint64)
    counter = np.array([0, 0, 0, stream], np.uint64)
    words: npt.NDArray[Any] = np.random.Philox(key=key, counter=counter).random_raw(count)
    return words
