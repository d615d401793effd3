"""Sorting networks: several rows side by side in the lanes of vectors, put in order by comparators.

    for g in range(128):
        for p in range(1024): for lane in range(8): keys[p, lane] = 2^63 - 1
        for v in range(1000): for lane in range(8): keys[v, lane] = order_place(x[8 g + lane, v]) * 2^32 + v
        for b in range(128): for lane in range(8):
            a = keys[8 b, lane];  c = keys[8 b + 1, lane];  …
            low = min(a, c);  high = max(a, c);  …
            keys[8 b, lane] = …
        …
        for v in range(1000): for lane in range(8): order[8 g + lane, v] = int32(keys[v, lane])

Which numbers are compared depends on no number, so that rows in all lanes do the same. A number is where an element
stands among all of its type, and its position behind that: no two are equal, and equal elements stay in order.

The network merges sequences of 1, 2, 4, … elements (Batcher 1968), and a comparator puts the less of two first,
wherever it is. So what fills a row up to a power of two, as it is more than any element, stays where it is, and blocks
of it alone are left out. In each of `_STEPS` steps one after another every element takes part once: so many elements
are read, compared and stored together, which registers of any processor with vectors hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from weft.affine import Affine
from weft.loops.names import BlockNames
from weft.loops.nodes import Buffer, Cast, For, If, Inside, Let, Local, Read, Stmt, Store
from weft.loops.walk import Body, around, substituted
from weft.machine import Machine
from weft.ops import Call, Num, Scalar
from weft.ops.dtypes import numpy_type
from weft.optimise.sorted_row import SortedRow

#: How many steps are done while elements are in registers.
_STEPS = 3
#: What a number in a lane is, and how many of its bits the position of an element has.
_NUMBER, _POSITION_BITS = "int64", 32
_NUMBER_BYTES = numpy_type(_NUMBER).itemsize


def lanes_for(row: SortedRow, machine: Machine) -> int:
    """How many rows a processor sorts side by side; 0 if it had better sort them one by one.

    Its vectors compare numbers from `_NUMBER_BYTES` a lane on if they have four lanes; a row for each lane has to be
    there, and to fit into the second cache with the others.
    """
    lanes, (_, size) = machine.vector_bytes // _NUMBER_BYTES, row.loop
    rows = max((size for _, size in row.outer), default=1)
    fits = _filled(size) * lanes * _NUMBER_BYTES <= machine.caches[1] // 2
    return lanes if lanes >= 4 and rows >= lanes and 8 * row.key_bytes <= _POSITION_BITS and fits else 0


def sorted_in_lanes(
    row: SortedRow, order: Buffer, buffer: Callable[..., Buffer], names: BlockNames, lanes: int
) -> Body:
    """A block that puts the elements of rows in `order`, so many rows at a time."""
    axis = max(range(len(row.outer)), key=lambda one: row.outer[one][1])
    name, rows = row.outer[axis]
    network = _Lanes(row, buffer("keys", _NUMBER, _filled(row.loop[1]), lanes), names, name, names.fresh("lane"))
    groups = [(one, -(-size // lanes) if one == name else size) for one, size in row.outer]
    return around(groups, network.block(order, rows))


def _filled(size: int) -> int:
    """The next power of two."""
    return 1 << (size - 1).bit_length()


@dataclass(frozen=True, slots=True)
class _Lanes:
    """Rows in lanes: the loop of which each lane has one iteration, and the loop over lanes."""

    row: SortedRow
    keys: Buffer
    names: BlockNames
    rows: str
    lane: str

    def block(self, order: Buffer, rows: int) -> Body:
        """What happens to the rows of a group."""
        cell = self.keys, (Affine.of(self.row.loop[0]), Affine.of(self.lane))
        at = tuple(one.substitute({self.rows: self._mine}) for one in self.row.at)
        filling = self._filling() if self.row.loop[1] < self.keys.shape[0] or rows % self.lanes else ()
        return (
            *filling,
            *self._everywhere(Store(*cell, self._number()), rows),
            *self._merged(),
            *self._everywhere(Store(order, at, Cast(order.dtype, Read(*cell))), rows),
        )

    @property
    def lanes(self) -> int:
        return self.keys.shape[1]

    @property
    def _mine(self) -> Affine:
        """The row of a lane."""
        return Affine.of(self.rows) * self.lanes + Affine.of(self.lane)

    def _everywhere(self, stmt: Stmt, rows: int) -> Body:
        """A statement at all elements of the rows that there are: in the last group, not every lane may have one."""
        each = For(*self.row.loop, (self._over_lanes(stmt),))
        if rows % self.lanes == 0:
            return (each,)
        some = self._over_lanes(If((Inside(self._mine, rows),), (For(*self.row.loop, (stmt,)),)))
        last = Affine.of(self.rows) * self.lanes + (self.lanes - 1)
        return If((Inside(last, rows),), (each,)), If((Inside(last - rows, self.lanes),), (some,))

    def _over_lanes(self, *body: Stmt) -> For:
        return For(self.lane, self.lanes, body)

    def _number(self) -> Scalar:
        """What says where an element of a row comes to stand."""
        most = 1 << (_POSITION_BITS - 1)
        key = Cast(_NUMBER, substituted(self.row.key, {self.rows: self._mine}))
        ends = (_constant(most - 1), key) if self.row.descending else (key, _constant(most))
        shifted = Call("mul", (Call("sub", ends), _constant(1 << _POSITION_BITS)))
        return Call("add", (shifted, Affine.of(self.row.loop[0])))

    def _filling(self) -> Body:
        """What is more than any element, for where a lane has no row, or rows have no element.

        It fills all places, so that it is plain that what is read has been written.
        """
        loop, most = self.names.fresh("place"), _constant((1 << (8 * _NUMBER_BYTES - 1)) - 1)
        stored = Store(self.keys, (Affine.of(loop), Affine.of(self.lane)), most)
        return around([(loop, self.keys.shape[0])], (self._over_lanes(stored),))

    def _merged(self) -> Body:
        """The network, so many steps at a time."""
        block, each = (self.names.fresh(name) for name in ("block", "each"))
        return tuple(
            stmt
            for one in _rounds(self.keys.shape[0], block, each)
            for stmt in around(
                [(block, -(-self.row.loop[1] // one.block)), *([(each, one.count)] if one.count > 1 else [])],
                (self._over_lanes(*self._compared(one)),),
            )
        )

    def _compared(self, one: _Round) -> Body:
        """Elements read, through some comparators, and stored."""
        cells = [(place, Affine.of(self.lane)) for place in one.places]
        now, done = [Local(self.names.fresh("number"), _NUMBER) for _ in cells], list[Stmt]()
        done += [Let(local, Read(self.keys, cell)) for local, cell in zip(now, cells, strict=True)]
        for first, second in one.comparators:
            both = (now[first], now[second])
            for at, op in ((first, "min"), (second, "max")):
                now[at] = Local(self.names.fresh(op), _NUMBER)
                done.append(Let(now[at], Call(op, both)))
        return (*done, *(Store(self.keys, cell, local) for cell, local in zip(cells, now, strict=True)))


def _constant(value: int) -> Scalar:
    return Cast(_NUMBER, Num(value))


@dataclass(frozen=True, slots=True)
class _Round:
    """Comparators between elements at some places: the same in each of `count` places of blocks of so many elements."""

    block: int
    count: int
    places: tuple[Affine, ...]
    comparators: tuple[tuple[int, int], ...]


def _rounds(size: int, block: str, each: str) -> Iterator[_Round]:
    """What puts so many elements, a power of two, in order."""
    deep = size.bit_length() - 1
    first = min(_STEPS, deep)
    yield _Round(1 << first, 1, _places(block, each, 1 << first, first), tuple(_small(1 << first)))
    for merged in range(first + 1, deep + 1):
        left, parts = merged, -(-merged // _STEPS)
        for part in range(parts):
            steps = merged // parts + (part < merged % parts)
            yield _merging(block, each, 1 << left, steps, mirrored=part == 0)
            left -= steps


def _merging(block: str, each: str, size: int, steps: int, mirrored: bool) -> _Round:
    """Some steps of a merge in blocks: the first of all is between an element and its mirror image in the block."""
    apart, count = size >> steps, 1 << steps
    places, half = _places(block, each, size, steps), count // 2
    if not mirrored:
        return _Round(size, apart, places, tuple(_halving(count, half)))
    start, here = Affine.of(block) * size, Affine.of(each) if apart > 1 else Affine()
    images = [start - here + (size - 1 - at * apart) for at in reversed(range(half))]
    pairs = [(at, count - 1 - at) for at in range(half)]
    return _Round(size, apart, (*places[:half], *images), (*pairs, *_halving(count, half // 2)))


def _places(block: str, each: str, size: int, steps: int) -> tuple[Affine, ...]:
    """Elements of a block, as far apart as so many steps compare them."""
    apart = size >> steps
    start = Affine.of(block) * size + (Affine.of(each) if apart > 1 else Affine())
    return tuple(start + at * apart for at in range(1 << steps))


def _halving(count: int, distance: int) -> Iterator[tuple[int, int]]:
    """Comparators between elements of two halves, of their halves, and so on."""
    while distance:
        yield from ((at, at + distance) for at in range(count) if not at & distance)
        distance //= 2


def _small(count: int) -> Iterator[tuple[int, int]]:
    """Comparators that put a few elements in order: odd and even ones merged."""
    merged = 1
    while merged < count:
        distance = merged
        while distance:
            for first in range(distance % merged, count - distance, 2 * distance):
                for at in range(first, min(first + distance, count - distance)):
                    if at // (2 * merged) == (at + distance) // (2 * merged):
                        yield at, at + distance
            distance //= 2
        merged *= 2
