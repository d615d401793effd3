"""Ranks by radix sort: how many elements of a row come before each of them, found for all by moving them into order.

    for v in range(1000): for o in range(1000): ranks[v] += comes_before(x[o], o, x[v], v)

    becomes

    for v in range(1000): { keys[v] = order_place(x[v]);  origins[v] = v;  … }
    for v in range(1000): { counts[0, keys[v] % 256] += 1;  counts[1, keys[v] // 256 % 256] += 1;  … }
    for d in range(256): …
    for v in range(1000):
        digit = keys[v] % 256
        to = counts[0, digit]
        moved_keys[to] = keys[v];  moved_origins[to] = origins[v];  counts[0, digit] = to + 1
    …
    for v in range(1000): rank[origins[v]] = v
    for v in range(1000): ranks[v] += rank[v]

Elements move once for each byte of where they stand among all numbers of their type, the last byte first: those that it
does not tell apart stay in order (`ops/ordering.py` says which order). It takes time linear in the length of a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from weft.affine import Affine, are_affine
from weft.loops.effects import Effects, effects
from weft.loops.insert_casts import stored
from weft.loops.names import BlockNames
from weft.loops.nodes import Buffer, Cast, For, Let, Local, Read, Role, Set, Stmt, Store, Update
from weft.loops.walk import BLOCKS, Body, Loop, around, expanded, free, identical, substituted, with_body
from weft.ops import Call, Num, Scalar
from weft.ops.dtypes import carrier, is_float, limits, numpy_type
from weft.ops.ordering import comes_before
from weft.optimise.gather import OneEffect, added_by, one_effect

#: How many values a byte has.
_VALUES = 256


def radix_sorted(body: Body, least: int, ids: Iterator[int]) -> tuple[Body, ...]:
    """A block that takes the ranks of elements from others, which stand before it and sort rows of `least` or more."""
    sorting = _Ranks(least, ids, BlockNames(body), effects(body), [])
    done = sorting.taken(body, {}, {})
    return (*sorting.sorts, done)


@dataclass(frozen=True, slots=True)
class _Row:
    """The elements whose ranks are wanted: a cell at each position of a loop, for each point of others around it."""

    cell: Read
    loop: Loop
    outer: tuple[Loop, ...]
    descending: bool

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(size for _, size in (*self.outer, self.loop))

    @property
    def at(self) -> tuple[Scalar, ...]:
        return tuple(Affine.of(name) for name, _ in (*self.outer, self.loop))

    @property
    def key_bytes(self) -> int:
        """How many bytes say where an element stands, an even number."""
        own = numpy_type(self.cell.buffer.dtype).itemsize
        return max(own, 4) if is_float(self.cell.buffer.dtype) else max(own, 2)

    @property
    def key(self) -> Scalar:
        """Where an element stands; a narrow whole number among those of its width."""
        dtype = self.cell.buffer.dtype
        wide = "int64" if dtype == "bool" else carrier(dtype)
        number = self.cell if wide == dtype else Cast(wide, self.cell)
        low, _ = limits(dtype)
        if is_float(dtype) or self.key_bytes == numpy_type(wide).itemsize:
            return Call("order_place", (number,))
        return Cast("uint64", Call("sub", (number, Cast("int64", Num(int(low))))) if low < 0 else number)

    def digit(self, number: int, key: Scalar) -> Scalar:
        """A byte of a key, such that the first elements have the least."""
        shifted = Call("floordiv", (key, Cast("uint64", Num(_VALUES**number)))) if number else key
        found = Cast("int64", Call("mod", (shifted, Cast("uint64", Num(_VALUES)))))
        return Call("sub", (Cast("int64", Num(_VALUES - 1)), found)) if self.descending else found


@dataclass(frozen=True, slots=True)
class _Ranks:
    """Finds loops that count, and sorts what they count in blocks of its own."""

    least: int
    ids: Iterator[int]
    names: BlockNames
    changed: Effects
    sorts: list[Body]

    def taken(self, body: Body, known: Mapping[Local, Scalar], sizes: Mapping[str, int]) -> Body:
        """A block, in loops of some sizes, that takes ranks where it counted them."""
        known, done = dict(known), list[Stmt]()
        for stmt in body:
            if isinstance(stmt, Let) and stmt.local not in self.changed.sets:
                known[stmt.local] = expanded(stmt.value, known)
            if isinstance(stmt, For):
                done += self._loop(stmt, known, {**sizes, stmt.loop: stmt.size})
            elif isinstance(stmt, BLOCKS):
                done.append(with_body(stmt, self.taken(stmt.body, known, sizes)))
            else:
                done.append(stmt)
        return body if identical(done, body) else tuple(done)

    def _loop(self, stmt: For, known: Mapping[Local, Scalar], sizes: Mapping[str, int]) -> Body:
        effect = one_effect(stmt.body, known) if stmt.size >= self.least else None
        row = _row(effect, stmt.loop, sizes) if effect else None
        if effect is None or row is None or row.cell.buffer in self.changed.buffers:
            return (with_body(stmt, self.taken(stmt.body, known, sizes)),)
        rank = self._buffer("rank", "int32", *row.shape)
        self.sorts.append(self._sorted(row, rank))
        return _with_rank(effect, _whole(Read(rank, row.at)))

    def _buffer(self, name: str, dtype: str, *shape: int) -> Buffer:
        return Buffer(next(self.ids), self.names.fresh(name), shape, dtype, Role.SORTED)

    def _sorted(self, row: _Row, rank: Buffer) -> Body:
        """A block that finds the ranks of rows."""
        (loop, size), wide = row.loop, f"uint{8 * row.key_bytes}"
        ends = [
            _Elements(self._buffer(f"{lead}keys", wide, size), self._buffer(f"{lead}origins", "int32", size))
            for lead in ("", "moved_")
        ]
        counts, here = self._buffer("counts", "int32", row.key_bytes, _VALUES), Affine.of(loop)
        byte, value, none = self.names.fresh("byte"), self.names.fresh("value"), Cast("int32", Num(0))
        begun = (*ends[0].given(here, row.key, here), *ends[1].given(here, Num(0), Num(0)), Store(rank, row.at, none))
        ranked = Store(rank, (*row.at[:-1], _whole(Read(ends[0].origins, (here,)))), Cast("int32", here))
        cleared = Store(counts, (Affine.of(byte), Affine.of(value)), none)
        moves = [self._moving(row, number, counts, *ends[:: (-1) ** number]) for number in range(row.key_bytes)]
        return around(row.outer, (
            For(loop, size, begun),
            *around([(byte, row.key_bytes), (value, _VALUES)], (cleared,)),
            For(loop, size, tuple(self._counted(row, number, counts, ends[0]) for number in range(row.key_bytes))),
            For(byte, row.key_bytes, self._started(counts, Affine.of(byte), value)),
            *moves,
            For(loop, size, (ranked,)),
        ))  # fmt: skip

    def _counted(self, row: _Row, number: int, counts: Buffer, elements: _Elements) -> Stmt:
        """An element counted among those with the same byte."""
        key = Cast("uint64", Read(elements.keys, (Affine.of(row.loop[0]),)))
        return Update(counts, (Affine(offset=number), row.digit(number, key)), "add", Cast("int64", Num(1)))

    def _started(self, counts: Buffer, byte: Affine, value: str) -> Body:
        """How many there are of each value of a byte, replaced by how many there are of those before it."""
        start, many = (Local(self.names.fresh(name), "int64") for name in ("start", "many"))
        cell = counts, (byte, Affine.of(value))
        each = (
            Let(many, _whole(Read(*cell))),
            Store(*cell, Cast("int32", start)),
            Set(start, Call("add", (start, many))),
        )
        return Let(start, Cast("int64", Num(0))), For(value, _VALUES, each)

    def _moving(self, row: _Row, number: int, counts: Buffer, source: _Elements, target: _Elements) -> Stmt:
        """Elements moved to where those with the same byte begin, one after another."""
        loop, here = row.loop, Affine.of(row.loop[0])
        key = Local(self.names.fresh("key"), "uint64")
        digit, to = (Local(self.names.fresh(name), "int64") for name in ("digit", "to"))
        cell = counts, (Affine(offset=number), digit)
        moved = target.given(to, key, Read(source.origins, (here,)))  # at last, keys are of no more use
        return For(*loop, (
            Let(key, Cast("uint64", Read(source.keys, (here,)))),
            Let(digit, row.digit(number, key)),
            Let(to, _whole(Read(*cell))),
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


def _with_rank(effect: OneEffect, rank: Scalar) -> Body:
    """What a loop counts one by one, taken at once."""
    core = effect.core
    new = Call("add", (core.local, rank)) if isinstance(core, Set) else rank
    return around([(one.loop, one.size) for one in effect.outer], (replace(core, value=new),))


def _row(effect: OneEffect, counting: str, sizes: Mapping[str, int]) -> _Row | None:
    """The row of elements of which a loop counts those that come before one of them."""
    core, value = effect.core, added_by(effect.core)
    sizes = {**sizes, **{one.loop: one.size for one in effect.outer}}
    if value is None or (isinstance(core, Update) and any(counting in free(one) for one in core.at)):
        return None
    match expanded(value, effect.values):
        case Cast(
            value=Call(op="where", args=(Call(op="lt", args=(place, at)), _, Call(op="precedes", args=ends))) as asked
        ):
            descending = counting in free(ends[1])
            one, other = reversed(ends) if descending else ends
            loop, cell = _loop(at), _cell(other)
            if loop is None or cell is None or _loop(place) != counting or sizes.get(loop) != sizes[counting]:
                return None
            same = substituted(other, {loop: Affine.of(counting)}) == one
            if not same or asked != comes_before(one, place, other, at, descending):
                return None
            outer = [name for name in dict.fromkeys(free(cell)) if name in sizes and name != loop]
            return _Row(cell, (loop, sizes[loop]), tuple((name, sizes[name]) for name in outer), descending)
    return None


def _loop(scalar: Scalar) -> str | None:
    """The loop whose position a number is."""
    while isinstance(scalar, Cast):
        scalar = scalar.value
    return (
        scalar.names[0]
        if isinstance(scalar, Affine) and scalar.terms and scalar == Affine.of(scalar.names[0])
        else None
    )


def _cell(scalar: Scalar) -> Read | None:
    """The cell that a number is read from, at positions that no data says."""
    if (
        isinstance(scalar, Cast)
        and isinstance(scalar.value, Read)
        and scalar.dtype == carrier(scalar.value.buffer.dtype)
    ):
        scalar = scalar.value
    return scalar if isinstance(scalar, Read) and are_affine(scalar.at) else None


def _whole(scalar: Scalar) -> Scalar:
    return Cast("int64", scalar)
