"""Products in C: register tiles over vectors, with what follows done to each tile while it is in the first cache.

Rows and columns are cut into tiles, whose functions (tiles.py) add up the sums; columns are perhaps copied into a panel
before. Panel and sums lie in scratch memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from weft.affine import Affine
from weft.backends.cc.lines import Lines, indented, loop, steps
from weft.backends.cc.tile_choice import plan, row_major
from weft.backends.cc.tiles import Tiles, Writer
from weft.loops import Cast, Local, Set, Staged, Store, Update
from weft.loops.annotations import parts_of
from weft.loops.effects import effects
from weft.loops.nests import free
from weft.ops import Call, Num

#: So many tiles of rows are begun before the next sums, where those do not fit into one panel.
_TILES_AT_ONCE = 32


@dataclass(frozen=True, slots=True)
class Placed(Tiles):
    """A staged product, its functions, and its place in a kernel."""

    #: Is only a part of it done at a time: panels, or turns of a loop around them, from `first` to `end`?
    divided: bool = False

    @staticmethod
    def of(staged: Staged, name: str, writer: Writer, divided: bool = False) -> Placed | None:
        """The product placed; None if it is better left as loops."""
        parts = parts_of(staged)
        found = plan(parts, staged.what)
        return Placed(name, parts, found, writer, divided) if found else None

    @property
    def pieces(self) -> str:
        """How many parts it has, in C."""
        side, wide = self.plan.columns, f"{self.name}_wide"
        return str(side.outer[0][1]) if side.outer else f"({side.size} + {wide} - 1) / {wide}"

    def lines(self) -> Lines:
        """The product itself, as a block."""
        grown = self._grown()
        body = self._columns()
        sizes = ", ".join(f"{word} = {self.name}_{size}" for word, size in _SIZES)
        lines = [f"enum {{ {sizes} }};", *self._scratch()]
        words = [self.writer.variable(one.name) for one in grown]
        return [
            "{",
            *(f"    double {word}sum = {word};" for word in words),
            *indented([*lines, *body]),
            *(f"    {word} = {word}sum;" for word in words),
            "}",
        ]

    def _scratch(self) -> Lines:
        """Where panel, part and sums lie; before the first cell of a tile there is room for a vector."""
        at, lines = "__builtin_assume_aligned(scratch, 64)", []
        if self.plan.packed:
            lines.append(f"{self.number} *const panel = {at};")
            at = f"(panel + {self._panel()} * wide)"
        if self.grows:
            lines.append(f"{self.number} *const part = ({self.number} *){at} + lanes;")
            at = "(part + tall * wide)"
        return [*lines, f"{self.held} *const {'room' if self.plan.blocked else 'sums'} = ({self.held} *){at} + lanes;"]

    @property
    def room(self) -> str:
        """The bytes of memory that they take, in C."""
        tile = f"{self.name}_rows * {self.name}_wide"
        panel = f"sizeof({self.number}) * {self._panel()} * {self.name}_wide + " if self.plan.packed else ""
        part = f"sizeof({self.number}) * ({tile} + {self.name}_lanes) + " if self.grows else ""
        tiles = f"{tile} * {_TILES_AT_ONCE}" if self.plan.blocked else tile
        return f"{panel}{part}sizeof({self.held}) * ({tiles} + {self.name}_lanes)"

    def _panel(self) -> int:
        """How many sums a panel has, all columns of each."""
        return self._block() * (self.plan.depth // self.plan.sums[0][1]) if self.plan.blocked else self.plan.depth

    def _block(self) -> int:
        """How many turns of the outermost sum are done at once: about the same each time."""
        size = self.plan.sums[0][1]
        most = max(1, self.plan.tile.depth // (self.plan.depth // size))
        return -(-size // -(-size // most))

    def _columns(self) -> Lines:
        """The loops over columns, panel by panel, around those over rows."""
        side, wide, pack = self.plan.columns, "wide", self._call_pack()
        assert side.loop is not None
        rows = self._rows()
        for name, size in reversed(self.plan.rows.outer):
            rows = loop(self.writer.variable(name), "0", str(size), rows)
        at = self._from(side.loop[0])
        body = [
            f"const int64_t columns = {side.size} - {at} < {wide} ? {side.size} - {at} : {wide};",
            *([] if self.plan.blocked else pack),
            *rows,
        ]
        alone = self.divided and not side.outer
        body = steps(at, side.size, wide, body, "first" if alone else "", "end")
        for number, (name, size) in reversed(list(enumerate(side.outer))):
            start, end = ("first", "end") if self.divided and not number else ("0", str(size))
            body = loop(self.writer.variable(name), start, end, body)
        return body

    def _rows(self) -> Lines:
        """The loop over rows, tile by tile."""
        side, tall = self.plan.rows, "tall"
        at = self._from(side.loop[0]) if side.loop else "row_from"
        body = [f"const int64_t rows = {side.size} - {at} < {tall} ? {side.size} - {at} : {tall};"]
        if not self.plan.blocked:
            return steps(at, side.size, tall, [*body, *self._call_tile(), *self._rest()])
        end, size = f"{at}_end", self.plan.sums[0][1]
        body += [
            f"{self.held} *const sums = room + ({at} - {at}_begin) * wide;",
            *self._call_tile(),
            f"if (sums_to < {size}) continue;",
            *self._rest(),
        ]
        many, block = f"{tall} * {_TILES_AT_ONCE}", self._block()
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
        if not self.plan.packed:
            return []
        factor = [self.plan.columns.factor]
        names = [name for _, name in (*self._memory(factor), *self._loops(factor))]
        names += ["columns", "panel", *(name for _, name in self._range())]
        return [f"{self.name}_pack({', '.join(names)});"]

    def _rest(self) -> Lines:
        """What follows at each point of a tile."""
        rows, columns = self.plan.rows, self.plan.columns
        assert columns.loop is not None
        along_rows = rows.loop is not None and row_major(self.parts, rows.loop[0]) > row_major(
            self.parts, columns.loop[0]
        )
        start, total = self.parts.start, self.writer.variable(self.parts.total.name)
        found = f"{'' if self.held == self.number else f'({self.number})'}sums[r * wide + c]"
        is_zero = isinstance(start, Cast) and isinstance(start.value, Num) and start.value.value == 0
        first = found if is_zero else f"{self.writer.value(start)} + {found}"
        grown = self._grown()
        block = [f"{self.number} {total} = {first};", *self.writer.adding(grown).block(self.parts.rest, "")]
        loops = [("r", "rows", rows), ("c", "columns", columns)]
        for step, _, side in loops if along_rows else reversed(loops):
            if side.loop:
                word = self.writer.variable(side.loop[0])
                block = [f"const int64_t {word} = {self._from(side.loop[0])} + {step};", *block]
        inner, outer = (loops[0], loops[1]) if along_rows else (loops[1], loops[0])
        block = loop(inner[0], "0", inner[1], block)
        if inner[2].loop and self._side_by_side(inner[2].loop[0], grown):
            sums = ", ".join(f"{self.writer.variable(one.name)}sum" for one in grown)
            block = [f"#pragma omp simd{f' reduction(+ : {sums})' if sums else ''}", *block]
        return loop(outer[0], "0", outer[1], block)

    def _grown(self) -> list[Local]:
        """The numbers declared outside that are added to at every point."""
        own = effects(self.parts.rest).lets
        sets = [one for one in self.parts.rest if isinstance(one, Set) and one.local not in own]
        added = [one.local for one in sets if isinstance(one.value, Call) and one.value.op == "add"]
        return [one for one in added if one.dtype in ("float32", "float64")]

    def _side_by_side(self, loop: str, grown: Sequence[Local]) -> bool:
        """May turns of a loop run side by side: does each write cells of its own, and no numbers but its own?"""
        own = {*effects(self.parts.rest).lets, *grown}
        cells = [one.at for one in self.parts.rest if isinstance(one, Store | Update)]
        alone = all(any(isinstance(place, Affine) and [loop] == [*free(place)] for place in at) for at in cells)
        return alone and own >= effects(self.parts.rest).sets


#: What sizes are called inside a kernel.
_SIZES = (("lanes", "lanes"), ("wide", "wide"), ("tall", "rows"))
