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
    how     = Collapse(loops) | Parallel(chunk) | Jam(times) | Vector(lanes) | Unroll(times)
            | Grid(block, warps) | Lanes(block) | Simt(block)   on a GPU
    test    = Inside(index, size)                0 <= index < size
    scalar  = Num | Call | Read(buffer, at) | Affine(terms, offset) | Cast(dtype, value) | Local(name, dtype)
    at      = scalar*                            one integer for each axis

A `Affine` is an affine combination of loops and static indices; any other integer scalar in `at` is a gather. No scalar
is nested deeper than `DEEPEST`, however long the program is: parts of what would be are variables
(`optimise/split_scalars.py`).

`how` and `tile` say how loops run, never what they compute: who does not know them runs the loops as they stand.
`legality.py` says what must hold for each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, TypeAlias

from weft.affine import Affine
from weft.ops import Scalar

#: How deep scalars may be nested.
DEEPEST = 64


class Role(Enum):
    """What a piece of memory is for; some stand beside another buffer."""

    TENSOR = "the values of a tensor"
    BEFORE = "the old values of a buffer while it is written"
    ACCUMULATOR = "where a buffer's values are accumulated, in a wider type"
    PARTIAL = "several accumulators of one accumulation, joined at its end"
    SORTED = "elements on their way into order, or where they come to stand"
    FIELD = "one of the numbers that each cell of a buffer holds together: scalar replacement"
    EXPANDED = "a variable with a cell for every iteration: scalar expansion"
    STRIPS = "a buffer with one of its axes cut into strips: strip-mining"
    COPY = "a buffer computed once more: rematerialisation"
    NARROW = "a buffer in a narrower type, for those who multiply it"
    TURNED = "a buffer with its axes in another order, for those who multiply it"
    PACKED = "a buffer laid out anew for those who read it often: packing"
    FOLDED = "a buffer without the axes of loops that it does not outlast: storage folding"
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
class Collapse:
    """So many loops, each the whole body of the last, run as one."""

    loops: int

    def __str__(self) -> str:
        return f"collapsed by {self.loops}"


@dataclass(frozen=True, slots=True)
class Parallel:
    """Threads share the iterations: each claims so many that follow each other, works on them and claims the next."""

    chunk: int

    def __str__(self) -> str:
        return f"on threads by {self.chunk}"


@dataclass(frozen=True, slots=True)
class Jam:
    """Unroll and jam: so many iterations at once, inside the loops inside."""

    times: int

    def __str__(self) -> str:
        return f"jammed by {self.times}"


@dataclass(frozen=True, slots=True)
class Vector:
    """So many iterations at once, sums of them in so many accumulators.

    0 stands for as many as vectors of the machine hold of the types in the loop: that is what it means, on any machine.
    """

    lanes: int = 0

    def __str__(self) -> str:
        return f"on vectors of {self.lanes}" if self.lanes else "on vectors"


@dataclass(frozen=True, slots=True)
class Unroll:
    """So many iterations are written out, one after another."""

    times: int

    def __str__(self) -> str:
        return f"unrolled by {self.times}"


@dataclass(frozen=True, slots=True)
class Grid:
    """Programs of a GPU's grid share the iterations: `block` that follow each other run in the lanes of one program.

    A program runs on so many `warps`. Loops on a grid inside each other, each the whole body of the last, are one grid,
    and their warps are those of the outermost.
    """

    block: int
    warps: int = 4

    def __str__(self) -> str:
        return f"on a grid by {self.block} with {_many(self.warps, 'warp')}"


@dataclass(frozen=True, slots=True)
class Lanes:
    """So many iterations at once in the lanes of a program; what they accumulate is joined across lanes."""

    block: int

    def __str__(self) -> str:
        return f"in lanes by {self.block}"


@dataclass(frozen=True, slots=True)
class Simt:
    """Each iteration is a GPU thread's, in thread blocks of so many; loops inside run as they are written.

    Such loops inside each other, each the whole body of the last, are one grid of threads. Where other statements are
    around them, or beside them, there is one thread block: each of its threads runs those, which store nothing; they
    share the iterations of such loops, and wait for each other before and after.
    """

    block: int

    def __str__(self) -> str:
        return f"on simt threads by {self.block}"


@dataclass(frozen=True, slots=True)
class Registers:
    """All iterations are written out on vectors of so many: what the loop around accumulates stays in registers."""

    lanes: int

    def __str__(self) -> str:
        return f"in registers of {self.lanes}"


@dataclass(frozen=True, slots=True)
class Ahead:
    """What an iteration touches in one piece is fetched while the one so many before it runs, by the loops inside."""

    iterations: int

    def __str__(self) -> str:
        return f"fetching {self.iterations} ahead"


#: How a loop runs. What it says holds of the loop that a collapsed one is.
How: TypeAlias = Collapse | Parallel | Jam | Vector | Unroll | Registers | Ahead | Grid | Lanes | Simt


@dataclass(frozen=True, slots=True)
class For:
    loop: str
    size: int
    body: tuple[Stmt, ...]
    how: tuple[How, ...] = ()


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
class Tile:
    """How a product runs in registers: tiles of `rows` times `vectors` of `lanes`.

    Rows are those of the last loop on the left, columns of the last on the right. Vectors lie along columns; those
    of a `dot` along the last sum, one for each column. A register adds up `parts[0]` products, another `parts[1]`
    of those sums, and the rest is added up in double precision; without parts one register takes all. A `panel` has
    columns packed into it first, "copied" as they lie or "transposed", for `block` iterations of the first sum (0:
    all). `strips` have rows packed too, those of a tile side by side: "copied" sum by sum, or "transposed", row by row
    along the last sum, `packed` strips at once. `group` tiles of rows share a panel before its next block, or strips
    before the next rows (0: those of all loops on the left), and `panels` follow each other for one group. Where
    `looks` is not 0, the rows of so many tiles are looked through at once for terms that are not numbers, and the
    columns of each panel: extrema of others are quicker. `unroll` writes out the last sum. As many of
    the last loops on the left, on the right and of the sums run as one as `collapse` says. What follows the sums
    runs along the columns, or the rows, of a tile, on vectors if `vector` says so. Threads share the
    iterations of the outermost loop over "columns" or over "rows", panels or tiles where there is but one such loop, if
    `shared` says which: each claims `chunk` at a time.
    """

    rows: int
    vectors: int
    lanes: int
    dot: bool = False
    parts: tuple[int, ...] = ()
    panel: str = ""
    block: int = 0
    unroll: bool = False
    along: str = "columns"
    vector: bool = False
    shared: str = ""
    chunk: int = 1
    collapse: tuple[int, int, int] = (1, 1, 1)
    strips: str = ""
    packed: int = 1
    group: int = 0
    panels: int = 1
    looks: int = 0

    def __str__(self) -> str:
        wide = _many(self.vectors, "column") if self.dot else f"{_many(self.vectors, 'vector')} of {self.lanes}"
        panels = f" by {self.panels} panels" if self.panels > 1 else ""
        told = {
            f"along sums on vectors of {self.lanes}": self.dot,
            f"{self.panel} panels{f' of {self.block}' if self.block else ''}": self.panel,
            f"{self.strips} strips of rows by {self.packed}": self.strips,
            f"groups of {_many(self.group, 'tile')}{panels}": self.group,
            f"parts of {' by '.join(map(str, self.parts))}": self.parts,
            f"looking through {self.looks}": self.looks,
            "unrolled": self.unroll,
            f"then along {self.along}{' on vectors' if self.vector else ''}": True,
            f"{self.shared} on threads by {self.chunk}": self.shared,
            f"loops collapsed by {' and '.join(map(str, self.collapse))}": max(self.collapse) > 1,
        }
        tiles = f"in tiles of {_many(self.rows, 'row')} by {wide}"
        return ", ".join([tiles, *(text for text, holds in told.items() if holds)])


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


@dataclass(frozen=True, slots=True)
class Blocks:
    """How a product runs on a GPU: a program has a block of `rows` times `columns`, and takes `sums` at a time.

    Rows run over all loops on the left as one, columns over those on the right, sums over theirs. A program runs on so
    many `warps`, with `stages` of loads under way. Programs of `group` blocks of rows follow each other, so that they
    find columns in the second cache. Sums in `splits` parts are programs of their own, whose totals are added up in
    order. Factors are multiplied as they are ("ieee"), or rounded to "tf32".
    """

    rows: int
    columns: int
    sums: int
    warps: int = 4
    stages: int = 3
    group: int = 8
    splits: int = 1
    precision: str = "ieee"

    def __str__(self) -> str:
        many = (self.rows, "row"), (self.columns, "column"), (self.sums, "sum")
        told = {
            f"in blocks of {' by '.join(_many(*one) for one in many)}": True,
            _many(self.warps, "warp"): True,
            _many(self.stages, "stage"): True,
            f"groups of {self.group}": True,
            _many(self.splits, "split"): self.splits > 1,
            f"as {self.precision}": self.precision != "ieee",
        }
        return ", ".join(text for text, holds in told.items() if holds)


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
