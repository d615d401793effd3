"""Batches of examples, epoch after epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any, TypeAlias

import numpy as np

from weft.data.prefetching import Prefetch
from weft.data.shuffling import RowNumbers, permutation
from weft.data.validation import Array, Last, checked_last, checked_seed, checked_whole, examples
from weft.errors import WeftError
from weft.public import public_methods

#: An array, or one for each array of the data.
Examples: TypeAlias = Any
#: What decides the batches of an epoch: a run that is resumed must have the same.
BatchSettings: TypeAlias = Mapping[str, int | str | bool]


@public_methods
class Batches:
    """Batches of examples. Each loop over them is the next epoch; `epoch(n)` is a certain one, whatever went before.

    `len` is how many batches an epoch has.
    """

    def __init__(
        self,
        plan: Callable[[int], Sequence[RowNumbers]],
        take: Callable[[RowNumbers], Examples],
        *,
        settings: BatchSettings,
        ahead: int = 0,
    ) -> None:
        self._plan, self._take, self._ahead = plan, take, ahead
        self._length = len(plan(0))
        self._epochs = count()
        self.settings = dict(settings)

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Examples]:
        return self.epoch(next(self._epochs))

    def epoch(self, number: int, start: int = 0) -> Iterator[Examples]:
        """The batches of an epoch, from the one numbered `start` on: (number, start) is a position in the data."""
        plan = self._plan(checked_whole("epoch", number))
        if checked_whole("start", start) > len(plan):
            what = f"there is no batch {start}: an epoch has {len(plan)}"
            raise WeftError(what, fix="start is the number of a batch of the epoch, from 0 on")
        taken = map(self._take, plan[start:])
        return Prefetch(taken, self._ahead) if self._ahead else taken

    def __repr__(self) -> str:
        said = ", ".join(f"{name}={value!r}" for name, value in self.settings.items())
        return f"<{len(self)} batches: {said}>"


def batches(
    *arrays: Any, batch_size: int = 32, shuffle: bool = False, seed: int = 0, last: Last = "keep", prefetch: int = 0
) -> Batches:
    """Batches of `batch_size` examples of arrays, whose first axes count them.

    Shuffled, each epoch has an order of its own, which `seed` and its number decide. The `last` batch is kept shorter,
    dropped, or wrapped around to the first examples. A thread may `prefetch` so many batches.

    >>> [x.tolist() for x in wf.data.batches(np.arange(5), batch_size=2)]
    [[0, 1], [2, 3], [4]]
    """
    found = examples(arrays, "wf.data.batches(x, y, batch_size=32)")
    total, seed = len(found[0]), checked_seed(seed)

    def plan(epoch: int) -> Sequence[RowNumbers]:
        order = permutation(total, seed=seed, epoch=epoch) if shuffle else np.arange(total)
        return cut(order, batch_size, last)

    def take(rows: RowNumbers) -> Examples:
        parts = tuple([array[rows] for array in found])
        return parts if len(parts) > 1 else parts[0]

    check_cut(total, batch_size, last)
    settings = {"examples": total, "batch_size": batch_size, "shuffle": shuffle, "seed": seed, "last": last}
    return Batches(plan, take, settings=settings, ahead=checked_whole("prefetch", prefetch))


def split(*arrays: Any, part: float = 0.1, seed: int = 0) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    """The examples of arrays in two: most of them, and a random `part` of them, to test on.

    >>> (x,), (test,) = wf.data.split(np.arange(10), part=0.3)
    >>> len(x), len(test)
    (7, 3)
    """
    found = examples(arrays, "wf.data.split(x, y, part=0.1)")
    count = round(part * len(found[0]))
    if not 0 < count < len(found[0]):
        what = f"part={part} of {len(found[0])} examples is {count} of them"
        raise WeftError(what, fix="part= is a share between 0 and 1 that leaves examples on both sides")
    order = permutation(len(found[0]), seed=seed)
    first, second = np.sort(order[count:]), np.sort(order[:count])
    return tuple([array[first] for array in found]), tuple([array[second] for array in found])


def cut(order: RowNumbers, size: int, last: Last) -> list[RowNumbers]:
    """An order in batches."""
    whole_batches, rest = divmod(len(order), size)
    if rest and last == "wrap":
        order, whole_batches, rest = np.resize(order, (whole_batches + 1) * size), whole_batches + 1, 0
    parts = [order[at * size : (at + 1) * size] for at in range(whole_batches)]
    return [*parts, order[whole_batches * size :]] if rest and last == "keep" else parts


def check_cut(total: int, size: int, last: Last) -> None:
    """Can so many examples be cut so?"""
    checked_whole("batch_size", size, 1)
    if checked_last(last) == "drop" and total < size:
        what = f'{total} examples fill no batch of {size}, and last="drop" leaves out the rest'
        raise WeftError(what, fix=f'write batch_size={total} or less, or last="keep"')
