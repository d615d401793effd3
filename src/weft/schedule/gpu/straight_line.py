"""Straight-line code is hoisted and fused: on a GPU it would be a launch of one program between others that have many.

for i: w[i] = …;  n = n + 1;  for i: v[i] = … n …;  m = m * 2
    becomes
    n = n + 1;  m = m * 2;  for i: w[i] = …;  for i: v[i] = … n …

What it reads is read before anything is written, where that is the same: loads do not wait for each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from weft.loops import Buffer, Let, Local, Set, Stmt, Store, Update, combined
from weft.loops.effects import effects, read_in
from weft.loops.names import BlockNames
from weft.loops.walk import Body
from weft.schedule.nodes import Kernel, in_sequence


@dataclass(frozen=True, slots=True)
class _Straight:
    """A kernel, what it reads and writes, and whether it is straight-line code."""

    kernel: Kernel
    reads: frozenset[Buffer]
    writes: frozenset[Buffer]
    straight: bool

    @staticmethod
    def of(kernel: Kernel) -> _Straight:
        body = kernel.body
        straight = not kernel.shared and not kernel.recurrence and _is_straight(body)
        return _Straight(kernel, frozenset(read_in(body)), frozenset(effects(body).buffers), straight)

    def before(self, other: _Straight) -> bool:
        """Must it stay before another?"""
        return not (
            self.writes.isdisjoint(other.reads)
            and self.writes.isdisjoint(other.writes)
            and self.reads.isdisjoint(other.writes)
        )

    def shares_loop(self, other: _Straight) -> bool:
        """Do both run in each iteration of one loop? Then nothing comes between them."""
        return self.kernel.shared[:1] == other.kernel.shared[:1] != ()

    def joined(self, other: _Straight) -> _Straight:
        """Both, one after the other."""
        remarks = tuple(dict.fromkeys([*self.kernel.remarks, *other.kernel.remarks]))
        body = in_sequence([self.kernel.body, other.kernel.body])
        return _Straight(Kernel(remarks, body), self.reads | other.reads, self.writes | other.writes, True)


def straight_first(kernels: Sequence[Kernel]) -> list[Kernel]:
    """Kernels with straight-line code as early as what it reads allows, and what comes to stand together joined."""
    done = list[_Straight]()
    for part in map(_Straight.of, kernels):
        place = len(done)
        if part.straight:
            place = 1 + max((at for at, one in enumerate(done) if one.before(part)), default=-1)
            while 0 < place < len(done) and done[place - 1].shares_loop(done[place]):
                place += 1
        beside = next((at for at in (place - 1, place) if 0 <= at < len(done) and done[at].straight), None)
        if part.straight and beside is not None:
            done[beside] = done[beside].joined(part)
        else:
            done.insert(place, part)
    return [one.kernel.with_body(loads_first(one.kernel.body)) if one.straight else one.kernel for one in done]


def loads_first(body: Body) -> Body:
    """Straight-line code with all it computes before all it stores; as it is, where it reads what it stored."""
    names, lets, stores = BlockNames(body), list[Stmt](), list[Stmt]()
    written = set[Buffer]()
    for stmt in body:
        if isinstance(stmt, Set) or not written.isdisjoint(read_in((stmt,))):
            return body
        if isinstance(stmt, Let):
            lets.append(stmt)
            continue
        assert isinstance(stmt, Store | Update)
        value = combined(stmt) if isinstance(stmt, Update) else stmt.value
        made = Local(names.fresh(stmt.buffer.name), stmt.buffer.dtype)
        lets.append(Let(made, value))
        stores.append(Store(stmt.buffer, stmt.at, made))
        written.add(stmt.buffer)
    return (*lets, *stores)


def _is_straight(body: Body) -> bool:
    return all(_is_plain(stmt) for stmt in body)


def _is_plain(stmt: Stmt) -> bool:
    return isinstance(stmt, Let | Set | Store | Update)
