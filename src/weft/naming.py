"""New names, however many there are already."""

from __future__ import annotations

from collections.abc import Iterable


class FreshNames:
    """Names that are taken. The least free number of each stem is remembered, so that the thousandth takes no longer
    to find than the first."""

    __slots__ = ("_next", "_taken")

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._next: dict[str, int] = {}  # from 2; all numbers below are taken

    def take(self, names: Iterable[str]) -> None:
        """These names are taken from now on, too."""
        self._taken.update(names)

    def fresh(self, wanted: str, stem: str = "") -> str:
        """A name, taken from now on: the one wanted, or else its stem with the least number that makes it new."""
        found = wanted
        if found in self._taken:
            stem = stem or wanted
            number = self._next.get(stem, 2)
            while (found := f"{stem}_{number}") in self._taken:
                number += 1
            self._next[stem] = number + 1
        self._taken.add(found)
        return found

    def release(self, name: str) -> None:
        """Nothing is called so any more."""
        self._taken.discard(name)
        stem, _, digits = name.rpartition("_")
        number = int(digits) if digits.isdecimal() else 0
        if 2 <= number < self._next.get(stem, 0):
            self._next[stem] = number
