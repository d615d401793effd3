"""A program as a list of nests: loops, tests and one write each, which is what assignments lower to.

nest = for loops: if tests: core            core = Store | Update

A number before a write (`optimise/split_scalars.py`) is a nest of its own, that writes a buffer with a cell for every
point; computed where it is read, it becomes a number again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from operator import is_

from weft.affine import Affine
from weft.loops.effects import mapped
from weft.loops.nodes import (
    Buffer,
    Cast,
    Fill,
    For,
    If,
    Inside,
    Let,
    Local,
    Program,
    Read,
    Remark,
    Stmt,
    Store,
    Update,
    reads,
    walk,
)
from weft.naming import FreshNames
from weft.ops import Call, Num, Scalar

#: A loop: its name and size.
Loop = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Nest:
    """One write under its loops and tests, with the assignments it came from."""

    loops: tuple[Loop, ...]
    tests: tuple[Inside, ...]
    core: Store | Update
    remarks: tuple[str, ...] = ()

    @property
    def target(self) -> Buffer:
        return self.core.buffer

    @property
    def reads(self) -> list[Read]:
        """Everything it reads, its target's old values only where the value mentions them."""
        scalars = (self.core.value, *self.core.at, *(test.place for test in self.tests))
        return [read for scalar in scalars if not isinstance(scalar, Affine) for read in reads(scalar)]

    @property
    def accumulates(self) -> bool:
        """Does it combine values with what its cells held before?"""
        return isinstance(self.core, Update)

    @property
    def stmt(self) -> Stmt:
        return around(self.loops, (If(self.tests, (self.core,)) if self.tests else self.core,))[0]


#: Buffers that stand for numbers are numbered down from here: further from zero than what belongs to a buffer, but
#: nearer than copies and folded buffers.
_NUMBERS = -(1 << 33)


def nests(program: Program) -> list[Nest]:
    """The nests of a lowered program, in order."""
    numbers = count(1 - _NUMBERS)
    return [nest for stmt in program.body for nest in _nests(stmt, (), numbers)]


def is_number(buffer: Buffer) -> bool:
    """Does a buffer stand for a number, to be computed where it is read?"""
    return 2 * _NUMBERS < buffer.id < _NUMBERS


def around(loops: Sequence[Loop], body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """A block inside loops, the first outermost."""
    for name, size in reversed(loops):
        body = (For(name, size, body),)
    return body


def free(scalar: Scalar) -> list[str]:
    """The loops and static indices a scalar mentions."""
    places = (scalar,) if isinstance(scalar, Affine) else walk(scalar)
    return [name for one in places if isinstance(one, Affine) for _, name in one.terms]


def rewritten(scalar: Scalar, leaf: Callable[[Scalar], Scalar | None]) -> Scalar:
    """The scalar with some of its parts replaced, outermost first; `leaf` says None for what stays.

    Where nothing is replaced, it is the very same scalar.
    """
    found = leaf(scalar)
    if found is not None:
        return found
    if isinstance(scalar, Call):
        args = tuple([rewritten(arg, leaf) for arg in scalar.args])
        return scalar if all(map(is_, args, scalar.args)) else Call(scalar.op, args)
    if isinstance(scalar, Read):
        at = tuple([rewritten(one, leaf) for one in scalar.at])
        return scalar if all(map(is_, at, scalar.at)) else Read(scalar.buffer, at)
    if isinstance(scalar, Cast):
        value = rewritten(scalar.value, leaf)
        return scalar if value is scalar.value else Cast(scalar.dtype, value)
    return scalar


def moved(scalar: Scalar, places: Mapping[str, Affine]) -> Scalar:
    """The scalar with loops replaced by affine places."""
    if not places:
        return scalar
    return rewritten(scalar, lambda one: moved_place(one, places) if isinstance(one, Affine) else None)


def moved_place(place: Affine, places: Mapping[str, Affine]) -> Affine:
    """A place with loops replaced by places."""
    match place:
        case Affine(terms=((1, name),), offset=0):
            return places.get(name, place)
    total, offset = dict[str, int](), place.offset
    for coefficient, name in place.terms:
        inner = places.get(name, Affine(((1, name),)))
        offset += coefficient * inner.offset
        for factor, deeper in inner.terms:
            total[deeper] = total.get(deeper, 0) + coefficient * factor
    return Affine(tuple((factor, name) for name, factor in total.items() if factor), offset)


def stride(cell: Read, loop: str) -> int | None:
    """How far a cell moves in memory when a loop goes on; None where a subscript that is no place mentions the loop."""
    total, step = 0, 1
    for place, size in zip(reversed(cell.at), reversed(cell.buffer.shape), strict=True):
        if isinstance(place, Affine):
            total += step * sum(factor for factor, name in place.terms if name == loop)
        elif loop in free(place):
            return None
        step *= size
    return total


def identifier(name: str, taken: FreshNames) -> str:
    """A name for a loop or number after something that may be called anything, new among those taken."""
    base = re.sub(r"\W", "_", name, flags=re.ASCII)
    base = f"_{base}" if not base or base[0].isdigit() else base
    return taken.fresh(base)


def _nests(stmt: Stmt, remarks: tuple[str, ...], numbers: Iterator[int]) -> Iterator[Nest]:
    if isinstance(stmt, Remark):
        inner = (*remarks, stmt.text)
        for one in stmt.body:
            yield from _nests(one, inner, numbers)
        return
    loops: list[Loop] = []
    tests: tuple[Inside, ...] = ()
    if isinstance(stmt, Fill):
        sizes = [(f"i{axis}", size) for axis, size in enumerate(stmt.buffer.shape)]
        at = tuple(Affine(((1, name),)) if size != 1 else Affine(()) for name, size in sizes)
        core = Store(stmt.buffer, at, Cast(stmt.buffer.dtype, Num(stmt.value)))
        yield Nest(tuple(loop for loop in sizes if loop[1] != 1), (), core, remarks)
        return
    block: tuple[Stmt, ...] = (stmt,)
    while isinstance(block[0], For) and len(block) == 1:
        loops.append((block[0].loop, block[0].size))
        block = block[0].body
    if isinstance(block[0], If) and len(block) == 1:
        tests, block = block[0].tests, block[0].body
    for one in _writes(block, loops, numbers):
        yield Nest(tuple(loops), tests, one, remarks)


def _writes(block: Sequence[Stmt], loops: Sequence[Loop], numbers: Iterator[int]) -> Iterator[Store | Update]:
    """The writes of a block in loops: numbers go to cells, one for every point."""
    cells: dict[Local, Scalar] = {}
    at = tuple(Affine(((1, name),)) for name, _ in loops) or (Affine(()),)
    shape = tuple(size for _, size in loops) or (1,)

    def leaf(one: Scalar) -> Scalar | None:
        return cells.get(one) if isinstance(one, Local) else None

    for stmt in block:
        match mapped(stmt, lambda scalar: rewritten(scalar, leaf)):
            case Let(local=local, value=value):
                buffer = Buffer(-next(numbers), local.name, shape, local.dtype)
                cells[local] = Read(buffer, at)
                yield Store(buffer, at, value)
            case Store() | Update() as write:
                yield write
            case other:
                raise AssertionError(f"not a nest of one write: {other!r}")
