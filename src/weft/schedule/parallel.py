"""Loops whose points may run in any order, or at the same time."""

from __future__ import annotations

from collections.abc import Sequence

from weft.affine import Affine
from weft.loops import Fill, For, Let, Read, Set, Store, Update
from weft.loops.walk import everything, parts, walk


def independent(loop: For) -> bool:
    """Does no point of a loop touch a cell that another one writes?

    Told from subscripts: in some axis of every buffer that is written, all accesses stand at the same place, which
    moves with the loop and with nothing else.
    """
    inside = everything(loop.body)
    written = {one.buffer for one in inside if isinstance(one, Store | Update)}
    if any(isinstance(one, Fill) for one in inside):
        return False
    cells: dict[object, list[tuple[object, ...]]] = {buffer: [] for buffer in written}
    for one in inside:
        if isinstance(one, Store | Update):
            cells[one.buffer].append(tuple(one.at))
        for scalar in parts(one):
            for read in walk(scalar):
                if isinstance(read, Read) and read.buffer in cells:
                    cells[read.buffer].append(tuple(read.at))
    outer = {one.local for one in inside if isinstance(one, Set)} - {
        one.local for one in inside if isinstance(one, Let)
    }
    return not outer and all(_apart(places, loop.loop) for places in cells.values())


def _apart(cells: Sequence[tuple[object, ...]], loop: str) -> bool:
    columns = [set(column) for column in zip(*cells, strict=True)]
    alone = [next(iter(column)) for column in columns if len(column) == 1]
    return any(isinstance(one, Affine) and [name for _, name in one.terms] == [loop] for one in alone)
