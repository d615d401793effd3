"""The loop language: scalars in loops over buffers.

    program = stmt*
    stmt    = For(loop, size, body)              body runs for loop = 0 … size-1
            | If(tests, body)                    body runs if every test holds
            | Store(buffer, at, value)           buffer[at] = value
            | Update(buffer, at, op, value)      buffer[at] = op(buffer[at], value)
            | Fill(buffer, value)                every cell = value
            | Let(local, value)                  a variable of the rest of the block
            | Set(local, value)                  give it another value
            | Remark(text, body)                 body, under the assignment it came from
            | Staged(what, body)                 body, which is a `what`: a backend may place it as it likes
    what    = Product(left, right, sums, total)
    test    = Inside(place, size)                0 <= place < size
    scalar  = Num | Call | Read(buffer, at) | Affine(terms, offset) | Cast(dtype, value) | Local(name, dtype)
    at      = scalar*                            one integer for each axis

A `Affine` is an affine combination of loops and static indices; any other integer scalar in `at` is a gather. No scalar
is nested deeper than `DEEPEST`, however long the program is: parts of what would be are variables
(`optimise/split_scalars.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from weft.ops import Scalar

#: How deep scalars may be nested.
DEEPEST = 64


@dataclass(frozen=True, slots=True)
class Buffer:
    """A piece of memory: which one, what errors and printed code call it, its sizes, its element type."""

    id: int
    name: str
    shape: tuple[int, ...]
    dtype: str

    def __hash__(self) -> int:
        return self.id


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
    place: Scalar
    size: int


@dataclass(frozen=True, slots=True)
class For:
    loop: str
    size: int
    body: tuple[Stmt, ...]


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

    The body is just that. Its points may run in any order, and so may its sums. Left or right may be no loops at all.
    `rows` and `vectors` ask for tiles of that shape; 0 asks for none.
    """

    left: tuple[str, ...]
    right: tuple[str, ...]
    sums: tuple[str, ...]
    total: str
    rows: int = 0
    vectors: int = 0


@dataclass(frozen=True, slots=True)
class Spread:
    """A kernel whose outermost loop's points are independent, if more than one of `threads` shall run it.

    Its innermost loops are unrolled so many times, or taken so many lanes at once; 0 leaves that to the compiler.
    """

    threads: int = 1
    unroll: int = 0
    lanes: int = 0


#: What a piece of code is, for backends that can do more with it than run it as it is written.
Description: TypeAlias = Product | Spread


@dataclass(frozen=True, slots=True)
class Staged:
    what: Description
    body: tuple[Stmt, ...]


Stmt: TypeAlias = For | If | Store | Update | Fill | Let | Set | Remark | Staged


@dataclass(frozen=True, slots=True)
class Program:
    body: tuple[Stmt, ...]
