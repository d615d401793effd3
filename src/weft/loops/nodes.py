"""The loop language: scalars in loops over buffers.

    program = stmt*
    stmt    = For(loop, size, body, how*)        body runs for loop = 0 … size-1
            | If(tests, body)                    body runs if every test holds
            | Store(buffer, at, value)           buffer[at] = value
            | Update(buffer, at, op, value)      buffer[at] = op(buffer[at], value)
            | Fill(buffer, value)                every cell = value
            | Let(local, value)                  a variable of the rest of the block
            | Set(local, value)                  give it another value
            | Remark(text, body)                 body, under the assignment it came from
            | Staged(what, body)                 body, which is a `what`: a backend may place it as it likes
    what    = Product(left, right, sums, total, tile?, blocks?)           tiles of registers, blocks of a GPU
    how     = Collapse | Parallel | Vector | …   how a loop runs (`annotations.py`)
    test    = Inside(index, size)                0 <= index < size
    scalar  = Num | Call | Read(buffer, at) | Affine(terms, offset) | Cast(dtype, value) | Local(name, dtype)
    at      = scalar*                            one integer for each axis

A `Affine` is an affine combination of loops and static indices; any other integer scalar in `at` is a gather. No scalar
is nested deeper than `DEEPEST`, however long the program is: parts of what would be are variables
(`optimise/split_scalars.py`).

`how` and `tile` say how loops run, never what they compute: who does not know them runs the loops as they stand.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from math import prod
from typing import Any, TypeAlias

from weft.affine import Affine
from weft.loops.annotations import (
    Annotation as Annotation,
    Blocks as Blocks,
    Cold as Cold,
    Collapse as Collapse,
    Grid as Grid,
    Jam as Jam,
    Lanes as Lanes,
    NonTemporal as NonTemporal,
    Owners as Owners,
    Parallel as Parallel,
    PrefetchRows as PrefetchRows,
    Registers as Registers,
    Simt as Simt,
    Tile as Tile,
    Unroll as Unroll,
    Vector as Vector,
)
from weft.ops import Scalar
from weft.ops.dtypes import numpy_type

#: How deep scalars may be nested.
DEEPEST = 64


class Role(Enum):
    """What a piece of memory is for; some stand beside another buffer."""

    TENSOR = "the values of a tensor"
    BEFORE = "the old values of a buffer while it is written"
    ACCUMULATOR = "where a buffer's values are accumulated, in a wider type"
    PARTIAL = "several accumulators of one accumulation, joined at its end"
    PARTS = "what blocks of a product leave of a sum of its results"
    SORTED = "elements on their way into order, or where they come to stand"
    FIELD = "one of the numbers that each cell of a buffer holds together: scalar replacement"
    EXPANDED = "a variable with a cell for every iteration: scalar expansion"
    SUMS = "what a contraction leaves for those who scatter it"
    STRIPS = "a buffer with one of its axes cut into strips: strip-mining"
    COPY = "a buffer computed once more: rematerialisation"
    NARROW = "a buffer in a narrower type, for those who multiply it"
    TURNED = "a buffer with its axes in another order, for those who multiply it"
    PACKED = "a buffer laid out anew for those who read it often: packing"
    FOLDED = "a buffer without the axes of loops that it does not outlast: storage folding"
    HELD = "cells of a buffer that stay in registers while a loop accumulates in them"
    PRIVATE = "a buffer that outlasts no iteration of a loop: each of the threads that share the loop has one"
    ARENA = "what lies between the kernels of a routine"
    RECALLED = "a buffer of a routine that was found on disk"


@dataclass(frozen=True, slots=True)
class Buffer:
    """A piece of memory: which one, what errors and printed code call it, its sizes, its element type.

    Ids tell apart buffers of one role. One `of` another has its id; what it is for tells it from that.
    """

    id: int
    name: str
    shape: tuple[int, ...]
    dtype: str
    role: Role = Role.TENSOR
    of: Buffer | None = None

    def __hash__(self) -> int:
        return self.id

    @property
    def bytes(self) -> int:
        """How much memory it takes."""
        return prod(self.shape) * numpy_type(self.dtype).itemsize

    def beside(self, role: Role, suffix: str = "", **changes: Any) -> Buffer:
        """Memory for a purpose of this buffer, like it but for what is said."""
        return replace(self, name=f"{self.name}{suffix}", role=role, of=self, **changes)


@dataclass(frozen=True, slots=True)
class Read(Scalar):
    buffer: Buffer
    at: tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class Cast(Scalar):
    dtype: str
    value: Scalar


@dataclass(frozen=True, slots=True)
class Local(Scalar):
    name: str
    dtype: str


@dataclass(frozen=True, slots=True)
class Inside:
    index: Scalar
    size: int

    def always(self, ranges: Mapping[str, int]) -> bool:
        """Does it hold wherever the loops around it stand?"""
        return isinstance(self.index, Affine) and self.index.stays_inside(self.size, ranges)

    def never(self, ranges: Mapping[str, int]) -> bool:
        """Does it fail wherever the loops around it stand?"""
        found = self.index.bounds(ranges) if isinstance(self.index, Affine) else None
        return found is not None and (found[1] < 0 or found[0] >= self.size)


@dataclass(frozen=True, slots=True)
class For:
    loop: str
    size: int
    body: tuple[Stmt, ...]
    how: tuple[Annotation, ...] = ()


@dataclass(frozen=True, slots=True)
class If:
    tests: tuple[Inside, ...]
    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class Store:
    buffer: Buffer
    at: tuple[Scalar, ...]
    value: Scalar


@dataclass(frozen=True, slots=True)
class Update:
    buffer: Buffer
    at: tuple[Scalar, ...]
    op: str
    value: Scalar


@dataclass(frozen=True, slots=True)
class Fill:
    """A number in all cells of a buffer, on vectors: no cell depends on another."""

    buffer: Buffer
    value: float | int | bool


@dataclass(frozen=True, slots=True)
class Let:
    local: Local
    value: Scalar


@dataclass(frozen=True, slots=True)
class Set:
    local: Local
    value: Scalar


@dataclass(frozen=True, slots=True)
class Remark:
    text: str
    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class Product:
    """A sum of products: of loops by name, those only the one factor knows, those only the other, those summed over.

    for left: for right: { total = start;  for sums: total = total + one * other;  the rest uses total }

    The body is just that, or has other operations for the sum and the product (`semiring.py`). Its points may run in
    any order, and so may its sums. Left or right may be no loops at all.
    """

    left: tuple[str, ...]
    right: tuple[str, ...]
    sums: tuple[str, ...]
    total: str
    tile: Tile | None = None
    blocks: Blocks | None = None


#: What a piece of code is, for backends that can do more with it than run it as it is written.
Description: TypeAlias = Product


@dataclass(frozen=True, slots=True)
class Staged:
    what: Description
    body: tuple[Stmt, ...]


Stmt: TypeAlias = For | If | Store | Update | Fill | Let | Set | Remark | Staged


@dataclass(frozen=True, slots=True)
class Program:
    body: tuple[Stmt, ...]
