"""Within a kernel, numbers go from write to read without memory, sums grow in a number, and writes nobody reads go.

c[i] = 0;  for k: c[i] += a[i, k];  y[i] = relu(c[i])    becomes    c = 0;  for k: c = c + a[i, k];  y[i] = relu(c)
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from weft.loops import Buffer, Cast, For, If, Let, Local, Read, Remark, Set, Stmt, Store, Update, reads, walk
from weft.loops.effects import changed as set_in
from weft.loops.effects import mapped as changed
from weft.loops.nests import free, identifier, rewritten
from weft.loops.typed import combine
from weft.ops import Num, Scalar
from weft.schedule.access import accesses, read_in, written_in
from weft.schedule.fuse import Kernel
from weft.schedule.levels import names_in

#: A cell by its buffer and subscripts.
Cell = tuple[Buffer, tuple[Scalar, ...]]


def forward(kernels: Sequence[Kernel], kept: Collection[Buffer]) -> list[Kernel]:
    """The kernels with values handed on directly; `kept` are the buffers that must be written for later."""
    handed = [_Forwarding(set(names_in(one.body))).kernel(one) for one in kernels]
    while True:
        read = set(kept).union(*(read_in(one.body) for one in handed))
        cleaned = [Kernel(one.remarks, _without(one.body, read), one.why) for one in handed]
        cleaned = [one for one in cleaned if one.body]
        if cleaned == handed:
            return cleaned
        handed = cleaned


@dataclass(slots=True)
class _Forwarding:
    names: set[str]
    #: What is known of cells at this point of the block.
    cells: dict[Cell, Scalar] = field(default_factory=dict)

    def kernel(self, kernel: Kernel) -> Kernel:
        return Kernel(kernel.remarks, tuple(self._block(kernel.body)), kernel.why)

    def _block(self, body: Sequence[Stmt]) -> list[Stmt]:
        done: list[Stmt] = []
        for stmt in body:
            done += self._stmt(stmt)
        return done

    def _stmt(self, stmt: Stmt) -> list[Stmt]:
        match stmt:
            case Store(buffer=buffer, at=at, value=value):
                return self._written(buffer, at, self._scalar(value))
            case Update(buffer=buffer, at=at, op=op, value=value):
                old = self.cells.get((buffer, at))
                new = self._scalar(value)
                if old is None:
                    self._forget(buffer)
                    return [Update(buffer, at, op, new)]
                return self._written(buffer, at, combine(op, old, new, buffer.dtype))
            case For():
                return self._loop(stmt)
            case If(body=body):
                before = dict(self.cells)
                inner = tuple(self._block(body))
                self.cells = before
                for buffer in written_in(body):
                    self._forget(buffer)
                self._reset(set_in(body))
                return [If(stmt.tests, inner)]
            case Remark(body=body):
                return self._block(body)
            case Set(local=local):
                new_value = changed(stmt, self._scalar)
                self._reset({local})
                return [new_value]
        return [changed(stmt, self._scalar)]

    def _loop(self, stmt: For) -> list[Stmt]:
        """A loop; what it adds to one cell all along, it adds to a number."""
        lead: list[Stmt] = []
        trail: list[Store] = []
        touched: dict[Buffer, set[tuple[Scalar, ...] | None]] = {}
        written: dict[Buffer, None] = {}
        for one in accesses((stmt,)):
            touched.setdefault(one.buffer, set()).add(one.at)
            if one.writes:
                written[one.buffer] = None
        for buffer in written:
            cell = self._grows(touched[buffer], stmt)
            known = self.cells.get((buffer, cell)) if cell is not None else None
            if cell is not None and known is not None:
                local = self._local(buffer)
                lead.append(Let(local, known))
                self._forget(buffer)
                stmt = _on_number(stmt, buffer, cell, local)
                trail.append(Store(buffer, cell, local))
            else:
                self._forget(buffer)
        self._reset(set_in(stmt.body))
        before = dict(self.cells)
        body = tuple(self._block(stmt.body))
        self.cells = before
        done: list[Stmt] = [*lead, For(stmt.loop, stmt.size, body)]
        for store in trail:
            done += self._written(store.buffer, store.at, store.value)
        return done

    def _grows(self, found: set[tuple[Scalar, ...] | None], stmt: For) -> tuple[Scalar, ...] | None:
        """The one cell of a buffer that a loop touches, if it is always the same."""
        at = next(iter(found)) if len(found) == 1 else None
        inner = {stmt.loop, *names_in(stmt.body)}
        return None if at is None or any(name in inner for one in at for name in free(one)) else at

    def _written(self, buffer: Buffer, at: tuple[Scalar, ...], value: Scalar) -> list[Stmt]:
        self._forget(buffer)
        if isinstance(value, Local) or (isinstance(value, Cast) and isinstance(value.value, Num)):
            self.cells[buffer, at] = value
            return [Store(buffer, at, value)]
        local = self._local(buffer)
        self.cells[buffer, at] = local
        return [Let(local, value), Store(buffer, at, local)]

    def _scalar(self, scalar: Scalar) -> Scalar:
        def leaf(one: Scalar) -> Scalar | None:
            return self.cells.get((one.buffer, one.at)) if isinstance(one, Read) else None

        return rewritten(scalar, leaf)

    def _forget(self, buffer: Buffer) -> None:
        """What is known of a buffer, and of cells found through it, holds no longer."""
        self.cells = {
            cell: value
            for cell, value in self.cells.items()
            if cell[0] != buffer and buffer not in _found_through(cell)
        }

    def _reset(self, numbers: set[Local]) -> None:
        """What is known through numbers that get other values holds no longer."""
        self.cells = {
            cell: value
            for cell, value in self.cells.items()
            if value not in numbers and not any(one in numbers for place in cell[1] for one in walk(place))
        }

    def _local(self, buffer: Buffer) -> Local:
        return Local(identifier(buffer.name, self.names), buffer.dtype)


def _found_through(cell: Cell) -> set[Buffer]:
    """The buffers that must be read to know which cell is meant."""
    return {read.buffer for place in cell[1] for read in reads(place)}


def _on_number(stmt: For, buffer: Buffer, at: tuple[Scalar, ...], local: Local) -> For:
    """The loop with a number in place of a cell."""

    def leaf(one: Scalar) -> Scalar | None:
        return local if one == Read(buffer, at) else None

    def change(one: Stmt) -> Stmt:
        match one:
            case Store(value=value) if one.buffer == buffer:
                return Set(local, rewritten(value, leaf))
            case Update(op=op, value=value) if one.buffer == buffer:
                return Set(local, combine(op, local, rewritten(value, leaf), buffer.dtype))
            case For(loop=loop, size=size, body=body):
                return For(loop, size, tuple(map(change, body)))
            case If(tests=tests, body=body):
                return If(tests, tuple(map(change, body)))
            case Remark(text=text, body=body):
                return Remark(text, tuple(map(change, body)))
        return changed(one, lambda scalar: rewritten(scalar, leaf))

    return For(stmt.loop, stmt.size, tuple(map(change, stmt.body)))


def _without(body: Sequence[Stmt], read: Collection[Buffer]) -> tuple[Stmt, ...]:
    """A block without writes to buffers nobody reads, without the loops and numbers left idle by that."""
    kept: list[Stmt] = []
    for stmt in body:
        match stmt:
            case Store(buffer=buffer) | Update(buffer=buffer) if buffer not in read:
                continue
            case For(loop=loop, size=size, body=inner):
                rest = _without(inner, read)
                if rest:
                    kept.append(For(loop, size, rest))
            case If(tests=tests, body=inner):
                rest = _without(inner, read)
                if rest:
                    kept.append(If(tests, rest))
            case Remark(text=text, body=inner):
                rest = _without(inner, read)
                if rest:
                    kept.append(Remark(text, rest))
            case _:
                kept.append(stmt)
    return tuple(_used(_last_writes(kept)))


def _last_writes(body: list[Stmt]) -> list[Stmt]:
    """The block without writes of cells that are written again before anyone reads them."""
    kept: list[Stmt] = []
    again: set[Cell] = set()
    for stmt in reversed(body):
        if isinstance(stmt, Store) and (stmt.buffer, stmt.at) in again:
            continue
        read, written = read_in((stmt,)), written_in((stmt,))
        again = {cell for cell in again if cell[0] not in read and not _found_through(cell) & written}
        if isinstance(stmt, Store) and not any(isinstance(one, Local) for place in stmt.at for one in walk(place)):
            again.add((stmt.buffer, stmt.at))
        kept.append(stmt)
    return kept[::-1]


def _used(body: list[Stmt]) -> list[Stmt]:
    """The block without numbers that nothing after them uses."""
    used: set[str] = set()
    kept: list[Stmt] = []
    for stmt in reversed(body):
        if isinstance(stmt, Let | Set) and stmt.local.name not in used and not _sets_outer(stmt, body):
            continue
        used |= set(_mentioned(stmt))
        kept.append(stmt)
    return kept[::-1]


def _sets_outer(stmt: Stmt, body: list[Stmt]) -> bool:
    """Does it set a number that a block further out declared?"""
    return isinstance(stmt, Set) and not any(isinstance(one, Let) and one.local == stmt.local for one in body)


def _mentioned(stmt: Stmt) -> list[str]:
    found: list[str] = []

    def leaf(one: Scalar) -> Scalar | None:
        if isinstance(one, Local):
            found.append(one.name)
        return None

    def note(scalar: Scalar) -> Scalar:
        return rewritten(scalar, leaf)

    changed(stmt, note)
    return found
