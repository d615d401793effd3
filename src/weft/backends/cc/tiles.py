"""Micro-kernels of contractions in C: functions that accumulate a tile in registers.

A micro-kernel is written for whole tiles and for those at the edges, with fused multiply-adds. The last vector of the
columns overlaps the one before it, so that it ends with them: nothing outside of a buffer is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from weft.backends.c_family.types import c_type
from weft.backends.cc.interleaved_words import PLACE, Words
from weft.backends.cc.lines import CLoop, Lines, Part, in_parts, indented, nested, unrolled
from weft.backends.cc.semirings import VectorOps
from weft.loops import Read, Tile, walk
from weft.loops.interleaving import register_type
from weft.loops.legality import points
from weft.loops.nests import stride_of
from weft.loops.semiring import SUM_OF_PRODUCTS
from weft.loops.staged import Parts
from weft.loops.walk import Loop, free
from weft.ops import Scalar
from weft.ops.dtypes import is_float

if TYPE_CHECKING:
    from weft.backends.cc.emit import KernelWriter

#: How many vectors are reduced across lanes at once, and the type of their sums.
_AT_ONCE = {"float32": (4, "weft_four"), "float64": (2, "weft_two")}

#: Types and names of parameters.
Parameters = list[tuple[str, str]]


class Side(NamedTuple):
    """A factor and its loops, of which the last is tiled."""

    factor: Scalar
    loops: tuple[Loop, ...]

    @property
    def loop(self) -> Loop | None:
        return self.loops[-1] if self.loops else None

    @property
    def size(self) -> int:
        return self.loops[-1][1] if self.loops else 1


class TileSize(NamedTuple):
    """How many rows and columns a tile has, and vectors of columns: as numbers, or what they are called in C."""

    rows: int | str
    columns: int | str
    vectors: int | str


#: A tile of any size.
ANY = TileSize("rows", "columns", "vectors")


@dataclass(frozen=True, slots=True)
class Tiles:
    """The functions of a product's tiles, and their names."""

    name: str
    parts: Parts
    tile: Tile
    writer: KernelWriter
    words: Words | None = None

    @property
    def rows(self) -> Side:
        return Side(self.parts.factors[0], self.parts.left)

    @property
    def columns(self) -> Side:
        return Side(self.parts.factors[1], self.parts.right)

    @property
    def scalar(self) -> str:
        return c_type(self.parts.total.dtype)

    @property
    def ops(self) -> VectorOps:
        return VectorOps(self.parts.ops, self.register, self.tile.lanes, self.tile.looks > 0)

    @property
    def register(self) -> str:
        """The type in which registers add up."""
        return register_type(self.parts, self.tile)

    @property
    def packed(self) -> str:
        """The C type of what is packed."""
        return "weft_packed" if self.words else self.scalar

    @property
    def headed(self) -> bool:
        """Has a panel a head, from which sums start?"""
        return self.words is not None and self.words.moved

    @property
    def vector(self) -> str:
        return self.ops.vector

    @property
    def accumulator(self) -> str:
        """The C type in which its sums accumulate."""
        return "double" if self.widens else c_type(self.register)

    @property
    def widens(self) -> bool:
        """Do its sums accumulate in double precision, one part after another?"""
        return len(self.tile.parts) > 1

    # Functions

    def functions(self) -> Lines:
        """The functions of tiles."""
        return [*self.sizes(), *self.of_tiles()]

    @property
    def wide(self) -> int:
        """How many columns a whole tile has."""
        return self.tile.vectors * (1 if self.tile.dot else self.tile.lanes)

    @property
    def heights(self) -> list[str]:
        """The numbers of rows that its tiles have, by name: that of a whole tile first, if there is one."""
        return _met(self.rows.size, self.tile.rows, "rows", "last_rows")

    @property
    def widths(self) -> list[str]:
        """The same of columns."""
        return _met(self.columns.size, self.wide, "wide", "last_columns")

    @property
    def _named(self) -> dict[str, int]:
        """The numbers of rows and columns that tiles may have, by name."""
        rows, columns = self.rows.size, self.columns.size
        return {
            "wide": self.wide,
            "rows": self.tile.rows,
            "last_rows": _last(rows, self.tile.rows),
            "last_columns": _last(columns, self.wide),
        }

    def sizes(self) -> Lines:
        rows, columns, sums = self.rows.size, self.columns.size, points(self.parts.sums)
        numbers = {"lanes": self.tile.lanes, **self._named}
        return [
            f"/* A product of {rows} rows, {columns} columns and {sums} {'words' if self.words else 'sums'}. */",
            f"enum {{ {', '.join(f'{self.name}_{name} = {number}' for name, number in numbers.items())} }};",
        ]

    def _tile(self, extent: TileSize) -> Lines:
        """Rows broadcast, times vectors of columns."""
        wide, vectors, factor = f"{self.name}_wide", extent.vectors, self.words.vector if self.words else self.vector
        start, kept = "panel" if self.tile.panel else f"&{self._value(self.columns)}", self.ops.function("kept")

        def loaded(v: str) -> Lines:
            vector = f"*(const {factor} *)({start} + {self._offset(v, extent)})"
            return [f"right[{v}] = {f'{kept}({vector})' if self._fused else vector};"]

        def done(r: str, v: str) -> Lines:
            stored = f"{self._stored} + {r} * {wide} + {self._offset(v, extent)}"
            return [f"*({self.vector} *)({stored}) = {self._found}[{r}][{v}];"]

        step = [
            *unrolled("v", vectors, loaded),
            *([f"panel += {wide};"] if self.tile.panel else []),
            *([f"weft_fetch({self._passed()}, {self.tile.ahead}, 1);"] if self.tile.ahead else []),
            *unrolled("r", extent.rows, lambda r: self._row_step(r, vectors)),
            *([f"strip += {self.name}_rows;"] if self.tile.strips else []),
        ]
        return [
            f"enum {{ lanes = {self.name}_lanes }};",
            *(["const int vectors = (columns + lanes - 1) / lanes;"] if extent is ANY else []),
            f"{factor} right[{self.tile.vectors}];",
            *self._added_up(
                extent,
                (vectors, self.tile.vectors),
                [(self._counted(self.parts.sums), step)],
                unrolled("r", extent.rows, lambda r: unrolled("v", vectors, lambda v: done(r, v))),
            ),
        ]

    def _passed(self) -> str:
        """How far a tile is in the memory of its rows: where they lie along the last sum, as if it took one by one."""
        side, (last, _) = self.rows, self.parts.sums[-1]
        assert isinstance(side.factor, Read)
        if stride_of(side.factor, last) != 1:
            return f"&{self._value(side)}"
        first = self._read(side, {last: "0", **({side.loop[0]: self._from(side.loop[0])} if side.loop else {})})
        return f"&{first} + {self.name}_rows * {self.writer.variable(last)}"

    def _offset(self, v: str, extent: TileSize) -> str:
        """Where a vector of columns begins: the last one ends with them."""
        if self.tile.panel:
            return f"{v} * lanes"
        return f"({v} + 1 < {extent.vectors} ? {v} * lanes : {extent.columns} - lanes)"

    def _row_step(self, r: str, vectors: int | str) -> Lines:
        value = f"strip[{r}]" if self.tile.strips else self._value(self.rows, r)
        if self.words:
            return self.words.row_step(r, value, vectors)
        in_memory = bool(self.tile.strips) or isinstance(self.rows.factor, Read)
        return self.ops.row_step(r, value, in_memory, vectors, self._fused)

    @property
    def _fused(self) -> bool:
        """Do several rows take in products of floats?"""
        floats = self.ops.ops == SUM_OF_PRODUCTS and is_float(self.ops.dtype)
        return floats and self.tile.rows > 1 and self.words is None

    def _dot(self, extent: TileSize) -> Lines:
        """Vectors along the innermost sum, for every cell of the tile; what fills no vector comes last."""
        (last, size), outer = self.parts.sums[-1], self._counted(self.parts.sums[:-1])
        word, steps = self.writer.variable(last), CLoop("step", "0", f"{size} / lanes")
        step = [f"const int64_t {word} = step * lanes;", *self._dot_step(extent, "")]
        nests = [([*outer, (steps, size // _AT_ONCE[self.parts.total.dtype][0])], step)]
        if size % 16:
            rest = [f"const int64_t {word} = {size} - lanes;", *self._dot_step(extent, f"{size} % lanes")]
            nests.append(([(CLoop("once", "0", f"({size} % lanes > 0)"), 1), *outer], rest))
        across = unrolled("r", extent.rows, lambda r: self._across(r, extent.columns))
        return [
            f"enum {{ lanes = {self.name}_lanes }};",
            f"{self.vector} left[{self.name}_rows];",
            *self._added_up(extent, (extent.columns, self.wide), nests, across),
        ]

    # Parts

    @property
    def _found(self) -> str:
        """Where a tile finds its sums."""
        return "total" if self.tile.parts else "sum"

    @property
    def _stored(self) -> str:
        """Where a tile stores them."""
        return "part" if self.widens else "sums"

    def _added_up(
        self,
        extent: TileSize,
        across: tuple[int | str, int],
        nests: Sequence[tuple[Sequence[tuple[CLoop, int]], Lines]],
        done: Lines,
    ) -> Lines:
        """Registers that add up a part, whose sum goes into the total of a larger one; `done` takes that away.

        There are so many `across` for each row, or at most.
        """

        def each(lines: Callable[[str, str], Lines]) -> Lines:
            return unrolled("r", extent.rows, lambda r: unrolled("n", across[0], lambda n: lines(r, n)))

        names = dict.fromkeys(("sum", self._found))
        zero = {name: each(partial(self._begun, name)) for name in names}
        begin = [f"{self.vector} {name}[{self.name}_rows][{across[1]}];" for name in names]
        added = each(lambda r, n: [f"total[{r}][{n}] += sum[{r}][{n}];"])
        parts = [Part(zero["sum"], added, most) for most in self.tile.parts[:1]]
        if self.widens:
            cells = f"{extent.rows} * {self.name}_wide"
            accumulate = f"weft_accumulate_{self.parts.total.dtype}(sums, part, {cells}, more);"
            parts.append(Part(zero["total"], [*done, accumulate, "more = true;"], self.tile.parts[1]))
            begin.append(f"bool more = {'sums_from > 0' if self.tile.block else 'false'};")
            done = []
        else:
            begin += zero[self._found]
        if self.headed:
            begin.append(f"panel += {self.name}_wide;")
        return [*begin, *(line for loops, step in nests for line in in_parts(loops, step, parts)), *done]

    def _begun(self, name: str, r: str, n: str) -> Lines:
        """A register at its start: where sums go on from one block to the next, it has what the last one left."""
        one = f"{name}[{r}][{n}]"
        start = f"*(const {self.vector} *)(panel + {n} * lanes)" if self.headed else self.ops.neutral
        lines = [f"{one} = {start};"]
        if self.tile.block and not self.widens:
            left = f"*(const {self.vector} *)(sums + {r} * {self.name}_wide + {n} * lanes)"
            lines.append(f"if (sums_from > 0) {one} {'+=' if self.headed else '='} {left};")
        return lines

    def _counted(self, sums: Sequence[Loop]) -> list[tuple[CLoop, int]]:
        return [(one, size) for one, (_, size) in zip(self._loops_over(sums), sums, strict=True)]

    def _across(self, r: str, columns: int | str) -> Lines:
        """The vectors of a row reduced across lanes, some at once and the rest one by one."""
        assert isinstance(columns, int), "of sums on vectors, no tile looks first"
        count, few = _AT_ONCE[self.parts.total.dtype]
        several, single = (self.ops.function(f"across{many}") for many in (count, ""))
        found = [f"{self._found}[{r}][{c}]" for c in range(columns)]
        whole, stored = columns // count * count, f"{self._stored} + {r} * {self.name}_wide"
        return [
            *(
                f"*({few} *)({stored} + {c}) = {several}({', '.join(found[c : c + count])});"
                for c in range(0, whole, count)
            ),
            *(f"*({stored} + {c}) = {single}({found[c]});" for c in range(whole, columns)),
        ]

    def _dot_step(self, extent: TileSize, last: str) -> Lines:
        """One vector of sums; of the last one only so many lanes count."""

        def loaded(side: Side, step: str) -> str:
            text = f"*(const {self.vector} *)&{self._value(side, step)}"
            return f"{self.ops.function('last')}({text}, {last})" if last else text

        def column(c: str) -> Lines:
            def taken(r: str) -> Lines:
                return [f"sum[{r}][{c}] += left[{r}] * right;"]

            return [f"const {self.vector} right = {loaded(self.columns, c)};", *unrolled("r", extent.rows, taken)]

        return [
            *unrolled("r", extent.rows, lambda r: [f"left[{r}] = {loaded(self.rows, r)};"]),
            *unrolled("c", extent.columns, column),
        ]

    def of_tiles(self) -> Lines:
        """The functions of whole tiles and of those at the edges; and of any, where not all terms are numbers."""
        lines = Lines()
        for kind, *sizes in self._met():
            rows, columns = (self._named[one] for one in sizes)
            extent = TileSize(rows, columns, -(-columns // self.tile.lanes))
            # written out, what functions of the prelude choose between was seen to leave its registers
            lines += self._function(kind, TileSize(*map(str, extent)) if self.ops.asks else extent)
        return [*lines, *(self._function("exact", ANY) if self.ops.asks else []), *self._any()]

    def _function(self, kind: str, extent: TileSize) -> Lines:
        given = [*([("int", "rows"), ("int", "columns")] if extent is ANY else []), *self.given()]
        head = f"static WEFT_FUSED void {self.name}_{kind}({', '.join(f'{of} {name}' for of, name in given)})"
        exact = [f"const bool exact = {'true' if extent is ANY else 'false'};"] if self.ops.asks else []
        body = self._dot(extent) if self.tile.dot else self._tile(extent)
        return [head, "{", *indented(["WEFT_CONTRACT", *exact, *body]), "}"]

    def _any(self) -> Lines:
        """The function that calls the one for a tile of its size."""
        name, given = self.name, ", ".join(f"{kind} {name}" for kind, name in self.given())
        names = ", ".join(name for _, name in self.given())
        asks, exact = self.ops.asks, f"    if (looked != looked) {{ {name}_exact(rows, columns, {names}); return; }}"
        *others, (last, _, _) = self._met()
        return [
            f"static inline void {name}_any({f'{self.scalar} looked, ' * asks}int64_t rows, int64_t columns, {given})",
            "{",
            *([exact] if asks else []),
            *(f"    if ({self._is(*sizes)}) {{ {name}_{kind}({names}); return; }}" for kind, *sizes in others),
            f"    {name}_{last}({names});",
            "}",
        ]

    def _met(self) -> list[tuple[str, str, str]]:
        """The kinds of tiles there are: what is never called costs the compiler as much as what is."""
        return [one for one in _KINDS if one[1] in self.heights and one[2] in self.widths]

    def _is(self, rows: str, columns: str) -> str:
        """Does a tile have so many rows and columns? Only what it may have besides is compared, in C."""
        sides = (("rows", rows, self.heights), ("columns", columns, self.widths))
        return " && ".join(f"{side} == {self.name}_{size}" for side, size, all_of in sides if len(all_of) > 1)

    # Names and parameters

    def _depth(self) -> str:
        """How many sums are packed, in C."""
        inner = points(self.parts.sums[1:])
        return f"((sums_to - sums_from) * {inner})" if self.tile.block else str(points(self.parts.sums))

    def given(self) -> Parameters:
        """The parameters of the function of a tile."""
        rows, columns = self.rows.factor, self.columns.factor
        factors = [*([] if self.tile.strips else [rows]), *([] if self.tile.panel else [columns])]
        found = [*self._memory(factors), *self._loops(factors)]
        if self.tile.strips:
            found.append((f"const {self.packed} *", "strip"))
        if self.tile.panel:
            found.append((f"const {self.packed} *", "panel"))
        part = f"{c_type(self.register)} *restrict"
        stored = dict.fromkeys([(part, self._stored), (f"{self.accumulator} *restrict", "sums")])
        return [*found, *self._range(), *stored]

    def _range(self) -> Parameters:
        """Which iterations of the outermost sum are meant, where not all are."""
        return [("int64_t", "sums_from"), ("int64_t", "sums_to")] if self.tile.block else []

    def _memory(self, factors: Sequence[Scalar]) -> Parameters:
        buffers = dict.fromkeys(one.buffer for each in factors for one in walk(each) if isinstance(one, Read))
        return [(f"const {c_type(one.dtype)} *", self.writer.buffers[one]) for one in buffers]

    def _loops(self, factors: Sequence[Scalar]) -> Parameters:
        """The loops around, and static indices, that factors mention."""
        inner = {PLACE, *(name for name, _ in self.parts.sums)}
        names = dict.fromkeys(name for one in factors for name in free(one) if name not in inner)
        return [("int64_t", self._from(name)) for name in names]

    def _from(self, name: str) -> str:
        """The C variable of a loop outside: of a tiled one it is where a tile starts."""
        tiled = [side.loop[0] for side in (self.rows, self.columns) if side.loop]
        return f"{self.writer.variable(name)}from" if name in tiled else self.writer.variable(name)

    def _value(self, side: Side, step: str = "") -> str:
        """A factor where a tile starts, or some steps further along its tiled loop."""
        names = {}
        if side.loop:
            start = self._from(side.loop[0])
            names = {side.loop[0]: f"({start} + {step})" if step else start}
        return self._read(side, names)

    def _read(self, side: Side, names: Mapping[str, str]) -> str:
        """A factor, or a word of it, where loops are called otherwise."""
        writer = self.writer.calling(names)
        return self.words.text(side.factor, writer) if self.words else writer.value(side.factor)

    def _summing(self, body: Lines, sums: Sequence[tuple[str, int]] | None = None) -> Lines:
        """The loops over sums around a block."""
        return nested(self._loops_over(self.parts.sums if sums is None else sums), body)

    def _loops_over(self, sums: Sequence[Loop]) -> list[CLoop]:
        """Loops over sums, the innermost unrolled if that was decided."""
        ends = [
            ("sums_from", "sums_to") if self.tile.block and not at else ("0", str(size))
            for at, (_, size) in enumerate(sums)
        ]
        return [
            CLoop(self.writer.variable(name), *end, self.tile.unroll and 0 < at == len(sums) - 1)
            for at, ((name, _), end) in enumerate(zip(sums, ends, strict=True))
        ]


def _last(size: int, each: int) -> int:
    """How long the last of the pieces is that a loop is cut into."""
    return size - (size - 1) // each * each


def _met(size: int, each: int, whole: str, last: str) -> list[str]:
    """The lengths of these pieces, by name."""
    return [whole] * (size >= each) + [last] * (size % each > 0)


#: Tiles by what they are called, and how many rows and columns they have.
_KINDS = (
    ("whole", "rows", "wide"),
    ("short", "last_rows", "wide"),
    ("narrow", "rows", "last_columns"),
    ("corner", "last_rows", "last_columns"),
)
