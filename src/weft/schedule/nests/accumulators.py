"""Privatisation of accumulators: what each strip of a loop has in place of what the loop adds to (`partition.py`).

A variable has one in each strip, kept in a cell of a buffer when the strip is done; cells of a buffer have as many
cells of a larger one. What a strip adds up in a variable is as wide as `optimise/wide_sums.py` makes it; cells of
single precision are wider where they take many terms (`loops/roundings.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

from weft.affine import Affine
from weft.assign.states import start_of
from weft.loops import Buffer, Cast, For, Let, Local, Read, Role, Set, Stmt, Store, Update, dtype_of
from weft.loops.affine_accesses import sites
from weft.loops.constants import neutral_of
from weft.loops.effects import accumulation, effects
from weft.loops.legality import iterations_apart
from weft.loops.names import BlockNames
from weft.loops.roundings import PARTS
from weft.loops.walk import Body, Loop, around, everything, mentioned, parts, reads, scoped, variables
from weft.ops import OPS, Call, Scalar
from weft.ops.dtypes import numpy_type


@dataclass(frozen=True, slots=True)
class Accumulated:
    """A variable or a buffer in which a loop accumulates, by which operation, and how many terms in a cell."""

    of: Local | Buffer
    op: str
    terms: int = 0

    @property
    def shape(self) -> tuple[int, ...]:
        return self.of.shape if isinstance(self.of, Buffer) else ()

    @property
    def size(self) -> int:
        """The bytes that a strip needs for it."""
        return prod(self.shape) * numpy_type(self.of.dtype).itemsize

    def in_strips(self, strips: int, number: int, names: BlockNames) -> Accumulator:
        """The accumulators of so many strips."""
        name, dtype = self.of.name, self.of.dtype
        if (self.op, dtype) == ("add", "float32") and self.terms > PARTS[0] * strips:
            dtype = "float64"
        cells = Buffer(number, names.fresh(f"{name}_part"), (strips, *self.shape), dtype, Role.PARTIAL)
        if isinstance(self.of, Buffer):
            return _Cells(self.of, self.op, cells)
        own, total = (Local(names.fresh(f"{name}_{word}"), dtype) for word in ("own", "all"))
        return _Variable(self.of, self.op, cells, own, total)


def accumulated_in(loop: For) -> list[Accumulated]:
    """What iterations of a loop share, if they share nothing but what takes values in any order; else nothing."""
    done = effects(loop.body)
    shared: dict[Local | Buffer, str | None] = {
        one: _variable_op(loop.body, one) for one in sorted(done.sets - done.lets, key=lambda one: one.name)
    }
    for one, touched in sites((loop,), done.buffers).items():
        if not iterations_apart(loop.loop, touched):
            shared[one] = _cells_op(loop.body, one)
    found = [Accumulated(one, op, _terms(loop, one)) for one, op in shared.items() if op is not None]
    return found if len(found) == len(shared) else []


def _terms(loop: For, of: Local | Buffer) -> int:
    """How many terms a loop accumulates in a cell of a buffer."""
    updates = [(one, scope.loops) for one, scope in scoped((loop,)) if isinstance(one, Update) and one.buffer == of]
    moving = [mentioned(*one.at) for one, _ in updates]
    return sum(
        prod(size for name, size in loops if name not in moves)
        for (_, loops), moves in zip(updates, moving, strict=True)
    )


def _variable_op(body: Body, local: Local) -> str | None:
    """The one operation by which a block accumulates in a variable that it does not look at."""
    stmts = everything(body)
    own = [accumulation(one) for one in stmts if isinstance(one, Set) and one.local == local]
    uses = sum(variables(part).count(local) for one in stmts for part in parts(one))
    operations = {one[0] for one in own if one is not None}
    return _reorderable(operations) if None not in own and uses == len(own) else None


def _cells_op(body: Body, buffer: Buffer) -> str | None:
    """The one operation by which a block accumulates in cells of a buffer that it does not look at.

    Where values say which cells, they accumulate in the order that is promised of a scatter.
    """
    stmts = everything(body)
    touching = [one for one in stmts if getattr(one, "buffer", None) == buffer]
    updates = [one for one in touching if isinstance(one, Update) and dtype_of(one.value) == buffer.dtype]
    affine = all(isinstance(index, Affine) for one in updates for index in one.at)
    looked_at = any(one.buffer == buffer for stmt in stmts for part in parts(stmt) for one in reads(part))
    alone = len(updates) == len(touching) and affine and not looked_at
    return _reorderable({one.op for one in updates}) if alone else None


def _reorderable(operations: set[str]) -> str | None:
    return next((one for one in operations if len(operations) == 1 and OPS[one].reorderable and OPS[one].neutral), None)


@dataclass(frozen=True, slots=True)
class _Variable:
    """A variable, of which each strip has its `own`; the `total` takes what they found and what no strip has."""

    local: Local
    op: str
    cells: Buffer
    own: Local
    total: Local

    def started(self, strip: Affine) -> Sequence[Stmt]:
        return (Let(self.own, _neutral(self.op, self.own.dtype)),)

    def finished(self, strip: Affine) -> Sequence[Stmt]:
        return (Store(self.cells, (strip,), self.own),)

    def prepared(self) -> Sequence[Stmt]:
        return (Let(self.total, _neutral(self.op, self.total.dtype)),)

    def taking(self, stmt: Stmt, strip: Affine | None) -> Stmt | None:
        to = self.total if strip is None else self.own
        match stmt:
            case Set(local=local, value=Call(args=(_, value))) if local == self.local:
                return Set(to, Call(self.op, (to, _cast(value, local.dtype, to.dtype))))
        return None

    def joined(self, strip: Loop) -> Sequence[Stmt]:
        taken = Set(self.total, Call(self.op, (self.total, Read(self.cells, (Affine.of(strip[0]),)))))
        found = _cast(self.total, self.total.dtype, self.local.dtype)
        return *around([strip], (taken,)), Set(self.local, Call(self.op, (self.local, found)))


@dataclass(frozen=True, slots=True)
class _Cells:
    """Cells of a buffer, of which each strip has as many; what no strip has goes into the buffer itself."""

    buffer: Buffer
    op: str
    cells: Buffer

    def started(self, strip: Affine) -> Sequence[Stmt]:
        at, loops = self._every_cell(strip.names[0])
        return around(loops, (Store(self.cells, (strip, *at), _neutral(self.op, self.cells.dtype)),))

    def finished(self, strip: Affine) -> Sequence[Stmt]:
        return ()

    def prepared(self) -> Sequence[Stmt]:
        return ()

    def taking(self, stmt: Stmt, strip: Affine | None) -> Stmt | None:
        match stmt:
            case Update(buffer=buffer, at=at, value=value) if buffer == self.buffer and strip is not None:
                return Update(self.cells, (strip, *at), self.op, _cast(value, buffer.dtype, self.cells.dtype))
        return None

    def joined(self, strip: Loop) -> Sequence[Stmt]:
        at, loops = self._every_cell(strip[0])
        value = _cast(Read(self.cells, (Affine.of(strip[0]), *at)), self.cells.dtype, self.buffer.dtype)
        return around([strip, *loops], (Update(self.buffer, at, self.op, value),))

    def _every_cell(self, strip: str) -> tuple[tuple[Affine, ...], list[Loop]]:
        loops = [(f"{strip}_{axis}", size) for axis, size in enumerate(self.buffer.shape)]
        at = tuple(Affine.of(name) if size > 1 else Affine(()) for name, size in loops)
        return at, [loop for loop in loops if loop[1] > 1]


#: Accumulators of strips: how they are started and finished in a strip, what takes a value in place of a statement, in
#: a strip or after all of them (None), what is prepared for that, and how they are joined in the end.
Accumulator: TypeAlias = _Variable | _Cells


def _cast(value: Scalar, old: str, new: str) -> Scalar:
    return value if old == new else Cast(new, value)


def _neutral(op: str, dtype: str) -> Scalar:
    monoid = OPS[op].monoid
    return neutral_of(op, dtype) if monoid is None else start_of(monoid, dtype)
