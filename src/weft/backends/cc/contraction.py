"""Contractions in C (GEMM-like): register tiles, with the epilogue applied to each tile while it is in the first cache.

Rows and columns are cut into tiles, whose micro-kernels (`tiles.py`) accumulate the sums; columns may be packed into a
panel before. Panel and sums lie in scratch memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from weft.backends.cc.joint_tiles import Beside, TilesBeside
from weft.backends.cc.lines import Lines, indented, loop, simd, steps
from weft.loops import Let
from weft.loops.joint_sums import joint_sums
from weft.loops.legality import points, sums_of
from weft.loops.staged import Parts


@dataclass(frozen=True, slots=True)
class Placed(TilesBeside):
    """A contraction in tiles: its micro-kernels, and the code that calls them in a kernel.

    Where threads share it, each does some panels, or tiles of rows, or iterations of the outermost loop around these:
    those from `first` to before `end`.
    """

    @property
    def pieces(self) -> str:
        """How many of them there are, in C."""
        side, step = (self.rows, "rows") if self.tile.shared == "rows" else (self.columns, "wide")
        outer, step = side.loops[:-1], f"{self.name}_{step}"
        return str(outer[0][1]) if outer else f"({side.size} + {step} - 1) / {step}"

    def lines(self) -> Lines:
        """The product itself, as a block."""
        sizes = ", ".join(f"{word} = {self.name}_{size}" for word, size in _SIZES)
        lines = [f"enum {{ {sizes} }};", *self._scratch(), *self._claimed(), *self._look_at_once(), *self._columns()]
        return ["{", *indented(lines), "}"]

    def _scratch(self) -> Lines:
        """The pointers to panel, part and sums; before the first cell of a tile there is space for a vector."""
        at, lines = "__builtin_assume_aligned(scratch, 64)", []
        if self.tile.panel:
            lines.append(f"{self.packed} *const panel = {at};")
            at = f"(panel + {self._panel() + self.headed} * wide{self._at_once})"
        for panel, depth in self.panel_sizes().items():
            lines.append(f"{self.scalar} *const {panel} = {at};")
            at = f"({panel} + {depth} * wide)"
        if self.tile.strips:
            lines.append(f"{self.packed} *const strips = ({self.packed} *){at};")
            at = f"(strips + {self._panel()} * tall * {self.tile.group})"
        if self.widens:
            lines.append(f"{self.scalar} *const part = ({self.scalar} *){at} + lanes;")
            at = "(part + tall * wide)"
        if self._turns:
            lines.append(f"{self.accumulator} *const turned = ({self.accumulator} *){at};")
            at = f"(turned + {self._turned} * wide)"
        if self._looks_at_once:
            lines.append(f"{self.scalar} *const looked_all = ({self.scalar} *){at};")
            at = f"(looked_all + {self._looked_groups('tall', 'lanes')})"
        for one in self.beside:
            if self._turns:
                lines.append(f"{self.accumulator} *const turned_{one.at} = ({self.accumulator} *){at};")
                at = f"(turned_{one.at} + {self._turned} * wide)"
            lines.append(f"{self.accumulator} *const room_{one.at} = ({self.accumulator} *){at} + lanes;")
            at = f"(room_{one.at} + {self.tile.group} * tall * wide)"
        return [
            *lines,
            f"{self.accumulator} *const {'room' if self.tile.block else 'sums'} = ({self.accumulator} *){at} + lanes;",
        ]

    @property
    def room(self) -> str:
        """The size of that scratch memory in bytes, in C."""
        tile = f"{self.name}_rows * {self.name}_wide"
        panel = ""
        if self.tile.panel:
            cells = f"{self._panel() + self.headed} * {self.name}_wide{self._at_once}"
            panel = f"sizeof({self.packed}) * {cells} + "
        if self.tile.strips:
            panel += f"sizeof({self.packed}) * {self._panel()} * {self.name}_rows * {self.tile.group} + "
        part = f"sizeof({self.scalar}) * ({tile} + {self.name}_lanes) + " if self.widens else ""
        many = f"{self.tile.group * self.tile.panels}"
        if not self.tile.group:
            many = f"{points(self.rows.loops[:-1])} * (({self.rows.size} + {self.name}_rows - 1) / {self.name}_rows)"
        tiles = f"{tile} * {many}" if self.tile.block else tile
        if self._turns:  # one that is turned is so with the rows that fill its last block
            tiles += f" + ({self._turned} + {self._turned - self.tile.rows}) * {self.name}_wide"
        for depth in self.panel_sizes().values():
            panel += f"sizeof({self.scalar}) * {depth} * {self.name}_wide + "
        if self._looks_at_once:
            panel += f"sizeof({self.scalar}) * {self._looked_groups(f'{self.name}_rows', f'{self.name}_lanes')} + "
        for _ in self.beside:
            tiles += f" + {self.name}_lanes + {tile} * {self.tile.group}"
            if self._turns:
                tiles += f" + ({self._turned} + {self._turned - self.tile.rows}) * {self.name}_wide"
        return f"{panel}{part}sizeof({self.accumulator}) * ({tiles} + {self.name}_lanes)"

    @property
    def _turns(self) -> bool:
        """Is a tile transposed for its epilogue, which then reads sums of several rows side by side?"""
        rows = self.tile.along == "rows" and self.tile.rows > 1
        return rows and not self.tile.dot and self.accumulator in TRANSPOSED

    @property
    def _turned(self) -> int:
        """How many rows such a tile has, in whole blocks."""
        _, block = TRANSPOSED[self.accumulator]
        return -(-self.tile.rows // block) * block

    def _turn(self) -> Lines:
        """The sums of a tile transposed, whole blocks of them."""
        if not self._turns:
            return []
        dtype, block = TRANSPOSED[self.accumulator]
        depth, rows = f"(columns + {block - 1}) / {block} * {block}", self._turned
        which = ["", *(f"_{one.at}" for one in self.beside)]
        of = f"weft_transpose_blocks_{dtype}"
        return [f"{of}(sums{one}, wide, {depth}, {rows}, turned{one}, {rows});" for one in which]

    @property
    def _at_once(self) -> str:
        """How many panels are packed at once, in C, as a factor."""
        return f" * {self.tile.at_once}" if self.tile.at_once > 1 else ""

    def _panel(self) -> int:
        """How many sums a panel has, all columns of each."""
        return self.tile.block * points(self.parts.sums[1:]) or points(self.parts.sums)

    def _claimed(self) -> Lines:
        """The panels or the tiles of rows that are done here, where threads share these."""
        side, step = (self.rows, "tall") if self.tile.shared == "rows" else (self.columns, "wide")
        if not self.tile.shared or len(side.loops) > 1:
            return []
        end = f"end * {step} < {side.size} ? end * {step} : {side.size}"
        return [f"const int64_t claimed_from = first * {step}, claimed_to = {end};"]

    def _bounds(self, side: str) -> tuple[str, str]:
        """From where to where the last loop of a side runs."""
        own = self.rows if side == "rows" else self.columns
        shared = self.tile.shared == side and len(own.loops) <= 1
        return ("claimed_from", "claimed_to") if shared else ("0", str(own.size))

    def _around(self, side: str, body: Lines) -> Lines:
        """The other loops of a side around a block."""
        outer = (self.rows if side == "rows" else self.columns).loops[:-1]
        for depth, (name, size) in reversed(list(enumerate(outer))):
            start, end = ("first", "end") if self.tile.shared == side and not depth else ("0", str(size))
            body = loop(self.writer.variable(name), start, end, body)
        return body

    def _columns(self) -> Lines:
        """The loops over columns, panel by panel, around those over rows; where panels share rows, inside them."""
        assert self.columns.loop is not None
        at, (start, end) = self._from(self.columns.loop[0]), self._bounds("columns")
        if beside := self.beside:
            packs = [line for one in beside if one.packs for line in self._call_pack_beside(one)]
            tiles = self._packed(start, end, [*packs, *self._around("rows", self._rows_of_all())])
        elif self.tile.group:
            step = f"wide * {self.tile.panels}" if self.tile.panels > 1 else "wide"
            tiles = steps(f"{at}_begin", start, end, step, self._around("rows", self._groups(f"{at}_begin", step)))
        elif self.tile.block:
            tiles = steps(at, start, end, "wide", self._blocks(at))
        else:
            tiles = self._packed(start, end, self._around("rows", self._rows()))
        return self._around("columns", tiles)

    def _packed(self, start: str, end: str, tiles: Lines) -> Lines:
        """The loop over panels around what is done with each; some are packed at once, before the first of them."""
        at, first, last = self._column_from, self._panel_from, f"{self._column_from}_packed_to"
        if self.tile.at_once == 1:
            return steps(at, start, end, "wide", [*self._panel_of(at), *self._call_pack(), *self._look(), *tiles])
        each = steps(at, first, last, "wide", [*self._panel_of(at), *self._look(), *tiles])
        step = f"wide * {self.tile.at_once}"
        to = f"const int64_t {last} = {end} - {first} < {step} ? {end} : {first} + {step};"
        return steps(first, start, end, step, [to, *self._call_pack(first, f"{last} - {first}"), *each])

    def _blocks(self, column: str) -> Lines:
        """The loop over blocks of sums; of each, over all rows, tile by tile."""
        size, block, row = self.parts.sums[0][1], self.tile.block, self._row_from
        outer, each = "0", f"(({self.rows.size} + tall - 1) / tall * tall)"
        for name, count in self.rows.loops[:-1]:
            outer = f"({outer} * {count} + {self.writer.variable(name)})"
        tiles = [
            *self._tile_of(row),
            *self._look_through_tile(row),
            f"{self.accumulator} *const sums = room + ({outer} * {each} + {row}) * wide;",
            *self._call_tile(),
            f"if (sums_to < {size}) continue;",
            *self._rest(),
        ]
        to = f"const int64_t sums_to = {size} - sums_from < {block} ? {size} : sums_from + {block};"
        rows = self._around("rows", steps(row, *self._bounds("rows"), "tall", tiles))
        body = steps("sums_from", "0", str(size), str(block), [to, *self._call_pack(), *self._look(), *rows])
        return [*self._panel_of(column), *body]

    def _panel_of(self, at: str) -> Lines:
        return [self._length("columns", self.columns.size, at, "wide", self.widths)]

    def _length(self, side: str, size: int, at: str, most: str, met: Sequence[str]) -> str:
        """How many rows or columns a tile has: known to the compiler where all have as many."""
        length = f"{self.name}_{met[0]}" if len(met) == 1 else f"{size} - {at} > {most} ? {most} : {size} - {at}"
        return f"const int64_t {side} = {length};"

    def _rows(self) -> Lines:
        """The loop over rows, tile by tile."""
        at, (start, end) = self._row_from, self._bounds("rows")
        body = [*self._tile_of(at), *self._call_tile(), *self._rest()]
        if not self.ops.asks:
            return steps(at, start, end, "tall", body)
        many = f"(tall * {self.tile.looks})"
        if self._looks_at_once:
            return steps(
                at,
                start,
                end,
                "tall",
                [f"const {self.scalar} looked_rows = looked_all[({at} - {start}) / {many}];", *body],
            )
        look = self._look_through(at, "", f"{end} - {at} < {many} ? {end} - {at} : {many}")
        body = [f"if (({at} - {start}) % {many} == 0) {look}", *body]
        return [f"{self.scalar} looked_rows = 0;", *steps(at, start, end, "tall", body)]

    @property
    def _looks_at_once(self) -> bool:
        """Are all rows looked through before the first panel, and not for each?"""
        return self.ops.asks and not self.tile.block and not self.tile.group and len(self.rows.loops) <= 1

    def _looked_groups(self, tall: str, lanes: str) -> str:
        """How many numbers say of groups of tiles what is in them, and a vector to spare."""
        return f"(({self.rows.size} + {tall} * {self.tile.looks} - 1) / ({tall} * {self.tile.looks}) + {lanes})"

    def _look_at_once(self) -> Lines:
        """All rows looked through, some tiles at once."""
        if not self._looks_at_once:
            return []
        at, (start, end), many = self._row_from, self._bounds("rows"), f"(tall * {self.tile.looks})"
        look = self._look_through(at, "", f"{end} - {at} < {many} ? {end} - {at} : {many}")
        body = [f"const {self.scalar} {look}", f"looked_all[({at} - {start}) / {many}] = looked_rows;"]
        return steps(at, start, end, many, body)

    def _rows_of_all(self) -> Lines:
        """The loop over groups of rows; of each, over the sums beside the product's own, and tiles."""
        row, many, (start, stop) = self._row_from, f"tall * {self.tile.group}", self._bounds("rows")
        begin, end = f"{row}_begin", f"{row}_end"
        rooms = {one.at: self._room_of(one, f"{row} - {begin}") for one in self.beside}
        body = [f"const int64_t {end} = {stop} - {begin} < {many} ? {stop} : {begin} + {many};"]
        for one in self.beside:
            body += steps(row, begin, end, "tall", [*self._tile_of(row), rooms[one.at], one.call])
        last = [*self._tile_of(row), *self._call_tile(), *rooms.values(), *self._rest()]
        return steps(begin, start, stop, many, [*body, *steps(row, begin, end, "tall", last)])

    def _room_of(self, one: Beside, at: str) -> str:
        """Where a tile of a sum beside the product's own lies, so many rows after the first of a group."""
        return f"{self.accumulator} *const sums_{one.at} = room_{one.at} + ({at}) * wide;"

    def _call_pack_beside(self, one: Beside) -> Lines:
        """The columns of a tile packed for a sum beside the product's own."""
        names = one.tiles.packed_from()
        return [f"{one.pack}_pack({', '.join([*names, 'columns', one.panel])});"]

    @property
    def _column_from(self) -> str:
        assert self.columns.loop is not None
        return self._from(self.columns.loop[0])

    @property
    def _panel_from(self) -> str:
        """Where the first of the panels starts that are packed at once."""
        return f"{self._column_from}_packed" if self.tile.at_once > 1 else self._column_from

    @property
    def _row_from(self) -> str:
        return self._from(self.rows.loop[0]) if self.rows.loop else "row_from"

    def _tile_of(self, at: str) -> Lines:
        return [self._length("rows", self.rows.size, at, "tall", self.heights)]

    def _groups(self, first: str, step: str) -> Lines:
        """The loop over groups of rows; of each, over blocks of sums, panels, and tiles."""
        assert self.columns.loop is not None
        column, row, many = self._from(self.columns.loop[0]), self._row_from, f"tall * {self.tile.group}"
        begin, end, (start, stop) = f"{row}_begin", f"{row}_end", self._bounds("rows")
        _, columns = self._bounds("columns")
        tiles = [*self._tile_of(row), *self._call_tile(), *self._rest()]
        if self.tile.block:
            size, block = self.parts.sums[0][1], self.tile.block
            room = f"room + ({column} - {first}) * {many} + ({row} - {begin}) * wide"
            tiles[1:1] = [f"{self.accumulator} *const sums = {room};"]
            tiles.insert(-len(self._rest()), f"if (sums_to < {size}) continue;")
        tiles[1:1] = self._look_through_tile(row, f"strips + ({row} - {begin}) * {self._depth()}")
        last = f"({columns} - {first} < {step} ? {columns} : {first} + {step})"
        body = [*self._call_pack_rows(), *self._packed(first, last, steps(row, begin, end, "tall", tiles))]
        if self.tile.block:
            to = f"const int64_t sums_to = {size} - sums_from < {block} ? {size} : sums_from + {block};"
            body = steps("sums_from", "0", str(size), str(block), [to, *body])
        limit = f"const int64_t {end} = {stop} - {begin} < {many} ? {stop} : {begin} + {many};"
        return steps(begin, start, stop, many, [limit, *body])

    def _call_tile(self) -> Lines:
        at = f"strips + ({self._row_from} - {self._row_from}_begin) * {self._depth()}"
        given = {"strip": at, "panel": self._panel_at}
        names = [given.get(name, name) for _, name in self.given()]
        looked = f"{self.ops.together('looked_rows', 'looked')}, " if self.ops.asks else ""
        return [f"{self.name}_any({looked}rows, columns, {', '.join(names)});"]

    @property
    def _panel_at(self) -> str:
        """Where the panel of a tile begins."""
        at = f"panel + ({self._column_from} - {self._panel_from}) * {self._depth()}"
        return at if self.tile.at_once > 1 else "panel"

    def _look_through_tile(self, at: str, strip: str = "") -> Lines:
        return [f"const {self.scalar} {self._look_through(at, strip, 'rows')}"] if self.ops.asks else []

    def _look_through(self, at: str, strip: str, rows: str) -> str:
        """Rows looked through, so many from one on."""
        given = {self._row_from: at, "strip": strip, "rows": rows}
        names = [given.get(name, name) for _, name in self._looked_rows()]
        return f"looked_rows = {self.name}_look_through_rows({', '.join(names)});"

    def _call_pack_rows(self) -> Lines:
        if not self.tile.strips:
            return []
        row, factor, many = self._row_from, [self.rows.factor], f"tall * {self.tile.packed}"
        given = [name for _, name in (*self._memory(factor), *self._loops(factor))]
        given += [f"{row}_end - {row} < {many} ? {row}_end - {row} : {many}", self._depth()]
        given += [f"strips + ({row} - {row}_begin) * {self._depth()}", *(name for _, name in self._range())]
        head = f"for (int64_t {row} = {row}_begin; {row} < {row}_end; {row} += {many}) {{"
        return [head, f"    {self.name}_pack_rows({', '.join(given)});", "}"]

    def _call_pack(self, first: str = "", columns: str = "columns") -> Lines:
        """The columns of a tile packed, or so many from some column on."""
        if not self.tile.panel:
            return []
        given = {self._column_from: first or self._column_from}
        names = [given.get(name, name) for name in self.packed_from()]
        return [f"{self.name}_pack({', '.join([*names, columns, 'panel', *(name for _, name in self._range())])});"]

    def _look(self) -> Lines:
        """The columns of a tile looked through."""
        if not self.ops.asks:
            return []
        names = [self._panel_at if name == "panel" else name for _, name in self._looked_columns()]
        return [f"const {self.scalar} looked = {self.name}_look_through_columns({', '.join(names)});"]

    def _rest(self) -> Lines:
        """The epilogue of a tile: of a whole one, or of one at an edge. Where tiles have two sizes, both are known."""
        point = self._point()
        for step, side in (("c", self.columns), ("r", self.rows)):
            if side.loop:
                word = self.writer.variable(side.loop[0])
                point = [f"const int64_t {word} = {self._from(side.loop[0])} + {step};", *point]
        (first, *_), *others = self._met()
        if not others or first != "whole":
            return [*self._turn(), *self._at_points(point, "rows", "columns")]
        edge = [f"{self.name}_{size}" for size in others[0][1:]] if len(others) == 1 else ["rows", "columns"]
        known, ragged = self._at_points(point, "tall", "wide"), self._at_points(point, *edge)
        kind = self._is("rows", "wide")
        return [*self._turn(), f"if ({kind}) {{", *indented(known), "} else {", *indented(ragged), "}"]

    def _point(self) -> Lines:
        """What is done at a point of a tile: with its sum, and with those beside that."""
        lines, (found, rest) = self._total(self.parts, ""), joint_sums(self.parts)
        totals = {one.total: (one, f"_{at}") for at, one in enumerate(found, 1)}
        for stmt in rest:
            if isinstance(stmt, Let) and stmt.local in totals:
                lines += self._total(*totals[stmt.local])
            else:
                lines += self.writer.block([stmt], "")
        return lines

    def _total(self, parts: Parts, which: str) -> Lines:
        """A total at a point, of what it starts from and what a tile has."""
        start, total = parts.start, self.writer.variable(parts.total.name)
        cell = f"turned{which}[c * {self._turned} + r]" if self._turns else f"sums{which}[r * wide + c]"
        found = f"{'' if self.accumulator == self.scalar else f'({self.scalar})'}{cell}"
        return [f"{self.scalar} {total} = {self.ops.joined(start, self.writer.value(start), found)};"]

    def _at_points(self, point: Lines, rows: str, columns: str) -> Lines:
        """Something at each point of a tile of so many rows and columns."""
        inner, outer = ("c", columns), ("r", rows)
        if self.tile.along == "rows":
            inner, outer = outer, inner
        block = loop(inner[0], "0", inner[1], point)
        if self.tile.vector:
            sums = [one.name for one in sums_of(joint_sums(self.parts)[1]) if one != self.parts.total]
            block = [simd(list(map(self.writer.variable, sums))), *block]
        return loop(outer[0], "0", outer[1], block)


#: What tiles are transposed of, by its C type: its name, and how many rows and columns a block has.
TRANSPOSED = {"float": ("float32", 4), "double": ("float64", 2)}

#: The names of sizes inside a kernel.
_SIZES = (("lanes", "lanes"), ("wide", "wide"), ("tall", "rows"))
