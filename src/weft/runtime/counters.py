"""Counters of a context: static indices that say how many runs there were of what uses them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from weft.arguments import whole_number
from weft.errors import WeftError
from weft.runtime.fork import new_lock
from weft.tensor.slices import StaticIndex


class Counters:
    """The number of the next run, by name. Several threads may use it."""

    __slots__ = ("_lock", "_next")

    def __init__(self) -> None:
        self._next: dict[str, int] = {}
        self._lock = new_lock()

    def now(self, counters: Collection[StaticIndex]) -> dict[str, int]:
        """The numbers of the next run."""
        return {one.name: self._next.get(one.name, 0) % one.size for one in counters}

    def take(self, counters: Collection[StaticIndex]) -> dict[str, int]:
        """The numbers of a run that begins: the next has others."""
        with self._lock:
            found = self.now(counters)
            self._next.update({one.name: (found[one.name] + 1) % one.size for one in counters})
        return found

    def take_back(self, counters: Collection[StaticIndex], given: Mapping[str, int]) -> None:
        """A run did not happen: it is not counted, unless another began since."""
        with self._lock:
            for one in counters:
                if self._next[one.name] == (given[one.name] + 1) % one.size:
                    self._next[one.name] = given[one.name]

    def set(self, counter: StaticIndex, value: object) -> None:
        """Let the next run have a number."""
        run = whole_number(value)
        if run is None or run >= counter.size:
            what = f"counter `{counter.name}` cannot be set to {value!r}"
            raise WeftError(what, fix=f"set it to a whole number from 0 to {counter.size - 1}")
        with self._lock:
            self._next[counter.name] = run


def checked_counter(index: StaticIndex) -> StaticIndex:
    """A static index that a context has a value of."""
    if not index.counts:
        what = f"static index `{index.name}` has no value: each run is given one"
        raise WeftError(what, fix=f'wf.counter("{index.name}") counts runs by itself')
    return index
