"""Reductions in a product's epilogue: sums of its results over a part of its rows or columns.

    product of left i, b, r; right j; sums k:
        for i: for b: for r: for j: { t = …;  if r is 0: s[i, b, j] = 0;  s[i, b, j] += f(t) }

No block has a part of the 128 iterations of `r`, if 128 of them divide its rows: what it makes of a block's points, one
program adds up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from weft.affine import Affine
from weft.loops.constants import neutral_of
from weft.loops.nodes import If, Inside, Stmt, Store, Update
from weft.loops.walk import Loop, free
from weft.ops import OPS


@dataclass(frozen=True, slots=True)
class FoldedSum:
    """What is accumulated along the last loops on a side of a product: 0 is left, 1 right."""

    update: Update
    side: int
    loops: tuple[Loop, ...]

    @property
    def run(self) -> int:
        """How many rows or columns make one cell."""
        return prod(size for _, size in self.loops)


def folding(update: Update, loops: Sequence[Loop]) -> tuple[Stmt, Stmt]:
    """The statements that accumulate along some loops, from the first of their iterations on."""
    first = Inside(Affine(tuple((-1, name) for name, _ in loops)), 1)
    start = Store(update.buffer, update.at, neutral_of(update.op, update.buffer.dtype))
    return If((first,), (start,)), update


def folded_sums(
    left: Sequence[Loop], right: Sequence[Loop], rest: Sequence[Stmt]
) -> tuple[tuple[Stmt, ...], tuple[FoldedSum, ...]]:
    """What is done with the results of a product without the sums of them that it ends with, and these."""
    found = list[FoldedSum]()
    while len(rest) > 1 and (one := _folded(left, right, rest[-2], rest[-1])) is not None:
        found.insert(0, one)
        rest = rest[:-2]
    return tuple(rest), tuple(found)


def _folded(left: Sequence[Loop], right: Sequence[Loop], start: Stmt, update: Stmt) -> FoldedSum | None:
    match start, update:
        case If(body=(Store(),)), Update(op=op, at=at) if OPS[op].reorderable:
            moving = {name for index in at for name in free(index)}
            for side, loops in enumerate((left, right)):
                last = tuple(one for one in loops if one[0] not in moving)
                if last and tuple(loops[len(loops) - len(last) :]) == last and folding(update, last)[0] == start:
                    return FoldedSum(update, side, last)
    return None
