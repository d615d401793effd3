"""When sharing a loop turns a dependence around, against brute force."""

from __future__ import annotations

from itertools import product

from hypothesis import given, strategies as st

from weft.affine import Affine
from weft.schedule.dependence import reverses_dependence

SIZES = {"i": 4, "j": 3}
PLACES = st.builds(
    Affine,
    st.lists(st.tuples(st.sampled_from([-1, 1, 2]), st.sampled_from(["i", "j", "o"])), max_size=2).map(
        lambda terms: tuple({name: (factor, name) for factor, name in terms}.values())
    ),
    st.integers(-2, 3),
)


def at(place: Affine, point: dict[str, int]) -> int:
    return place.offset + sum(factor * point[name] for factor, name in place.terms)


@given(st.lists(st.tuples(PLACES, PLACES), min_size=1, max_size=2))
def test_by_brute_force(axes: list[tuple[Affine, Affine]]) -> None:
    points = [dict(zip(SIZES, values, strict=True)) for values in product(*(range(size) for size in SIZES.values()))]
    turned = any(
        a["i"] > b["i"] and all(at(one, {**a, "o": o}) == at(other, {**b, "o": o}) for one, other in axes)
        for a in points
        for b in points
        for o in range(3)
    )
    first, second = (tuple(pair[side] for pair in axes) for side in (0, 1))
    found = reverses_dependence((first, {**SIZES, "o": 3}), (second, {**SIZES, "o": 3}), ("i", "i"), (("o", "o"),))
    assert found == turned


def test_what_is_read_later_may_be_read_in_the_same_loop() -> None:
    here, before, after = (Affine(((1, "i"),), offset) for offset in (0, -1, 1))
    assert not reverses_dependence(((here,), SIZES), ((before,), SIZES), ("i", "i"), ())
    assert reverses_dependence(((here,), SIZES), ((after,), SIZES), ("i", "i"), ())
