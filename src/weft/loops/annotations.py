"""Annotations: how loops and products run, a value for each way; `words` is its text, both ways (`wording.py`).

Such a value says how loops run, never what they compute: who does not know it runs them as they stand. What its numbers
may be stands here in its `limits`; what must hold of the loops for it, in a row of `legality.py`.
"""

from __future__ import annotations

from dataclasses import MISSING, astuple, dataclass, fields
from typing import ClassVar, TypeAlias

from weft.loops.wording import Worded, read


@dataclass(frozen=True, slots=True)
class Collapse(Worded):
    """So many loops, each the whole body of the last, run as one."""

    words: ClassVar[str] = "collapsed by {loops}"
    limits: ClassVar[tuple[int, int]] = 2, 64
    loops: int


@dataclass(frozen=True, slots=True)
class Parallel(Worded):
    """Threads share the iterations: each claims so many that follow each other, works on them and claims the next."""

    words: ClassVar[str] = "on threads by {chunk}"
    limits: ClassVar[tuple[int, int]] = 1, 1 << 40
    chunk: int


@dataclass(frozen=True, slots=True)
class Grid(Worded):
    """Programs of a GPU's grid share the iterations: `block` that follow each other run in the lanes of one program.

    A program runs on so many `warps`. Loops on a grid inside each other, each the whole body of the last, are one grid,
    and their warps are those of the outermost.
    """

    words: ClassVar[str] = "on a grid by {block} with {warps} warp(s)"
    limits: ClassVar[tuple[int, int]] = 1, 1 << 16
    block: int
    warps: int = 4


@dataclass(frozen=True, slots=True)
class Lanes(Worded):
    """So many iterations at once in the lanes of a program; what they accumulate is joined across lanes."""

    words: ClassVar[str] = "in lanes by {block}"
    limits: ClassVar[tuple[int, int]] = 1, 1 << 16
    block: int


@dataclass(frozen=True, slots=True)
class Owners(Worded):
    """A program of a GPU's grid has one iteration; the first of those that accumulate into the same cells does all.

    It looks through `block` iterations at once for others of its cells, and takes the values of those that it finds
    from `part` at once. Loops on a grid around it are one grid with it.
    """

    words: ClassVar[str] = "by owners in blocks of {block} by {part} with {warps} warp(s)"
    limits: ClassVar[tuple[int, int]] = 1, 1 << 16
    block: int
    part: int = 1
    warps: int = 4


@dataclass(frozen=True, slots=True)
class Simt(Worded):
    """Each iteration is a GPU thread's, in thread blocks of so many; loops inside run as they are written.

    Such loops inside each other, each the whole body of the last, are one grid of threads. Where other statements are
    around them, or beside them, there is one thread block: each of its threads runs those, which store nothing; they
    share the iterations of such loops, and wait for each other before and after.
    """

    words: ClassVar[str] = "on simt threads by {block}"
    limits: ClassVar[tuple[int, int]] = 1, 1 << 16
    block: int


@dataclass(frozen=True, slots=True)
class Jam(Worded):
    """Unroll and jam: so many iterations at once, inside the loops inside."""

    words: ClassVar[str] = "jammed by {times}"
    limits: ClassVar[tuple[int, int]] = 2, 64
    times: int


@dataclass(frozen=True, slots=True)
class Vector(Worded):
    """So many iterations at once, sums of them in so many accumulators.

    0 stands for as many as vectors of the machine hold of the types in the loop: that is what it means, on any machine.
    """

    words: ClassVar[str] = "on vectors[ of {lanes}]"
    limits: ClassVar[tuple[int, int]] = 0, 64
    lanes: int = 0


@dataclass(frozen=True, slots=True)
class Registers(Worded):
    """All iterations are written out on vectors of so many: what the loop around accumulates stays in registers."""

    words: ClassVar[str] = "in registers of {lanes}"
    limits: ClassVar[tuple[int, int]] = 2, 64
    lanes: int


@dataclass(frozen=True, slots=True)
class Unroll(Worded):
    """So many iterations are written out, one after another."""

    words: ClassVar[str] = "unrolled by {times}"
    limits: ClassVar[tuple[int, int]] = 1, 256
    times: int


@dataclass(frozen=True, slots=True)
class PrefetchRows(Worded):
    """What an iteration touches in one piece is fetched while the one so many before it runs, by the loops inside; rows
    that it gathers, before those."""

    words: ClassVar[str] = "prefetching {iterations} ahead"
    limits: ClassVar[tuple[int, int]] = 1, 64
    iterations: int


@dataclass(frozen=True, slots=True)
class NonTemporal(Worded):
    """What it stores in one piece and does not read goes to memory past the caches, which stay as they are."""

    words: ClassVar[str] = "non-temporal"
    limits: ClassVar[tuple[int, int]] = 0, 0


@dataclass(frozen=True, slots=True)
class Cold(Worded):
    """It hardly ever runs, and is not worth the time that making it fast takes; threads may share it."""

    words: ClassVar[str] = "cold"
    limits: ClassVar[tuple[int, int]] = 0, 0


#: How a loop runs. What it says holds of the loop that a collapsed one is.
Annotation: TypeAlias = (
    Collapse
    | Parallel
    | Grid
    | Lanes
    | Owners
    | Simt
    | Jam
    | Vector
    | Registers
    | Unroll
    | PrefetchRows
    | NonTemporal
    | Cold
)
#: All of them, in the order in which they stand at a loop.
ANNOTATIONS: tuple[type[Annotation], ...] = (
    *(Collapse, Parallel, Grid, Lanes, Owners, Simt),
    *(Jam, Vector, Registers, Unroll, PrefetchRows, NonTemporal, Cold),
)
#: Of these a loop has one at most.
EXCLUSIVE = (Jam, Vector, Registers, Unroll)


def read_annotation(text: str) -> Annotation | None:
    """One way in which a loop runs; None if a text does not say any."""
    return next((found for kind in ANNOTATIONS if (found := read(kind, text)) is not None), None)


def specimen(kind: type[Annotation]) -> Annotation:
    """An annotation of a kind, to show how it is written."""
    needed = [4 for one in fields(kind) if one.default is MISSING]
    return kind(*needed)


def is_within_limits(how: Annotation | Blocks) -> bool:
    """Are its numbers what they may be?"""
    least, most = how.limits
    numbers = [one for one in astuple(how) if isinstance(one, int) and not isinstance(one, bool)]
    return all(least <= one <= most for one in numbers)


@dataclass(frozen=True, slots=True)
class Tile(Worded):
    """How a product runs in registers: tiles of `rows` times `vectors` of `lanes`.

    Rows are those of the last loop on the left, columns of the last on the right. Vectors lie along columns; those of a
    `dot` along the last sum, one for each column. A register adds up `parts[0]` products, another `parts[1]` of those
    sums, and the rest is added up in double precision; without parts one register takes all. A `panel` has columns
    packed into it first, "copied" as they lie or "transposed", for `block` iterations of the first sum (0: all);
    `at_once` panels that lie side by side are packed together.
    `strips` have rows packed too, those of a tile side by side: "copied" sum by sum, or "transposed", row by row along
    the last sum, `packed` strips at once; rows that are read where they lie are prefetched `ahead` cache lines ahead,
    if that is not 0. `group` tiles of rows share a panel before its next block, or strips before the next rows (0:
    those of all loops on the left), and `panels` follow each other for one group; of sums beside the product's own each
    does a `group` before the next, in panels of the same kind. Where `looks` is not 0, the rows of so many tiles are
    looked through at once for terms that are not numbers, and the columns of each panel: extrema of others are quicker.
    `interleaved`: so many of the last sum lie side by side for each row and column, in words of 32 bits that are filled
    up with zeros, and their products are added up in one step (`interleaving.py`). `unroll` writes out the last sum. As
    many of the last loops on the left, on the right and of the sums run as one as `collapse` says. What follows the
    sums runs along the columns, or the rows, of a tile, on vectors if `vector` says so. Threads share the iterations of
    the outermost loop over "columns" or over "rows", panels or tiles where there is but one such loop, if `shared` says
    which: each claims `chunk` at a time.
    """

    words: ClassVar[str] = (
        "in tiles of {rows} row(s) by {vectors} {dot:vector(s)|column(s), along sums on vectors} of {lanes}"
        "[, {panel:copied|transposed} panels[ of {block}][, {at_once} at once]]"
        "[, {strips:copied|transposed} strips of rows by {packed}][, prefetching rows {ahead} line(s) ahead]"
        "[, sums interleaved by {interleaved}]"
        "[, groups of {group} tile(s)[ by {panels} panel(s)]][, parts of {parts: by }][, looking through {looks}]"
        "{unroll:|, unrolled}, then along {along:columns|rows}{vector:| on vectors}"
        "[, {shared:columns|rows} on threads by {chunk}][, loops collapsed by {collapse: and }]"
    )
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
    interleaved: int = 1
    at_once: int = 1
    ahead: int = 0


@dataclass(frozen=True, slots=True)
class Blocks(Worded):
    """How a product runs on a GPU: a program has a block of `rows` times `columns`, and takes `sums` at a time.

    Rows run over all loops on the left as one, columns over those on the right, sums over theirs. A program runs on so
    many `warps`, with `stages` of loads under way. Programs of `group` blocks of rows follow each other, so that they
    find columns in the second cache. Loops around it that are on no grid are run by each program. What follows the sums
    is done in `parts` of its columns, one after another.
    Factors are multiplied as they are ("ieee"), each as the sum of three numbers of bfloat16 ("thirds"), rounded to
    "tf32", or, of eight bits, by units that add `sums` of them with some 13 digits ("float8"). They are loaded cell by
    cell, or, if `maps` says so, by the copy engine, which takes blocks of matrices (`tensor_maps.py`).
    """

    words: ClassVar[str] = (
        "in blocks of {rows} row(s) by {columns} column(s) by {sums} sum(s), {warps} warp(s), {stages} stage(s), "
        "groups of {group}[, {parts} part(s)][, as {precision:tf32|thirds|float8}]{maps:|, through tensor maps}"
    )
    limits: ClassVar[tuple[int, int]] = 1, 1 << 16
    rows: int
    columns: int
    sums: int
    warps: int = 4
    stages: int = 3
    group: int = 8
    parts: int = 1
    precision: str = "ieee"
    maps: bool = False
