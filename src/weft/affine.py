"""Affine indices, and maps of them: from the points of loops to the cells of a tensor.

    2*i + k - 1                                            an index
    (2*i + k - 1, j)  over i < 4, k < 3, j < 5             a map, of the points where its guards hold

What a compiler asks of such maps is asked here, once:

    injective    is no cell touched twice?
    covers       is every cell of some region touched?
    separates    do different iterations of a loop touch different cells?
    distance     how many iterations of a loop lie between two that touch the same cell?

What can be told from coefficients and sizes alone is; isl decides the rest. Names that are no loops of a map are
parameters: they have one value, the same in all maps, and the answer holds for every value they can have.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations_with_replacement, pairwise
from math import gcd, prod
from typing import TypeAlias, overload

import islpy as isl

from weft.ops import Number, Scalar


@dataclass(frozen=True, slots=True, eq=False)
class Affine(Scalar):
    """The sum of `coefficient * name` over its terms, and an offset.

    No name stands in it twice and no coefficient is zero; terms keep the order in which they were first mentioned, and
    that order makes no difference: indices that are equal everywhere are equal values.
    """

    terms: tuple[tuple[int, str], ...] = ()
    offset: int = 0

    def __post_init__(self) -> None:
        terms = self.terms
        if terms and (len(terms) > 1 or not terms[0][0]):
            if not all(factor for factor, _ in terms) or len({name for _, name in terms}) < len(terms):
                object.__setattr__(self, "terms", _collected(terms))

    def __eq__(self, other: object) -> bool:
        if type(other) is not Affine:
            return NotImplemented
        if self.offset != other.offset or len(self.terms) != len(other.terms):
            return False
        return self.terms == other.terms or set(self.terms) == set(other.terms)

    def __hash__(self) -> int:
        return hash((frozenset(self.terms) if len(self.terms) > 1 else self.terms, self.offset))

    @staticmethod
    @lru_cache(maxsize=1024)
    def of(name: str) -> Affine:
        """A loop or a given index itself."""
        return Affine(((1, name),))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple([name for _, name in self.terms])

    @property
    def is_constant(self) -> bool:
        return not self.terms

    @property
    def is_never_zero(self) -> bool:
        """Can it not be 0: what its coefficients have in common is not in its offset?"""
        common = gcd(*(factor for factor, _ in self.terms))
        return bool(self.offset % common if common else self.offset)

    @property
    def only(self) -> str:
        """The name that it is; nothing if it is more than that."""
        return self.terms[0][1] if len(self.terms) == 1 and self.terms[0][0] == 1 and not self.offset else ""

    def coefficient(self, name: str) -> int:
        for factor, one in self.terms:
            if one == name:
                return factor
        return 0

    @overload
    def __add__(self, other: Affine | int) -> Affine: ...
    @overload
    def __add__(self, other: Number) -> Scalar: ...
    def __add__(self, other: Number) -> Scalar:
        if isinstance(other, Affine):
            return Affine((*self.terms, *other.terms), self.offset + other.offset)
        return Affine(self.terms, self.offset + other) if isinstance(other, int) else Scalar.__add__(self, other)

    @overload
    def __sub__(self, other: Affine | int) -> Affine: ...
    @overload
    def __sub__(self, other: Number) -> Scalar: ...
    def __sub__(self, other: Number) -> Scalar:
        return self + -other if isinstance(other, Affine | int) else Scalar.__sub__(self, other)

    @overload
    def __mul__(self, other: int) -> Affine: ...
    @overload
    def __mul__(self, other: Number) -> Scalar: ...
    def __mul__(self, other: Number) -> Scalar:
        if isinstance(other, int):
            return Affine(tuple([(factor * other, name) for factor, name in self.terms]), self.offset * other)
        return Scalar.__mul__(self, other)

    def __neg__(self) -> Affine:
        return self * -1

    def divide(self, by: int) -> Affine | None:
        """It divided by a number; None where something would be left."""
        if by == 1:
            return self
        if self.offset % by or any(factor % by for factor, _ in self.terms):
            return None
        return Affine(tuple([(factor // by, name) for factor, name in self.terms]), self.offset // by)

    def substitute(self, values: Mapping[str, Affine]) -> Affine:
        """It with names replaced by indices."""
        if self.only:
            return values.get(self.only, self)
        if not any(name in values for _, name in self.terms):
            return self
        terms, offset = list[tuple[int, str]](), self.offset
        for factor, name in self.terms:
            inner = values.get(name)
            if inner is None:
                terms.append((factor, name))
            else:
                offset += factor * inner.offset
                terms += [(factor * one, deeper) for one, deeper in inner.terms]
        return Affine(tuple(terms), offset)

    def without(self, names: Iterable[str]) -> Affine:
        """It with some names at 0."""
        return Affine(tuple([term for term in self.terms if term[1] not in names]), self.offset)

    def value(self, at: Mapping[str, int]) -> int:
        """What it comes to where names have these values."""
        return self.offset + sum(factor * at[name] for factor, name in self.terms)

    def bounds(self, ranges: Mapping[str, int]) -> tuple[int, int] | None:
        """The least and the greatest value where each name runs from 0 to below a size; None if one is not known."""
        low = high = self.offset
        for factor, name in self.terms:
            if name not in ranges:
                return None
            end = factor * (ranges[name] - 1)
            if end < 0:
                low += end
            else:
                high += end
        return low, high

    def stays_inside(self, size: int, ranges: Mapping[str, int]) -> bool:
        """Is it from 0 to below a size for all values of its names?"""
        found = self.bounds(ranges)
        return found is not None and found[0] >= 0 and found[1] < size

    def is_gapless(self, ranges: Mapping[str, int]) -> bool:
        """Does it take every value from its least to its greatest?"""
        reach = 0
        for factor, name in sorted((abs(factor), name) for factor, name in self.terms):
            if factor > reach + 1 and ranges[name] > 1:
                return False
            reach += factor * (ranges[name] - 1)
        return True

    def __str__(self) -> str:
        signs = {1: "", -1: "-"}
        terms = [f"{signs.get(factor, f'{factor}*')}{name}" for factor, name in self.terms]
        if self.offset or not terms:
            terms.append(str(self.offset))
        return " + ".join(terms).replace("+ -", "- ")


def are_affine(indices: Iterable[Scalar]) -> bool:
    """Is each of some indices an affine one?"""
    return all(isinstance(one, Affine) for one in indices)


def _collected(terms: Iterable[tuple[int, str]]) -> tuple[tuple[int, str], ...]:
    """Terms with one for each name, in the order of first mention, and none that is zero."""
    found: dict[str, int] = {}
    for factor, name in terms:
        found[name] = found.get(name, 0) + factor
    return tuple([(factor, name) for name, factor in found.items() if factor])


@dataclass(frozen=True, slots=True)
class AccessMap:
    """The cells that an access touches: one for each point of its loops at which every guard, 0 <= index < size, holds.

    Guards may bound parameters, too.
    """

    indices: tuple[Affine, ...]
    loops: tuple[tuple[str, int], ...] = ()
    guards: tuple[tuple[Affine, int], ...] = ()

    @staticmethod
    @lru_cache(maxsize=1024)
    def all_of(shape: tuple[int, ...]) -> AccessMap:
        """Every cell of a tensor."""
        names = [str(axis) for axis in range(len(shape))]  # no loop is called so
        return AccessMap(tuple(map(Affine.of, names)), tuple(zip(names, shape, strict=True)))

    @property
    def ranges(self) -> dict[str, int]:
        return dict(self.loops)

    def substitute(self, parameters: Mapping[str, Affine]) -> AccessMap:
        """It with other values of parameters."""
        guards = tuple([(index.substitute(parameters), size) for index, size in self.guards])
        return AccessMap(tuple([index.substitute(parameters) for index in self.indices]), self.loops, guards)

    @property
    def runs(self) -> bool:
        """Has it any points, as far as its loops go?"""
        return all(size for _, size in self.loops)


#: In each axis the first and the last position.
_Box: TypeAlias = tuple[tuple[int, int], ...]


def injective(maps: Sequence[AccessMap]) -> bool:
    """Do all points of all maps touch different cells?"""
    maps = [one for one in maps if one.runs]
    told = [_determines(one) for one in maps]
    if False in told:
        return False
    if None not in told:
        boxes = [_bounds(one) for one in maps]
        if len(maps) < 2 or (len(set(boxes)) == len(boxes) and _apart(boxes)):
            return True
    return _by_isl_injective(maps)


def covers(maps: Sequence[AccessMap], region: AccessMap, shape: Sequence[int]) -> bool:
    """Do maps together touch every cell of a region of a tensor? All of them stay inside it."""
    maps = [one for one in maps if one.runs]
    if not region.runs or any(_plainly_covers(one, region, shape) for one in maps):
        return True
    wanted, boxes = _filled(region), [_filled(one) for one in maps]
    if wanted is not None and None not in boxes and _apart(boxes):
        inside = (prod(_overlap(*pair) for pair in zip(box or (), wanted, strict=True)) for box in set(boxes))
        return sum(inside) == prod(high - low + 1 for low, high in wanted)
    return _by_isl_covers(maps, region, shape)


def separates(loop: str, maps: Sequence[AccessMap]) -> bool:
    """Do different iterations of a loop, at whatever points of the others, touch different cells?"""
    if any(dict(one.loops).get(loop, 1) < 2 for one in maps):
        return True
    longest = dict[str, int]()
    for name, size in (loop for one in maps for loop in one.loops):
        longest[name] = max(size, longest.get(name, 0))
    for column in zip(*(one.indices for one in maps), strict=True):
        if all(index == column[0] for index in column) and _dominates(column[0], loop, longest):
            return True
    if any(not one.guards and not any(index.coefficient(loop) for index in one.indices) for one in maps if one.runs):
        return False
    pairs = combinations_with_replacement(maps, 2)
    return all(distance(one, other, (loop, loop)) in (None, (0, 0)) for one, other in pairs)


def distance(
    first: AccessMap, second: AccessMap, loop: tuple[str, str], shared: Iterable[tuple[str, str]] = ()
) -> tuple[int, int] | None:
    """How many iterations the second lies behind the first, at least and at most, where they touch one cell.

    `loop` is what each calls the loop; `shared` are loops around it that both are in, likewise. None if there is no
    such cell; where they may touch one in the same iteration only, it is enough to know that.
    """
    for one, other in zip(first.indices, second.indices, strict=True):
        mine, theirs = one.bounds(first.ranges), other.bounds(second.ranges)
        if mine and theirs and (mine[1] < theirs[0] or theirs[1] < mine[0]):
            return None
        if one.names == (loop[0],) and one.substitute({loop[0]: Affine.of(loop[1])}) == other:
            return 0, 0
    return _by_isl_distance(first, second, loop, shared)


# What coefficients and sizes tell


def _dominates(index: Affine, loop: str, ranges: Mapping[str, int]) -> bool:
    """Does an index take other values in every iteration of a loop, whatever the other loops do?"""
    rest = sum(abs(factor) * (ranges[name] - 1) for factor, name in index.terms if name in ranges and name != loop)
    return abs(index.coefficient(loop)) > rest


def _determines(one: AccessMap) -> bool | None:
    """Does a cell tell the point that touches it? None if that takes more than a look."""
    ranges = {name: size for name, size in one.loops if size > 1}
    if not one.guards and not ranges.keys() <= {name for index in one.indices for name in index.names}:
        return False
    before = len(ranges) + 1
    while ranges and len(ranges) < before:  # a loop that an index tells helps to tell others
        before = len(ranges)
        for index in one.indices:
            own = sorted((abs(factor), name) for factor, name in index.terms if name in ranges)
            ends = [factor * (ranges[name] - 1) for factor, name in own]
            if all(factor > sum(ends[:at]) for at, (factor, _) in enumerate(own)):
                ranges = {name: size for name, size in ranges.items() if name not in index.names}
    return True if not ranges else None


def _bounds(one: AccessMap) -> _Box | None:
    found = [index.bounds(one.ranges) for index in one.indices]
    return tuple(pair for pair in found if pair is not None) if None not in found else None


def _filled(one: AccessMap) -> _Box | None:
    """The box whose cells a map touches, all of them; None if it is not seen to be one."""
    moving = [name for index in one.indices for name in index.names if one.ranges.get(name, 0) != 1]
    if one.guards or len(set(moving)) < len(moving):
        return None
    box = _bounds(one)
    return box if box is not None and all(index.is_gapless(one.ranges) for index in one.indices) else None


def _apart(boxes: Sequence[_Box | None]) -> bool:
    """Are any two boxes the same or, since in each axis their positions are the same or none alike, without a cell in
    common?"""
    found = [box for box in boxes if box is not None]
    axes = (sorted({*column}) for column in zip(*found, strict=True))
    return len(found) == len(boxes) and all(high < low for axis in axes for (_, high), (low, _) in pairwise(axis))


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> int:
    return max(0, min(one[1], other[1]) - max(one[0], other[0]) + 1)


def _plainly_covers(one: AccessMap, region: AccessMap, shape: Sequence[int]) -> bool:
    """Is it plain: in each axis the map stands where the region does, or everywhere by a loop of its own?"""
    ranges, idle = one.ranges, one.ranges
    if any(guard not in region.guards or not ranges.keys().isdisjoint(guard[0].names) for guard in one.guards):
        return False  # a guard on a loop of its own says nothing of one of the region that is called the same
    for index, wanted, size in zip(one.indices, region.indices, shape, strict=True):
        if size != 1 and idle.pop(index.only, None) != size:
            if index != wanted or not ranges.keys().isdisjoint(index.names):
                return False
    return True


# What isl decides

#: What parameters are called in a question: questions that differ in names alone are asked once.
_Parameters: TypeAlias = dict[str, str]


def _spelled(one: AccessMap, called: Mapping[str, str], parameters: _Parameters) -> tuple[list[str], list[str]]:
    """Where a map's points are, and its indices, with loops called as given."""

    def variable(name: str) -> str:
        return called.get(name) or parameters.setdefault(name, f"p{len(parameters)}")

    def text(index: Affine) -> str:
        return " + ".join([*(f"{factor} * {variable(name)}" for factor, name in index.terms), str(index.offset)])

    ranges = [f"0 <= {variable(name)} < {size}" for name, size in one.loops]
    return ranges + [f"0 <= {text(index)} < {size}" for index, size in one.guards], list(map(text, one.indices))


def _cells(one: AccessMap, shape: Sequence[int], parameters: _Parameters) -> str:
    """The cells of a map inside a tensor, as isl writes sets."""
    called = {name: f"l{number}" for number, (name, _) in enumerate(one.loops)}
    facts, indices = _spelled(one, called, parameters)
    facts += [f"0 <= x{axis} < {size} and x{axis} = {indices[axis]}" for axis, size in enumerate(shape)]
    cell, held = ", ".join(f"x{axis}" for axis in range(len(shape))), " and ".join(facts) or "true"
    return f"[{cell}] : exists ({', '.join(called.values())} : {held})" if called else f"[{cell}] : {held}"


def _by_isl_injective(maps: Sequence[AccessMap]) -> bool:
    parameters: _Parameters = {}
    most = max(len(one.loops) for one in maps)
    pieces = []
    for number, one in enumerate(maps):
        called = {name: f"l{at}" for at, (name, _) in enumerate(one.loops)}
        facts, indices = _spelled(one, called, parameters)
        point = [str(number), *called.values(), *["0"] * (most - len(called))]
        pieces.append(f"[{', '.join(point)}] -> [{', '.join(indices)}] : {' and '.join(facts) or 'true'}")
    return _is_injective(f"[{', '.join(parameters.values())}] -> {{ {'; '.join(pieces)} }}")


def _by_isl_covers(maps: Sequence[AccessMap], region: AccessMap, shape: Sequence[int]) -> bool:
    parameters: _Parameters = {}
    wanted = _cells(region, shape, parameters)
    touched = "; ".join(_cells(one, shape, parameters) for one in maps) or wanted + " and false"
    known = f"[{', '.join(parameters.values())}] -> "
    return _is_subset(f"{known}{{ {wanted} }}", f"{known}{{ {touched} }}")


def _by_isl_distance(
    first: AccessMap, second: AccessMap, loop: tuple[str, str], shared: Iterable[tuple[str, str]]
) -> tuple[int, int] | None:
    parameters: _Parameters = {}
    mine = {name: f"a{number}" for number, (name, _) in enumerate(first.loops)}
    theirs = {name: f"b{number}" for number, (name, _) in enumerate(second.loops)}
    for number, (one, other) in enumerate(shared):
        mine[one] = theirs[other] = f"s{number}"
    (facts, cells), (others, those) = _spelled(first, mine, parameters), _spelled(second, theirs, parameters)
    facts += [*others, *(f"{one} = {other}" for one, other in zip(cells, those, strict=True))]
    names = dict.fromkeys((*mine.values(), *theirs.values(), *parameters.values()))
    behind = f"d = {theirs[loop[1]]} - {mine[loop[0]]}"
    return _range(f"{{ [d] : exists ({', '.join(names)} : {' and '.join((*dict.fromkeys(facts), behind))}) }}")


@lru_cache(maxsize=4096)
def _is_injective(written: str) -> bool:
    return bool(isl.Map(written).is_injective())


@lru_cache(maxsize=4096)
def _is_subset(wanted: str, touched: str) -> bool:
    return bool(isl.Set(wanted).is_subset(isl.Set(touched)))


@lru_cache(maxsize=4096)
def _range(values: str) -> tuple[int, int] | None:
    found = isl.Set(values)
    return None if found.is_empty() else (int(found.dim_min_val(0).to_python()), int(found.dim_max_val(0).to_python()))
