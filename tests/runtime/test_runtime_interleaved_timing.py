"""Who is quicker, where clocks are noisy."""

from __future__ import annotations

import random
from collections.abc import Iterator

from weft.runtime.interleaved_timing import Sample, duel, is_quicker, raced


def of(*times: float) -> Sample:
    """A contestant with these times, the last of them again and again."""
    left = iter(times)
    return lambda: next(left, times[-1])


def noisy(seconds: float, rng: random.Random) -> Sample:
    """Now and then a run takes up to twice as long."""
    return lambda: seconds * (1 + rng.random() ** 3)


def test_the_best_of_those_that_are_quicker_wins() -> None:
    race = raced(of(1.0), [of(0.9), of(0.5), of(1.3), of(0.7)])
    assert (race.winner, race.champion, race.times) == (1, 1.0, (0.9, 0.5, 1.3, 0.7))


def test_what_is_hardly_better_does_not_win() -> None:
    assert raced(of(1.0), [of(0.99), of(1.0)]).winner is None
    assert raced(of(1.0), []).winner is None


def test_one_lucky_run_is_not_enough() -> None:
    assert raced(of(1.0), [of(0.1, 1.0)]).winner is None
    assert not is_quicker(of(1.0), of(0.1, 1.0))
    assert not is_quicker(of(0.5, 1.0), of(0.9)), "the champion was as good once"


def test_who_is_hopeless_is_not_run_again() -> None:
    runs = list[int]()

    def slow() -> float:
        runs.append(1)
        return 9.0

    raced(of(1.0), [slow, of(0.9)])
    assert len(runs) == 1


def test_rounds_are_begun_in_turns() -> None:
    order: list[str] = []

    def named(name: str) -> Sample:
        def run() -> float:
            order.append(name)
            return 1.0

        return run

    assert duel(named("a"), named("b"), 4).wins == 0
    assert order == ["b", "a", "a", "b"] * 2


def test_noise_does_not_make_a_slower_one_win() -> None:
    rng = random.Random(7)

    def races(seconds: float) -> Iterator[bool]:
        for _ in range(200):
            yield raced(noisy(1.0, rng), [noisy(seconds, rng)]).winner is not None

    assert sum(races(1.02)) <= 4
    assert sum(races(1.1)) == 0
    assert sum(races(0.7)) >= 170
