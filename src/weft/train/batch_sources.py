"""Sources of batches: arrays, batches of `wf.data`, anything that gives batches epoch after epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np

from weft.backends import Array
from weft.data.batching import Batches, BatchSettings, batches
from weft.data.validation import checked_whole
from weft.errors import WeftError
from weft.train.shards import checked_batch

#: How many examples a batch has if nothing is said.
BATCH_SIZE = 32
_FIX = "give arrays (x, y), wf.data.batches(x, y, batch_size=32), or a function that gives the batches of an epoch"


class Feed:
    """Batches of arrays, from any position (epoch, batch) on."""

    def __init__(
        self, epochs: Callable[[int, int], Iterable[Any]], length: int | None, settings: BatchSettings
    ) -> None:
        self._epochs = epochs
        self.length, self.settings = length, settings

    def epoch(self, number: int, start: int) -> Iterator[list[Array]]:
        """The batches of an epoch, from one on."""
        for batch in self._epochs(number, start):
            yield checked_batch(batch if isinstance(batch, tuple | list) else (batch,))

    def first(self) -> list[Array]:
        """The first batch of all, to see what batches are like."""
        for batch in self.epoch(0, 0):
            return batch
        raise WeftError("the data has no batches", fix=_FIX)


def feed_of(data: Any, batch_size: int | None, *, shuffle: bool, seed: int) -> Feed:
    """Data as batches; arrays are cut into batches here, everything else gives its own."""
    if _arrays(data) is not None:
        size = checked_whole("batch_size", BATCH_SIZE if batch_size is None else batch_size, 1)
        data, batch_size = batches(*_arrays(data) or (), batch_size=size, shuffle=shuffle, seed=seed), None
    if batch_size is not None:
        what = "batch_size= cuts arrays into batches, and this data gives batches of its own"
        raise WeftError(what, fix="leave it out, or give arrays")
    if isinstance(data, Batches):
        return Feed(data.epoch, len(data), data.settings)
    if isinstance(data, Iterator) or not (isinstance(data, Iterable) or callable(data)):
        kind = type(data).__name__
        once = f"a {kind} gives its batches once, and each epoch needs them"
        raise WeftError(once if isinstance(data, Iterator) else f"data cannot be a {kind}", fix=_FIX)

    def epochs(number: int, start: int) -> Iterable[Any]:
        return islice(data(number) if callable(data) else data, start, None)

    return Feed(epochs, len(data) if hasattr(data, "__len__") else None, {})


def _arrays(data: Any) -> tuple[Any, ...] | None:
    """The arrays that are given as such: one, or some in a tuple or list."""
    if isinstance(data, np.ndarray) or hasattr(data, "__dlpack__"):
        return (data,)
    if isinstance(data, tuple) or (isinstance(data, list) and all(hasattr(one, "__array__") for one in data)):
        return tuple(data)
    return None
