"""Tiles that test for NaN first: where no term is one, a cheaper choice of extrema is right (`semirings.py`)."""

from __future__ import annotations

from dataclasses import dataclass

from weft.backends.cc.lines import Lines, indented, loop, nested, simd
from weft.backends.cc.panels import PackingTiles
from weft.backends.cc.tiles import ANY, Parameters
from weft.loops import Read
from weft.loops.nests import stride_of


@dataclass(frozen=True, slots=True)
class NanCheckedTiles(PackingTiles):
    """The functions of a product in tiles, and those that look through its factors."""

    def functions(self) -> Lines:
        looks = [*self._look_through_rows(), *self._look_through_columns()] if self.ops.asks else []
        return [*PackingTiles.functions(self), *looks]

    def _look_through_rows(self) -> Lines:
        """The function that adds up some rows, so that the sum is a number where all terms of these are."""
        side, (*outer, last) = self.rows, self._loops_over(self.parts.sums)
        if self.tile.strips:
            whole, depth = f"{self.name}_rows", self._depth()
            some = self.ops.look_through(f"strip + at * {whole}", "rows")
            all_at_once = self.ops.look_through("strip", f"{depth} * {whole}")
            body = [f"if (rows == {whole}) return {all_at_once};", *loop("at", "0", depth, [f"looked += {some};"])]
        elif isinstance(side.factor, Read) and side.loop and stride_of(side.factor, side.loop[0]) == 1:
            body = self._summing([f"looked += {self.ops.look_through(f'&{self._value(side)}', 'rows')};"])
        else:
            one, *more = (self.ops.looked_at(self._value(side, at)) for at in ("r", "r + 1", "r + 2", "r + 3"))
            several, single = (
                nested(outer, [simd(["looked"]), *loop(last.name, last.first, last.end, [f"looked += {what};"])])
                for what in (f"({one} + {more[0]}) + ({more[1]} + {more[2]})", one)
            )
            body = ["int64_t r = 0;", "for (; r + 4 <= rows; r += 4) {", *indented(several), "}"]
            body += ["for (; r < rows; r++) {", *indented(single), "}"]
        return self._looking("rows", self._looked_rows(), body)

    def _look_through_columns(self) -> Lines:
        """The same for the columns of a tile."""
        if self.tile.panel:
            cells = f"{self._depth()} * {self.name}_wide"
            body = [f"looked = {self.ops.look_through('panel', cells)};"]
        else:
            value = f"*(const {self.vector} *)(&{self._value(self.columns)} + {self._offset('v', ANY)})"
            body = [
                f"enum {{ lanes = {self.name}_lanes }};",
                "const int vectors = (columns + lanes - 1) / lanes;",
                f"{self.vector} all = {{0}};",
                *self._summing(loop("v", "0", "vectors", [f"all += {self.ops.vector_looked_at(value)};"])),
                *loop("at", "0", "lanes", ["looked += all[at];"]),
            ]
        return self._looking("columns", self._looked_columns(), body)

    def _looking(self, side: str, given: Parameters, body: Lines) -> Lines:
        text = ", ".join(f"{kind} {name}" for kind, name in given)
        head = f"static WEFT_APART {self.scalar} {self.name}_look_through_{side}({text})"
        return [head, "{", *indented([f"{self.scalar} looked = 0;", *body, "return looked;"]), "}"]

    def _looked_rows(self) -> Parameters:
        factor = [self.rows.factor]
        strip = [(f"const {self.scalar} *", "strip")]
        found = strip if self.tile.strips else [*self._memory(factor), *self._loops(factor)]
        return [*found, ("int64_t", "rows"), *self._range()]

    def _looked_columns(self) -> Parameters:
        factor = [self.columns.factor]
        panel = [(f"const {self.scalar} *", "panel")]
        found = panel if self.tile.panel else [*self._memory(factor), *self._loops(factor), ("int64_t", "columns")]
        return [*found, *self._range()]
