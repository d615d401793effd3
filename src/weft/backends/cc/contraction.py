"""Contractions in C (GEMM-like): register tiles, with the epilogue applied to each tile while it is in the first cache.

Rows and columns are cut into tiles, whose micro-kernels (`tiles.py`) accumulate the sums; columns may be packed into a
panel before. Panel and sums lie in scratch memory.
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.backends.cc.lines import Lines, indented, loop, simd, steps
from weft.backends.cc.tiles import Tiles
from weft.loops import Cast
from weft.loops.legality import MOST_ROWS, WIDEST, points, sums_of
from weft.ops import Num

#: So many tiles of rows share a panel before the next block of sums, where the sums do not fit into one panel: those of
#: the largest tiles of two vectors, in double precision, fill a quarter of the smallest second cache.
_TILES_AT_ONCE = (1 << 16) // (2 * WIDEST * 2 * MOST_ROWS)


@dataclass(frozen=True, slots=True)
class Placed(Tiles):
    """A contraction in tiles: its micro-kernels, and the code that calls them in a kernel.

    Threads share panels, or iterations of the outermost loop around them: each does those from `first` to `end`.
    """

    @property
    def pieces(self) -> str:
        """How many parts it has, in C."""
        outer, wide = self.columns.loops[:-1], f"{self.name}_wide"
        return str(outer[0][1]) if outer else f"({self.columns.size} + {wide} - 1) / {wide}"

    def lines(self) -> Lines:
        """The product itself, as a block."""
        sizes = ", ".join(f"{word} = {self.name}_{size}" for word, size in _SIZES)
        return ["{", *indented([f"enum {{ {sizes} }};", *self._scratch(), *self._columns()]), "}"]

    def _scratch(self) -> Lines:
        """The pointers to panel, part and sums; before the first cell of a tile there is space for a vector."""
        at, lines = "__builtin_assume_aligned(scratch, 64)", []
        if self.tile.panel:
            lines.append(f"{self.scalar} *const panel = {at};")
            at = f"(panel + {self._panel()} * wide)"
        if self.widens:
            lines.append(f"{self.scalar} *const part = ({self.scalar} *){at} + lanes;")
            at = "(part + tall * wide)"
        return [
            *lines,
            f"{self.accumulator} *const {'room' if self.tile.block else 'sums'} = ({self.accumulator} *){at} + lanes;",
        ]

    @property
    def room(self) -> str:
        """The size of that scratch memory in bytes, in C."""
        tile = f"{self.name}_rows * {self.name}_wide"
        panel = f"sizeof({self.scalar}) * {self._panel()} * {self.name}_wide + " if self.tile.panel else ""
        part = f"sizeof({self.scalar}) * ({tile} + {self.name}_lanes) + " if self.widens else ""
        tiles = f"{tile} * {_TILES_AT_ONCE}" if self.tile.block else tile
        return f"{panel}{part}sizeof({self.accumulator}) * ({tiles} + {self.name}_lanes)"

    def _panel(self) -> int:
        """How many sums a panel has, all columns of each."""
        return self.tile.block * points(self.parts.sums[1:]) or points(self.parts.sums)

    def _columns(self) -> Lines:
        """The loops over columns, panel by panel, around those over rows."""
        side, wide, pack = self.columns, "wide", self._call_pack()
        assert side.loop is not None
        rows = self._rows()
        for name, size in reversed(self.rows.loops[:-1]):
            rows = loop(self.writer.variable(name), "0", str(size), rows)
        at = self._from(side.loop[0])
        body = [
            f"const int64_t columns = {side.size} - {at} < {wide} ? {side.size} - {at} : {wide};",
            *([] if self.tile.block else pack),
            *rows,
        ]
        outer, divided = side.loops[:-1], self.tile.threads > 1
        body = steps(at, side.size, wide, body, "first" if divided and not outer else "", "end")
        for depth, (name, size) in reversed(list(enumerate(outer))):
            start, end = ("first", "end") if divided and not depth else ("0", str(size))
            body = loop(self.writer.variable(name), start, end, body)
        return body

    def _rows(self) -> Lines:
        """The loop over rows, tile by tile."""
        side, tall = self.rows, "tall"
        at = self._from(side.loop[0]) if side.loop else "row_from"
        body = [f"const int64_t rows = {side.size} - {at} < {tall} ? {side.size} - {at} : {tall};"]
        if not self.tile.block:
            return steps(at, side.size, tall, [*body, *self._call_tile(), *self._rest()])
        end, size = f"{at}_end", self.parts.sums[0][1]
        body += [
            f"{self.accumulator} *const sums = room + ({at} - {at}_begin) * wide;",
            *self._call_tile(),
            f"if (sums_to < {size}) continue;",
            *self._rest(),
        ]
        many, block = f"{tall} * {_TILES_AT_ONCE}", self.tile.block
        inner = [
            f"const int64_t sums_to = {size} - sums_from < {block} ? {size} : sums_from + {block};",
            *self._call_pack(),
            f"for (int64_t {at} = {at}_begin; {at} < {end}; {at} += {tall}) {{",
            *indented(body),
            "}",
        ]
        outer = [
            f"const int64_t {end} = {side.size} - {at}_begin < {many} ? {side.size} : {at}_begin + {many};",
            *steps("sums_from", size, str(block), inner),
        ]
        return steps(f"{at}_begin", side.size, many, outer)

    def _call_tile(self) -> Lines:
        return [f"{self.name}_any(rows, columns, {', '.join(name for _, name in self._given())});"]

    def _call_pack(self) -> Lines:
        if not self.tile.panel:
            return []
        factor = [self.columns.factor]
        names = [name for _, name in (*self._memory(factor), *self._loops(factor))]
        names += ["columns", "panel", *(name for _, name in self._range())]
        return [f"{self.name}_pack({', '.join(names)});"]

    def _rest(self) -> Lines:
        """The epilogue, at each point of a tile."""
        start, total = self.parts.start, self.writer.variable(self.parts.total.name)
        found = f"{'' if self.accumulator == self.scalar else f'({self.scalar})'}sums[r * wide + c]"
        is_zero = isinstance(start, Cast) and isinstance(start.value, Num) and start.value.value == 0
        first = found if is_zero else f"{self.writer.value(start)} + {found}"
        block = [f"{self.scalar} {total} = {first};", *self.writer.block(self.parts.rest, "")]
        inner, outer = ("c", "columns", self.columns), ("r", "rows", self.rows)
        if self.tile.along == "rows":
            inner, outer = outer, inner
        for step, _, side in (inner, outer):
            if side.loop:
                word = self.writer.variable(side.loop[0])
                block = [f"const int64_t {word} = {self._from(side.loop[0])} + {step};", *block]
        block = loop(inner[0], "0", inner[1], block)
        if self.tile.vector:
            sums = [one.name for one in sums_of(self.parts.rest) if one != self.parts.total]
            block = [simd(list(map(self.writer.variable, sums))), *block]
        return loop(outer[0], "0", outer[1], block)


#: The names of sizes inside a kernel.
_SIZES = (("lanes", "lanes"), ("wide", "wide"), ("tall", "rows"))
