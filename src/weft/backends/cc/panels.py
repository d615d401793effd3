"""Packing in C: functions that copy the columns of a tile into a panel, and rows into strips, as tiles read them.

Several panels are packed at once where their columns lie side by side, so that a line of memory is read once for all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from weft.backends.cc.lines import CLoop, Lines, indented, loop, nested, simd, steps, unrolled
from weft.backends.cc.tiles import Side, Tiles
from weft.loops import Read
from weft.loops.legality import points
from weft.loops.nests import stride_of
from weft.loops.product_legality import lies_along
from weft.loops.walk import Loop


@dataclass(frozen=True, slots=True)
class PackingTiles(Tiles):
    """The functions of a product in tiles, and those that pack its factors."""

    def functions(self) -> Lines:
        return [*Tiles.functions(self), *self.of_panels()]

    def of_panels(self) -> Lines:
        """Those that pack columns, and rows."""
        return (self._pack() if self.tile.panel else []) + (self._pack_rows() if self.tile.strips else [])

    def _pack(self) -> Lines:
        """The function that packs columns into a panel: sum after sum, all columns of each, padded with zeros.

        Of several panels it reads the columns of all at a sum, which lie side by side.
        """
        side, wide = self.columns, f"{self.name}_wide"
        assert side.loop is not None
        at = self._from(side.loop[0])
        given = [*self._memory([side.factor]), *self._loops([side.factor])]
        given += [("const int", "columns"), (f"{self.packed} *restrict", "panel"), *self._range()]
        if self.tile.panel == "transposed":
            body = self._transposed(side)
        elif self.tile.at_once > 1:
            given = [(kind, {at: "packed", "columns": "all"}.get(name, name)) for kind, name in given]
            to = f"{self.scalar} *const to = panel + ({at} - packed) * {self._depth()};"
            ragged = [f"const int64_t columns = end - {at} < {wide} ? end - {at} : {wide};"] * (len(self.widths) > 1)
            each = steps(at, "packed", "end", wide, [*ragged, to, *self._row_copied(side, "to")])
            body = ["const int64_t end = packed + all;", *self._summing([*each, f"panel += {wide};"])]
        else:
            body = self._packing(lambda own: [*own._row_copied(side, "panel"), f"panel += {wide};"])
        if self.words and self.words.moved:
            back = self.words.taken_back(self.tile.vectors, wide, self._depth())
            body = [f"{self.packed} *const head = panel;", f"panel += {wide};", *body, *back]
        text = ", ".join(f"{kind} {name}" for kind, name in given)
        return [f"static WEFT_APART void {self.name}_pack({text})", "{", *indented(body), "}"]

    def packed_from(self) -> list[str]:
        """What packing columns is given of them, by name."""
        return [name for of in (self._memory, self._loops) for _, name in of([self.columns.factor])]

    def _row_copied(self, side: Side, to: str) -> Lines:
        """The columns of a sum: vectors of a whole tile where they lie side by side; else one by one, and zeros."""
        assert side.loop is not None
        wide, one_by_one = f"{self.name}_wide", [f"{to}[c] = {self._value(side, 'c')};"]
        count = "columns" if len(self.widths) > 1 else f"{self.name}_{self.widths[0]}"
        whole = [simd(), *loop("c", "0", wide, one_by_one)]
        if not self.words and lies_along(side.factor, side.loop, self.parts.total.dtype):
            lanes = f"{self.name}_lanes"
            whole = unrolled("v", self.tile.vectors, lambda v: [self._vector_copied(side, to, f"{v} * {lanes}")])
        if self.widths == ["wide"]:
            return whole
        part = [simd(), *loop("c", "0", count, one_by_one), *loop("c", count, wide, [f"{to}[c] = 0;"])]
        if len(self.widths) == 1:
            return part
        return [f"if (columns == {wide}) {{", *indented(whole), "} else {", *indented(part), "}"]

    def _vector_copied(self, side: Side, to: str, at: str) -> str:
        return f"*({self.vector} *)({to} + {at}) = *(const {self.vector} *)&{self._value(side, at)};"

    def _transposed(self, side: Side) -> Lines:
        """Columns into a panel, as many of the last sums at once as lie one after another in each column."""
        assert side.loop is not None
        assert isinstance(side.factor, Read)
        outer, run = list(self.parts.sums), list[Loop]()
        many, kind = (self.words.many, "packed") if self.words else (1, self.parts.total.dtype)
        while outer and stride_of(side.factor, outer[-1][0]) == points(run) * many:
            run.insert(0, outer.pop())
        first, depth = dict.fromkeys((name for name, _ in run), "0"), str(points(run))
        if self.tile.block and not outer:
            first[run[0][0]], depth = "sums_from", f"((sums_to - sums_from) * {points(run[1:])})"
        source = self._read(side, {**first, side.loop[0]: self._from(side.loop[0])})
        wide, apart = f"{self.name}_wide", stride_of(side.factor, side.loop[0])
        assert apart is not None
        lines = [
            f"weft_transpose_{kind}(&{source}, {apart // many}, {depth}, columns, panel, {wide});",
            f"panel += {depth} * {wide};",
        ]
        return self._summing(lines, outer) if outer else lines

    def _pack_rows(self) -> Lines:
        """The function that packs rows into strips, as many rows as a tile has in each: sum after sum."""
        side = self.rows
        given = [*self._memory([side.factor]), *self._loops([side.factor]), ("int64_t", "rows"), ("int64_t", "depth")]
        given += [(f"{self.packed} *restrict", "strip"), *self._range()]
        text = ", ".join(f"{kind} {name}" for kind, name in given)
        head = f"static WEFT_APART void {self.name}_pack_rows({text})"
        body = self._packed_along_sums() if self.tile.strips == "transposed" else self._packed_sum_by_sum()
        return [head, "{", *indented([f"enum {{ tall = {self.name}_rows }};", *body]), "}"]

    def _packed_along_sums(self) -> Lines:
        """Row by row, as they lie in memory."""
        *outer, last = self._loops_over(self.parts.sums)
        cell = f"to[({last.name} - {last.first}) * tall] ="
        cells = self._innermost(replace(last, unrolled=False), lambda own: [f"{cell} {own._value(own.rows, 'at')};"])
        inner = [simd(), *cells, f"to += ({last.end} - {last.first}) * tall;"]
        begin = f"{self.packed} *to = strip + at / tall * tall * depth + at % tall;"
        return loop("at", "0", "rows", [begin, *nested(outer, inner)])

    def _packed_sum_by_sum(self) -> Lines:
        """All rows of each sum."""

        def of_sum(own: PackingTiles) -> Lines:
            cell = f"strip[at * depth + r] = {own._value(own.rows, 'at + r')};"
            whole, rest = ([simd(), *loop("r", "0", count, [cell])] for count in ("tall", "rows - at"))
            tiles = ["for (; at + tall <= rows; at += tall) {", *indented(whole), "}"]
            return ["int64_t at = 0;", *tiles, *rest, "strip += tall;"]

        return self._packing(of_sum)

    def _packing(self, lines: Callable[[PackingTiles], Lines]) -> Lines:
        """The loops over sums around what is packed of each."""
        *outer, last = self._loops_over(self.parts.sums)
        return nested(outer, self._innermost(last, lines))

    def _innermost(self, last: CLoop, lines: Callable[[PackingTiles], Lines]) -> Lines:
        """The loop over the last sum around what is packed of it; a word that is not full comes after the others."""
        if self.words is None or self.words == self.words.full:
            return nested([last], lines(self))
        before = self.parts.sums[-1][1] - 1
        end = f"({last.end} < {before} ? {last.end} : {before})"
        full = replace(self, words=self.words.full)
        return [*nested([replace(last, end=end)], lines(full)), *loop(last.name, end, last.end, lines(self))]
