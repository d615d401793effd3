"""Footprints of accesses: how many cells an access touches, as a box with an interval of indices in each axis.

Exact where every subscript is a loop, or a sum of loops that leaves no gaps, and no loop moves two axes. Otherwise, for
gathers, and for boxes that overlap without one holding the other, it is an upper bound. Tests are taken to hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod

from weft.affine import Affine, are_affine
from weft.loops.reaching_writes import Site
from weft.ops import Scalar


@dataclass(frozen=True, slots=True)
class IndexRange:
    """Indices in one axis: from `low` to `high`, `count` of them, relative to static indices."""

    static: tuple[tuple[int, str], ...]
    low: int
    high: int
    count: int

    @property
    def dense(self) -> bool:
        return self.count == self.high - self.low + 1

    def holds(self, other: IndexRange) -> bool:
        return self == other or (
            self.dense and self.static == other.static and self.low <= other.low and other.high <= self.high
        )

    def misses(self, other: IndexRange) -> bool:
        return self.static == other.static and (self.high < other.low or other.high < self.low)


@dataclass(frozen=True, slots=True)
class Box:
    """The cells of an access, at most `cells`; `exact` if they are just that many and fill the box.

    Boxes that are not filled may be equal and have different cells: `origin` distinguishes them by their accesses.
    """

    spans: tuple[IndexRange, ...]
    cells: int
    exact: bool
    origin: tuple[object, ...] = ()

    def holds(self, other: Box) -> bool:
        return self == other or (
            self.exact and all(mine.holds(yours) for mine, yours in zip(self.spans, other.spans, strict=True))
        )

    def misses(self, other: Box) -> bool:
        return any(mine.misses(yours) for mine, yours in zip(self.spans, other.spans, strict=True))


def box_of(site: Site) -> Box:
    """The cells that a site touches while all loops around it run."""
    shape, at, loops = site.access.buffer.shape, site.access.at, dict(site.loops)
    if at is None:
        return Box(tuple(IndexRange((), 0, size - 1, size) for size in shape), prod(shape), True)
    spans = [_span(index, size, loops) for index, size in zip(at, shape, strict=True)]
    moving = [name for index in at for name in _moving(index, loops)]
    cells = prod(span.count for span, _ in spans)
    if are_affine(at):
        cells = min(cells, prod(loops[name] for name in set(moving)))
    exact = len(set(moving)) == len(moving) and all(exact for _, exact in spans)
    origin = () if exact else (at, *((name, loops[name]) for name in moving))
    return Box(tuple(span for span, _ in spans), cells if all(loops.values()) else 0, exact, origin)


def union(boxes: Sequence[Box]) -> tuple[int, bool]:
    """How many cells some boxes of one buffer have together, and whether that is exact."""
    kept: list[Box] = []
    for one in dict.fromkeys(boxes):
        if one.cells and not any(other.holds(one) for other in kept):
            kept = [other for other in kept if not one.holds(other)] + [one]
    total, exact = sum(one.cells for one in kept), all(one.exact for one in kept)
    if all(one.misses(other) for one, other in combinations(kept, 2)):
        return total, exact
    return min(total, _hull(kept)), False


def _hull(boxes: Sequence[Box]) -> int:
    """The cells of the bounding box of all, as far as they can be compared."""
    axes = zip(*(one.spans for one in boxes), strict=True)
    return prod(_length(axis) for axis in axes)


def _length(axis: Sequence[IndexRange]) -> int:
    if len({span.static for span in axis}) > 1:
        return sum(span.count for span in axis)
    return max(span.high for span in axis) - min(span.low for span in axis) + 1


def _span(index: Scalar, size: int, loops: Mapping[str, int]) -> tuple[IndexRange, bool]:
    """The indices a subscript takes in an axis, and whether they are known exactly."""
    if not isinstance(index, Affine):
        return IndexRange((), 0, size - 1, size), False
    static = tuple(term for term in index.terms if term[1] not in loops)
    moving = index.without([name for _, name in static])
    low, high = moving.bounds(loops) or (0, 0)
    if not static:
        low, high = max(low, 0), min(high, size - 1)  # tests keep it inside
    count = max(0, min(high - low + 1, prod(loops[name] for name in moving.names)))
    return IndexRange(static, low, high, count), len(_moving(index, loops)) <= 1 or moving.is_gapless(loops)


def _moving(index: Scalar, loops: Mapping[str, int]) -> list[str]:
    """The loops that a subscript depends on."""
    return [name for name in index.names if loops.get(name, 1) != 1] if isinstance(index, Affine) else []
