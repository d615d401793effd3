"""Kernels that differ in names alone become the same kernel, to be compiled once.

    for i: h[i] = relu(x[i] + b[i])      becomes      for i0: x0[i0] = relu(x1[i0] + x2[i0])

Buffers are called x0, x1, …, loops i0, i1, …, variables n0, n1, … and static indices s0, s1, …, in the order in which
they come up; the terms of an index are in that order, too. Remarks go. Shapes, types and constants stay: they are what
makes kernels different. Every loop and variable has a name of its own, also where the kernel used one twice.
"""

from __future__ import annotations

from hashlib import sha256
from itertools import count

from weft.affine import Affine
from weft.loops import Buffer, For, Let, Program, Remark, Staged, Stmt, buffers_of
from weft.loops.annotations import description_of
from weft.loops.walk import Body, Cell, Renaming, bottom_up, rename, retargeted
from weft.ops import Scalar
from weft.schedule.nodes import Kernel


def canonical_kernel(kernel: Kernel) -> tuple[Kernel, tuple[Buffer, ...], tuple[str, ...]]:
    """The kernel under systematic names; the buffers and static indices that stand for x0, x1, … and s0, s1, …."""
    loops, variables = count(), count()
    static: dict[str, str] = {}
    found = enumerate(buffers_of(Program(kernel.body)))
    buffers = {one: Buffer(index, f"x{index}", one.shape, one.dtype) for index, one in found}

    def bound(stmt: For | Let) -> str:
        return f"i{next(loops)}" if isinstance(stmt, For) else f"n{next(variables)}"

    def index(one: Affine, known: Renaming) -> Affine:
        terms = [(factor, known.get(name) or static.setdefault(name, f"s{len(static)}")) for factor, name in one.terms]
        if len(terms) > 1:
            terms.sort(key=lambda term: (term[1][0], int(term[1][1:])))
        return Affine(tuple(terms), one.offset)

    def cell(buffer: Buffer, at: tuple[Scalar, ...]) -> Cell:
        return buffers[buffer], at

    body = bottom_up(retargeted(rename(kernel.body, bound, index=index), cell), _plain)
    return Kernel((), body), tuple(buffers), tuple(static)


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
