"""Kernels that differ in names alone become the same kernel, to be compiled once.

    for i: h[i] = relu(x[i] + b[i])      becomes      for i0: x0[i0] = relu(x1[i0] + x2[i0])

Buffers are called x0, x1, …, loops i0, i1, …, variables n0, n1, … and static indices s0, s1, …, in the order in which
they come up; the terms of an index are in that order, too. Remarks go. Shapes, types and constants stay: they are what
makes kernels different. Every loop and variable has a name of its own, also where the kernel used one twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import count

from weft.affine import Affine
from weft.loops import Buffer, For, Let, Program, Remark, Role, Staged, Stmt, buffers_of
from weft.loops.staged import description_of
from weft.loops.walk import Body, Renaming, bottom_up, rename, retargeted
from weft.naming import FreshNames
from weft.schedule.nodes import Kernel


@dataclass(frozen=True, slots=True)
class Systematic:
    """A block under systematic names: what its loops and variables were called by their new names, and what static
    indices are called now."""

    body: Body
    bound: Mapping[str, str]
    static: Mapping[str, str]

    def back(self, body: Sequence[Stmt]) -> Body:
        """A block that was made of this one, under the old names where those tell all apart."""
        names = FreshNames(self.static)
        old = {new: names.fresh(one) for new, one in self.bound.items()}
        given = {new: one for one, new in self.static.items()}

        def called(stmt: For | Let) -> str:
            name = stmt.loop if isinstance(stmt, For) else stmt.local.name
            return old.get(name) or old.setdefault(name, names.fresh(name))

        def index(one: Affine, known: Renaming) -> Affine:
            return Affine(tuple((factor, known.get(name) or given[name]) for factor, name in one.terms), one.offset)

        return bottom_up(rename(body, called, index=index), _plain)


def systematic(body: Sequence[Stmt]) -> Systematic:
    """A block with loops, variables and static indices under systematic names; buffers keep theirs."""
    loops, variables = count(), count()
    names: dict[str, str] = {}
    static: dict[str, str] = {}

    def bound(stmt: For | Let) -> str:
        new, old = (f"i{next(loops)}", stmt.loop) if isinstance(stmt, For) else (f"n{next(variables)}", stmt.local.name)
        names[new] = old
        return new

    def index(one: Affine, known: Renaming) -> Affine:
        terms = [(factor, known.get(name) or static.setdefault(name, f"s{len(static)}")) for factor, name in one.terms]
        if len(terms) > 1:
            terms.sort(key=lambda term: (term[1][0], int(term[1][1:])))
        return Affine(tuple(terms), one.offset)

    return Systematic(bottom_up(rename(body, bound, index=index), _plain), names, static)


def canonical_kernel(kernel: Kernel) -> tuple[Kernel, tuple[Buffer, ...], tuple[str, ...]]:
    """The kernel under systematic names; the buffers and static indices that stand for x0, x1, … and s0, s1, …."""
    found = enumerate(buffers_of(Program(kernel.body)))
    buffers = {one: Buffer(index, f"x{index}", one.shape, one.dtype, _role(one)) for index, one in found}
    named = systematic(kernel.body)
    body = retargeted(named.body, lambda buffer, at: (buffers[buffer], at))
    return Kernel((), body), tuple(buffers), tuple(named.static)


def _role(buffer: Buffer) -> Role:
    """What a buffer is for, as far as compiled code depends on it."""
    return Role.PRIVATE if buffer.role is Role.PRIVATE else Role.TENSOR


def digest(kernel: Kernel) -> str:
    """A name for everything a kernel does but for what things are called: the same in every process."""
    return sha256(repr(canonical_kernel(kernel)[0].body).encode()).hexdigest()


def _plain(stmt: Stmt) -> Body:
    """A statement of a renamed kernel without remarks, described by its new names."""
    match stmt:
        case Remark(body=body):
            return body
        case Staged(what=what, body=body):
            return (Staged(description_of(what, body), body),)
    return (stmt,)
