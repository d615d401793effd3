"""Micro-kernels of contractions in C: functions that accumulate a tile in registers, and pack columns into a panel.

A micro-kernel is compiled for whole tiles and for those at the edges, with fused multiply-adds. The last vector of the
columns overlaps the one before it, so that it ends with them: nothing outside of a buffer is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from weft.backends.c_family.types import c_type
from weft.backends.cc.lines import CLoop, Lines, Part, in_parts, indented, loop, nested, simd, unrolled
from weft.backends.cc.semirings import VectorOps
from weft.loops import Read, Tile, walk
from weft.loops.annotations import Parts
from weft.loops.legality import points
from weft.loops.nests import stride_of
from weft.loops.walk import Loop, free
from weft.ops import Scalar

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


@dataclass(frozen=True, slots=True)
class Tiles:
    """The functions of a product in tiles, and their names."""

    name: str
    parts: Parts
    tile: Tile
    writer: KernelWriter

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
        return VectorOps(self.parts.ops, self.parts.total.dtype, self.tile.lanes, self.tile.looks > 0)

    @property
    def vector(self) -> str:
        return self.ops.vector

    @property
    def accumulator(self) -> str:
        """The C type in which its sums accumulate."""
        return "double" if self.widens else self.scalar

    @property
    def widens(self) -> bool:
        """Do its sums accumulate in double precision, one part after another?"""
        return len(self.tile.parts) > 1

    # Functions

    def functions(self) -> Lines:
        """The functions of a tile and of a panel."""
        tiles = self._dot() if self.tile.dot else self._tile()
        packs = [*(self._pack() if self.tile.panel else []), *(self._pack_rows() if self.tile.strips else [])]
        return [*self._sizes(), *tiles, *self._kinds(), *self._any(), *packs]

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

    def _sizes(self) -> Lines:
        name, tile, rows, columns = self.name, self.tile, self.rows.size, self.columns.size
        return [
            f"/* A product of {rows} rows, {columns} columns and {points(self.parts.sums)} sums. */",
            "enum {",
            f"    {name}_lanes = {tile.lanes},",
            f"    {name}_wide = {self.wide},",
            f"    {name}_rows = {tile.rows},",
            f"    {name}_last_rows = {_last(rows, tile.rows)},",
            f"    {name}_last_columns = {_last(columns, self.wide)}",
            "};",
        ]

    def _tile(self) -> Lines:
        """Rows broadcast, times vectors of columns."""
        vectors, wide = self.tile.vectors, f"{self.name}_wide"
        offset = self._offset
        if self.tile.panel:
            right = f"(panel + {offset})"
        else:
            right = f"(&{self._value(self.columns)} + {offset})"
        step = [
            *unrolled("v", "vectors", [f"right[v] = *(const {self.vector} *){right};"]),
            *([f"panel += {wide};"] if self.tile.panel else []),
            *unrolled("r", "rows", self._row_step()),
            *([f"strip += {self.name}_rows;"] if self.tile.strips else []),
        ]
        done = f"*({self.vector} *)({self._stored} + r * {wide} + {offset}) = {self._found}[r][v];"
        return self._function(
            [
                f"enum {{ lanes = {self.name}_lanes }};",
                "const int vectors = (columns + lanes - 1) / lanes;",
                f"{self.vector} right[{vectors}];",
                *self._added_up(
                    ("vectors", str(vectors)),
                    [(self._counted(self.parts.sums), step)],
                    unrolled("r", "rows", unrolled("v", "vectors", [done])),
                ),
            ]
        )

    @property
    def _offset(self) -> str:
        """Where a vector of columns begins: the last one ends with them."""
        return "v * lanes" if self.tile.panel else "(v + 1 < vectors ? v * lanes : columns - lanes)"

    def _row_step(self) -> Lines:
        value = "strip[r]" if self.tile.strips else self._value(self.rows, "r")
        return self.ops.row_step(value, bool(self.tile.strips) or isinstance(self.rows.factor, Read))

    def _dot(self) -> Lines:
        """Vectors along the innermost sum, for every cell of the tile; what fills no vector comes last."""
        (last, size), outer = self.parts.sums[-1], self._counted(self.parts.sums[:-1])
        word, steps = self.writer.variable(last), CLoop("step", "0", f"{size} / lanes")
        step = [f"const int64_t {word} = step * lanes;", *self._dot_step("")]
        nests = [([*outer, (steps, size // _AT_ONCE[self.parts.total.dtype][0])], step)]
        if size % 16:
            rest = [f"const int64_t {word} = {size} - lanes;", *self._dot_step(f"{size} % lanes")]
            nests.append(([(CLoop("once", "0", f"({size} % lanes > 0)"), 1), *outer], rest))
        return self._function(
            [
                f"enum {{ lanes = {self.name}_lanes }};",
                f"{self.vector} left[{self.name}_rows];",
                *self._added_up(("columns", f"{self.name}_wide"), nests, unrolled("r", "rows", self._across())),
            ]
        )

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
        self, count: tuple[str, str], nests: Sequence[tuple[Sequence[tuple[CLoop, int]], Lines]], done: Lines
    ) -> Lines:
        """Registers that add up a part, whose sum goes into the total of a larger one; `done` takes that away."""
        names = dict.fromkeys(("sum", self._found))
        zero = {name: self._each(count[0], *self._begun(f"{name}[r][n]")) for name in names}
        begin = [f"{self.vector} {name}[{self.name}_rows][{count[1]}];" for name in names]
        added = self._each(count[0], "total[r][n] += sum[r][n];")
        parts = [Part(zero["sum"], added, each) for each in self.tile.parts[:1]]
        if self.widens:
            accumulate = f"weft_accumulate_{self.parts.total.dtype}(sums, part, rows * {self.name}_wide, more);"
            parts.append(Part(zero["total"], [*done, accumulate, "more = true;"], self.tile.parts[1]))
            begin.append(f"bool more = {'sums_from > 0' if self.tile.block else 'false'};")
            done = []
        else:
            begin += zero[self._found]
        return [*begin, *(line for loops, step in nests for line in in_parts(loops, step, parts)), *done]

    def _begun(self, register: str) -> Lines:
        """A register at its start: where sums go on from one block to the next, it has what the last one left."""
        lines = [f"{register} = {self.ops.neutral};"]
        if self.tile.block and not self.widens:
            left = f"*(const {self.vector} *)(sums + r * {self.name}_wide + n * lanes)"
            lines.append(f"if (sums_from > 0) {register} = {left};")
        return lines

    def _each(self, count: str, *lines: str) -> Lines:
        return unrolled("r", "rows", unrolled("n", count, lines))

    def _counted(self, sums: Sequence[Loop]) -> list[tuple[CLoop, int]]:
        return [(one, size) for one, (_, size) in zip(self._loops_over(sums), sums, strict=True)]

    def _across(self) -> Lines:
        """The vectors of a row reduced across lanes, some at once and the rest one by one."""
        at, (count, few) = f"r * {self.name}_wide + c", _AT_ONCE[self.parts.total.dtype]
        several, single = (self.ops.function(f"across{many}") for many in (count, ""))
        some = ", ".join(f"{self._found}[r][c + {n}]" for n in range(count))
        whole, one = f"columns / {count} * {count}", f"{self._found}[r][c]"
        return [
            f"WEFT_UNROLL for (int c = 0; c < {whole}; c += {count}) "
            f"*({few} *)({self._stored} + {at}) = {several}({some});",
            f"WEFT_UNROLL for (int c = {whole}; c < columns; c++) {self._stored}[{at}] = {single}({one});",
        ]

    def _dot_step(self, last: str) -> Lines:
        """One vector of sums; of the last one only so many lanes count."""

        def loaded(side: Side, step: str) -> str:
            text = f"*(const {self.vector} *)&{self._value(side, step)}"
            return f"{self.ops.function('last')}({text}, {last})" if last else text

        return [
            *unrolled("r", "rows", [f"left[r] = {loaded(self.rows, 'r')};"]),
            *unrolled(
                "c",
                "columns",
                [
                    f"const {self.vector} right = {loaded(self.columns, 'c')};",
                    *unrolled("r", "rows", ["sum[r][c] += left[r] * right;"]),
                ],
            ),
        ]

    def _function(self, body: Lines) -> Lines:
        given = ", ".join(f"{kind} {name}" for kind, name in self._given())
        exact = "const bool exact, " if self.ops.asks else ""
        head = f"static WEFT_TILE void {self.name}_tile({exact}const int rows, const int columns, {given})"
        return [head, "{", *indented(["WEFT_CONTRACT", *body]), "}"]

    def _kinds(self) -> Lines:
        """The function of a tile, compiled for whole tiles and for those at the edges; and for any, where not all terms
        are numbers."""
        given = ", ".join(f"{kind} {name}" for kind, name in self._given())
        names = ", ".join(name for _, name in self._given())
        lines, quick = [], "false, " if self.ops.asks else ""
        for kind, rows, columns in self._met():
            call = f"{self.name}_tile({quick}{self.name}_{rows}, {self.name}_{columns}, {names});"
            lines.append(f"static WEFT_FUSED void {self.name}_{kind}({given}) {{ {call} }}")
        if self.ops.asks:
            head = f"static WEFT_FUSED void {self.name}_exact(int rows, int columns, {given})"
            lines.append(f"{head} {{ {self.name}_tile(true, rows, columns, {names}); }}")
        return lines

    def _pack(self) -> Lines:
        """The function that packs columns into a panel: sum after sum, all columns of each, padded with zeros."""
        side, wide = self.columns, f"{self.name}_wide"
        assert side.loop is not None
        given = [*self._memory([side.factor]), *self._loops([side.factor])]
        given += [("const int", "columns"), (f"{self.scalar} *restrict", "panel"), *self._range()]
        if self.tile.panel == "transposed":
            body = self._transposed(side)
        else:
            count, zeros = wide, Lines()
            if self.widths != ["wide"]:
                count = "columns" if len(self.widths) > 1 else f"{self.name}_{self.widths[0]}"
                zeros = loop("c", count, wide, ["panel[c] = 0;"])
            row = [f"panel[c] = {self._value(side, 'c')};"]
            body = [simd(), *loop("c", "0", count, row), *zeros, f"panel += {wide};"]
            body = self._summing(body)
        text = ", ".join(f"{kind} {name}" for kind, name in given)
        return [f"static WEFT_APART void {self.name}_pack({text})", "{", *indented(body), "}"]

    def _transposed(self, side: Side) -> Lines:
        """Columns into a panel, as many of the last sums at once as lie one after another in each column."""
        assert side.loop is not None
        assert isinstance(side.factor, Read)
        outer, run = list(self.parts.sums), list[Loop]()
        while outer and stride_of(side.factor, outer[-1][0]) == points(run):
            run.insert(0, outer.pop())
        first, depth = dict.fromkeys((name for name, _ in run), "0"), str(points(run))
        if self.tile.block and not outer:
            first[run[0][0]], depth = "sums_from", f"((sums_to - sums_from) * {points(run[1:])})"
        source = self.writer.calling({**first, side.loop[0]: self._from(side.loop[0])}).value(side.factor)
        wide, transpose = f"{self.name}_wide", f"weft_transpose_{self.parts.total.dtype}"
        lines = [
            f"{transpose}(&{source}, {stride_of(side.factor, side.loop[0])}, {depth}, columns, panel, {wide});",
            f"panel += {depth} * {wide};",
        ]
        return self._summing(lines, outer) if outer else lines

    def _pack_rows(self) -> Lines:
        """The function that packs rows into strips, as many rows as a tile has in each: sum after sum."""
        side = self.rows
        given = [*self._memory([side.factor]), *self._loops([side.factor]), ("int64_t", "rows"), ("int64_t", "depth")]
        given += [(f"{self.scalar} *restrict", "strip"), *self._range()]
        text = ", ".join(f"{kind} {name}" for kind, name in given)
        head = f"static WEFT_APART void {self.name}_pack_rows({text})"
        body = self._packed_along_sums() if self.tile.strips == "transposed" else self._packed_sum_by_sum()
        return [head, "{", *indented([f"enum {{ tall = {self.name}_rows }};", *body]), "}"]

    def _packed_along_sums(self) -> Lines:
        """Row by row, as they lie in memory."""
        *outer, last = self._loops_over(self.parts.sums)
        value, count = self._value(self.rows, "at"), f"({last.end} - {last.first})"
        cell = f"to[({last.name} - {last.first}) * tall] = {value};"
        inner = [simd(), *loop(last.name, last.first, last.end, [cell]), f"to += {count} * tall;"]
        begin = f"{self.scalar} *to = strip + at / tall * tall * depth + at % tall;"
        return loop("at", "0", "rows", [begin, *nested(outer, inner)])

    def _packed_sum_by_sum(self) -> Lines:
        """All rows of each sum."""
        side = self.rows
        whole, rest = (
            [simd(), *loop("r", "0", count, [f"strip[at * depth + r] = {self._value(side, 'at + r')};"])]
            for count in ("tall", "rows - at")
        )
        body = [
            "int64_t at = 0;",
            "for (; at + tall <= rows; at += tall) {",
            *indented(whole),
            "}",
            *rest,
            "strip += tall;",
        ]
        return self._summing(body)

    def _any(self) -> Lines:
        """The function that calls the one for a tile of its size."""
        name, given = self.name, ", ".join(f"{kind} {name}" for kind, name in self._given())
        names = ", ".join(name for _, name in self._given())
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

    def _given(self) -> Parameters:
        """The parameters of the function of a tile."""
        rows, columns = self.rows.factor, self.columns.factor
        factors = [*([] if self.tile.strips else [rows]), *([] if self.tile.panel else [columns])]
        found = [*self._memory(factors), *self._loops(factors)]
        if self.tile.strips:
            found.append((f"const {self.scalar} *", "strip"))
        if self.tile.panel:
            found.append((f"const {self.scalar} *", "panel"))
        stored = dict.fromkeys([(f"{self.scalar} *restrict", self._stored), (f"{self.accumulator} *restrict", "sums")])
        return [*found, *self._range(), *stored]

    def _range(self) -> Parameters:
        """Which iterations of the outermost sum are meant, where not all are."""
        return [("int64_t", "sums_from"), ("int64_t", "sums_to")] if self.tile.block else []

    def _memory(self, factors: Sequence[Scalar]) -> Parameters:
        buffers = dict.fromkeys(one.buffer for each in factors for one in walk(each) if isinstance(one, Read))
        return [(f"const {c_type(one.dtype)} *", self.writer.buffers[one]) for one in buffers]

    def _loops(self, factors: Sequence[Scalar]) -> Parameters:
        """The loops around, and static indices, that factors mention."""
        inner = {name for name, _ in self.parts.sums}
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
        return self.writer.calling(names).value(side.factor)

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
