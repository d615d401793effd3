"""From assignments to loops: product spaces become loops, index maps subscripts, padding tests.

c =:+ a * b ~logic:"@"      becomes      fill c with 0; for i: for k: for j: c[i, k] += a[i, j] * b[j, k]
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from math import prod

from weft.assign.explicit import Buffers, Explicit, Run, SpellingOut, held, placed_leaf, redirected
from weft.assign.nodes import Accum, Cells, Code, Comment, Direct, Fetch, Keep, Node, Noop, Seq
from weft.assign.scratch import accumulation_buffer, before, copied_cells, every_cell, neutral_fill
from weft.assign.show import Printer
from weft.assign.states import monoid_nests
from weft.loops import Buffer, Fill, If, Program, Remark, Stmt, Store, Update, typed
from weft.loops.walk import around, reads
from weft.ops import OPS, Num, substitute
from weft.optimise.split_scalars import bounded
from weft.shape.close import close


def lower(code: Code, buffers: Buffers, static: Iterable[str] = ()) -> Program:
    """The typed loop program of the code; no loop is called like one of the `static` indices."""
    known = cache(buffers)
    names = frozenset(static)
    lowering = _Lowering(known, Printer(code, lambda node: known(node).name), names, SpellingOut(known, names))
    return bounded(typed(Program(tuple(lowering.lower(code)))))


@dataclass(frozen=True, slots=True)
class _Lowering:
    buffers: Buffers
    printer: Printer
    static: frozenset[str]
    spelled_out: SpellingOut

    def lower(self, code: Code) -> list[Stmt]:
        match code:
            case Noop() | Keep():
                return []
            case Seq(codes=codes):
                return [stmt for one in codes for stmt in self.lower(one)]
            case Comment(text=text, body=body):
                return [Remark(text, tuple(self.lower(body)))]
            case Fetch():
                return [Remark(self.printer.show(code), (self._fetch(code),))]
            case Accum() | Direct():
                return [Remark(self.printer.show(code), tuple(self._assigned(code)))]

    def _assigned(self, code: Accum | Direct) -> list[Stmt]:
        target = self.buffers(code.lhs)
        if isinstance(code, Direct) and code.domain.idle:
            return []
        if not prod(target.shape):
            return [Fill(target, 0)]  # no cells, but the program names what it leaves behind
        found = self.spelled_out(code)
        if isinstance(code, Direct):
            found = replace(found, runs=tuple(held(run, target) for run in found.runs))
        return monoid_nests(found, self.static) if OPS[code.accum].monoid else self._nests(found)

    def _nests(self, one: Explicit) -> list[Stmt]:
        """The loops of an assignment: its start, its nests, and what it takes from beside the target."""
        target, accum = one.target, one.accum
        cells = target if one.injective else _accumulation_buffer(one)
        stmts: list[Stmt] = []
        plain = accum == "arg2" or (one.reset and one.injective and _is_kept(accum, target))
        if one.reset and OPS[accum].begins is not None and not (plain and one.surjective):
            stmts.append(neutral_fill(cells, accum, target))
        elif cells != target:
            stmts.append(copied_cells(cells, target, self.static))
        runs = one.runs
        if not _reads_only_own_cells(one, bool(stmts)):
            old = before(target)
            stmts.insert(0, copied_cells(old, target, self.static))
            runs = tuple(_redirected(run, target, old) for run in runs)
        for run in runs:
            core: Stmt = Store(cells, run.at, run.value) if plain else Update(cells, run.at, accum, run.value)
            stmts += around(run.loops, (If(run.guards, (core,)) if run.guards else core,))
        return stmts if cells == target else [*stmts, copied_cells(target, cells, self.static)]

    def _fetch(self, code: Fetch) -> Stmt:
        assert isinstance(code.source, Cells), "data and files are bound, not computed"
        target = self.buffers(code.node)
        if not prod(target.shape):
            return Fill(target, 0)
        at, loops = every_cell(target, self.static)
        value = substitute(code.source.value, lambda one: placed_leaf(one, target, at))
        return Fill(target, value.value) if isinstance(value, Num) else around(loops, (Store(target, at, value),))[0]


def _accumulation_buffer(one: Explicit) -> Buffer:
    """Where an accumulation is carried: as its values demand, in whatever run they are computed."""
    found = (accumulation_buffer(one.target, one.accum, run.value) for run in one.runs)
    return next((cells for cells in found if cells != one.target), one.target)


def _reads_only_own_cells(one: Explicit, cleared: bool) -> bool:
    """Does the target, where it is also read, give each cell only its own old value?"""
    if one.target not in one.operands:
        return True
    own = all(read.at == run.at for run in one.runs for read in reads(run.value) if read.buffer == one.target)
    found_there = any(read.buffer == one.target for run in one.runs for index in run.at for read in reads(index))
    return one.injective and not cleared and own and not found_there


def _redirected(run: Run, buffer: Buffer, other: Buffer) -> Run:
    """A run that reads another buffer instead of one, also to find the cells that it writes."""
    value, *at = (redirected(one, buffer, other) for one in (run.value, *run.at))
    return replace(run, at=tuple(at), value=value)


def _is_kept(accum: str, target: Buffer) -> bool:
    """Is what an accumulation makes of its start and one value that value? Logic makes a truth value of a number."""
    return OPS[accum].neutral is not None and (not OPS[accum].truth or target.dtype == "bool")


def closed_buffer(node: Node, identity: int, name: str) -> Buffer:
    """The buffer of a node, closing its shape."""
    return Buffer(identity, name, close(node.shape).array_shape, node.dtype)
