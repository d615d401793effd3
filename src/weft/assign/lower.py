"""From assignments to loops: product spaces become loops, index maps subscripts, padding tests.

c =:+ a * b ~logic:"@"      becomes      fill c with 0; for i: for k: for j: c[i, k] += a[i, j] * b[j, k]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from math import prod
from typing import NamedTuple

from weft.affine import Affine
from weft.assign.definitions import accumulates
from weft.assign.explicit import Buffers, Explicit, Run, SpellingOut, held, placed_leaf, redirected, written_at
from weft.assign.iterations import LoopIndex, Standing
from weft.assign.nodes import (
    Accum,
    Assignment,
    Cells,
    Code,
    Comment,
    Direct,
    Fetch,
    Keep,
    Node,
    Noop,
    Repeat,
    Seq,
    loop_indices,
    node_of,
    operands_of,
    statements,
    target,
)
from weft.assign.scratch import accumulation_buffer, before, copied_cells, every_cell, neutral_fill, untaken, wide_sum
from weft.assign.show import Printer
from weft.assign.states import monoid_nests
from weft.loops import Buffer, Cast, Fill, For, If, Program, Read, Remark, Stmt, Store, Update, typed
from weft.loops.walk import around, reads, remade
from weft.ops import OPS, Num, Scalar, substitute
from weft.optimise.split_scalars import bounded
from weft.shape.close import close


class _Total(NamedTuple):
    """A sum over all iterations of a loop: its target, where it grows, and its first subscripts."""

    target: Buffer
    cells: Buffer
    first: tuple[Affine, ...]


def lower(code: Code, buffers: Buffers, static: Iterable[str] = ()) -> Program:
    """The typed loop program of the code; no loop is called like one of the `static` indices."""
    known, names = cache(buffers), frozenset(static)
    loops = {index: untaken(index.name, names) for index in loop_indices(code)}
    taken = names.union(loops.values())
    lowering = _Lowering(known, Printer(code, lambda node: known(node).name), taken, SpellingOut(known, taken), loops)
    return bounded(typed(Program(tuple(lowering.lower(code)))))


@dataclass(frozen=True, slots=True)
class _Lowering:
    buffers: Buffers
    printer: Printer
    static: frozenset[str]
    spelled_out: SpellingOut
    #: What loops around assignments are called, and where they stand.
    loops: Mapping[LoopIndex, str]
    standing: Standing = field(default_factory=dict)
    #: Where sums grow over all iterations of a loop around.
    growing: Mapping[Buffer, Buffer] = field(default_factory=dict)

    def lower(self, code: Code) -> list[Stmt]:
        match code:
            case Noop() | Keep():
                return []
            case Seq(codes=codes):
                return [stmt for one in codes for stmt in self.lower(one)]
            case Comment(text=text, body=body):
                return [Remark(text, tuple(self.lower(body)))]
            case Repeat(index=index, body=body) if not index.size:
                empty = dict.fromkeys(self.buffers(target(one)) for one in statements(body))
                return [Fill(one, 0) for one in empty if not prod(one.shape)]
            case Repeat():
                return self._repeated(code)
            case Fetch():
                return [Remark(self.printer.show(code), (self._fetch(code),))]
            case Accum() | Direct():
                return [Remark(self.printer.show(code), tuple(self._assigned(code)))]

    def _repeated(self, code: Repeat) -> list[Stmt]:
        """A loop, with what it only adds to in a wider type until it is over."""
        index, loop = code.index, Affine.of(self.loops[code.index])
        at = -loop + (index.size - 1) if code.reverse else loop
        sums = [one for one in self._totals(code.body) if one.cells != one.target]
        growing = {**self.growing, **{one.target: one.cells for one in sums}}
        inner = replace(self, standing={**self.standing, index: at}, growing=growing)
        return [
            *(copied_cells(one.cells, one.target, self.static, one.first) for one in sums),
            For(self.loops[index], index.size, tuple(inner.lower(code.body))),
            *(copied_cells(one.target, one.cells, self.static, one.first) for one in sums),
        ]

    def _totals(self, body: Code) -> Iterator[_Total]:
        """What all iterations of a loop accumulate in, and do nothing else with."""
        every = list(statements(body))
        read = {node_of(operand) for one in every for operand in operands_of(one)}
        other = {target(one) for one in every if not _goes_on(one)}
        for node in dict.fromkeys(map(target, every)):
            buffer, loops = self.buffers(node), node.iterations.indices if node.iterations else ()
            known = buffer in self.growing or not prod(buffer.shape)
            if not known and node not in read and node not in other and self.standing.keys() >= {*loops}:
                yield _Total(buffer, wide_sum(buffer), written_at(node, self.standing))

    def _assigned(self, code: Accum | Direct) -> list[Stmt]:
        target = self.buffers(code.lhs)
        if isinstance(code, Direct) and code.domain.idle:
            return []
        if not prod(target.shape):
            return [Fill(target, 0)]  # no cells, but the program names what it leaves behind
        found = self.spelled_out(code, self.standing)
        if isinstance(code, Direct):
            around = {self.loops[index]: index.size for index in self.standing}
            found = replace(found, runs=tuple(held(run, target, around) for run in found.runs))
        if OPS[code.accum].monoid:
            return monoid_nests(found, self.static, written_at(code.lhs, self.standing), code.origin)
        return self._nests(found, written_at(code.lhs, self.standing))

    def _nests(self, one: Explicit, first: tuple[Affine, ...]) -> list[Stmt]:
        """The loops of an assignment: its start, its nests, and what it takes from beside the target."""
        target, accum = one.target, one.accum
        grows = target in self.growing
        cells = self.growing[target] if grows else target if one.injective else _accumulation_buffer(one)
        stmts: list[Stmt] = []
        plain = accum == "arg2" or (one.reset and one.injective and _is_kept(accum, target))
        if one.reset and OPS[accum].begins is not None and not (plain and one.surjective):
            stmts.append(self._filled(neutral_fill(cells, accum, target), first))
        elif cells != target and not grows:
            stmts.append(copied_cells(cells, target, self.static, first))
        runs = one.runs
        if one.recurrent and cells != target:
            runs = tuple(_read_as_stored(run, target, cells) for run in runs)
        if not _reads_only_own_cells(one, bool(stmts)):
            old = before(target)
            stmts.insert(0, copied_cells(old, target, self.static, first))
            runs = tuple(_redirected(run, target, old) for run in runs)
        for run in runs:
            core: Stmt = Store(cells, run.at, run.value) if plain else Update(cells, run.at, accum, run.value)
            stmts += around(run.loops, (If(run.guards, (core,)) if run.guards else core,))
        return stmts if cells == target or grows else [*stmts, copied_cells(target, cells, self.static, first)]

    def _filled(self, fill: Fill, first: tuple[Affine, ...]) -> Stmt:
        """One value in all cells, or in those of an iteration."""
        if not first:
            return fill
        at, loops = every_cell(fill.buffer, self.static, first)
        return around(loops, (Store(fill.buffer, at, Num(fill.value)),))[0]

    def _fetch(self, code: Fetch) -> Stmt:
        assert isinstance(code.source, Cells), "data and files are bound, not computed"
        target, first = self.buffers(code.node), written_at(code.node, self.standing)
        if not prod(target.shape):
            return Fill(target, 0)
        at, loops = every_cell(target, self.static, first)
        own, shape = at[len(first) :], target.shape[len(first) :]
        placed = substitute(code.source.value, lambda one: placed_leaf(one, shape, own))
        if isinstance(placed, Num):
            return self._filled(Fill(target, placed.value), first)
        return around(loops, (Store(target, at, placed),))[0]


def _goes_on(statement: Assignment) -> bool:
    """Does an assignment do nothing with what is there but accumulate in it, rounded whenever it is stored?"""
    if isinstance(statement, Fetch) or not accumulates(statement):
        return False
    own = isinstance(statement, Direct) and any(
        one.buffer.name == statement.names[0] for part in (statement.value, *statement.at) for one in reads(part)
    )
    return not (own or OPS[statement.accum].idempotent or OPS[statement.accum].monoid)


def _accumulation_buffer(one: Explicit) -> Buffer:
    """Where an accumulation is carried: as its values demand, in whatever run they are computed."""
    found = (accumulation_buffer(one.target, one.accum, run.value) for run in one.runs)
    return next((cells for cells in found if cells != one.target), one.target)


def _reads_only_own_cells(one: Explicit, cleared: bool) -> bool:
    """Does the target, where it is also read, give each cell only its own old value?"""
    if one.target not in one.operands or one.recurrent:
        return True
    own = all(read.at == run.at for run in one.runs for read in reads(run.value) if read.buffer == one.target)
    found_there = any(read.buffer == one.target for run in one.runs for index in run.at for read in reads(index))
    return one.injective and not cleared and own and not found_there


def _redirected(run: Run, buffer: Buffer, other: Buffer) -> Run:
    """A run that reads another buffer instead of one, also to find the cells that it writes."""
    value, *at = (redirected(one, buffer, other) for one in (run.value, *run.at))
    return replace(run, at=tuple(at), value=value)


def _read_as_stored(run: Run, target: Buffer, cells: Buffer) -> Run:
    """A run that reads what it has accumulated beside its target, as the target will hold it."""

    def stored(one: Scalar, parts: tuple[Scalar, ...]) -> Scalar | None:
        own = isinstance(one, Read) and one.buffer == target
        return Cast(target.dtype, Read(cells, parts)) if own else None

    return replace(run, value=remade(run.value, stored))


def _is_kept(accum: str, target: Buffer) -> bool:
    """Is what an accumulation makes of its start and one value that value? Logic makes a truth value of a number."""
    return OPS[accum].neutral is not None and (not OPS[accum].truth or target.dtype == "bool")


def closed_buffer(node: Node, identity: int, name: str) -> Buffer:
    """The buffer of a node, closing its shape."""
    iterations = node.iterations.sizes if node.iterations else ()
    return Buffer(identity, name, (*iterations, *close(node.shape).array_shape), node.dtype)
