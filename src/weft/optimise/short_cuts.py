"""Cheaper accumulators: a monoid's short cut adds up numbers in vector lanes and makes its state of them at the end.

    for i in range(1000): s = var(s, of(x[i]))

    becomes

    for i in range(1): first = of(x[i])
    for l in range(32): part[l] = begun(first)
    for i in range(31): for l in range(32): part[l] = taken(part[l], of(x[32 i + l]), first)
    for l in range(8): part[l] = taken(part[l], of(x[992 + l]), first)
    for l in range(16): part[l] = joined(part[l], part[l + 16])
    ...
    s = var(s, closed(part[0], first, 1000))

A variance has sums there of how far values are from the first, and their squares: one division in all. Where a lane's
values come one after another, the largest need not be told from one at an earlier position.

The first value is computed twice, and what else the loop does with it is done once: nothing that values are computed
from may be written in the loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from weft.affine import Affine
from weft.loops.effects import effects
from weft.loops.insert_casts import dtype_of, stored
from weft.loops.nodes import Buffer, Cast, For, Let, Local, Read, Set, Stmt, Store, Update
from weft.loops.walk import map_scalars, parts, reads, rewritten, substituted
from weft.ops import OPS, Call, Num, Scalar
from weft.ops.dtypes import digits, fields, is_float
from weft.ops.monoid import ShortCut, over_numbers


def short_cut(loop: For, found: Set) -> ShortCut | None:
    """How the values that a loop accumulates, packed number by number, do so in less, if they may."""
    assert isinstance(found.value, Call)
    monoid, value = OPS[found.value.op].monoid, found.value.args[1]
    cut = monoid.short_cut if monoid else None
    if cut is None or loop.size > cut.most or not isinstance(value, Call) or not value.op.startswith("pack"):
        return None
    numbers = [one.value if isinstance(one, Cast) else one for one in value.args]
    places = [one for one in numbers if isinstance(one, Affine)]
    in_order = all(one.coefficient(loop.loop) > 0 for one in places)
    if not _is_repeatable(loop):
        return None
    return cut if in_order and (not cut.narrow or any(map(_is_wider, value.args))) else None


def _is_repeatable(loop: For) -> bool:
    """May the values of an iteration be computed twice: does the loop write nothing that they are computed from?"""
    values = (part for stmt in loop.body if isinstance(stmt, Let | Set) for part in parts(stmt))
    return effects(loop.body).buffers.isdisjoint(one.buffer for value in values for one in reads(value))


def _is_wider(scalar: Scalar) -> bool:
    """Is a number a conversion to more digits than it has?"""
    if not isinstance(scalar, Cast) or isinstance(scalar.value, Num | Affine):
        return False
    source = dtype_of(scalar.value)
    return is_float(source) and digits(source) < digits(scalar.dtype)


def by_short_cut(loop: For, found: Set, cut: ShortCut, lanes: Buffer, lane: str, first: Local) -> list[Stmt]:
    """What a loop accumulates, by a short cut, in the cells of a buffer."""
    return list(_ShortAccumulation(loop, found, cut, lanes, lane, first).all())


@dataclass(frozen=True, slots=True)
class _ShortAccumulation:
    """A loop, what it accumulates, by which short cut, in which cells along which lane, and a name for the first."""

    loop: For
    found: Set
    cut: ShortCut
    cells: Buffer
    lane: str
    first: Local

    def all(self) -> Iterator[Stmt]:
        state, here = self.found.local, Affine.of(self.lane)
        (lanes,) = self.cells.shape
        whole, rest = divmod(self.loop.size, lanes)
        first = _numbers(self.first)
        yield Let(self.first, state)
        yield For(self.loop.loop, 1, self._at(Affine.of(self.loop.loop), None))
        yield For(self.lane, lanes, (self._made(self.cut.begun, first),))
        rows = Affine(((lanes, self.loop.loop), (1, self.lane)))
        yield For(self.loop.loop, whole, (For(self.lane, lanes, self._at(rows, here)),))
        if rest:
            yield For(self.lane, rest, self._at(here + whole * lanes, here))
        while lanes > 1:
            half = lanes - lanes // 2
            yield For(self.lane, lanes - half, (self._joined(here, here + half),))
            lanes = half
        assert isinstance(self.found.value, Call)
        numbers = (*self._accumulated(Affine(())), *first, Num(self.loop.size))
        closed = self._packed(over_numbers(self.cut.closed, numbers))
        yield Set(state, Call(self.found.value.op, (state, closed)))

    def _at(self, index: Affine, cell: Affine | None) -> tuple[Stmt, ...]:
        """The loop's body at an index, whose value a lane takes; without one, it is the first."""

        def moved(part: Scalar) -> Scalar:
            return substituted(part, {self.loop.loop: index})

        def taking(stmt: Stmt) -> Stmt:
            assert isinstance(stmt, Set)
            assert isinstance(stmt.value, Call)
            value = stmt.value.args[1]
            if cell is None:
                return Set(self.first, value)
            numbers = *self._accumulated(cell), *self._near(value), *_numbers(self.first)
            return self._made(self.cut.taken, numbers)

        once = [one for one in self.loop.body if cell is not None or isinstance(one, Let | Set)]
        body = [(old, map_scalars(old, moved)) for old in once]
        return tuple(taking(one) if old is self.found else one for old, one in body)

    def _joined(self, one: Affine, other: Affine) -> Stmt:
        """A lane takes what another accumulated."""
        assert isinstance(self.found.value, Call)
        if self.cut.joined is None:
            return Update(self.cells, (one,), self.found.value.op, Read(self.cells, (other,)))
        return self._made(self.cut.joined, (*self._accumulated(one), *self._accumulated(other)))

    def _accumulated(self, cell: Affine) -> tuple[Scalar, ...]:
        return _numbers(Read(self.cells, (cell,)))

    def _made(self, functions: Sequence[Scalar], numbers: Sequence[Scalar]) -> Stmt:
        """A lane has what functions make of numbers."""
        return Store(self.cells, (Affine.of(self.lane),), self._packed(over_numbers(functions, numbers)))

    def _packed(self, numbers: Sequence[Scalar]) -> Scalar:
        made = [stored(one, kind) for one, kind in zip(numbers, fields(self.cells.dtype), strict=True)]
        return Call(f"pack{len(made)}", tuple(made))

    def _near(self, value: Scalar) -> tuple[Scalar, ...]:
        """The numbers of a value, positions as sums of what all lanes have and of what each has: to convert takes long.

        States are of a type that holds every position.
        """

        def rule(one: Scalar) -> Scalar | None:
            match one:
                case Cast(dtype=dtype, value=Call(op="where", args=(chosen, this, that))) if is_float(dtype):
                    return Call("where", (chosen, *(rewritten(Cast(dtype, each), rule) for each in (this, that))))
                case Cast(dtype=dtype, value=Affine() as place) if is_float(dtype) and self.lane in place.names:
                    own = Affine(((place.coefficient(self.lane), self.lane),))
                    return one if place == own else Call("add", (Cast(dtype, place - own), Cast(dtype, own)))
            return None

        assert isinstance(value, Call)
        return tuple(rewritten(one, rule) for one in value.args)


def _numbers(state: Scalar) -> tuple[Scalar, ...]:
    """The numbers of a state of several."""
    return tuple(Call(f"item{at}", (state,)) for at in range(len(fields(dtype_of(state)))))
