"""Affine indices and maps: every question against an enumeration of all points."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import event, example, given, settings, strategies as st

import weft.affine
from weft.affine import AccessMap, Affine, covers, distance, injective, separates
from weft.ops import Call, Num

NAMES = ("i", "j", "k", "s")
#: The values that parameters are tried at.
PARAMETERS = range(-1, 4)


def indices(names: tuple[str, ...] = NAMES) -> st.SearchStrategy[Affine]:
    terms = st.lists(st.tuples(st.integers(-3, 3), st.sampled_from(names)), max_size=3)
    return st.builds(Affine, terms.map(tuple), st.integers(-2, 3))


@st.composite
def maps(draw: st.DrawFn, rank: int, loops: str = "ij", parameters: str = "s", first: int | None = None) -> AccessMap:
    """A map over some loops, the first of a size that may be given."""
    sizes = [(name, draw(st.sampled_from([2, 3, 4, 0, 1, 2, 3]))) for name in loops]
    sizes = [(loops[0], first), *sizes[1:]] if first is not None else sizes
    names = (*loops, *parameters)
    at = tuple(
        draw(st.one_of(st.sampled_from([Affine(), *map(Affine.of, loops)]), indices(names))) for _ in range(rank)
    )
    guards = draw(st.lists(st.tuples(indices(names), st.integers(1, 3)), max_size=1))
    return AccessMap(at, tuple(sizes), tuple(guards))


def settings_of(*some: AccessMap) -> Iterator[dict[str, int]]:
    """All values of the parameters of some maps."""
    used = ((one, (*one.indices, *(guard for guard, _ in one.guards))) for one in some)
    free = {name: None for one, those in used for index in those for name in index.names if name not in one.ranges}
    for values in product(PARAMETERS, repeat=len(free)):
        yield dict(zip(free, values, strict=True))


def has_parameters(*some: AccessMap) -> bool:
    return any(settings_of(*some))


def points(one: AccessMap, given: Mapping[str, int]) -> Iterator[tuple[dict[str, int], tuple[int, ...]]]:
    """Every point of a map with the cell it touches."""
    for values in product(*(range(size) for _, size in one.loops)):
        at = {**given, **dict(zip(one.ranges, values, strict=True))}
        if all(0 <= guard.value(at) < size for guard, size in one.guards):
            yield at, tuple(index.value(at) for index in one.indices)


def kept_inside(one: AccessMap, shape: tuple[int, ...]) -> AccessMap:
    """A map with guards where it might leave a tensor."""
    axes = zip(one.indices, shape, strict=True)
    leaving = [(index, size) for index, size in axes if not index.stays_inside(size, one.ranges)]
    return replace(one, guards=(*one.guards, *leaving))


@pytest.fixture(autouse=True)
def _asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Say which questions isl was asked: both ways are to be tried."""
    for name in ("_is_injective", "_is_subset", "_range"):
        monkeypatch.setattr(weft.affine, name, _noted(getattr(weft.affine, name), name))


def _noted(function, name):  # type: ignore[no-untyped-def]
    def asked(*args):  # type: ignore[no-untyped-def]
        event(f"isl: {name}")
        return function(*args)

    return asked


SLOWLY = settings(deadline=None)


@SLOWLY
@given(st.lists(maps(2), min_size=1, max_size=3) | st.lists(maps(1, "ijk"), min_size=1, max_size=1))
@example([AccessMap((Affine.of("i"), Affine.of("i")), (("i", 3),))])
@example([AccessMap((Affine(((3, "i"), (1, "j"))),), (("i", 3), ("j", 3)))])
@example([AccessMap((Affine(((3, "i"), (1, "j"))),), (("i", 3), ("j", 4)))])
@example([AccessMap((Affine.of("i"),), (("i", 3),)), AccessMap((Affine(((1, "i"),), 3),), (("i", 2),))])
def test_injective(some: list[AccessMap]) -> None:
    plainly = True
    for given_values in settings_of(*some):
        cells = [cell for one in some for _, cell in points(one, given_values)]
        plainly &= len(set(cells)) == len(cells)
    if plainly != injective(some):  # other values of the parameters than those tried may touch a cell twice
        assert plainly
        assert has_parameters(*some)


@SLOWLY
@given(st.lists(maps(2, parameters=""), min_size=0, max_size=3), st.tuples(*[st.integers(0, 4)] * 2))
@example([AccessMap((Affine.of("i"), Affine.of("j")), (("i", 3), ("j", 2)))], (3, 2))
@example([AccessMap((Affine(((2, "i"), (1, "j"))), Affine()), (("i", 2), ("j", 2)))], (4, 1))
@example(
    [
        AccessMap((Affine.of("i"), Affine()), (("i", 3),)),
        AccessMap((Affine.of("i"), Affine((), 1)), (("i", 3),)),
    ],
    (3, 2),
)
def test_covers_a_tensor(some: list[AccessMap], shape: tuple[int, int]) -> None:
    some = [kept_inside(one, shape) for one in some]
    touched = {cell for one in some for _, cell in points(one, {})}
    wanted = set(product(*map(range, shape)))
    assert covers(some, AccessMap.all_of(shape), shape) == (wanted <= touched)


@SLOWLY
@given(st.lists(maps(1), min_size=1, max_size=2), maps(1), st.integers(1, 4))
@example([AccessMap((Affine.of("j"),), (("j", 4),))], AccessMap((Affine.of("s"),), (), ((Affine.of("s"), 4),)), 4)
@example([AccessMap((Affine.of("s"),), ())], AccessMap((Affine.of("s"),), ()), 4)
@example([AccessMap((Affine(((-1, "j"),), 1),), (("j", 1),))], AccessMap((Affine(((-1, "j"),), 1),), (("j", 2),)), 1)
def test_covers_a_region(some: list[AccessMap], region: AccessMap, size: int) -> None:
    plainly, (region, *some) = True, [kept_inside(one, (size,)) for one in (region, *some)]
    for given_values in settings_of(region, *some):
        touched = {cell for one in some for _, cell in points(one, given_values)}
        plainly &= {cell for _, cell in points(region, given_values)} <= touched
    if covers(some, region, (size,)):
        assert plainly
    elif plainly:  # it may fail at other values of the parameters
        assert has_parameters(region, *some)


@SLOWLY
@given(st.integers(1, 4).flatmap(lambda size: st.lists(maps(size % 2 + 1, first=size), min_size=1, max_size=2)))
@example([AccessMap((Affine(((3, "i"), (1, "j"))),), (("i", 3), ("j", 3)))])
@example([AccessMap((Affine(((2, "i"), (1, "j"))),), (("i", 3), ("j", 3)))])
@example([AccessMap((Affine(((1, "i"), (1, "s"))),), (("i", 3),))])
@example([AccessMap((Affine(((4, "i"), (1, "j"), (-1, "k"))),), (("i", 2), ("j", j), ("k", 5 - j))) for j in (2, 3)])
def test_separates(some: list[AccessMap]) -> None:
    plainly = True
    for given_values in settings_of(*some):
        touching: dict[tuple[int, ...], set[int]] = {}
        for one in some:
            for at, cell in points(one, given_values):
                touching.setdefault(cell, set()).add(at["i"])
        plainly &= all(len(iterations) == 1 for iterations in touching.values())
    if plainly != separates("i", some):
        assert plainly
        assert has_parameters(*some)


@SLOWLY
@given(maps(2), maps(2), st.booleans())
@example(AccessMap((Affine.of("i"),) * 2, (("i", 4),)), AccessMap((Affine(((1, "i"),), 1),) * 2, (("i", 4),)), False)
def test_distance(first: AccessMap, second: AccessMap, shared: bool) -> None:
    """The loops are `i` of the first and `i` of the second; `j` may be one loop around both."""
    shared = shared and first.ranges.get("j", -1) == second.ranges.get("j", -2)
    found = distance(first, second, ("i", "i"), [("j", "j")] if shared else [])
    plainly = {
        there["i"] - here["i"]
        for given_values in settings_of(first, second)
        for here, cell in points(first, given_values)
        for there, other in points(second, given_values)
        if cell == other and (not shared or here["j"] == there["j"])
    }
    if found is None:
        assert not plainly
    else:
        assert all(found[0] <= one <= found[1] for one in plainly)
    if found not in (None, (0, 0)) and not has_parameters(first, second):
        assert found == (min(plainly), max(plainly))


# Indices


@given(indices(), indices(), st.integers(-3, 3), st.tuples(*[st.integers(-3, 3)] * len(NAMES)))
def test_arithmetic_is_that_of_values(one: Affine, other: Affine, number: int, values: tuple[int, ...]) -> None:
    at = dict(zip(NAMES, values, strict=True))
    assert (one + other).value(at) == one.value(at) + other.value(at)
    assert (one - other).value(at) == one.value(at) - other.value(at)
    assert (one * number).value(at) == one.value(at) * number
    assert (-one + number).value(at) == number - one.value(at)
    replaced = {"i": other, "j": one}
    assert one.substitute(replaced).value(at) == one.value(
        {**at, **{name: index.value(at) for name, index in replaced.items()}}
    )
    assert one.without("ik").value(at) == one.value({**at, "i": 0, "k": 0})
    quotient = one.divide(number) if number else None
    assert quotient is None or (quotient * number) == one
    assert (one * number).divide(number) == one if number else True


@given(indices(), indices())
def test_equal_everywhere_is_equal(one: Affine, other: Affine) -> None:
    same = all(one.value(at) == other.value(at) for at in _corners())
    assert (one == other) == same
    assert not same or hash(one) == hash(other)
    assert one == Affine(one.terms[::-1], one.offset)
    assert hash(one) == hash(Affine(one.terms[::-1], one.offset))


def _corners() -> Iterator[dict[str, int]]:
    """As many points as it takes to tell indices apart: the origin, and one step along each name."""
    for at in range(len(NAMES) + 1):
        yield {name: int(number == at) for number, name in enumerate(NAMES)}


@given(indices(("i", "j", "k")), st.tuples(*[st.integers(1, 4)] * 3), st.integers(0, 6))
def test_bounds_are_reached(index: Affine, sizes: tuple[int, ...], size: int) -> None:
    ranges = dict(zip("ijk", sizes, strict=True))
    values = {index.value(dict(zip("ijk", point, strict=True))) for point in product(*map(range, sizes))}
    assert index.bounds(ranges) == (min(values), max(values))
    assert index.stays_inside(size, ranges) == all(0 <= value < size for value in values)
    assert index.is_gapless(ranges) == (len(values) == max(values) - min(values) + 1)
    assert (index.bounds({}) is None) == bool(index.terms)


def test_terms_are_collected() -> None:
    assert Affine(((1, "i"), (2, "j"), (1, "i"), (-2, "j"), (0, "k"))) == Affine(((2, "i"),))
    assert Affine(((0, "i"),)) == Affine()
    assert Affine(((0, "i"),)).is_constant


@pytest.mark.parametrize(
    ("index", "text"),
    [
        (Affine(), "0"),
        (Affine((), -2), "-2"),
        (Affine.of("i"), "i"),
        (Affine(((-1, "i"), (2, "j")), 1), "-i + 2*j + 1"),
        (Affine(((1, "i"), (-3, "j")), -1), "i - 3*j - 1"),
    ],
)
def test_an_index_prints_as_it_is_written(index: Affine, text: str) -> None:
    assert str(index) == text


def test_a_name_alone() -> None:
    assert Affine.of("i").only == "i"
    assert not (Affine.of("i") + 1).only
    assert not (Affine.of("i") * 2).only
    assert not Affine().only


def test_what_is_no_index_makes_a_scalar() -> None:
    assert Affine.of("i") + 0.5 == Call("add", (Affine.of("i"), Num(0.5)))
    assert Affine.of("i") * Num(2) == Call("mul", (Affine.of("i"), Num(2)))
    assert Affine.of("i") - Num(2) == Call("sub", (Affine.of("i"), Num(2)))


@pytest.mark.parametrize("offset", range(-6, 7))
@pytest.mark.parametrize("factors", [(), (2,), (3,), (4, 6), (2, 3)])
def test_what_is_never_zero_has_no_zero(factors: tuple[int, ...], offset: int) -> None:
    names = ("i", "j")
    index = Affine(tuple(zip(factors, names, strict=False)), offset)
    points = product(range(-12, 13), repeat=len(factors))
    assert index.is_never_zero == all(index.value(dict(zip(names, at, strict=False))) for at in points)
