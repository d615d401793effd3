"""Products in C: register tiles over vectors, with what follows done to each tile while it is in the first cache.

For each product there is a function for a tile, compiled for whole tiles and for those at the edges, and perhaps one
that copies columns into a panel. Multiplications and additions of tiles are fused; everything else is not. At the last
columns a vector begins so far before that it ends with them: nothing outside of a buffer is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from weft.backends.cc.plan import Plan, Side, plan, row_major, stride
from weft.backends.cc.types import c_type
from weft.loops import Buffer, Cast, Local, Place, Read, Set, Staged, Stmt, Store, Update, walk
from weft.loops.effects import effects
from weft.loops.nests import free
from weft.loops.staged import Parts, parts_of
from weft.ops import Call, Num, Scalar

#: So many tiles of rows are begun before the next sums, where those do not fit into one panel.
_TILES_AT_ONCE = 32

#: Inner loops over so few sums, as those of a convolution, are unrolled.
_FEW = 8
#: How many vectors are added up across at once, and the type of their sums.
_AT_ONCE = {"float32": (4, "weft_four"), "float64": (2, "weft_two")}

Lines = list[str]
#: Types and names of parameters.
Given = list[tuple[str, str]]


class Writer(Protocol):
    """What turns scalars and statements into C."""

    def value(self, scalar: Scalar) -> str: ...

    def variable(self, name: str) -> str: ...

    def pointer(self, buffer: Buffer) -> str: ...

    def calling(self, names: Mapping[str, str]) -> Writer:
        """A writer that calls some loops otherwise."""
        ...

    def adding(self, sums: Sequence[Local]) -> Writer:
        """A writer that lets some numbers grow in double precision."""
        ...

    def block(self, body: Sequence[Stmt], indent: str) -> Iterator[str]: ...


@dataclass(frozen=True, slots=True)
class Placed:
    """A staged product, what its functions are called, and how it is placed."""

    name: str
    parts: Parts
    plan: Plan
    writer: Writer
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

    @property
    def number(self) -> str:
        return c_type(self.parts.total.dtype)

    @property
    def vector(self) -> str:
        return f"weft_{self.parts.total.dtype}s"

    # Functions

    def functions(self) -> Lines:
        """The functions of a tile and of a panel."""
        tiles = self._tile() if self.plan.form == "tile" else self._dot()
        return [*self._sizes(), *tiles, *self._kinds(), *self._any(), *(self._pack() if self.plan.packed else [])]

    def _sizes(self) -> Lines:
        name, tile, rows, columns = self.name, self.plan.tile, self.plan.rows.size, self.plan.columns.size
        most = tile.rows or ("WEFT_ROWS" if self.plan.form == "tile" else "WEFT_ROWS / 2")
        wide = f"{tile.vectors} * {name}_lanes" if self.plan.form == "tile" else "4" if rows > 1 else "8"
        return [
            f"/* A product of {rows} rows, {columns} columns and {self.plan.depth} sums. */",
            "enum {",
            f"    {name}_lanes = WEFT_VECTOR / sizeof({self.number}),",
            f"    {name}_wide = {wide},",
            f"    {name}_rows = WEFT_EVEN({rows}, {most}),",
            f"    {name}_last_rows = {rows} - ({rows} - 1) / {name}_rows * {name}_rows,",
            f"    {name}_last_columns = {columns} - ({columns} - 1) / {name}_wide * {name}_wide",
            "};",
        ]

    def _tile(self) -> Lines:
        """Rows spread out, times vectors of columns."""
        vectors, wide = self.plan.tile.vectors, f"{self.name}_wide"
        offset = "v * lanes" if self.plan.packed else "(v + 1 < vectors ? v * lanes : columns - lanes)"
        at = f"*({self.vector} *)(sums + r * {wide} + {offset})"
        zero = f"({self.vector}){{0}}"
        if self.plan.packed:
            right = f"(panel + {offset})"
        else:
            right = f"(&{self._value(self.plan.columns)} + {offset})"
        step = [
            *_unrolled("v", "vectors", [f"right[v] = *(const {self.vector} *){right};"]),
            *([f"panel += {wide};"] if self.plan.packed else []),
            *_unrolled(
                "r",
                "rows",
                [
                    f"const {self.number} left = {self._value(self.plan.rows, 'r')};",
                    *_unrolled("v", "vectors", ["sum[r][v] += left * right[v];"]),
                ],
            ),
        ]
        start = f"sums_from == 0 ? {zero} : {at}" if self.plan.blocked else zero
        return self._function(
            [
                f"enum {{ lanes = {self.name}_lanes }};",
                "const int vectors = (columns + lanes - 1) / lanes;",
                f"{self.vector} sum[{self.name}_rows][{vectors}], right[{vectors}];",
                *_unrolled("r", "rows", _unrolled("v", "vectors", [f"sum[r][v] = {start};"])),
                *self._summing(step),
                *_unrolled("r", "rows", _unrolled("v", "vectors", [f"{at} = sum[r][v];"])),
            ]
        )

    def _dot(self) -> Lines:
        """Vectors along the innermost sum, for every cell of the tile."""
        wide, (last, size) = f"{self.name}_wide", self.plan.sums[-1]
        word = self.writer.variable(last)
        body = [
            f"for (int64_t {word} = 0; {word} + lanes <= {size}; {word} += lanes) {{",
            *_indented(self._dot_step("")),
            "}",
        ]
        if size % 16:
            rest = [f"const int64_t {word} = {size} - lanes;", *self._dot_step(f"{size} % lanes")]
            body += [f"if ({size} % lanes) {{", *_indented(rest), "}"]
        for name, count in reversed(self.plan.sums[:-1]):
            body = _loop(self.writer.variable(name), "0", str(count), body)
        return self._function(
            [
                f"enum {{ lanes = {self.name}_lanes }};",
                f"{self.vector} sum[{self.name}_rows][{wide}], left[{self.name}_rows];",
                *_unrolled("r", "rows", _unrolled("c", "columns", [f"sum[r][c] = ({self.vector}){{0}};"])),
                *body,
                *_unrolled("r", "rows", self._across()),
            ]
        )

    def _across(self) -> Lines:
        """The vectors of a row added up across, some at once and the rest one by one."""
        dtype, wide = self.parts.total.dtype, f"{self.name}_wide"
        count, few = _AT_ONCE[dtype]
        some = ", ".join(f"sum[r][c + {at}]" for at in range(count))
        whole = f"columns / {count} * {count}"
        at_once = f"*({few} *)(sums + r * {wide} + c) = weft_across{count}_{dtype}({some});"
        return [
            f"WEFT_UNROLL for (int c = 0; c < {whole}; c += {count}) {at_once}",
            f"WEFT_UNROLL for (int c = {whole}; c < columns; c++)",
            f"    sums[r * {wide} + c] = weft_across_{dtype}(sum[r][c]);",
        ]

    def _dot_step(self, last: str) -> Lines:
        """One vector of sums; of the last one only so many lanes count."""

        def loaded(side: Side, step: str) -> str:
            text = f"*(const {self.vector} *)&{self._value(side, step)}"
            return f"weft_last_{self.parts.total.dtype}({text}, {last})" if last else text

        return [
            *_unrolled("r", "rows", [f"left[r] = {loaded(self.plan.rows, 'r')};"]),
            *_unrolled(
                "c",
                "columns",
                [
                    f"const {self.vector} right = {loaded(self.plan.columns, 'c')};",
                    *_unrolled("r", "rows", ["sum[r][c] += left[r] * right;"]),
                ],
            ),
        ]

    def _function(self, body: Lines) -> Lines:
        given = ", ".join(f"{kind} {name}" for kind, name in self._given())
        head = f"static WEFT_TILE void {self.name}_tile(const int rows, const int columns, {given})"
        return [head, "{", *_indented(["WEFT_CONTRACT", *body]), "}"]

    def _kinds(self) -> Lines:
        """The function of a tile, compiled for whole tiles and for those at the edges."""
        given = ", ".join(f"{kind} {name}" for kind, name in self._given())
        names = ", ".join(name for _, name in self._given())
        lines = []
        for kind, rows, columns in _KINDS:
            call = f"{self.name}_tile({self.name}_{rows}, {self.name}_{columns}, {names});"
            lines.append(f"static WEFT_FUSED void {self.name}_{kind}({given}) {{ {call} }}")
        return lines

    def _pack(self) -> Lines:
        """The function that copies columns into a panel: sum after sum, all columns of each, and zeros beyond."""
        side, wide = self.plan.columns, f"{self.name}_wide"
        assert side.loop is not None
        given = [*self._memory([side.factor]), *self._loops([side.factor])]
        given += [("const int", "columns"), (f"{self.number} *restrict", "panel"), *self._range()]
        if self.plan.turned:
            last, size = self.plan.sums[-1]
            first, end = (
                ("sums_from", "sums_to") if self.plan.blocked and len(self.plan.sums) == 1 else ("0", str(size))
            )
            source = self.writer.calling({last: first, side.loop[0]: self._from(side.loop[0])}).value(side.factor)
            depth = f"({end} - {first})" if first != "0" else end
            turn = f"weft_turn_{self.parts.total.dtype}"
            body = [
                f"{turn}(&{source}, {stride(side.factor, side.loop[0])}, {depth}, columns, panel, {wide});",
                f"panel += {depth} * {wide};",
            ]
            body = body if len(self.plan.sums) == 1 else self._summing(body, self.plan.sums[:-1])
        else:
            row = [f"panel[c] = {self._value(side, 'c')};"]
            body = [
                *_loop("c", "0", "columns", row),
                *_loop("c", "columns", wide, ["panel[c] = 0;"]),
                f"panel += {wide};",
            ]
            body = self._summing(body)
        text = ", ".join(f"{kind} {name}" for kind, name in given)
        return [f"static WEFT_APART void {self.name}_pack({text})", "{", *_indented(body), "}"]

    def _any(self) -> Lines:
        """The function that calls the one for a tile of its size; at which edges there are others is known here."""
        name, given = self.name, ", ".join(f"{kind} {name}" for kind, name in self._given())
        names = ", ".join(name for _, name in self._given())
        return [
            f"static inline void {name}_any(int64_t rows, int64_t columns, {given})",
            "{",
            f"    const bool tall = {name}_last_rows == {name}_rows || rows == {name}_rows;",
            f"    const bool wide = {name}_last_columns == {name}_wide || columns == {name}_wide;",
            f"    if (tall && wide) {name}_whole({names});",
            f"    else if (wide) {name}_short({names});",
            f"    else if (tall) {name}_narrow({names});",
            f"    else {name}_corner({names});",
            "}",
        ]

    # The place in the kernel

    def lines(self) -> Lines:
        """The product itself, as a block."""
        grown = self._grown()
        body = self._columns()
        sizes = ", ".join(f"{word} = {self.name}_{size}" for word, size in _SIZES)
        space, sums = f"({self.number} *)__builtin_assume_aligned(scratch, 64)", "room" if self.plan.blocked else "sums"
        if self.plan.packed:
            panel = f"{self.number} *const panel = {space};"
            lines = [panel, f"{self.number} *const {sums} = panel + {self._panel()} * wide + lanes;"]
        else:
            lines = [f"{self.number} *const {sums} = {space} + lanes;"]
        lines = [f"enum {{ {sizes} }};", *lines]
        words = [self.writer.variable(one.name) for one in grown]
        return [
            "{",
            *(f"    double {word}sum = {word};" for word in words),
            *_indented([*lines, *body]),
            *(f"    {word} = {word}sum;" for word in words),
            "}",
        ]

    @property
    def room(self) -> str:
        """The bytes of memory that its panel and its sums take, in C."""
        rows = f"{self.name}_rows" + (f" * {_TILES_AT_ONCE}" if self.plan.blocked else "")
        rows = f"({self._panel()} + {rows})" if self.plan.packed else rows
        return f"sizeof({self.number}) * ({rows} * {self.name}_wide + {self.name}_lanes)"

    def _panel(self) -> int:
        """How many sums a panel has, all columns of each."""
        return self._block() * (self.plan.depth // self.plan.sums[0][1]) if self.plan.blocked else self.plan.depth

    def _block(self) -> int:
        """How many turns of the outermost sum are done at once."""
        return max(1, self.plan.tile.depth // (self.plan.depth // self.plan.sums[0][1]))

    def _columns(self) -> Lines:
        """The loops over columns, panel by panel, around those over rows."""
        side, wide, pack = self.plan.columns, "wide", self._call_pack()
        assert side.loop is not None
        rows = self._rows()
        for name, size in reversed(self.plan.rows.outer):
            rows = _loop(self.writer.variable(name), "0", str(size), rows)
        at = self._from(side.loop[0])
        body = [
            f"const int64_t columns = {side.size} - {at} < {wide} ? {side.size} - {at} : {wide};",
            *([] if self.plan.blocked else pack),
            *rows,
        ]
        alone = self.divided and not side.outer
        body = _steps(at, side.size, wide, body, "first" if alone else "", "end")
        for number, (name, size) in reversed(list(enumerate(side.outer))):
            start, end = ("first", "end") if self.divided and not number else ("0", str(size))
            body = _loop(self.writer.variable(name), start, end, body)
        return body

    def _rows(self) -> Lines:
        """The loop over rows, tile by tile."""
        side, tall = self.plan.rows, "tall"
        at = self._from(side.loop[0]) if side.loop else "row_from"
        body = [f"const int64_t rows = {side.size} - {at} < {tall} ? {side.size} - {at} : {tall};"]
        if not self.plan.blocked:
            return _steps(at, side.size, tall, [*body, *self._call_tile(), *self._rest()])
        end, size = f"{at}_end", self.plan.sums[0][1]
        body += [
            f"{self.number} *const sums = room + ({at} - {at}_begin) * wide;",
            *self._call_tile(),
            f"if (sums_to < {size}) continue;",
            *self._rest(),
        ]
        many, block = f"{tall} * {_TILES_AT_ONCE}", self._block()
        inner = [
            f"const int64_t sums_to = {size} - sums_from < {block} ? {size} : sums_from + {block};",
            *self._call_pack(),
            f"for (int64_t {at} = {at}_begin; {at} < {end}; {at} += {tall}) {{",
            *_indented(body),
            "}",
        ]
        outer = [
            f"const int64_t {end} = {side.size} - {at}_begin < {many} ? {side.size} : {at}_begin + {many};",
            *_steps("sums_from", size, str(block), inner),
        ]
        return _steps(f"{at}_begin", side.size, many, outer)

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
        found = "sums[r * wide + c]"
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
        block = _loop(inner[0], "0", inner[1], block)
        if inner[2].loop and self._side_by_side(inner[2].loop[0], grown):
            sums = ", ".join(f"{self.writer.variable(one.name)}sum" for one in grown)
            block = [f"#pragma omp simd{f' reduction(+ : {sums})' if sums else ''}", *block]
        return _loop(outer[0], "0", outer[1], block)

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
        alone = all(any(isinstance(place, Place) and [loop] == [*free(place)] for place in at) for at in cells)
        return alone and own >= effects(self.parts.rest).sets

    # Names and parameters

    def _given(self) -> Given:
        """What the function of a tile is given."""
        rows, columns = self.plan.rows.factor, self.plan.columns.factor
        factors = [rows] if self.plan.packed else [rows, columns]
        found = [*self._memory(factors), *self._loops(factors)]
        if self.plan.packed:
            found.append((f"const {self.number} *", "panel"))
        return [*found, *self._range(), (f"{self.number} *restrict", "sums")]

    def _range(self) -> Given:
        """Which turns of the outermost sum are meant, where not all are."""
        return [("int64_t", "sums_from"), ("int64_t", "sums_to")] if self.plan.blocked else []

    def _memory(self, factors: Sequence[Scalar]) -> Given:
        buffers = dict.fromkeys(one.buffer for each in factors for one in walk(each) if isinstance(one, Read))
        return [(f"const {c_type(one.dtype)} *", self.writer.pointer(one)) for one in buffers]

    def _loops(self, factors: Sequence[Scalar]) -> Given:
        """The loops around, and static indices, that factors mention."""
        inner = {name for name, _ in self.plan.sums}
        names = dict.fromkeys(name for one in factors for name in free(one) if name not in inner)
        return [("int64_t", self._from(name)) for name in names]

    def _from(self, name: str) -> str:
        """What a loop is called outside: of a tiled one it is where a tile starts."""
        tiled = [side.loop[0] for side in (self.plan.rows, self.plan.columns) if side.loop]
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
        loops = self.plan.sums if sums is None else sums
        for at in range(len(loops) - 1, -1, -1):
            name, size = loops[at]
            first, end = ("sums_from", "sums_to") if self.plan.blocked and at == 0 else ("0", str(size))
            few = at > 0 and at == len(loops) - 1 and size <= _FEW
            body = _loop(self.writer.variable(name), first, end, body)
            body = [f"WEFT_UNROLL {body[0]}", *body[1:]] if few else body
        return body


#: What sizes are called inside a kernel.
_SIZES = (("lanes", "lanes"), ("wide", "wide"), ("tall", "rows"))
#: Tiles by what they are called, and how many rows and columns they have.
_KINDS = (
    ("whole", "rows", "wide"),
    ("short", "last_rows", "wide"),
    ("narrow", "rows", "last_columns"),
    ("corner", "last_rows", "last_columns"),
)


def _indented(lines: Sequence[str]) -> Lines:
    return [f"    {line}" for line in lines]


def _loop(variable: str, start: str, end: str, body: Sequence[str]) -> Lines:
    return [
        f"for (int64_t {variable} = {start}; {variable} < {end}; {variable}++) {{",
        *_indented(body),
        "}",
    ]


def _steps(variable: str, size: int, step: str, body: Sequence[str], first: str = "", end: str = "") -> Lines:
    """A loop in steps: from the start, or from the `first` step to before the `end`."""
    start, within = (f"{first} * {step}", f" && {variable} < {end} * {step}") if first else ("0", "")
    head = f"for (int64_t {variable} = {start}; {variable} < {size}{within}; {variable} += {step}) {{"
    return [head, *_indented(body), "}"]


def _unrolled(variable: str, count: str, body: Sequence[str]) -> Lines:
    if len(body) == 1:
        return [f"WEFT_UNROLL for (int {variable} = 0; {variable} < {count}; {variable}++) {body[0]}"]
    return [f"WEFT_UNROLL for (int {variable} = 0; {variable} < {count}; {variable}++) {{", *_indented(body), "}"]
