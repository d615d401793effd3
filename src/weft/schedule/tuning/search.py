"""The search for better decisions about a kernel: an evolution, which combines choices instead of changing one.

It begins at the best that is known. A candidate is one of the best so far with a choice or several changed, or with
choices of another of them; those that helped by themselves meet in their children. No candidate comes twice, and none
that is not legal. Times are those of candidates relative to one that all of them are compared with.
"""

from __future__ import annotations

import random
from bisect import insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from weft.schedule.decisions import Decisions
from weft.schedule.tuning.knobs import Knob

#: So many of the best are changed and combined further.
_ELITE = 6
#: After so many candidates in a row that came before, or are not legal, there is hardly a new one.
_ENOUGH = 200


@dataclass(slots=True)
class Search:
    """Candidates in the order in which they should be tried; `learn` tells it how long each took."""

    knobs: Sequence[Knob]
    is_legal: Callable[[Decisions], bool]
    start: Sequence[Decisions]
    seed: int = 0
    exhausted: bool = False
    #: The best so far and their times, the quickest first.
    ranked: list[tuple[float, Decisions]] = field(default_factory=list)
    _seen: set[Decisions] = field(default_factory=set)
    _rng: random.Random = field(default_factory=random.Random)
    _single: list[Decisions] | None = None

    def __post_init__(self) -> None:
        self._rng = random.Random(self.seed)
        self._seen = set(self.start)

    def learn(self, candidate: Decisions, took: float) -> None:
        insort(self.ranked, (took, candidate), key=lambda one: one[0])
        del self.ranked[_ELITE:]

    def candidates(self, count: int) -> list[Decisions]:
        """So many that were not tried yet; fewer if there are hardly any."""
        found: list[Decisions] = []
        misses = 0
        while len(found) < count and misses < _ENOUGH and self.knobs:
            candidate = self._next()
            misses += 1
            if candidate not in self._seen:
                self._seen.add(candidate)
                if self.is_legal(candidate):
                    found.append(candidate)
                    misses = 0
        self.exhausted = not found
        return found

    def _next(self) -> Decisions:
        """Every other candidate is the start with one choice changed, as long as there are such."""
        if self._single is None:
            self._single = [change for one in self.start[:1] for knob in self.knobs for change in _changes(one, knob)]
            self._rng.shuffle(self._single)
        if self._single and (len(self.ranked) < 2 or self._rng.random() < 0.5):
            return self._single.pop()
        return self._bred()

    def _bred(self) -> Decisions:
        parents = [one for _, one in self.ranked] or list(self.start)
        child = parents[min(int(self._rng.expovariate(0.7)), len(parents) - 1)]
        if len(parents) > 1 and self._rng.random() < 0.6:
            child = self._crossed(child, self._rng.choice(parents))
            if self._rng.random() < 0.5:
                return child
        for _ in range(self._rng.choice((1, 1, 2, 3))):
            knob = self._rng.choice(self.knobs)
            child = knob.write(child, self._rng.choice(knob.values))
        return child

    def _crossed(self, one: Decisions, other: Decisions) -> Decisions:
        """A candidate with about half of another's choices."""
        for knob in self.knobs:
            value = knob.read(other)
            if self._rng.random() < 0.5 and value in knob.values and value != knob.read(one):
                one = knob.write(one, value)
        return one


def _changes(one: Decisions, knob: Knob) -> list[Decisions]:
    return [knob.write(one, value) for value in knob.values if value != knob.read(one)]
