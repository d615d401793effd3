"""Inlining: a virtual buffer is replaced, where it is read, by the computation of the one cell that is read.

    h[i, j] = x[i, j] + b[j];  y[i, j] = relu(h[i, j])      becomes      h: float32 = x[i, j] + b[j];  y[i, j] = relu(h)

The loops of the write are solved for the indices that are read; loops that these do not determine are run at the read.
A cell is computed in the outermost loop that determines its indices, once for each. A chain of virtual buffers may be
as long as the program, so the expansion has an explicit stack (`ops/trampoline.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from weft.affine import Affine
from weft.loops.insert_casts import combine
from weft.loops.nests import Nest, common_loops, fresh_identifier
from weft.loops.nodes import Buffer, Cast, If, Inside, Let, Local, Program, Read, Remark, Set, Stmt, Store, Update
from weft.loops.walk import Loop, around, mentioned, rewritten, substituted
from weft.naming import FreshNames
from weft.ops import Num, Scalar
from weft.ops.trampoline import Steps, finished


@dataclass(frozen=True, slots=True)
class InverseAccess:
    """The loops of a write as affine indices of a reader, and the tests under which the cell is written."""

    indices: Mapping[str, Affine]
    tests: tuple[Inside, ...]


def invert_access(writer: Nest, at: Sequence[Scalar]) -> InverseAccess | None:
    """The iterations in which `writer` writes the cell `at`; None if the indices cannot be solved for them."""
    sizes = dict(writer.loops)
    indices: dict[str, Affine] = {}
    tests: list[Inside] = []
    for written, wanted in zip(writer.core.at, at, strict=True):
        if not isinstance(written, Affine) or not isinstance(wanted, Affine):
            return None
        own = [term for term in written.terms if term[1] in sizes]
        rest = wanted
        if len(own) < len(written.terms) or written.offset:
            rest = wanted - written.without(sizes)
        if not own:
            tests += [Inside(rest, 1)] if rest != Affine() else []
            continue
        if len(own) > 1:
            return None
        ((factor, loop),) = own
        quotient = rest.divide(factor)
        if quotient is None:
            return None
        if loop not in indices:
            indices[loop] = quotient
            tests.append(Inside(quotient, sizes[loop]))
        elif indices[loop] != quotient:
            tests.append(Inside(quotient - indices[loop], 1))
    return InverseAccess(indices, tuple(tests))


def inlined(nests: Sequence[Nest], virtual: Collection[Buffer], static: Collection[str] = ()) -> Program:
    """The program without the virtual buffers: their computations stand where they are read.

    `static` are names that no loop or variable may have. Loops that nests share are left out.
    """
    writers: dict[Buffer, list[Nest]] = {}
    body: list[Stmt] = []
    for nest in nests:
        if nest.target in virtual:
            writers.setdefault(nest.target, []).append(nest)
        else:
            body.append(_Expansion(nest, writers, frozenset(static)).expand())
    return Program(tuple(body))


@dataclass(slots=True)
class _InlinedBlock:
    """A block being written: the loops around it, its statements so far, the variables of cells it has computed."""

    parent: _InlinedBlock | None
    ranges: Mapping[str, int]
    guarded: bool = False
    stmts: list[Stmt] = field(default_factory=list)
    known: dict[tuple[Buffer, tuple[Scalar, ...]], Local] = field(default_factory=dict)

    def inside(self, loops: Sequence[Loop] = (), *, guarded: bool = False) -> _InlinedBlock:
        return _InlinedBlock(self, {**self.ranges, **dict(loops)}, guarded)

    def find(self, key: tuple[Buffer, tuple[Scalar, ...]]) -> Local | None:
        found = self.known.get(key)
        return found if found is not None or self.parent is None else self.parent.find(key)

    def home(self, names: Collection[str], static: Collection[str]) -> _InlinedBlock:
        """The outermost block around in which all the names are bound; nothing moves out of a test."""
        block = self
        while block.parent and not block.guarded:
            if not all(name in block.parent.ranges or name in static for name in names):
                break
            block = block.parent
        return block


@dataclass(slots=True)
class _Expansion:
    """One nest with every virtual buffer it reads inlined."""

    nest: Nest
    writers: Mapping[Buffer, Sequence[Nest]]
    static: frozenset[str]
    remarks: dict[str, None] = field(default_factory=dict)
    names: FreshNames = field(default_factory=FreshNames)

    def expand(self) -> Stmt:
        return finished(self._expanded())

    def _expanded(self) -> Steps[Stmt]:
        nest = self.nest
        self.names.take({name for name, _ in nest.loops} | self.static)
        root = _InlinedBlock(None, dict(nest.loops[: len(nest.shared)]))
        blocks = [root]
        for loop in nest.own_loops:
            blocks.append(blocks[-1].inside([loop]))
        tests = yield self._tests(nest.tests, blocks[-1])
        if tests:
            blocks.append(blocks[-1].inside(guarded=True))
        inner = blocks[-1]
        indices = []
        for one in nest.core.at:
            indices.append((yield self._scalar(one, inner)))
        at, value = tuple(indices), (yield self._scalar(nest.core.value, inner))
        core = nest.core
        inner.stmts.append(
            Store(core.buffer, at, value) if isinstance(core, Store) else Update(core.buffer, at, core.op, value)
        )
        _close(blocks, nest.own_loops, tests)
        self.remarks |= dict.fromkeys(nest.remarks)
        text = "\n".join(self.remarks)
        return Remark(text, tuple(root.stmts))

    def _tests(self, tests: Sequence[Inside], block: _InlinedBlock) -> Steps[tuple[Inside, ...]]:
        """The tests with variables in place of reads of virtual buffers: they are computed before, whatever holds."""
        done = []
        for one in tests:
            done.append(Inside((yield self._scalar(one.index, block)), one.size))
        return tuple(done)

    def _scalar(self, scalar: Scalar, block: _InlinedBlock) -> Steps[Scalar]:
        """The scalar with variables in place of reads of virtual buffers."""
        cells: dict[Scalar, Scalar] = {}
        for read in self._virtual(scalar):
            at = []
            for one in read.at:
                at.append((yield self._scalar(one, block)))
            cells[read] = yield self._cell(read.buffer, tuple(at), block)
        return rewritten(scalar, lambda one: cells.get(one) if isinstance(one, Read) else None) if cells else scalar

    def _virtual(self, scalar: Scalar) -> list[Read]:
        """The reads of virtual buffers in a scalar, in the order written; not those in the subscripts of others."""
        found: dict[Read, None] = {}

        def leaf(one: Scalar) -> Scalar | None:
            if not isinstance(one, Read) or one.buffer not in self.writers:
                return None
            found[one] = None
            return one

        rewritten(scalar, leaf)
        return list(found)

    def _cell(self, buffer: Buffer, at: tuple[Scalar, ...], block: _InlinedBlock) -> Steps[Scalar]:
        """The variable that holds one cell of a virtual buffer."""
        found = block.find((buffer, at))
        if found is not None:
            return found
        home = block.home(mentioned(*at), self.static)
        local = Local(fresh_identifier(buffer.name, self.names), buffer.dtype)
        for position, writer in enumerate(self.writers[buffer]):
            self.remarks |= dict.fromkeys(writer.remarks)
            yield self._write(local, writer, at, home, first=position == 0)
        home.known[buffer, at] = local
        return local

    def _write(
        self, local: Local, writer: Nest, at: tuple[Scalar, ...], home: _InlinedBlock, *, first: bool
    ) -> Steps[None]:
        """What one of the buffer's writers does to the variable of a cell."""
        solution = invert_access(writer, at)
        assert solution is not None, f"{writer.target.name} was found to be inlinable"
        inner = writer.loops[common_loops(writer, self.nest) :]
        own = [(name, size) for name, size in inner if name not in solution.indices]
        loops = [(fresh_identifier(name, self.names), size) for name, size in own]
        renamed = {old: Affine.of(new) for (old, _), (new, _) in zip(own, loops, strict=True)}
        indices = {**solution.indices, **renamed}
        tests = tuple(one for one in solution.tests if not one.always(home.ranges)) + tuple(
            Inside(substituted(test.index, indices), test.size) for test in writer.tests
        )
        value = substituted(writer.core.value, indices)
        plain = isinstance(writer.core, Store) and not loops and not tests
        if first:
            started = (yield self._scalar(value, home)) if plain else Cast(local.dtype, Num(0))
            home.stmts.append(Let(local, started))
        if first and plain:
            return
        blocks = [home]
        for loop in loops:
            blocks.append(blocks[-1].inside([loop]))
        tests = yield self._tests(tests, blocks[-1])
        if tests:
            blocks.append(blocks[-1].inside(guarded=True))
        new = yield self._scalar(value, blocks[-1])
        if isinstance(writer.core, Update):
            new = combine(writer.core.op, local, new, local.dtype)
        blocks[-1].stmts.append(Set(local, new))
        _close(blocks, loops, tests)


def _close(blocks: list[_InlinedBlock], loops: Sequence[Loop], tests: tuple[Inside, ...]) -> None:
    """Write each of some blocks at the end of the one around it."""
    if tests:
        inner = blocks.pop()
        blocks[-1].stmts.append(If(tests, tuple(inner.stmts)))
    for loop, outer, block in reversed(list(zip(loops, blocks, blocks[1:], strict=False))):
        outer.stmts += around([loop], tuple(block.stmts))
