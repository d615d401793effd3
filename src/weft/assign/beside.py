"""Memory beside a buffer while it is written, and the loops that fill and copy it: what every lowering needs."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from weft.loops import Buffer, Fill, Place, Read, Stmt, Store
from weft.loops.nests import Loop, around
from weft.ops import OPS
from weft.ops.dtypes import accumulator, numpy_type


def scratch(target: Buffer, name: Literal["before", "sum"]) -> Buffer:
    """Memory beside a buffer: its old values while it is written, or a sum in a wider type while it grows."""
    number = 1 + 2 * target.id + (name == "sum")
    dtype = accumulator(target.dtype) if name == "sum" else target.dtype
    return Buffer(-number, f"{target.name}.{name}", target.shape, dtype)


def started(cells: Buffer, op: str) -> Fill:
    """Every cell at what an operation begins with."""
    begins = OPS[op].begins
    assert begins is not None
    number = begins(numpy_type(cells.dtype))
    return Fill(cells, number if isinstance(number, bool | int) else float(number))  # type: ignore[arg-type]


def copied(copy: Buffer, source: Buffer, taken: Collection[str]) -> Stmt:
    """Every cell of a buffer into another; no loop is called like one of `taken`."""
    at, loops = every_cell(source, taken)
    return around(loops, (Store(copy, at, Read(source, at)),))[0]


def every_cell(buffer: Buffer, taken: Collection[str]) -> tuple[tuple[Place, ...], list[Loop]]:
    """The subscripts of every cell of a buffer, and the loops that run through them."""
    loops = [(untaken(f"i{axis}", taken), size) for axis, size in enumerate(buffer.shape)]
    at = tuple(Place(((1, loop),)) if size > 1 else Place(()) for loop, size in loops)
    return at, [(loop, size) for loop, size in loops if size > 1]


def untaken(name: str, taken: Collection[str]) -> str:
    """A name for a loop that is not one of `taken`."""
    while name in taken:
        name += "_"
    return name
