"""From loops on SIMT threads to CUDA C++: a function for each kernel, a cell on a thread.

    extern "C" __global__ void kernel(float *__restrict__ x0, const float *__restrict__ x1, const int64_t *given)

`x0`, `x1`, … are the kernel's buffers in order, which never overlap, and `given[n]` is the position of its n-th static
index; without any there is no such parameter. Nothing is decided here: how loops run is written on them.

A kernel that is one nest on threads is a grid, and a thread finds its point by its number. Any other is one thread
block, whose threads share the nests inside. A written buffer there is not `__restrict__`: what other threads wrote is
read after they were waited for, which the compiler must not take to be unchanged.

Subscripts have 32 bits where all of them fit, so do loops. Whole numbers wrap around: signed ones are added and
multiplied as unsigned ones, for which that is what the language says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from weft.affine import Affine
from weft.backends.c_family import writer as c_family
from weft.backends.c_family.types import c_type
from weft.backends.c_family.writer import word
from weft.backends.cuda.kernel_source import Source
from weft.loops import Buffer, For, If, Let, Remark, Set, Simt, Stmt
from weft.loops.effects import effects
from weft.loops.legality import on_threads
from weft.loops.walk import Loop, body_of, everything, parts, reads, scoped, walk

#: The operations on whole numbers that may leave their range.
_WRAPPING = {"add": "+", "sub": "-", "mul": "*"}
#: What 32 bits hold, with room for the last thread block.
_NARROW = (1 << 31) - (1 << 11)


def simt_source(name: str, body: Sequence[Stmt], buffers: Sequence[Buffer], given: Sequence[str]) -> Source:
    """The CUDA function of a block of statements on some buffers and static indices, and how it is launched."""
    nests = [one for one in everything(body) if on_threads(one)[0]]
    assert nests, "no loop of the kernel is on SIMT threads"
    inner = body
    while len(inner) == 1 and isinstance(inner[0], Remark):
        inner = inner[0].body
    is_grid = len(inner) == 1 and bool(on_threads(inner[0])[0])
    names = {one: f"x{at}" for at, one in enumerate(buffers)}
    writer = SimtWriter(names, {one: word(one) for one in given}, _is_narrow(body, buffers), is_grid, _waits(inner))
    written = effects(body).buffers
    parameters = [_parameter(one, writer, one in written) for one in buffers]
    parameters += ["const int64_t *__restrict__ given"] if given else []
    threads = _threads(nests)
    shapes = "  ".join(f"{writer.buffers[one]}: {list(one.shape)}" for one in buffers)
    lines = [
        f'extern "C" __global__ void __launch_bounds__({threads}) {name}({", ".join(parameters)})',
        "{",
        f"    /* {shapes} */",
        "    weft_await();",
        *(f"    const int64_t {writer.given[one]} = given[{at}];" for at, one in enumerate(given)),
        *writer.block(body, "    "),
        "}",
    ]
    points = prod(size for _, size in on_threads(inner[0])[0]) if is_grid else 1
    programs = max(1, -(-points // threads)) if is_grid else 1
    types = tuple(one.dtype for one in buffers)
    return Source("cuda", name, "\n".join(lines) + "\n", types, bool(given), programs, threads // 32)


def _parameter(buffer: Buffer, writer: SimtWriter, written: bool) -> str:
    kind, name = c_type(buffer.dtype), writer.buffers[buffer]
    if not written:
        return f"const {kind} *__restrict__ {name}"
    return f"{kind} *__restrict__ {name}" if writer.is_grid else f"{kind} *{name}"


def _threads(nests: Sequence[Stmt]) -> int:
    """The threads of a thread block, in whole warps; one in which a single thread works has one."""
    asked = max(how.block for one in nests if isinstance(one, For) for how in one.how if isinstance(how, Simt))
    busy = max(prod(size for _, size in on_threads(one)[0]) for one in nests)
    return -(-max(1, min(asked, busy)) // 32) * 32


def _is_narrow(body: Sequence[Stmt], buffers: Sequence[Buffer]) -> bool:
    """Do all subscripts, loops and points of threads, and what they are made of, fit into 32 bits?"""
    largest = max((prod(one.shape) for one in buffers), default=0)
    for stmt, scope in scoped(body):
        ranges, loops = dict(scope.loops), on_threads(stmt)[0]
        indices = [one for part in parts(stmt) for one in walk(part) if isinstance(one, Affine)]
        largest = max(largest, prod(max(size, 1) for _, size in loops), *(_reach(one, ranges) for one in indices))
        largest = max(largest, stmt.size) if isinstance(stmt, For) else largest
    return largest <= _NARROW


def _reach(index: Affine, ranges: Mapping[str, int]) -> int:
    """No part of an index is further from 0, wherever loops stand; static indices have 64 bits by themselves."""
    return abs(index.offset) + sum(abs(factor) * ranges.get(name, 1) for factor, name in index.terms)


def _waits(body: Sequence[Stmt]) -> bool:
    """Does what every thread runs read memory, which no other may have written meanwhile?"""
    for one in body:
        if on_threads(one)[0]:
            continue
        if isinstance(one, Let | Set | If) and any(reads(part) for part in parts(one)):
            return True
        if _waits(body_of(one)):
            return True
    return False


@dataclass(frozen=True, slots=True)
class SimtWriter(c_family.Writer):
    """Turns scalars and statements into CUDA C++."""

    narrow: bool
    is_grid: bool
    waits: bool

    @property
    def index_type(self) -> str:
        return "int" if self.narrow else "int64_t"

    def loop(self, stmt: For, indent: str) -> Iterator[str]:
        loops, body = on_threads(stmt)
        if not loops:
            yield from c_family.Writer.loop(self, stmt, indent)
        elif self.is_grid:
            yield from self._grid(loops, body, indent)
        else:
            yield from self._in_one_block(loops, body, indent)

    def _grid(self, loops: Sequence[Loop], body: Sequence[Stmt], indent: str) -> Iterator[str]:
        number = "blockIdx.x * blockDim.x + threadIdx.x"
        number = number if self.narrow else f"(uint64_t){number}"
        yield f"{indent}const {self._counter} thread = {number};"
        yield f"{indent}if (thread >= {prod(size for _, size in loops)}) return;"
        yield from (indent + line for line in self._point(loops))
        yield from self.block(body, indent)

    def _in_one_block(self, loops: Sequence[Loop], body: Sequence[Stmt], indent: str) -> Iterator[str]:
        points = prod(size for _, size in loops)
        if self.waits:
            yield f"{indent}__syncthreads();"
        yield f"{indent}for ({self._counter} thread = threadIdx.x; thread < {points}; thread += blockDim.x) {{"
        yield from (f"{indent}    {line}" for line in self._point(loops))
        yield from self.block(body, indent + "    ")
        yield indent + "}"
        yield f"{indent}__syncthreads();"

    @property
    def _counter(self) -> str:
        return "uint32_t" if self.narrow else "uint64_t"

    def _point(self, loops: Sequence[Loop]) -> Iterator[str]:
        """Where each loop stands at the number of a point."""
        stride = prod(max(size, 1) for _, size in loops)
        for at, (name, size) in enumerate(loops):
            stride //= max(size, 1)
            over = "thread" if stride == 1 else f"thread / {stride}"
            yield f"const {self.index_type} {word(name)} = {over if at == 0 or size == 0 else f'{over} % {size}'};"

    def position(self, index: Affine) -> str:
        return f"(int64_t){self.whole(index)}" if self.narrow else self.whole(index)

    def operation(self, op: str, args: Sequence[str], dtype: str) -> str:
        if dtype == "int64" and op in _WRAPPING:
            one, other = (f"(uint64_t){arg}" for arg in args)
            return f"(int64_t)({one} {_WRAPPING[op]} {other})"
        return c_family.Writer.operation(self, op, args, dtype)
