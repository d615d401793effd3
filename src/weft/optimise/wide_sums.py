"""Long sums of single precision grow in double precision.

    for i: for j: y[j] += x[i, j]      becomes      for j: y.sum[j] = float64(y[j])
                                                    for i: for j: y.sum[j] += float64(x[i, j])
                                                    for j: y[j] = float32(y.sum[j])

A sum of a million numbers added one after another in single precision may be off by a per cent. Sums of few numbers
stay as they are, as do the sums of staged products, which a backend takes care of, and what is added where values of a
tensor say: how much comes together there is not known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from weft.affine import Affine
from weft.loops.constants import cast
from weft.loops.effects import accumulation, names
from weft.loops.insert_casts import dtype_of
from weft.loops.nodes import (
    Buffer,
    Cast,
    Fill,
    For,
    If,
    Inside,
    Let,
    Local,
    Product,
    Read,
    Remark,
    Role,
    Set,
    Staged,
    Stmt,
    Store,
    Update,
)
from weft.loops.walk import Loop, around, free, mapped, parts, rewritten, walk, with_body
from weft.ops import Call, Scalar

_NARROW, _WIDE = "float32", "float64"

#: A statement that does something, and the loops around it.
Site = tuple[Stmt, tuple[Loop, ...]]


def widened(body: Sequence[Stmt], few: int = 10) -> tuple[Stmt, ...]:
    """A block of a typed program with its long sums, of more than a few terms, in double precision.

    Ten numbers added up in single precision are off by 27 ε of the largest of them at most: the n-th sum is no more
    than n times as large, and rounded to the nearest.
    """
    prefix = "at"
    while any(name.startswith(prefix) for name in names(body)):
        prefix += "_"
    return _block(body, prefix, few)


def _block(body: Sequence[Stmt], prefix: str, few: int) -> tuple[Stmt, ...]:
    long = _long_sums(body, few)
    stmts = [_with_numbers(stmt, long) for stmt in body] if long else body
    return tuple(new for stmt in stmts for new in _statement(stmt, prefix, few))


def _statement(stmt: Stmt, prefix: str, few: int) -> Iterator[Stmt]:
    """A statement with its long sums in double precision: those that its own loop adds up, then those inside."""
    if not isinstance(stmt, For | If | Remark | Staged):
        yield stmt
        return
    product = isinstance(stmt, Staged) and isinstance(stmt.what, Product)
    sums = list(_sums(stmt, prefix, few)) if product or isinstance(stmt, For) else []
    body = stmt.body if product else _block(_grown(stmt, sums).body, prefix, few)
    yield from (one.copied(there=True) for one in sums)
    yield _grown(stmt, sums) if product else with_body(stmt, body)
    yield from (one.copied(there=False) for one in sums)


# Numbers


def _long_sums(body: Sequence[Stmt], few: int) -> dict[Local, Local]:
    """The numbers that a block declares and adds to, and often; as they are in double precision."""
    times: dict[Local, int] = {}
    own = {one.local for one in body if isinstance(one, Let) and one.local.dtype == _NARROW}
    for stmt, loops in _sites(body) if own else ():
        if isinstance(stmt, Set) and stmt.local in own and _adds(stmt):
            times[stmt.local] = times.get(stmt.local, 0) + prod(size for _, size in loops)
    return {one: Local(one.name, _WIDE) for one, count in times.items() if count > few}


def _adds(stmt: Set) -> bool:
    return (accumulation(stmt) or ("",))[0] == "add"


def _with_numbers(stmt: Stmt, wide: Mapping[Local, Local]) -> Stmt:
    """A statement with some numbers in double precision."""

    def leaf(one: Scalar) -> Scalar | None:
        return Cast(_NARROW, wide[one]) if isinstance(one, Local) and one in wide else None

    def read(scalar: Scalar) -> Scalar:
        return rewritten(scalar, leaf)

    match stmt:
        case Let(local=own, value=value) if own in wide:
            return Let(wide[own], _wide(read(value)))
        case Set(local=own, value=Call(args=(_, value))) if own in wide and _adds(stmt):
            return Set(wide[own], Call("add", (wide[own], _wide(read(value)))))
        case Set(local=own, value=value) if own in wide:
            return Set(wide[own], _wide(read(value)))
        case For(body=body) | If(body=body) | Remark(body=body) | Staged(body=body):
            return with_body(stmt, tuple([_with_numbers(one, wide) for one in body]))
    return mapped(stmt, read)


def _wide(scalar: Scalar) -> Scalar:
    constant = cast(_WIDE, scalar)
    return scalar if dtype_of(scalar) == _WIDE else Cast(_WIDE, scalar) if constant is None else constant


# Memory


@dataclass(frozen=True, slots=True)
class _Sum:
    """A buffer in which a statement adds up: in each axis the place where it does so, or none if in all of it."""

    buffer: Buffer
    fixed: tuple[Affine | None, ...]
    prefix: str
    #: Does it add up only where a test holds, so that the places may lie outside of the buffer?
    tested: bool

    @property
    def cells(self) -> Buffer:
        """The memory beside it."""
        return self.buffer.beside(Role.ACCUMULATOR, ".sum", dtype=_WIDE)

    def copied(self, *, there: bool) -> Stmt:
        """What the buffer holds, copied there or back."""
        axes = [(f"{self.prefix}{axis}", size) for axis, size in enumerate(self.buffer.shape)]
        pairs = list(zip(self.fixed, axes, strict=True))
        at = tuple(Affine(((1, loop),)) if fixed is None else fixed for fixed, (loop, _) in pairs)
        source, target = (self.buffer, self.cells) if there else (self.cells, self.buffer)
        copy: Stmt = Store(target, at, Cast(target.dtype, Read(source, at)))
        inside = tuple(Inside(fixed, size) for fixed, (_, size) in pairs if fixed is not None and fixed.terms)
        copy = If(inside, (copy,)) if self.tested and inside else copy
        return around([loop for fixed, loop in pairs if fixed is None], (copy,))[0]

    def grown(self, stmt: Stmt) -> Stmt:
        """A statement that works on the memory beside the buffer."""
        match stmt:
            case Store(buffer=buffer, at=at, value=value) if buffer == self.buffer:
                return Store(self.cells, at, _wide(self._read(value)))
            case Update(buffer=buffer, at=at, op=op, value=value) if buffer == self.buffer:
                return Update(self.cells, at, op, _wide(self._read(value)))
            case For(body=body) | If(body=body) | Remark(body=body) | Staged(body=body):
                return with_body(stmt, tuple(map(self.grown, body)))
        return mapped(stmt, self._read)

    def _read(self, scalar: Scalar) -> Scalar:
        def leaf(one: Scalar) -> Scalar | None:
            mine = isinstance(one, Read) and one.buffer == self.buffer
            return Cast(_NARROW, Read(self.cells, one.at)) if mine else None  # type: ignore[attr-defined]

        return rewritten(scalar, leaf)


def _grown(stmt: For | If | Remark | Staged, sums: Sequence[_Sum]) -> For | If | Remark | Staged:
    done: Stmt = stmt
    for one in sums:
        done = one.grown(done)
    assert isinstance(done, For | If | Remark | Staged)
    return done


def _sums(stmt: For | If | Remark | Staged, prefix: str, few: int) -> Iterator[_Sum]:
    """The buffers in which a statement adds many numbers up in cells that its own loop does not move."""
    sites = list(_sites([stmt]))
    updates = [(one, loops) for one, loops in sites if isinstance(one, Update) and one.buffer.dtype == _NARROW]
    for buffer in dict.fromkeys(one.buffer for one, _ in updates):
        mine = [(one, loops) for one, loops in updates if one.buffer == buffer]
        here = any(not isinstance(stmt, For) or stmt.loop not in _moving(one) for one, _ in mine)
        times = sum(prod(size for name, size in loops if name not in _moving(one)) for one, loops in mine)
        if here and times > few and all(_plain(one, buffer) for one, _ in sites):
            tested = any(isinstance(one, If) for one, _ in sites)
            yield _Sum(buffer, _fixed(buffer, sites), prefix, tested)


def _plain(stmt: Stmt, buffer: Buffer) -> bool:
    """Is a buffer only added to and stored in, and everywhere at places that loops tell?"""
    match stmt:
        case Fill(buffer=own):
            return own != buffer
        case Update(buffer=own, op=op) if own == buffer and op != "add":
            return False
    return all(isinstance(one, Affine) for at in _cells(stmt, buffer) for one in at)


def _fixed(buffer: Buffer, sites: Sequence[Site]) -> tuple[Affine | None, ...]:
    """In each axis the place of all accesses, if it is one and no loop inside moves it."""
    inner = {name for _, loops in sites for name, _ in loops}
    cells = [at for stmt, _ in sites for at in _cells(stmt, buffer)]
    return tuple(_only({at[axis] for at in cells}, inner) for axis in range(len(buffer.shape)))


def _only(places: set[Scalar], inner: set[str]) -> Affine | None:
    one = next(iter(places))
    return one if len(places) == 1 and isinstance(one, Affine) and inner.isdisjoint(free(one)) else None


def _cells(stmt: Stmt, buffer: Buffer) -> Iterator[tuple[Scalar, ...]]:
    """Where a statement itself touches a buffer."""
    if isinstance(stmt, Store | Update) and stmt.buffer == buffer:
        yield stmt.at
    for one in (one for part in parts(stmt) for one in walk(part)):
        if isinstance(one, Read) and one.buffer == buffer:
            yield one.at


def _moving(stmt: Update) -> set[str]:
    return {name for one in stmt.at for name in free(one)}


def _sites(body: Sequence[Stmt], loops: tuple[Loop, ...] = ()) -> Iterator[Site]:
    """Every statement that does something, with the loops around it."""
    for stmt in body:
        if isinstance(stmt, For):
            yield from _sites(stmt.body, (*loops, (stmt.loop, stmt.size)))
        else:
            yield stmt, loops
            yield from _sites(stmt.body, loops) if isinstance(stmt, If | Remark | Staged) else ()
