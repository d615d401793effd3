"""How a product is placed: which loops become rows and columns of register tiles, and along what vectors lie.

    tile    rows of one factor, each number spread out, times vectors of columns of the other
    dot     vectors along the sums, added up across at the end: where both factors lie that way and there are few cells

Columns that do not lie side by side in memory, or fill no vector, are copied into a panel first, which pays if there
are many rows. Which way is best is estimated in steps of a vector unit for each cell; the text of the code does not
depend on how wide vectors are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf, prod

from weft.loops import Description, Product, Read, Store, Update, walk
from weft.loops.annotations import Loop, Parts
from weft.loops.nests import stride as stride_of
from weft.ops import Scalar
from weft.ops.dtypes import numpy_type

#: The widest vector, in bytes.
_WIDEST = 64
#: What copying one number into a panel takes, in a row and turned around, and adding up a vector across; in steps.
_COPY, _TURN, _ACROSS, _STRIDED = 0.1, 0.4, 4.0, 1.0
#: How much longer a step takes whose vectors all come from memory, and may lie across two lines of it.
_ACROSS_LINES = 1.4
#: More rows than this, on more bytes than this, are worth a panel even if columns lie side by side.
_MANY_ROWS, _MANY_BYTES = 512, 1 << 20
#: A tile has no more vectors than this, whatever is asked for: what registers do not hold lies on the stack.
_MOST_VECTORS = 64
#: So many rows are the most that registers allow on any machine.
_ROWS = 8


@dataclass(frozen=True, slots=True)
class Tile:
    """The shape of tiles: at most so many rows (0: as many as registers allow), so many vectors, and sums at a time,
    which is what registers add up before it goes to double precision (`tiles.py`)."""

    rows: int = 0
    vectors: int = 2
    depth: int = 736


@dataclass(frozen=True, slots=True)
class Side:
    """A factor, the loop of it that is tiled, and its other loops."""

    factor: Scalar
    loop: Loop | None
    outer: tuple[Loop, ...]

    @property
    def size(self) -> int:
        return self.loop[1] if self.loop else 1

    @property
    def cells(self) -> int:
        return self.size * prod(size for _, size in self.outer)


@dataclass(frozen=True, slots=True)
class Plan:
    """A way to place a product. `sums` are its sums, the innermost last."""

    rows: Side
    columns: Side
    sums: tuple[Loop, ...]
    form: str
    tile: Tile
    packed: bool = False
    #: Do columns lie along the innermost sum, so that a panel is a block turned around?
    turned: bool = False

    @property
    def depth(self) -> int:
        return prod(size for _, size in self.sums)

    @property
    def blocked(self) -> bool:
        """Are there too many sums for one panel? One that is a little deeper is better than two."""
        return self.packed and self.depth > self.tile.depth * 7 // 5


def plan(parts: Parts, what: Description | None = None) -> Plan | None:
    """The best way to place a product; None if it is better left as loops. `what` may ask for a shape of tiles."""
    ways = [(one, _steps(one, parts)) for one in _ways(parts)]
    best, steps = min(ways, key=lambda way: way[1], default=(None, inf))
    if best is None or steps == inf:
        return None
    tile = _tile(best)
    if isinstance(what, Product):
        vectors = min(what.vectors or tile.vectors, _MOST_VECTORS)
        rows, most = what.rows or tile.rows, _MOST_VECTORS // vectors
        tile = replace(tile, rows=min(rows or _ROWS, most) if rows or most < _ROWS else 0, vectors=vectors)
    return replace(best, tile=tile)


def lanes(dtype: str) -> int:
    """How many numbers the widest vector has."""
    return _WIDEST // numpy_type(dtype).itemsize


def stride(factor: Scalar, loop: str) -> int:
    """How far a factor's tensor moves in memory when a loop goes on."""
    found = next(one for one in walk(factor) if isinstance(one, Read))
    return stride_of(found, loop) or 0  # factors that gather are not staged


def row_major(parts: Parts, loop: str) -> int:
    """How many of the cells written lie side by side along a loop, less those that do not."""
    cells = [one for one in parts.rest if isinstance(one, Store | Update)]
    return sum(1 if stride_of(Read(one.buffer, one.at), loop) == 1 else -1 for one in cells)


def _ways(parts: Parts) -> Iterator[Plan]:
    sides = [(parts.factors[0], parts.left), (parts.factors[1], parts.right)]
    for (mine, own), (other, others) in (sides, sides[::-1]):
        rows = _largest(other, others)
        for loop in own:
            columns = Side(mine, loop, tuple(one for one in own if one != loop))
            unit = isinstance(mine, Read) and stride(mine, loop[0]) == 1
            if unit and loop[1] >= lanes(parts.total.dtype):
                way = Plan(rows, columns, parts.sums, "tile", Tile())
                yield replace(way, packed=_repays(way, parts.total.dtype))
            else:
                inner = _unit_sum(mine, parts.sums)
                sums = _with_last(parts.sums, inner) if inner else parts.sums
                way = Plan(rows, columns, sums, "tile", Tile(), packed=True)
                yield replace(way, turned=inner is not None and isinstance(mine, Read))
    for loop in parts.sums:
        plain = all(isinstance(one, Read) and stride(one, loop[0]) == 1 for one in parts.factors)
        if plain and loop[1] >= lanes(parts.total.dtype):
            few, many = sorted((_largest(*side) for side in sides), key=lambda side: side.cells)
            if many.loop:
                yield Plan(few, many, _with_last(parts.sums, loop), "dot", Tile())


def _largest(factor: Scalar, loops: Sequence[Loop]) -> Side:
    loop = max(loops, key=lambda one: one[1], default=None)
    return Side(factor, loop, tuple(one for one in loops if one != loop))


def _unit_sum(factor: Scalar, sums: Sequence[Loop]) -> Loop | None:
    return next((loop for loop in sums if stride(factor, loop[0]) == 1), None)


def _with_last(sums: Sequence[Loop], last: Loop) -> tuple[Loop, ...]:
    return (*(one for one in sums if one != last), last)


def _repays(way: Plan, dtype: str) -> bool:
    """Do so many rows come back to columns that no cache holds them?"""
    size = way.depth * way.columns.cells * numpy_type(dtype).itemsize
    return way.rows.cells >= _MANY_ROWS and size > _MANY_BYTES and way.depth // way.sums[0][1] <= way.tile.depth


def _steps(way: Plan, parts: Parts) -> float:
    """What a cell takes, in steps of a vector unit; infinite where it cannot be done."""
    wide = lanes(parts.total.dtype)
    if way.form == "dot":
        outer, inner = way.depth // way.sums[-1][1], way.sums[-1][1]
        return _ACROSS_LINES * outer * -(-inner // wide) + _ACROSS + _strided(way, parts)
    columns = way.columns.size
    steps = way.depth * -(-columns // wide) / columns
    if way.packed:
        if way.depth // way.sums[0][1] > way.tile.depth:
            return inf
        steps += (_TURN if way.turned or stride(way.columns.factor, _name(way.columns)) != 1 else _COPY) * (
            way.depth / way.rows.cells
        )
    return steps + _strided(way, parts)


def _strided(way: Plan, parts: Parts) -> float:
    return 0.0 if row_major(parts, _name(way.columns)) >= 0 else _STRIDED


def _name(side: Side) -> str:
    return side.loop[0] if side.loop else ""


def _tile(way: Plan) -> Tile:
    """The usual shape of tiles: with few rows, more vectors keep the processor as busy."""
    vectors = {1: 8, 2: 4, 3: 3, 4: 3}.get(way.rows.size, 2)
    return Tile(vectors=vectors, depth=way.tile.depth * 2 // max(vectors, 2))
