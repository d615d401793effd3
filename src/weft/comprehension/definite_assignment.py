"""Which cells of a tensor are defined? Those that are read, gone on from, or given out must be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import islpy as isl

from weft.comprehension.mistakes import Mistake
from weft.comprehension.nodes import Comprehension, Expr, Ident, Int
from weft.comprehension.piecewise import Range, box, first_point
from weft.comprehension.show import show_sign


@dataclass(slots=True)
class Undefined:
    """The tensors of which some cells are not defined yet: their shapes and those cells.

    `first` is the statement that began each, and what to say if it is to blame because it begins late.
    """

    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    cells: dict[str, isl.Set] = field(default_factory=dict)
    first: dict[str, tuple[Ident, Mistake | None]] = field(default_factory=dict)

    def begin(self, tensor: str, shape: tuple[int, ...]) -> None:
        """A tensor of which nothing is defined yet."""
        if all(shape):
            self.shapes[tensor] = shape
            self.cells[tensor] = box([Range(0, size) for size in shape])

    def write(self, statement: Comprehension, cells: Sequence[Range], late: Mistake | None) -> Iterator[Mistake]:
        """Take note of the cells that a statement defines; one that goes on from what they hold needs them defined."""
        tensor = statement.target.name
        if tensor not in self.cells:
            return
        written = box(cells)
        missing = self.cells[tensor].intersect(written)
        if statement.reduction and not statement.resets and tensor in self.first and not missing.is_empty():
            what = f"`{show_sign(statement)}` goes on from what `{_cell(tensor, missing)}` holds"
            yield Mistake(f"{what}, and nothing has defined it", statement.target.span, "define it before")
        self.first.setdefault(tensor, (statement.target, late))
        self.cells[tensor] = self.cells[tensor].subtract(written)
        if self.cells[tensor].is_empty():
            del self.cells[tensor]

    def read(self, tensor: str, subscripts: Sequence[Expr] = ()) -> Iterator[Mistake]:
        """What is wrong with reading a tensor now: all of it, or as far as numbers say where."""
        if tensor not in self.cells:
            return
        extents = [Range(0, size) for size in self.shapes[tensor]]
        for axis, one in enumerate(subscripts):
            if isinstance(one, Int):
                extents[axis] = Range(one.value, one.value + 1)
        missing = self.cells[tensor].intersect(box(extents))
        if not missing.is_empty():
            target, late = self.first[tensor]
            fix = "write every cell before it is read or given out"
            yield late or Mistake(f"nothing defines `{_cell(tensor, missing)}`", target.span, fix)


def _cell(tensor: str, cells: isl.Set) -> str:
    return f"{tensor}({', '.join(map(str, first_point(cells)))})"
