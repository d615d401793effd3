"""A program as a list of nests: loops, tests and one write each, which is what assignments lower to.

nest = for loops: if tests: core            core = Store | Update

A variable before a write (`optimise/split_scalars.py`) is a nest of its own, that writes a buffer with a cell for every
point; inlined where it is read, it becomes a variable again. A loop around several of all these is shared by its nests:
they run one after another in each of its iterations.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, takewhile

from weft.affine import AccessMap, Affine, covers, injective
from weft.lazy import lazy_property
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


@dataclass(frozen=True)
class Nest:
    """One write under its loops and tests, with the assignments it came from, a line each.

    Of its loops the first are `shared`, each told apart by a number: nests next to one another that have the same
    number there run in one loop. Those of one `sweep` follow each other; 0 if it is in none (`schedule/gpu/sweep.py`).
    """

    loops: tuple[Loop, ...]
    tests: tuple[Inside, ...]
    core: Store | Update
    remarks: tuple[str, ...] = ()
    shared: tuple[int, ...] = ()
    sweep: int = 0

    @property
    def target(self) -> Buffer:
        return self.core.buffer

    @lazy_property
    def reads(self) -> tuple[Read, ...]:
        """Everything it reads, its target's old values only where the value mentions them."""
        scalars = (self.core.value, *self.core.at, *(test.index for test in self.tests))
        return tuple([read for scalar in scalars for read in reads(scalar)])

    @property
    def accumulates(self) -> bool:
        """Does it combine values with what its cells held before?"""
        return isinstance(self.core, Update)

    @lazy_property
    def reduces(self) -> bool:
        """Does it write a cell in several iterations, or may it, as data says which cells it writes?"""
        mentioned = {name for one in self.core.at if isinstance(one, Affine) for name in one.names}
        return any(name not in mentioned for name, size in self.loops if size > 1)

    @lazy_property
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
        return replace(self, tests=tests, core=core)

    @property
    def own_loops(self) -> tuple[Loop, ...]:
        """The loops that it shares with no other."""
        return self.loops[len(self.shared) :]

    @property
    def stmt(self) -> Stmt:
        """The nest, in the loops that it shares."""
        return around(self.own_loops, (If(self.tests, (self.core,)) if self.tests else self.core,))[0]


def nests(program: Program) -> list[Nest]:
    """The nests of a lowered program, in order."""
    reading = _NestReader()
    return [nest for stmt in program.body for nest in reading.nests(stmt)]


def common_loops(one: Nest, other: Nest) -> int:
    """How many loops two nests share."""
    same = takewhile(lambda pair: pair[0] == pair[1], zip(one.shared, other.shared, strict=False))
    return sum(1 for _ in same)


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


def _is_one_write(block: Sequence[Stmt]) -> bool:
    """Is it one write, after variables perhaps, or that under tests?"""
    match block:
        case (If(body=block),):
            pass
    *lets, last = block
    return isinstance(last, Store | Update) and all(isinstance(one, Let) for one in lets)


@dataclass(frozen=True, slots=True)
class _NestReader:
    """Reads the nests of a block: `outer` are the loops around it that they share, `cells` those of variables."""

    remarks: tuple[str, ...] = ()
    outer: tuple[Loop, ...] = ()
    shared: tuple[int, ...] = ()
    ids: Iterator[int] = field(default_factory=count)
    cells: dict[Local, Scalar] = field(default_factory=dict)

    def nests(self, stmt: Stmt) -> Iterator[Nest]:
        if isinstance(stmt, Remark):
            inner = replace(self, remarks=(*self.remarks, *stmt.text.splitlines()))
            yield from (nest for one in stmt.body for nest in inner.nests(one))
            return
        if isinstance(stmt, Fill):
            yield self._filled(stmt)
            return
        loops, block = perfect((stmt,))
        if loops and not _is_one_write(block):
            yield from self._sharing(loops, block)
            return
        tests: tuple[Inside, ...] = ()
        match block:
            case (If(tests=tests, body=block),):
                pass
        for one in self._writes(block, (*self.outer, *loops)):
            yield Nest((*self.outer, *loops), tests, one, self.remarks, self.shared)

    def _sharing(self, loops: tuple[Loop, ...], block: Sequence[Stmt]) -> Iterator[Nest]:
        """The nests of a block that share the loops around it."""
        shared = (*self.shared, *(next(self.ids) for _ in loops))
        inner = replace(self, outer=(*self.outer, *loops), shared=shared)
        yield from (nest for one in block for nest in inner.nests(one))

    def _filled(self, stmt: Fill) -> Nest:
        taken = FreshNames(name for name, _ in self.outer)
        sizes = [(taken.fresh(f"i{axis}"), size) for axis, size in enumerate(stmt.buffer.shape)]
        at = tuple(Affine.of(name) if size != 1 else Affine() for name, size in sizes)
        core = Store(stmt.buffer, at, Cast(stmt.buffer.dtype, Num(stmt.value)))
        own = (loop for loop in sizes if loop[1] != 1)
        return Nest((*self.outer, *own), (), core, self.remarks, self.shared)

    def _writes(self, block: Sequence[Stmt], loops: Sequence[Loop]) -> Iterator[Store | Update]:
        """The writes of a block in loops: variables are expanded to `cells`, one for every point.

        Where there are no loops, each statement is a block, and variables are read in those that follow.
        """
        at = tuple(Affine.of(name) for name, _ in loops) or (Affine(),)
        shape = tuple(size for _, size in loops) or (1,)

        def leaf(one: Scalar) -> Scalar | None:
            return self.cells.get(one) if isinstance(one, Local) else None

        for stmt in block:
            match map_scalars(stmt, lambda scalar: rewritten(scalar, leaf)):
                case Let(local=local, value=value):
                    buffer = Buffer(next(self.ids), local.name, shape, local.dtype, Role.EXPANDED)
                    self.cells[local] = Read(buffer, at)
                    yield Store(buffer, at, value)
                case Store() | Update() as write:
                    yield write
                case other:
                    raise AssertionError(f"not a nest of one write: {other!r}")
