"""A program as a list of nests: loops, tests and one write each, which is what assignments lower to.

nest = for loops: if tests: core            core = Store | Update

A variable before a write (`optimise/split_scalars.py`) is a nest of its own, that writes a buffer with a cell for every
point; inlined where it is read, it becomes a variable again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from weft.affine import AccessMap, Affine, covers, injective
from weft.loops.nodes import (
    Buffer,
    Cast,
    Fill,
    If,
    Inside,
    Let,
    Local,
    Program,
    Read,
    Remark,
    Role,
    Stmt,
    Store,
    Update,
)
from weft.loops.walk import Loop, around, free, map_scalars, parts, perfect, reads, rewritten, with_parts
from weft.naming import FreshNames
from weft.ops import Num, Scalar


@dataclass(frozen=True, slots=True)
class Nest:
    """One write under its loops and tests, with the assignments it came from, a line each."""

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
        scalars = (self.core.value, *self.core.at, *(test.index for test in self.tests))
        return [read for scalar in scalars for read in reads(scalar)]

    @property
    def accumulates(self) -> bool:
        """Does it combine values with what its cells held before?"""
        return isinstance(self.core, Update)

    @property
    def reduces(self) -> bool:
        """Does it write a cell in several iterations, or may it, as data says which cells it writes?"""
        mentioned = {name for one in self.core.at if isinstance(one, Affine) for name in one.names}
        return any(name not in mentioned for name, size in self.loops if size > 1)

    @property
    def fills(self) -> bool:
        """Does it store one value in every cell of its target, each once?"""
        at = tuple([index for index in self.core.at if isinstance(index, Affine)])
        if not isinstance(self.core, Store) or self.tests or len(at) < len(self.core.at):
            return False
        one, shape = AccessMap(at, self.loops), self.target.shape
        return covers([one], AccessMap.all_of(shape), shape) and injective([one])

    def mapped(self, change: Callable[[Scalar], Scalar]) -> Nest:
        """The nest with its scalars changed."""
        tests = tuple(Inside(change(test.index), test.size) for test in self.tests)
        core = with_parts(self.core, tuple([change(one) for one in parts(self.core)]))
        assert isinstance(core, Store | Update)
        return Nest(self.loops, tests, core, self.remarks)

    @property
    def stmt(self) -> Stmt:
        return around(self.loops, (If(self.tests, (self.core,)) if self.tests else self.core,))[0]


def nests(program: Program) -> list[Nest]:
    """The nests of a lowered program, in order."""
    ids, cells = count(), dict[Local, Scalar]()
    return [nest for stmt in program.body for nest in _nests(stmt, (), ids, cells)]


def stride_of(cell: Read, loop: str) -> int | None:
    """The stride of an access along a loop; None where a subscript that is not affine mentions the loop."""
    total, step = 0, 1
    for index, size in zip(reversed(cell.at), reversed(cell.buffer.shape), strict=True):
        if isinstance(index, Affine):
            total += step * index.coefficient(loop)
        elif loop in free(index):
            return None
        step *= size
    return total


def fresh_identifier(name: str, taken: FreshNames) -> str:
    """A name for a loop or variable after something that may be called anything, new among those taken."""
    base = re.sub(r"\W", "_", name, flags=re.ASCII)
    base = f"_{base}" if not base or base[0].isdigit() else base
    return taken.fresh(base)


def _nests(stmt: Stmt, remarks: tuple[str, ...], ids: Iterator[int], cells: dict[Local, Scalar]) -> Iterator[Nest]:
    if isinstance(stmt, Remark):
        inner = (*remarks, *stmt.text.splitlines())
        for one in stmt.body:
            yield from _nests(one, inner, ids, cells)
        return
    if isinstance(stmt, Fill):
        sizes = [(f"i{axis}", size) for axis, size in enumerate(stmt.buffer.shape)]
        at = tuple(Affine.of(name) if size != 1 else Affine() for name, size in sizes)
        core = Store(stmt.buffer, at, Cast(stmt.buffer.dtype, Num(stmt.value)))
        yield Nest(tuple(loop for loop in sizes if loop[1] != 1), (), core, remarks)
        return
    loops, block = perfect((stmt,))
    tests: tuple[Inside, ...] = ()
    match block:
        case (If(tests=tests, body=block),):
            pass
    for one in _writes(block, loops, ids, cells):
        yield Nest(loops, tests, one, remarks)


def _writes(
    block: Sequence[Stmt], loops: Sequence[Loop], ids: Iterator[int], cells: dict[Local, Scalar]
) -> Iterator[Store | Update]:
    """The writes of a block in loops: variables are expanded to `cells`, one for every point.

    Where there are no loops, each statement is a block, and variables are read in those that follow.
    """
    at = tuple(Affine.of(name) for name, _ in loops) or (Affine(),)
    shape = tuple(size for _, size in loops) or (1,)

    def leaf(one: Scalar) -> Scalar | None:
        return cells.get(one) if isinstance(one, Local) else None

    for stmt in block:
        match map_scalars(stmt, lambda scalar: rewritten(scalar, leaf)):
            case Let(local=local, value=value):
                buffer = Buffer(next(ids), local.name, shape, local.dtype, Role.EXPANDED)
                cells[local] = Read(buffer, at)
                yield Store(buffer, at, value)
            case Store() | Update() as write:
                yield write
            case other:
                raise AssertionError(f"not a nest of one write: {other!r}")
