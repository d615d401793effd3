"""Radix sort: elements of a row move once for each byte of where they stand, the last byte first.

    for v in range(1000): { keys[v] = order_place(x[v]);  origins[v] = v;  … }
    for v in range(1000): { counts[0, keys[v] % 256] += 1;  counts[1, keys[v] // 256 % 256] += 1;  … }
    for d in range(256): …
    for v in range(1000):
        digit = keys[v] % 256
        to = counts[0, digit]
        moved_keys[to] = keys[v];  moved_origins[to] = origins[v];  counts[0, digit] = to + 1
    …
    for v in range(1000): order[v] = origins[v]

Those that a byte does not tell apart stay in order (`ops/ordering.py` says which order). It takes time linear in the
length of a row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from weft.affine import Affine
from weft.loops.insert_casts import stored
from weft.loops.names import BlockNames
from weft.loops.nodes import Buffer, Cast, For, Let, Local, Read, Set, Stmt, Store, Update
from weft.loops.walk import Body, around
from weft.ops import Call, Num, Scalar
from weft.optimise.sorted_row import SortedRow

#: How many values a byte has.
_VALUES = 256


def sorted_by_digits(row: SortedRow, order: Buffer, buffer: Callable[..., Buffer], names: BlockNames) -> Body:
    """A block that puts the elements of rows in `order`; what it needs for that are new buffers."""
    return _RadixSort(row, buffer, names).block(order)


@dataclass(frozen=True, slots=True)
class _RadixSort:
    row: SortedRow
    #: A buffer by its name, type and sizes.
    buffer: Callable[..., Buffer]
    names: BlockNames

    def block(self, order: Buffer) -> Body:
        row, ((loop, size), wide) = self.row, (self.row.loop, f"uint{8 * self.row.key_bytes}")
        ends = [
            _Elements(self.buffer(f"{lead}keys", wide, size), self.buffer(f"{lead}origins", "int32", size))
            for lead in ("", "moved_")
        ]
        counts, here = self.buffer("counts", "int32", row.key_bytes, _VALUES), Affine.of(loop)
        byte, value = self.names.fresh("byte"), self.names.fresh("value")
        begun = (*ends[0].given(here, row.key, here), *ends[1].given(here, Num(0), Num(0)))
        cleared = Store(counts, (Affine.of(byte), Affine.of(value)), Cast("int32", Num(0)))
        moves = [self._moving(number, counts, *ends[:: (-1) ** number]) for number in range(row.key_bytes)]
        return around(row.outer, (
            For(loop, size, begun),
            *around([(byte, row.key_bytes), (value, _VALUES)], (cleared,)),
            For(loop, size, tuple(self._counted(number, counts, ends[0]) for number in range(row.key_bytes))),
            For(byte, row.key_bytes, self._started(counts, Affine.of(byte), value)),
            *moves,
            For(loop, size, (Store(order, row.at, Read(ends[0].origins, (here,))),)),
        ))  # fmt: skip

    def _digit(self, number: int, key: Scalar) -> Scalar:
        """A byte of a key, such that the first elements have the least."""
        shifted = Call("floordiv", (key, Cast("uint64", Num(_VALUES**number)))) if number else key
        found = Cast("int64", Call("mod", (shifted, Cast("uint64", Num(_VALUES)))))
        return Call("sub", (Cast("int64", Num(_VALUES - 1)), found)) if self.row.descending else found

    def _counted(self, number: int, counts: Buffer, elements: _Elements) -> Stmt:
        """An element counted among those with the same byte."""
        key = Cast("uint64", Read(elements.keys, (Affine.of(self.row.loop[0]),)))
        return Update(counts, (Affine(offset=number), self._digit(number, key)), "add", Cast("int64", Num(1)))

    def _started(self, counts: Buffer, byte: Affine, value: str) -> Body:
        """How many there are of each value of a byte, replaced by how many there are of those before it."""
        start, many = (Local(self.names.fresh(name), "int64") for name in ("start", "many"))
        cell = counts, (byte, Affine.of(value))
        each = (
            Let(many, Cast("int64", Read(*cell))),
            Store(*cell, Cast("int32", start)),
            Set(start, Call("add", (start, many))),
        )
        return Let(start, Cast("int64", Num(0))), For(value, _VALUES, each)

    def _moving(self, number: int, counts: Buffer, source: _Elements, target: _Elements) -> Stmt:
        """Elements moved to where those with the same byte begin, one after another."""
        row, here = self.row, Affine.of(self.row.loop[0])
        key = Local(self.names.fresh("key"), "uint64")
        digit, to = (Local(self.names.fresh(name), "int64") for name in ("digit", "to"))
        cell = counts, (Affine(offset=number), digit)
        moved = target.given(to, key, Read(source.origins, (here,)))  # at last, keys are of no more use
        return For(*row.loop, (
            Let(key, Cast("uint64", Read(source.keys, (here,)))),
            Let(digit, self._digit(number, key)),
            Let(to, Cast("int64", Read(*cell))),
            *moved[number + 1 == row.key_bytes :],
            Store(*cell, Cast("int32", Call("add", (to, Cast("int64", Num(1)))))),
        ))  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Elements:
    """Elements on their way into order, and where they came from."""

    keys: Buffer
    origins: Buffer

    def given(self, at: Scalar, key: Scalar, origin: Scalar) -> Body:
        """An element put somewhere."""
        pairs = (self.keys, key), (self.origins, origin)
        return tuple(Store(to, (at,), stored(value, to.dtype)) for to, value in pairs)
