"""Whether columns and rows of tiles are better packed: where their lines lie, and which cache holds them until the next
tile that reads them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod

from weft.loops import Read, Tile, walk
from weft.loops.joint_sums import all_sums
from weft.loops.legality import points
from weft.loops.nests import stride_of
from weft.loops.product_legality import NARROWEST, WIDEST
from weft.loops.roundings import PARTS
from weft.loops.staged import Parts
from weft.loops.walk import Loop
from weft.machine import Machine
from weft.ops import Scalar
from weft.ops.dtypes import numpy_type
from weft.schedule.compile_options import CompileOptions

#: So many products a register adds up, and others of those sums: as many fit into a panel.
DEPTH = prod(PARTS)


def deepest(options: CompileOptions) -> int:
    """How many sums of the columns of a tile the second cache holds beside the rest."""
    return max(options.machine.caches[1] // 4 // row_bytes(options), DEPTH)


def row_bytes(options: CompileOptions) -> int:
    """The bytes of all columns of a tile."""
    return options.thresholds.tile_vectors * vector_bytes(options.machine)


def vector_bytes(machine: Machine) -> int:
    """The bytes of a machine's vectors, or of the next narrower ones that there are."""
    return max(NARROWEST, 1 << min(int(machine.vector_bytes), WIDEST).bit_length() - 1)


def stride(factor: Scalar, loop: Loop) -> int:
    """The stride of a factor's tensor along a loop."""
    found = next(one for one in walk(factor) if isinstance(one, Read))
    return stride_of(found, loop[0]) or 0  # rows that are gathered are anywhere


def repays(parts: Parts, options: CompileOptions) -> bool:
    """Are columns reused by many rows, the fewer the larger columns are; or those of one tile too large for a cache?"""
    itemsize, cache, rows = numpy_type(parts.total.dtype).itemsize, options.machine.caches[1], points(parts.left)
    far = points((*parts.sums, *parts.right)) * itemsize * rows >= options.pack_rows * cache
    deep = points(parts.sums) * row_bytes(options) > cache // 2
    if points(parts.sums[1:]) > deepest(options):
        return False
    many = rows >= options.thresholds.packed_tiles * options.thresholds.tile_rows
    return (many and (far or deep)) or _loses_lines(parts, options)


def _loses_lines(parts: Parts, options: CompileOptions) -> bool:
    """Does it take longer to load the columns of a tile again for each tile of rows, than to pack them?

    They are where the first cache does not hold their lines, or has no place for so many that are as far apart. To pack
    them is to read each line once, and to copy what is in it.
    """
    machine, itemsize, size = options.machine, numpy_type(parts.total.dtype).itemsize, points(parts.left[-1:])
    tall, lanes = most_rows(options, 0, size), vector_bytes(machine) // itemsize
    wide = widest(min(tall, size), parts.right, lanes, options) * lanes
    lines = -(-wide * itemsize // machine.line_bytes) + 1  # they begin anywhere
    if points(parts.sums) * lines * machine.line_bytes <= _places(
        parts, lines, machine.caches[0], machine.way_bytes, machine
    ):
        return False
    again = -(-points(parts.left) // tall) - 1
    each = machine.held_steps if is_near(parts, lines, machine) else machine.strided_steps
    return again * lines * each > lines * machine.line_steps + machine.copy_steps * wide


def is_near(parts: Parts, lines: int, machine: Machine) -> bool:
    """Does the second cache hold all columns, or the lines of a tile's beside the rest? Those that compete for the same
    few places of the first one come late all the same."""
    near, itemsize = machine.caches[1], numpy_type(parts.total.dtype).itemsize
    if _apart(parts, machine.way_bytes, machine) == machine.way_bytes:
        return False
    if points((*parts.sums, *parts.right)) * itemsize <= near:
        return True
    return (
        points(parts.sums) * lines * machine.line_bytes
        <= _places(parts, lines, near, near // machine.near_ways, machine) * 3 / 4
    )


def _places(parts: Parts, lines: int, cache: int, way: int, machine: Machine) -> float:
    """How many bytes a cache has place for, of so many lines at each sum of a tile's columns."""
    return cache * min(1.0, lines * machine.line_bytes / _apart(parts, way, machine))


def _apart(parts: Parts, way: int, machine: Machine) -> int:
    """How far apart columns of one sum and of another are at least, as far as that makes a difference to a cache."""
    steps = [abs(stride(parts.factors[1], one)) * numpy_type(parts.total.dtype).itemsize for one in parts.sums]
    return max(gcd(*steps, way), machine.line_bytes)


def panels_at_once(parts: Parts, tile: Tile, options: CompileOptions) -> int:
    """How many panels are packed together, if the lines of one do not stay near until the next: what the second cache
    holds, and so few that all cores have several."""
    thresholds, machine, wide = options.thresholds, options.machine, tile.vectors * tile.lanes
    size = wide * numpy_type(parts.total.dtype).itemsize
    if tile.panel != "copied" or tile.interleaved > 1 or is_near(parts, -(-size // machine.line_bytes) + 1, machine):
        return 1
    held = machine.caches[1] // (size * (tile.block * points(parts.sums[1:]) or points(parts.sums)))
    each = -(-parts.right[-1][1] // wide) * points(parts.right[:-1]) // (2 * machine.cores)
    return max(1, min(thresholds.panels_at_once, held, each))


def lines_ahead(parts: Parts, tile: Tile, options: CompileOptions) -> int:
    """How many lines ahead rows are prefetched: those that come from far, in one piece. By itself a processor is but a
    few lines ahead in a piece, and stops where a page ends, or a row does."""
    as_they_lie = not (tile.strips or tile.dot or tile.interleaved > 1)
    found = {_ahead(one, tile, options) for one in all_sums(parts)} if as_they_lie else {0}
    return found.pop() if len(found) == 1 else 0


def _ahead(parts: Parts, tile: Tile, options: CompileOptions) -> int:
    """The same of one sum: of rows of which a tile reads one piece, and which the second cache does not hold; or, of
    those that follow each other and that the last one does not hold beside the rest, as many lines as a tile has."""
    factor, machine = parts.factors[0], options.machine
    if not isinstance(factor, Read) or not parts.left or not parts.sums:
        return 0
    itemsize = numpy_type(factor.buffer.dtype).itemsize
    down, along = stride(factor, parts.left[-1]), stride(factor, parts.sums[-1])
    size = points((*parts.left, *parts.sums)) * itemsize
    if down == 1 < along and along * itemsize <= machine.line_bytes:
        return options.thresholds.rows_ahead if size > machine.caches[1] // 2 else 0
    follow = along == 1 and down == points(parts.sums) and len(parts.sums) == 1 and not tile.block
    return tile.rows * down * itemsize // machine.line_bytes if follow and 2 * size >= machine.caches[-1] else 0


def widest(rows: int, columns: Sequence[Loop], lanes: int, options: CompileOptions) -> int:
    """How many vectors a tile of so many rows has that loads its columns where they lie, as many as registers hold.

    They begin anywhere, so that each tile loads a line more than it has vectors. Of about as good numbers, by when the
    last core is done, it is the largest.
    """
    thresholds, machine, all_vectors = options.thresholds, options.machine, -(-columns[-1][1] // lanes)
    held = (machine.registers - 2) // (rows + (rows > 1))  # a single row multiplies them as they are loaded
    most = max(1, min(thresholds.row_vectors, held))
    least = min(thresholds.tile_vectors, most)

    def tiles(vectors: int) -> int:
        return points(columns[:-1]) * -(-all_vectors // vectors)

    # cores for which there are too few tiles half as wide share sums, if anything
    cores = machine.cores if tiles(max(most // 2, least)) >= machine.cores else 1

    def steps(vectors: int) -> float:
        return -(-tiles(vectors) // cores) * (rows * vectors + machine.line_steps * (vectors + 1))

    some = range(min(least, all_vectors), min(most, all_vectors) + 1)
    good = min(map(steps, some)) * (1 + thresholds.claiming_share)
    return max(one for one in some if steps(one) <= good)


def scattered_rows(parts: Parts, machine: Machine) -> bool:
    """Is every scalar of a row in a line of its own, more of them than the first cache holds beside the rest?

    Where lines that follow each other are near, and all rows of a tile are in one, they come in time.
    """
    step = min((abs(stride(parts.factors[0], one)) for one in parts.sums), default=0)
    near = step * numpy_type(parts.total.dtype).itemsize <= machine.near_bytes
    if near and parts.left and stride(parts.factors[0], parts.left[-1]) == 1:
        return False
    return step > 1 and points(parts.sums) * machine.line_bytes > machine.caches[0] // 4


def most_rows(options: CompileOptions, vectors: int, size: int) -> int:
    """How many rows of sums registers hold, beside a vector of each column, one of a row, and one to spare.

    Of so few rows that fewer tiles do, these are taller; not where the last one is then lower than the others, which is
    one more micro-kernel, and usual ones are all of one height.
    """
    thresholds, wide = options.thresholds, max(vectors, options.thresholds.tile_vectors)
    held = max(1, (options.machine.registers - wide - 2) // wide)
    usual, tall = min(thresholds.tile_rows, held), min(thresholds.tall_tile_rows, held)
    fewer = -(-size // tall) < min(-(-size // usual), thresholds.few_tiles + 1)
    return tall if fewer and not (size % even(size, tall) > 0 == size % even(size, usual)) else usual


def even(size: int, most: int) -> int:
    """How many a part of so many has: at most so many, and about the same in each."""
    return -(-size // -(-size // most))
