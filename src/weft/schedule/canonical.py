"""Kernels that differ in names alone become the same kernel, to be compiled once.

    for i: h[i] = relu(x[i] + b[i])      becomes      for i0: x0[i0] = relu(x1[i0] + x2[i0])

Buffers are called x0, x1, …, loops i0, i1, …, numbers n0, n1, … and static indices s0, s1, …, in the order in which
they come up; the terms of a place are in that order, too. Remarks go. Shapes, types and constants stay: they are what
makes kernels different. Every loop and number has a name of its own, also where the kernel used one twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

from weft.affine import Affine
from weft.loops import Buffer, Fill, For, If, Inside, Let, Local, Read, Remark, Set, Staged, Stmt, Store, Update
from weft.loops.annotations import described
from weft.loops.nests import rewritten
from weft.ops import Scalar
from weft.schedule.nodes import Kernel


def canonical(kernel: Kernel) -> tuple[Kernel, tuple[Buffer, ...], tuple[str, ...]]:
    """The kernel under systematic names; the buffers and static indices that stand for x0, x1, … and s0, s1, …."""
    naming = _Naming()
    body = tuple(naming.block(kernel.body, {}))
    return Kernel((), body), tuple(naming.buffers), tuple(naming.static)


def digest(kernel: Kernel) -> str:
    """A name for everything a kernel does but for what things are called: the same in every process."""
    return sha256(repr(canonical(kernel)[0].body).encode()).hexdigest()


#: What the loops and numbers of the blocks around are called now.
Known = Mapping[str | Local, str]


@dataclass(slots=True)
class _Naming:
    """The names given so far."""

    buffers: dict[Buffer, Buffer] = field(default_factory=dict)
    static: dict[str, str] = field(default_factory=dict)
    loops: int = 0
    numbers: int = 0

    def block(self, body: Sequence[Stmt], around: Known) -> Iterator[Stmt]:
        """A block with new names; a number is known in the rest of the block that declares it."""
        known = dict(around)
        for stmt in body:
            if isinstance(stmt, Remark):
                yield from self.block(stmt.body, known)
                continue
            yield self._stmt(stmt, known)

    def _stmt(self, stmt: Stmt, known: dict[str | Local, str]) -> Stmt:
        match stmt:
            case Staged(what=what, body=body):
                inner = tuple(self.block(body, known))
                return Staged(described(what, inner), inner)
            case For(loop=loop, size=size, body=body):
                name = f"i{self.loops}"
                self.loops += 1
                return For(name, size, tuple(self.block(body, {**known, loop: name})))
            case If(tests=tests, body=body):
                inside = tuple(Inside(self._scalar(test.place, known), test.size) for test in tests)
                return If(inside, tuple(self.block(body, known)))
            case Store(buffer=buffer, at=at, value=value):
                return Store(self._buffer(buffer), self._at(at, known), self._scalar(value, known))
            case Update(buffer=buffer, at=at, op=op, value=value):
                return Update(self._buffer(buffer), self._at(at, known), op, self._scalar(value, known))
            case Fill(buffer=buffer, value=number):
                return Fill(self._buffer(buffer), number)
            case Let(local=local, value=value):
                new = self._scalar(value, known)
                known[local] = f"n{self.numbers}"
                self.numbers += 1
                return Let(Local(known[local], local.dtype), new)
            case Set(local=local, value=value):
                return Set(Local(known[local], local.dtype), self._scalar(value, known))
        raise AssertionError(f"not a statement of a block: {stmt!r}")

    def _at(self, at: tuple[Scalar, ...], known: Known) -> tuple[Scalar, ...]:
        return tuple(self._scalar(one, known) for one in at)

    def _scalar(self, scalar: Scalar, known: Known) -> Scalar:
        def leaf(one: Scalar) -> Scalar | None:
            match one:
                case Read(buffer=buffer, at=at):
                    return Read(self._buffer(buffer), self._at(at, known))
                case Local(dtype=dtype):
                    return Local(known[one], dtype)
                case Affine():
                    return self._place(one, known)
            return None

        return rewritten(scalar, leaf)

    def _place(self, place: Affine, known: Known) -> Affine:
        factors: dict[str, int] = {}
        for factor, name in place.terms:
            new = known.get(name) or self.static.setdefault(name, f"s{len(self.static)}")
            factors[new] = factors.get(new, 0) + factor
        names = sorted(factors, key=lambda name: (name[0], int(name[1:])))
        return Affine(tuple((factors[name], name) for name in names if factors[name]), place.offset)

    def _buffer(self, buffer: Buffer) -> Buffer:
        number = len(self.buffers)
        return self.buffers.setdefault(buffer, Buffer(number, f"x{number}", buffer.shape, buffer.dtype))
