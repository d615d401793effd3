"""The search combines choices, tries nothing twice and nothing that is not legal."""

from __future__ import annotations

from collections.abc import Callable

from weft.loops import Annotation, Parallel, Unroll, Vector
from weft.schedule.decisions import Decisions
from weft.schedule.tuning.knobs import Knob, annotation_knob
from weft.schedule.tuning.search import Search

CHOICES: list[Knob] = [
    annotation_knob("i0", (Parallel,), [None, Parallel(4), Parallel(8)]),
    annotation_knob("i1", (Unroll, Vector), [None, Vector(8), Vector(16), Unroll(4)]),
    annotation_knob("i2", (Unroll, Vector), [None, Vector(8), Vector(16), Unroll(4)]),
]
WANTED: list[tuple[str, Annotation]] = [("i0", Parallel(8)), ("i1", Unroll(4)), ("i2", Vector(8))]


def seconds(found: Decisions) -> float:
    """Three choices that are hardly worth it by themselves."""
    right = sum(how in found.how(loop) for loop, how in WANTED)
    return (1.0, 0.99, 0.9, 0.1)[right]


def tried(legal: Callable[[Decisions], bool] = lambda one: True, seed: int = 0) -> tuple[Search, list[Decisions]]:
    search, found = Search(CHOICES, legal, [Decisions()], seed), list[Decisions]()
    search.learn(Decisions(), 1.0)
    while (some := search.candidates(4)) and not search.exhausted:
        for one in some:
            search.learn(one, seconds(one))
            found.append(one)
    return search, found


def test_choices_are_combined() -> None:
    for seed in range(5):
        search, found = tried(seed=seed)
        assert search.ranked[0] == (0.1, Decisions(tuple((loop, (how,)) for loop, how in WANTED)))
        assert min(at for at, one in enumerate(found) if seconds(one) == 0.1) < 47, "before most others"


def test_nothing_is_tried_twice_and_at_last_it_ends() -> None:
    search, found = tried()
    assert 40 < len(found) == len(set(found)) < 3 * 4 * 4
    assert search.exhausted


def test_nothing_is_tried_that_is_not_legal() -> None:
    _, found = tried(lambda one: Unroll(4) not in one.how("i1"))
    assert 20 < len(found) < 3 * 3 * 4
    assert not any(Unroll(4) in one.how("i1") for one in found)


def test_where_there_is_nothing_to_choose_it_ends_at_once() -> None:
    search = Search([], lambda one: True, [Decisions()])
    assert (search.candidates(4), search.exhausted) == ([], True)
