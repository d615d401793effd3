"""Words of 32 bits in C, in which tiles read several narrow numbers of the last sum (`loops/interleaving.py`).

Of whole numbers a processor multiplies those of one factor that have no sign with those of another that have one. Where
both have one, or none, those of rows are moved by half their range, and sums start from what takes that back:

    sum of a * b  =  sum of (a + 128) * b  -  128 * sum of b

On the way that is a * b of the terms so far and -128 * b of the others: no more than the largest sum of products.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from weft.affine import Affine
from weft.backends.cc.lines import Lines, loop, unrolled
from weft.loops import Read, Tile, dtype_of
from weft.loops.interleaving import WORD, narrow
from weft.loops.nests import stride_of
from weft.loops.staged import Parts, with_indices
from weft.ops import Scalar

if TYPE_CHECKING:
    from weft.backends.cc.emit import KernelWriter

#: What the place of a number in its word is called: no name of a program's.
PLACE = "in word"
#: Words of four numbers: the first bits of all, as a negative number, and ones.
_FIRST_BITS, _ONES = -0x7F7F7F80, 0x01010101


@dataclass(frozen=True, slots=True)
class Words:
    """How a product's factors lie in words: so many numbers of these types in each, of which so many are in the last;
    and the bytes of their vectors."""

    many: int
    last: int
    kinds: tuple[str, str]
    width: int

    @property
    def full(self) -> Words:
        """Those before the last."""
        return replace(self, last=self.many)

    @property
    def vector(self) -> str:
        return f"weft_int32v{self.width}"

    @property
    def moved(self) -> bool:
        """Are the numbers of rows moved, and what takes that back before each panel?"""
        return self.kinds[0] == self.kinds[1] != "bfloat16"

    def text(self, factor: Scalar, writer: KernelWriter) -> str:
        """The last word of a factor, with zeros beyond the last number."""
        if isinstance(factor, Read) and stride_of(factor, PLACE) == 1 and self == self.full:
            return f"*(const weft_packed *)&{writer.calling({PLACE: '0'}).value(factor)}"
        values = [writer.calling({PLACE: str(at)}).value(factor) for at in range(self.last)]
        bits = [f"({one}).bits" if dtype_of(factor) == "bfloat16" else f"(uint8_t)({one})" for one in values]
        return f"(int32_t)({' | '.join(f'(uint32_t){one} << {at * 32 // self.many}' for at, one in enumerate(bits))})"

    def row_step(self, r: str, value: str, vectors: int | str) -> Lines:
        """A row of a tile: its sums take in the products of its word and of the words of columns."""
        turned = f" ^ {_FIRST_BITS}" if self.moved else ""
        left = f"const {self.vector} left = (({self.vector}){{0}} + {value}){turned};"

        def taken(v: str) -> Lines:
            return [f"sum[{r}][{v}] = {self._added(f'sum[{r}][{v}]', 'left', f'right[{v}]')};"]

        return [left, *unrolled("v", vectors, taken)]

    def _added(self, total: str, left: str, right: str) -> str:
        """A total and the products of two words."""
        if self.many == 2:
            return f"weft_pairs_float32v{self.width}({total}, {left}, {right})"
        signed = (self.kinds[0] == "int8") != self.moved
        one, other = (right, left) if signed else (left, right)
        return f"weft_fours_int32v{self.width}({total}, {one}, {other})"

    def taken_back(self, vectors: int, wide: str, depth: str) -> Lines:
        """What the sums of columns start from, at the head of a panel of so many words for each; all columns at once,
        for each addition waits for the one before it."""
        ones, by = f"(({self.vector}){{0}} + {_ONES})", -128 if self.kinds[0] == "int8" else 128

        def here(v: str) -> str:
            return f"{v} * {self.width // WORD}"

        def added(v: str) -> Lines:
            word = f"*(const {self.vector} *)(head + at * {wide} + {here(v)})"
            return [f"sum[{v}] = {self._added(f'sum[{v}]', ones, word)};"]

        return [
            f"{self.vector} sum[{vectors}] = {{{{0}}}};",
            *loop("at", "1", f"{depth} + 1", unrolled("v", vectors, added)),
            *unrolled("v", vectors, lambda v: [f"*({self.vector} *)(head + {here(v)}) = sum[{v}] * {by};"]),
        ]


def in_words(parts: Parts, tile: Tile) -> tuple[Parts, Tile, Words | None]:
    """A product and its tile as they run over words, where they do; and how its factors lie in them."""
    if (many := tile.interleaved) == 1:
        return parts, tile, None
    *outer, (last, size) = parts.sums
    one, other = map(narrow, parts.factors)
    parts = with_indices(replace(parts, factors=(one, other)), {last: Affine(((many, last), (1, PLACE)))})
    ends = tile.parts and (tile.parts[0] // many, *tile.parts[1:])
    tile = replace(tile, parts=ends, block=tile.block if outer else tile.block // many)
    words = Words(many, (size - 1) % many + 1, (dtype_of(one), dtype_of(other)), tile.lanes * WORD)
    return replace(parts, sums=(*outer, (last, -(-size // many)))), tile, words
