"""Interleaved timing: which contestant is quicker, in spite of noise. They run in turns, so a busy machine slows all.

A challenger is taken for quicker if its best run is clearly better than the champion's best of the same rounds, and it
wins most of them. A lucky run does neither for long.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import TypeAlias

#: Runs once, or a few times, and gives the seconds of a run.
Sample: TypeAlias = Callable[[], float]

#: What is better by less is chance.
CLEARLY = 0.98
_HEATS, _ROUNDS, _FINALISTS = 3, 8, 2
#: What decides for good: so many rounds at least and at most, in so many seconds.
_LEAST, _MOST, _DECIDING_S = 4, 12, 1.0
#: Who takes so much longer than the champion at first is not run again.
_HOPELESS = 1.5


@dataclass(frozen=True, slots=True)
class Race:
    """The best times of challengers relative to the champion's, and which of them won, if one did."""

    times: tuple[float, ...]
    champion: float
    winner: int | None


def raced(champion: Sample, challengers: Sequence[Sample]) -> Race:
    """Let some run against the champion in a few heats, and the best of them in more rounds."""
    best, mine = [inf] * len(challengers), inf
    running = list(range(len(challengers)))
    for _ in range(_HEATS):
        mine = min(mine, champion())
        for one in running:
            best[one] = min(best[one], challengers[one]())
        running = [one for one in running if best[one] < _HOPELESS * mine]
    for one in sorted(running, key=best.__getitem__)[:_FINALISTS]:
        if best[one] < CLEARLY * mine and is_quicker(champion, challengers[one]):
            return Race(tuple(time / mine for time in best), mine, one)
    return Race(tuple(time / mine for time in best), mine, None)


@dataclass(frozen=True, slots=True)
class Duel:
    """The best times of a champion and a challenger, and how many rounds the challenger won."""

    champion: float
    challenger: float
    wins: int


def duel(champion: Sample, challenger: Sample, rounds: int) -> Duel:
    """Two in turns; who begins a round changes."""
    mine, other, wins = inf, inf, 0
    for number in range(rounds):
        order = (champion, challenger) if number % 2 else (challenger, champion)
        times = {one: one() for one in order}
        wins += times[challenger] < times[champion]
        mine, other = min(mine, times[champion]), min(other, times[challenger])
    return Duel(mine, other, wins)


def rounds(seconds: float) -> int:
    """How many rounds decide for good, where one takes so long: fewer of what takes long."""
    return max(_LEAST, min(_MOST, int(_DECIDING_S / seconds)))


def is_quicker(champion: Sample, challenger: Sample) -> bool:
    """Is a challenger clearly quicker, and so in most rounds?"""
    found = duel(champion, challenger, _ROUNDS)
    return found.challenger < CLEARLY * found.champion and 4 * found.wins >= 3 * _ROUNDS
