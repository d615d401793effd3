"""Store-to-load forwarding and scalar replacement: within a kernel loads take the value of the store before them from a
variable, and accumulations run in a variable.

c[i] = 0;  for k: c[i] += a[i, k];  y[i] = relu(c[i])    becomes    c = 0;  for k: c = c + a[i, k];  y[i] = relu(c)
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from weft.affine import Affine
from weft.loops import Buffer, Cast, For, If, Let, Local, Read, Remark, Set, Stmt, Store, Update
from weft.loops.effects import effects, found_through
from weft.loops.insert_casts import combine
from weft.loops.nests import fresh_identifier
from weft.loops.walk import Body, Cell, accesses, free, map_scalars, rewritten, substituted, top_down, walk
from weft.naming import FreshNames
from weft.ops import Num, Scalar
from weft.schedule.fusion.dead_stores import eliminate_dead_stores
from weft.schedule.loop_tree import bound_names
from weft.schedule.nodes import Kernel


def forwarded(kernels: Sequence[Kernel], kept: Collection[Buffer]) -> list[Kernel]:
    """The kernels with stores forwarded; `kept` are the buffers that are live out of the program."""
    stored = [one.body if one.decided else _forwarded(one.body) for one in kernels]
    bodies = eliminate_dead_stores(stored, kept)
    return [one if one.decided else one.with_body(body) for one, body in zip(kernels, bodies, strict=True) if body]


def _forwarded(body: Body) -> Body:
    return tuple(_Forwarding(FreshNames(bound_names(body))).block(body))


@dataclass(slots=True)
class _Forwarding:
    names: FreshNames
    #: The known values of cells at this point of the block.
    cells: dict[Cell, Scalar] = field(default_factory=dict)

    def block(self, body: Sequence[Stmt]) -> list[Stmt]:
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
                inner = tuple(self.block(body))
                self.cells = before
                self._forget_changes(body)
                return [If(stmt.tests, inner)]
            case Remark(body=body):
                return self.block(body)
            case Set(local=local):
                new_value = map_scalars(stmt, self._scalar)
                self._reset({local})
                return [new_value]
        return [map_scalars(stmt, self._scalar)]

    def _loop(self, stmt: For) -> list[Stmt]:
        """A loop; what it accumulates in one cell, or leaves to its next iteration, it has in a variable."""
        accumulators = self._accumulators(stmt) if self.cells else {}
        lead = [Let(local, self.cells[cell]) for cell, local in accumulators.items()]
        for cell, local in self._left_over(stmt).items():
            lead.append(Let(local, self.cells[_at_first(cell, stmt.loop)]))
            stmt = _through_variable(stmt, cell, local, self._local(cell[0]))
        for (buffer, at), local in accumulators.items():
            stmt = _in_variable(stmt, buffer, at, local)
        self._forget_changes(stmt.body)
        for buffer, _ in accumulators:
            self._forget(buffer)
        before = dict(self.cells)
        done: list[Stmt] = [*lead, For(stmt.loop, stmt.size, tuple(self.block(stmt.body)))]
        self.cells = before
        for (buffer, at), local in accumulators.items():
            done += self._written(buffer, at, local)
        return done

    def _left_over(self, stmt: For) -> dict[Cell, Local]:
        """The cells that each iteration reads and the one before it has written, and a variable for each.

        The first is known before the loop. All that the loop writes of the buffer is one store of its own block.
        """
        stores = [one for one in stmt.body if isinstance(one, Store)] if self.cells else []
        touched = accesses((stmt,)) if stores else []
        names = bound_names(stmt.body)
        found: dict[Cell, Local] = {}
        for store in stores:
            own = {one.at for one in touched if one.buffer == store.buffer and not one.writes} - {store.at}
            writes = [one for one in touched if one.buffer == store.buffer and one.writes]
            if len(own) != 1 or len(writes) != 1 or (at := own.pop()) is None or not all(map(_is_affine, at)):
                continue
            ahead = {stmt.loop: Affine.of(stmt.loop) + 1}
            fixed = names.isdisjoint(name for index in at for name in free(index))
            cell = (store.buffer, at)
            if fixed and at != store.at and tuple(substituted(one, ahead) for one in at) == store.at:
                if _at_first(cell, stmt.loop) in self.cells:
                    found[cell] = self._local(store.buffer)
        return found

    def _accumulators(self, stmt: For) -> dict[Cell, Local]:
        """The cells known before a loop that are all it touches of the buffers it writes, and a variable for each."""
        touched = accesses((stmt,))
        written = dict.fromkeys(one.buffer for one in touched if one.writes)
        cells = {buffer: {one.at for one in touched if one.buffer == buffer} for buffer in written}
        names = bound_names((stmt,))
        found = [(buffer, at) for buffer, own in cells.items() if len(own) == 1 for at in own if at is not None]
        return {
            cell: self._local(cell[0])
            for cell in found
            if cell in self.cells and written.keys().isdisjoint(found_through(cell))
            if names.isdisjoint(name for index in cell[1] for name in free(index))
        }

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

    def _forget_changes(self, body: Sequence[Stmt]) -> None:
        """Forget what depends on buffers and variables that a block changes."""
        if self.cells:
            found = effects(body)
            for buffer in found.buffers:
                self._forget(buffer)
            self._reset(found.sets)

    def _forget(self, buffer: Buffer) -> None:
        """Forget the cells of a buffer, and those subscripted by it."""
        self.cells = {
            cell: value for cell, value in self.cells.items() if cell[0] != buffer and buffer not in found_through(cell)
        }

    def _reset(self, variables: set[Local]) -> None:
        """Forget what depends on variables that are set."""
        self.cells = {
            cell: value
            for cell, value in self.cells.items()
            if value not in variables and not any(one in variables for index in cell[1] for one in walk(index))
        }

    def _local(self, buffer: Buffer) -> Local:
        return Local(fresh_identifier(buffer.name, self.names), buffer.dtype)


def _is_affine(index: Scalar) -> bool:
    return isinstance(index, Affine)


def _at_first(cell: Cell, loop: str) -> Cell:
    """A cell in the first iteration of a loop."""
    buffer, at = cell
    return buffer, tuple(substituted(one, {loop: Affine()}) for one in at)


def _through_variable(stmt: For, cell: Cell, local: Local, before: Local) -> For:
    """The loop with a variable in place of a cell that it reads; it is set where the next one is written.

    What follows that reads what the variable held before.

    for t: { h[t + 1] = h[t] + 1;  y[t] = h[t] }    becomes    for t: { b = h;  h = h + 1;  h[t + 1] = h;  y[t] = b }
    """
    (at,) = (at for at, one in enumerate(stmt.body) if isinstance(one, Store) and one.buffer == cell[0])
    *lead, store = _with_cell(stmt.body[: at + 1], cell, local)
    rest = _with_cell(stmt.body[at + 1 :], cell, before)
    assert isinstance(store, Store)
    kept = [Let(before, local)] if rest != stmt.body[at + 1 :] else []
    return For(stmt.loop, stmt.size, (*lead, *kept, Set(local, store.value), replace(store, value=local), *rest))


def _with_cell(body: Body, cell: Cell, local: Local) -> Body:
    """A block with a variable in place of a cell that it reads."""
    old = Read(*cell)

    def read(scalar: Scalar) -> Scalar:
        return rewritten(scalar, lambda one: local if one == old else None)

    return tuple([map_scalars(one, read) for one in body])


def _in_variable(stmt: For, buffer: Buffer, at: tuple[Scalar, ...], local: Local) -> For:
    """The loop with a variable in place of a cell."""

    def write(one: Stmt) -> Sequence[Stmt] | None:
        match one:
            case Store(value=value) if one.buffer == buffer:
                return [Set(local, value)]
            case Update(op=op, value=value) if one.buffer == buffer:
                return [Set(local, combine(op, local, value, buffer.dtype))]
        return None

    return For(stmt.loop, stmt.size, top_down(_with_cell(stmt.body, (buffer, at), local), write))
