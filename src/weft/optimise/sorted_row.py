"""A row of elements that are to be put in order, and where each of them stands among all numbers of its type."""

from __future__ import annotations

from dataclasses import dataclass

from weft.affine import Affine
from weft.loops.nodes import Cast, Read
from weft.loops.walk import Loop
from weft.ops import Call, Num, Scalar
from weft.ops.dtypes import carrier, is_float, limits, numpy_type


@dataclass(frozen=True, slots=True)
class SortedRow:
    """The elements whose ranks are wanted: a cell at each position of a loop, for each point of others around it."""

    cell: Read
    loop: Loop
    outer: tuple[Loop, ...]
    descending: bool

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(size for _, size in (*self.outer, self.loop))

    @property
    def at(self) -> tuple[Affine, ...]:
        return tuple(Affine.of(name) for name, _ in (*self.outer, self.loop))

    @property
    def key_bytes(self) -> int:
        """How many bytes say where an element stands, an even number."""
        own = numpy_type(self.cell.buffer.dtype).itemsize
        return max(own, 4) if is_float(self.cell.buffer.dtype) else max(own, 2)

    @property
    def key(self) -> Scalar:
        """Where an element stands; a narrow whole number among those of its width."""
        dtype = self.cell.buffer.dtype
        wide = "int64" if dtype == "bool" else carrier(dtype)
        number = self.cell if wide == dtype else Cast(wide, self.cell)
        low, _ = limits(dtype)
        if is_float(dtype) or self.key_bytes == numpy_type(wide).itemsize:
            return Call("order_place", (number,))
        return Cast("uint64", Call("sub", (number, Cast("int64", Num(int(low))))) if low < 0 else number)
