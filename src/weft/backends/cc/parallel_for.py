"""Parallel loops in C: a function of the iterations from `first` to before `end`, and the call that shares them.

struct kernel_of0 { const float *x0; float *x1; int64_t t_; };                      what it uses of what is around
static void kernel_on0(const float *restrict x0, …, int64_t first, int64_t end, char *restrict scratch) { … }
static void kernel_part0(const void *of, int64_t first, int64_t end, char *scratch) { kernel_on0(…); }

run->share(&(weft_work){kernel_part0, &(struct kernel_of0){x0, x1, t_}, 1024, 64, …}, run->threads, …);
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import prod
from typing import TYPE_CHECKING

from weft.backends.c_family.types import c_type
from weft.backends.cc.lines import Lines
from weft.backends.cc.register_arrays import declared_arrays
from weft.loops import Buffer, For, Local, NonTemporal, Parallel, Program, Role, Staged, Stmt, buffers_of
from weft.loops.effects import effects
from weft.loops.legality import is_cold, is_shared
from weft.loops.walk import everything, free, parts, scoped, variables
from weft.ops.dtypes import numpy_type

if TYPE_CHECKING:
    from weft.backends.cc.emit import KernelWriter

_LINE = 64  # bytes of a cache line, and of the widest vector


@dataclass(frozen=True, slots=True)
class SharedWork:
    """A statement that threads share, the ordinal it has in its kernel, and what it uses of what is around it."""

    kernel: str
    ordinal: int
    stmt: Stmt
    buffers: tuple[Buffer, ...]
    #: Those of which each thread has one, in its scratch memory.
    private: tuple[Buffer, ...]
    #: Arrays of its own.
    held: tuple[Buffer, ...]
    indices: tuple[str, ...]
    locals: tuple[Local, ...]

    @property
    def private_bytes(self) -> int:
        return sum(map(_rounded, self.private))

    @property
    def chunk(self) -> int:
        match self.stmt:
            case For(how=how):
                return next(one.chunk for one in how if isinstance(one, Parallel))
            case Staged(what=what) if what.tile:
                return what.tile.chunk
        raise AssertionError("threads share loops and products in tiles")

    def size(self, writer: KernelWriter) -> str:
        """How many iterations it has, in C."""
        if isinstance(self.stmt, Staged):
            return writer.products[self.stmt].pieces
        assert isinstance(self.stmt, For)
        return str(self.stmt.size)

    def functions(self, writer: KernelWriter) -> Lines:
        """The function of some iterations, and what it is given."""
        written, name = effects([self.stmt]).buffers, f"{self.kernel}_of{self.ordinal}"
        pointers = [f"{'' if one in written else 'const '}{c_type(one.dtype)} *" for one in self.buffers]
        names = self._names(writer)
        types = [*pointers, *("int64_t " for _ in self.indices), *(f"{c_type(one.dtype)} " for one in self.locals)]
        fields = [f"{kind}{one};" for kind, one in zip(types, names, strict=True)]
        apart = [f"{kind}restrict {one}" for kind, one in zip(pointers, names, strict=False)]
        apart += [f"{kind}{one}" for kind, one in list(zip(types, names, strict=True))[len(pointers) :]]
        apart += [f"{c_type(one.dtype)} *restrict {writer.buffers[one]}" for one in self.private]
        ends = ["int64_t first", "int64_t end", "char *restrict scratch"]
        given = [*(f"of->{one}" for one in names), *self._own_memory(), "first", "end"]
        given.append(f"scratch + {self.private_bytes}")
        attribute = "WEFT_COLD" if is_cold(self.stmt) else "WEFT_APART"
        return [
            f"static int64_t {self.kernel}_took{self.ordinal};",
            f"struct {name} {{ {' '.join(fields)} }};",
            f"static {attribute} void {self.kernel}_on{self.ordinal}({', '.join([*apart, *ends])})",
            "{",
            *declared_arrays(self.held, writer.buffers),
            *writer.block([self.stmt], "    "),
            *finishing([self.stmt]),
            "}",
            f"static WEFT_CALLING void {self.kernel}_part{self.ordinal}("
            "const void *given, int64_t first, int64_t end, char *scratch)",
            "{",
            f"    const struct {name} *const of = given;",
            f"    {self.kernel}_on{self.ordinal}({', '.join(given)});",
            "}",
        ]

    def call(self, writer: KernelWriter) -> Lines:
        """The call that shares it."""
        of = f"struct {self.kernel}_of{self.ordinal}"
        return [
            "{",
            f"    const {of} of = {{{', '.join(self._names(writer))}}};",
            f"    const weft_work work = {{{self.kernel}_part{self.ordinal}, &of, {self.size(writer)}, {self.chunk}, "
            f"run->scratch, {self.kernel}_each, &{self.kernel}_took{self.ordinal}}};",
            "    run->share(&work, run->threads, run->spin_ns);",
            "}",
        ]

    def _names(self, writer: KernelWriter) -> list[str]:
        return [
            *(writer.buffers[one] for one in self.buffers),
            *(writer.variable(one) for one in self.indices),
            *(writer.value(one) for one in self.locals),
        ]

    def _own_memory(self) -> Lines:
        """What a thread has for itself, in its scratch memory; what is left of that is for products."""
        places = [0, *accumulate(map(_rounded, self.private))]
        return [f"(void *)(scratch + {at})" for at in places[: len(self.private)]]


def shared_in(kernel: str, body: Sequence[Stmt]) -> list[SharedWork]:
    """All that threads share in a kernel."""
    found = list[SharedWork]()
    for stmt, scope in scoped(body):
        if is_shared(stmt):
            stmts, touched = everything([stmt]), buffers_of(Program((stmt,)))
            inside = [part for one in stmts for part in parts(one)]
            bound = {one.loop for one in stmts if isinstance(one, For)}
            indices = dict.fromkeys(name for part in inside for name in free(part) if name not in bound)
            used = dict.fromkeys(one for part in inside for one in variables(part) if one in scope.variables)
            own = {role: tuple(one for one in touched if one.role is role) for role in (Role.PRIVATE, Role.HELD)}
            buffers = tuple(one for one in touched if one.role not in own)
            given = buffers, own[Role.PRIVATE], own[Role.HELD], tuple(indices), tuple(used)
            found.append(SharedWork(kernel, len(found), stmt, *given))
    return found


def finishing(body: Sequence[Stmt]) -> Lines:
    """What follows a block that stores something past the caches, before others look at it."""
    past = any(isinstance(how, NonTemporal) for one in everything(body) if isinstance(one, For) for how in one.how)
    return ["    weft_finish_stores();"] if past else []


def _rounded(buffer: Buffer) -> int:
    """The bytes of a buffer up to a whole number of cache lines."""
    return -(-prod(buffer.shape) * numpy_type(buffer.dtype).itemsize // _LINE) * _LINE
