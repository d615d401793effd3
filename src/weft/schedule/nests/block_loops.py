"""Blocks of loops: a nest that stores along one loop what it reads along another uses whole cache lines of both.

    for i in range(2048): for j in range(4096): y[i, j] = x[j, i]

    becomes, where the first cache holds 32 KiB,

    for i_block in range(32): for j_block in range(64):
        for j in range(64): for i in range(64): x_block[j, i] = x[64 j_block + j, 64 i_block + i]
        for i in range(64): for j in range(64): y[64 i_block + i, 64 j_block + j] = x_block[j, i]

A block has several lines along the loop that stores, so that memory is written in larger pieces, and is as long along
the one that reads as half of the first cache allows, but no less than square. Of lines that are a power of two apart a
cache holds few: the copy has rows of an odd number of lines. What is left of a loop by its blocks is a shorter one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import gcd, prod

from weft.affine import Affine, are_affine
from weft.loops import Buffer, For, Let, Read, Role, Staged, Stmt, Store, Update
from weft.loops.names import BlockNames
from weft.loops.nests import stride_of
from weft.loops.walk import Body, Loop, accesses, around, map_scalars, perfect, rewritten, substituted, top_down
from weft.machine import Machine
from weft.ops import Scalar
from weft.ops.dtypes import numpy_type
from weft.schedule.compile_options import DEFAULTS, CompileOptions
from weft.schedule.nests.bands import Band


def blocked(body: Sequence[Stmt], options: CompileOptions = DEFAULTS) -> Body:
    """A block with those of its perfect nests in blocks that read across what they store."""
    names, machine = BlockNames(body), options.machine

    def rule(stmt: Stmt) -> Body | None:
        if not isinstance(stmt, For):
            return (stmt,) if isinstance(stmt, Staged) else None
        found = _across(Band(*perfect((stmt,))), options)
        return None if found is None else tuple(_in_blocks(found, names, machine))

    return top_down(body, rule)


@dataclass(frozen=True, slots=True)
class _Across:
    """A nest whose points may run in any order, which loops it stores and reads along, and what it reads so."""

    band: Band
    stored: Loop
    read: Loop
    cells: tuple[Read, ...]
    #: So many numbers that are stored fill the lines of a block.
    wide: int


def _across(band: Band, options: CompileOptions) -> _Across | None:
    """What a nest reads across; None if that is nothing or little, or if its points must run in order."""
    machine = options.machine
    if len(band.loops) < 2 or not all(isinstance(one, Let | Store | Update) for one in band.block):
        return None
    touched = [(Read(one.buffer, one.at), one.writes) for one in accesses(band.block) if one.at is not None]
    written = [cell for cell, writes in touched if writes]
    stored = _side_by_side(written, band.loops)
    if stored is None:
        return None
    buffers = {one.buffer for one in written}
    cells = [one for one, _ in touched if one.buffer not in buffers and _is_far(one, stored[0], machine)]
    read = _side_by_side(cells, band.loops)
    if read is None:
        return None
    cells = [one for one in dict.fromkeys(cells) if stride_of(one, read[0]) == 1]
    line = machine.line_bytes // _itemsize(next(one for one in written if stride_of(one, stored[0]) == 1))
    reused = [*((one, read) for one in cells), *((one, stored) for one in written)]
    if not any(_is_evicted(one, along, band.loops, machine) for one, along in reused):
        return None
    if not all(map(band.is_independent, band.loops)):
        return None
    return _Across(band, stored, read, tuple(cells), _wide(line, cells, options))


def _wide(line: int, cells: Sequence[Read], options: CompileOptions) -> int:
    """How many numbers a block stores side by side: some lines of them, one if half of the first cache does not hold as
    many rows of what is read."""
    most, itemsize = options.machine.caches[0] // 2, sum(map(_itemsize, cells))
    lines = range(options.thresholds.block_lines, 1, -1)
    return line * next((many for many in lines if (many * line) ** 2 * itemsize <= most), 1)


def _side_by_side(cells: Sequence[Read], loops: Sequence[Loop]) -> Loop | None:
    """The loop along which most of some cells lie side by side, the innermost of several."""
    count = Counter(loop for loop in loops for cell in cells if stride_of(cell, loop[0]) == 1)
    return max(reversed(loops), key=count.__getitem__) if count else None


def _is_far(cell: Read, loop: str, machine: Machine) -> bool:
    """Does every iteration of a loop read another cache line?"""
    plain = are_affine(cell.at)
    return plain and abs(stride_of(cell, loop) or 0) * _itemsize(cell) >= machine.line_bytes


def _is_evicted(cell: Read, along: Loop, loops: Sequence[Loop], machine: Machine) -> bool:
    """Does the first cache lose the line of a cell before the next iteration of a loop comes to it?"""
    inside = loops[loops.index(along) + 1 :]
    steps = {loop: abs(stride_of(cell, loop[0]) or 0) * _itemsize(cell) for loop in inside}
    lines = prod(loop[1] for loop, step in steps.items() if step)
    apart = min((max(gcd(step, machine.way_bytes), machine.line_bytes) for step in steps.values() if step), default=0)
    return lines * apart > machine.caches[0]


def _itemsize(cell: Read) -> int:
    return numpy_type(cell.buffer.dtype).itemsize


@dataclass(frozen=True, slots=True)
class _Strips:
    """Strips of a loop, one after another: how many there are, of which size, and where the first begins."""

    loop: str
    outer: str
    count: int
    size: int
    first: int = 0

    @property
    def over(self) -> list[Loop]:
        """The loop over strips, where there are several."""
        return [(self.outer, self.count)] if self.count > 1 else []

    @property
    def index(self) -> Affine:
        """The index of the loop as it was."""
        return Affine((*((self.size, name) for name, _ in self.over), (1, self.loop)), self.first)


def _strips(loop: Loop, each: int, outer: str) -> list[_Strips]:
    """A loop in strips of so many iterations, and one of those that are left."""
    name, size = loop
    found = [_Strips(name, outer, size // each, each), _Strips(name, outer, 1, size % each, size - size % each)]
    return [one for one in found if one.size and one.count]


def _even(size: int, most: int) -> int:
    """How many iterations a strip has, at most: as many in all strips, unless these would be short."""
    few = -(-size // most)
    return next((size // count for count in range(few, 2 * few) if size % count == 0), most)


def _in_blocks(found: _Across, names: BlockNames, machine: Machine) -> Iterator[Stmt]:
    """The nest in blocks."""
    most = machine.caches[0] // 2 // (found.wide * sum(map(_itemsize, found.cells)))
    long = _even(found.read[1], max(most, found.wide))
    copies = {cell: _copy(cell, (found.wide, long), names, machine) for cell in found.cells}
    outer = [names.fresh(f"{name}_block") for name, _ in (found.read, found.stored)]
    for read, stored in product(_strips(found.read, long, outer[0]), _strips(found.stored, found.wide, outer[1])):
        yield from _blocks(found, read, stored, copies)


def _copy(cell: Read, shape: tuple[int, int], names: BlockNames, machine: Machine) -> Buffer:
    """Memory for what a block reads."""
    rows, size = shape
    lines = -(-size * _itemsize(cell) // machine.line_bytes) | 1
    buffer = cell.buffer.beside(Role.PACKED, shape=(rows, lines * machine.line_bytes // _itemsize(cell)))
    return replace(buffer, name=names.fresh(f"{cell.buffer.name}_block"))


def _blocks(found: _Across, read: _Strips, stored: _Strips, copies: Mapping[Read, Buffer]) -> Body:
    """All blocks of some strips: each copies what it reads, and runs on that."""
    strips = {one.loop: one for one in (read, stored)}
    indices = {name: one.index for name, one in strips.items()}
    at = (Affine.of(stored.loop), Affine.of(read.loop))

    def change(one: Scalar) -> Scalar | None:
        if isinstance(one, Read) and one in copies:
            return Read(copies[one], at)
        return one.substitute(indices) if isinstance(one, Affine) else None

    filled = tuple(Store(copy, at, substituted(cell, indices)) for cell, copy in copies.items())
    points = tuple(map_scalars(stmt, lambda scalar: rewritten(scalar, change)) for stmt in found.band.block)
    inner = [(read.loop, read.size), (stored.loop, stored.size)]
    outer = [one for loop in found.band.loops for one in (strips[loop[0]].over if loop[0] in strips else [loop])]
    return around(outer, (*around(inner[::-1], filled), *around(inner, points)))
