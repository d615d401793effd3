"""Accumulator widening: long sums of single precision accumulate in double precision.

    for i: for j: y[j] += x[i, j]      becomes      for j: y.sum[j] = float64(y[j])
                                                    for i: for j: y.sum[j] += float64(x[i, j])
                                                    for j: y[j] = float32(y.sum[j])

A sum of a million terms added one after another in single precision may be off by a per cent. Sums of few terms stay as
they are, as do cells that take no more than a partial accumulator may (`loops/roundings.py`), unless their terms are
sums themselves; so do partial accumulators, those of staged contractions, which a backend widens itself, and
scatters, whose indices are the values of a tensor: how many terms a cell gets is not known. Cells that every iteration
of a loop stores anew hold a sum for each of them: its terms are those of one iteration, and it is wide inside the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from weft.affine import Affine
from weft.loops.constants import cast_constant
from weft.loops.effects import accumulation, names
from weft.loops.insert_casts import dtype_of
from weft.loops.legality import points
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
from weft.loops.reaching_writes import covered, sites
from weft.loops.roundings import PARTS
from weft.loops.walk import (
    Body,
    Loop,
    around,
    body_of,
    bottom_up,
    free,
    mentioned,
    own_accesses,
    parts,
    reads,
    rewritten,
    scoped,
    variables,
    with_body,
    with_parts,
)
from weft.ops import Call, Scalar

_NARROW, _WIDE = "float32", "float64"
#: What holds sums of a few terms.
_PARTIAL = (Role.PARTIAL, Role.PARTS)

#: A statement that does something, and the loops around it.
LoopedStmt = tuple[Stmt, tuple[Loop, ...]]


def widened(body: Sequence[Stmt], few: int = 10) -> tuple[Stmt, ...]:
    """A block of a typed program with its long sums, of more than a few terms, in double precision.

    Ten terms added up in single precision are off by 27 ε of the largest of them at most: the n-th partial sum is no
    more than n times as large, and rounded to the nearest.
    """
    prefix = "at"
    while any(name.startswith(prefix) for name in names(body)):
        prefix += "_"
    return _block(body, prefix, few)


def _block(body: Sequence[Stmt], prefix: str, few: int) -> tuple[Stmt, ...]:
    long = _long_sums(body, few)
    stmts = bottom_up(body, _in_double(long)) if long else body
    return tuple(new for stmt in stmts for new in _statement(stmt, prefix, few))


def _statement(stmt: Stmt, prefix: str, few: int) -> Iterator[Stmt]:
    """A statement with its long sums in double precision: those that its own loop adds up, then those inside."""
    if not isinstance(stmt, For | If | Remark | Staged):
        yield stmt
        return
    product = isinstance(stmt, Staged) and isinstance(stmt.what, Product)
    sums = list(_sums(stmt, prefix, few)) if product or isinstance(stmt, For) else []
    body: Body = (stmt,)
    for one in sums:
        body = bottom_up(body, one.moved)
    yield from (one.copied(there=True) for one in sums)
    yield body[0] if product else with_body(body[0], _block(body_of(body[0]), prefix, few))
    yield from (one.copied(there=False) for one in sums)


# Variables


def _long_sums(body: Sequence[Stmt], few: int) -> dict[Local, Local]:
    """The variables that a block declares and adds to, and often; as they are in double precision."""
    times: dict[Local, int] = {}
    own = {one.local for one in body if isinstance(one, Let) and one.local.dtype == _NARROW}
    for stmt, loops in _sites(body) if own else ():
        if isinstance(stmt, Set) and stmt.local in own and _adds(stmt):
            times[stmt.local] = times.get(stmt.local, 0) + points(loops)
    return {one: Local(one.name, _WIDE) for one, count in times.items() if count > few}


def _adds(stmt: Set) -> bool:
    return (accumulation(stmt) or ("",))[0] == "add"


def _in_double(wide: Mapping[Local, Local]) -> Callable[[Stmt], Body]:
    """The rule that has some variables in double precision."""

    def read(scalar: Scalar) -> Scalar:
        return rewritten(
            scalar, lambda one: Cast(_NARROW, wide[one]) if isinstance(one, Local) and one in wide else None
        )

    def rule(stmt: Stmt) -> Body:
        match stmt:
            case Let(local=own, value=value) if own in wide:
                return (Let(wide[own], _wide(read(value))),)
            case Set(local=own, value=Call(args=(_, value))) if own in wide and _adds(stmt):
                return (Set(wide[own], Call("add", (wide[own], _wide(read(value))))),)
            case Set(local=own, value=value) if own in wide:
                return (Set(wide[own], _wide(read(value))),)
        return (with_parts(stmt, tuple(map(read, parts(stmt)))),)

    return rule


def _wide(scalar: Scalar) -> Scalar:
    constant = cast_constant(_WIDE, scalar)
    return scalar if dtype_of(scalar) == _WIDE else Cast(_WIDE, scalar) if constant is None else constant


# Memory


@dataclass(frozen=True, slots=True)
class _Sum:
    """A buffer in which a statement accumulates: in each axis the index where it does so, or none if in all of it."""

    buffer: Buffer
    fixed: tuple[Affine | None, ...]
    prefix: str
    #: Does it accumulate under a test, so that indices may lie outside of the buffer?
    tested: bool

    @property
    def cells(self) -> Buffer:
        """The wide accumulator beside it."""
        return self.buffer.beside(Role.ACCUMULATOR, ".sum", dtype=_WIDE)

    def copied(self, *, there: bool) -> Stmt:
        """What the buffer holds, copied there or back."""
        axes = [(f"{self.prefix}{axis}", size) for axis, size in enumerate(self.buffer.shape)]
        pairs = list(zip(self.fixed, axes, strict=True))
        at = tuple(Affine.of(loop) if fixed is None else fixed for fixed, (loop, _) in pairs)
        source, target = (self.buffer, self.cells) if there else (self.cells, self.buffer)
        copy: Stmt = Store(target, at, Cast(target.dtype, Read(source, at)))
        inside = tuple(Inside(fixed, size) for fixed, (_, size) in pairs if fixed is not None and fixed.terms)
        copy = If(inside, (copy,)) if self.tested and inside else copy
        return around([loop for fixed, loop in pairs if fixed is None], (copy,))[0]

    def moved(self, stmt: Stmt) -> Body:
        """A statement, its body rewritten already, redirected to the wide accumulator."""
        match stmt:
            case Store(buffer=buffer, at=at, value=value) if buffer == self.buffer:
                return (Store(self.cells, at, _wide(self._read(value))),)
            case Update(buffer=buffer, at=at, op=op, value=value) if buffer == self.buffer:
                return (Update(self.cells, at, op, _wide(self._read(value))),)
        return (with_parts(stmt, tuple(map(self._read, parts(stmt)))),)

    def _read(self, scalar: Scalar) -> Scalar:
        def leaf(one: Scalar) -> Scalar | None:
            mine = isinstance(one, Read) and one.buffer == self.buffer
            return Cast(_NARROW, Read(self.cells, one.at)) if mine else None  # type: ignore[attr-defined]

        return rewritten(scalar, leaf)


def _sums(stmt: For | If | Remark | Staged, prefix: str, few: int) -> Iterator[_Sum]:
    """The buffers in which a statement accumulates many terms in cells that its own loop does not index."""
    stmts = _sites([stmt])
    sums = _accumulated(stmts)
    updates = [(one, loops) for one, loops in stmts if isinstance(one, Update) and _is_narrow(one.buffer)]
    for buffer in dict.fromkeys(one.buffer for one, _ in updates):
        mine = [(one, loops) for one, loops in updates if one.buffer == buffer]
        here = any(not isinstance(stmt, For) or stmt.loop not in mentioned(*one.at) for one, _ in mine)
        times = sum(prod(size for name, size in loops if name not in mentioned(*one.at)) for one, loops in mine)
        most = few if any(_joins(one.value, sums) for one, _ in mine) else max(few, PARTS[0])
        plain = here and times > most and all(_plain(one, buffer) for one, _ in stmts)
        if plain and not _starts_anew(stmt, buffer):
            tested = any(isinstance(one, If) for one, _ in stmts)
            yield _Sum(buffer, _fixed(buffer, stmts), prefix, tested)


def _starts_anew(stmt: For | If | Remark | Staged, buffer: Buffer) -> bool:
    """Does every iteration of a loop store all cells of a buffer that it reads, before it does?"""
    return isinstance(stmt, For) and covered(sites(stmt.body, {buffer})[buffer])


def _accumulated(stmts: Sequence[LoopedStmt]) -> set[Local]:
    """The variables that are accumulated in, and those computed from them."""
    found = {one.local for one, _ in stmts if isinstance(one, Set)}
    for one, _ in stmts:
        if isinstance(one, Let) and _joins(one.value, found):
            found.add(one.local)
    return found


def _joins(value: Scalar, sums: set[Local]) -> bool:
    """Is a value made of sums, so that its terms were rounded before?"""
    partial = any(one.buffer.role in _PARTIAL for one in reads(value))
    return partial or not sums.isdisjoint(variables(value))


def _is_narrow(buffer: Buffer) -> bool:
    return buffer.dtype == _NARROW and buffer.role not in _PARTIAL


def _plain(stmt: Stmt, buffer: Buffer) -> bool:
    """Is a buffer only added to and stored in, and everywhere at affine indices?"""
    match stmt:
        case Fill(buffer=own):
            return own != buffer
        case Update(buffer=own, op=op) if own == buffer and op != "add":
            return False
    return all(isinstance(one, Affine) for at in _cells(stmt, buffer) for one in at)


def _fixed(buffer: Buffer, stmts: Sequence[LoopedStmt]) -> tuple[Affine | None, ...]:
    """In each axis the index of all accesses, if it is one and no loop inside moves it."""
    inner = {name for _, loops in stmts for name, _ in loops}
    cells = [at for stmt, _ in stmts for at in _cells(stmt, buffer)]
    return tuple(_only({at[axis] for at in cells}, inner) for axis in range(len(buffer.shape)))


def _only(indices: set[Scalar], inner: set[str]) -> Affine | None:
    one = next(iter(indices))
    return one if len(indices) == 1 and isinstance(one, Affine) and inner.isdisjoint(free(one)) else None


def _cells(stmt: Stmt, buffer: Buffer) -> list[tuple[Scalar, ...]]:
    """Where a statement itself touches a buffer."""
    return [one.at for one in own_accesses(stmt) if one.buffer == buffer and one.at is not None]


def _sites(body: Sequence[Stmt]) -> list[LoopedStmt]:
    """Every statement that does something, with the loops around it."""
    return [(stmt, scope.loops) for stmt, scope in scoped(body) if not isinstance(stmt, For)]
