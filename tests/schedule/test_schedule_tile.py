"""Products in tiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from weft.affine import Affine
from weft.backends.cc import Cc
from weft.loops import (
    Buffer,
    Cast,
    For,
    Let,
    Local,
    MalformedLoops,
    Program,
    Read,
    Staged,
    Store,
    Tile,
    buffers_of,
    check,
    show,
)
from weft.loops.interp import run
from weft.loops.product_legality import unfit
from weft.loops.semiring import SUM_OF_PRODUCTS
from weft.loops.staged import parts_of, staged_product
from weft.machine import Machine
from weft.ops import Call, Num
from weft.schedule import Kernel
from weft.schedule.compile_options import DEFAULTS, CompileOptions
from weft.schedule.options import Options
from weft.schedule.products.tile import best_tile, tiled, tilings
from weft.thresholds import Thresholds

TOTAL, ZERO = Local("t", "float32"), Cast("float32", Num(0))


def contraction(text: str, **sizes: int) -> Staged:
    """A product of matrices `ik;kj=>ij`, whose sums are what the result does not know."""
    (one, other), result = text.partition("=>")[0].split(";"), text.partition("=>")[2]
    buffers = [
        Buffer(at, name, tuple(sizes[axis] for axis in axes), "float32")
        for at, (name, axes) in enumerate(zip("abc", (one, other, result), strict=True))
    ]
    a, b, c = (Read(buffer, places(axes)) for buffer, axes in zip(buffers, (one, other, result), strict=True))
    groups = [[axis for axis in result if axis in one], [axis for axis in result if axis in other]]
    groups.append(list(dict.fromkeys(axis for axis in one if axis not in result)))
    left, right, sums = ([(axis, sizes[axis]) for axis in group] for group in groups)
    return staged_product(left, right, sums, Let(TOTAL, ZERO), SUM_OF_PRODUCTS, (a, b), [Store(c.buffer, c.at, TOTAL)])


def places(axes: Sequence[str]) -> tuple[Affine, ...]:
    return tuple(Affine(((1, axis),)) for axis in axes)


def asking(rows: int, vectors: int) -> CompileOptions:
    return DEFAULTS.but(schedule=Options(rows=rows, vectors=vectors))


def on(**facts: object) -> CompileOptions:
    """For another machine."""
    return DEFAULTS.but(machine=replace(Machine(), **facts))


def test_before_and_after() -> None:
    before = """\
product of left i; right j; sums k:
    for i in range(64):
        for j in range(80):
            t: float32 = 0
            for k in range(100):
                t = t + (a[i, k] * b[k, j])
            c[i, j] = t"""
    staged = contraction("ik;kj=>ij", i=64, j=80, k=100)
    assert show(Program((staged,))) == before
    told = "sums k in tiles of 8 rows by 3 vectors of 16, parts of 50, then along columns on vectors:"
    assert show(check(Program(tiled([staged])))) == before.replace("sums k:", told)
    told = "sums k in tiles of 4 rows by 2 vectors of 16, parts of 50, then along columns on vectors:"
    assert show(check(Program(tiled([staged], asking(rows=4, vectors=2))))) == before.replace("sums k:", told)


TILES, WIDE = "in tiles of 8 rows by 2 vectors of 16", "in tiles of 8 rows by 3 vectors of 16"
DOTS = "in tiles of 2 rows by 4 columns, along sums on vectors of 16"


@pytest.mark.parametrize(
    ("text", "sizes", "head"),
    [
        ("ik;kj=>ij", (64, 80, 48), f"left i; right j; sums k {WIDE}, then along columns on vectors"),
        ("ik;jk=>ij", (64, 80, 48), f"left i; right j; sums k {TILES}, transposed panels, then along"),
        ("ik;jk=>ij", (3, 2, 480), f"left j; right i; sums k {DOTS}, parts of 60, then along"),
        ("ki;kj=>ji", (64, 80, 48), f"left j; right i; sums k {TILES}, then along columns on vectors"),
        (
            "ik;jk=>ij",
            (64, 80, 12000),
            f"{TILES}, transposed panels of 4000, groups of 32 tiles, parts of 64 by 14, then",
        ),
        ("ilk;klj=>ij", (64, 80, 5, 9), f"sums l, k {WIDE}, unrolled, then along columns on vectors"),
        ("ikl;klj=>ij", (64, 80, 9, 5), f"{WIDE}, then along columns on vectors, loops collapsed by 1 and 1 and 2"),
        ("jik;kl=>ijl", (64, 80, 48, 32), f"left j, i; right l; sums k {TILES}, then along columns on vectors:"),
        ("jik;kl=>jil", (64, 80, 48, 32), f"{TILES}, then along columns on vectors, loops collapsed by 2 and"),
        (
            "ki;kj=>ij",
            (160, 176, 480),
            "panels, copied strips of rows by 8, groups of 32 tiles by 8 panels, parts of 69",
        ),
        (
            "ki;kj=>ij",
            (64, 80, 480),
            f"left i; right j; sums k {TILES}, copied panels, parts of 69, then along columns",
        ),
        ("kil;klj=>ij", (64, 80, 784, 16), f"{TILES}, copied panels of 196, groups of 32 tiles, parts of 64 by 14"),
        ("kil;klj=>ij", (64, 80, 16, 784), f"{TILES}, copied panels of 4, groups of 32 tiles, parts of 64 by 14"),
        ("hik;jk=>ihj", (64, 80, 12000, 0, 3), f"left h, i; right j; sums k {TILES}, transposed panels of 4000, parts"),
        ("ik;kj=>ij", (1, 80, 48), "sums k in tiles of 1 row by 5 vectors of 16, then along columns on vectors"),
        ("ik;kj=>ij", (33, 80, 48), "sums k in tiles of 9 rows by 3 vectors of 16, then along columns on vectors"),
        ("ik;kj=>ij", (41, 80, 48), "sums k in tiles of 7 rows by 3 vectors of 16, then along columns on vectors"),
    ],
)
def test_what_is_chosen(text: str, sizes: tuple[int, ...], head: str) -> None:
    (found,) = tiled([contraction(text, **dict(zip("ijklh", sizes, strict=False)))])
    assert head in show(check(Program((found,)))).splitlines()[0]


def test_vectors_lie_along_no_sums_where_there_are_none() -> None:
    staged = contraction("i;j=>ij", i=64, j=80)

    def problem(tile: Tile) -> str:
        return unfit(Staged(replace(staged.what, tile=tile), staged.body))

    assert problem(Tile(rows=1, vectors=3, lanes=16)) == ""
    assert "no sums" in problem(Tile(rows=2, vectors=4, lanes=16, dot=True))
    assert "no sums" in problem(Tile(rows=1, vectors=3, lanes=16, panel="transposed"))


def test_a_product_whose_panels_are_too_deep_is_loops() -> None:
    staged = contraction("lki;klj=>ij", i=8, j=8, l=2, k=5000)
    assert best_tile(staged) is None
    assert tiled([For("b", 3, (staged,))]) == (For("b", 3, staged.body),)


@pytest.mark.parametrize(("rows", "vectors"), [(64, 64), (64, 2), (2, 64), (0, 64), (0, 9), (64, 0), (0, 0)])
def test_tiles_are_no_larger_than_the_stack_can_bear(rows: int, vectors: int) -> None:
    found = best_tile(contraction("ik;kj=>ij", i=999, j=999, k=999), asking(rows, vectors))
    assert found is not None
    check(Program((found,)))
    assert found.what.tile is not None
    assert 1 <= found.what.tile.rows * found.what.tile.vectors <= 64


PLAIN = Tile(4, 2, 16)
TOGETHER = "panels are packed together if they are copied, of one sum, and not in blocks of it for all rows"
PACKED = replace(PLAIN, panel="copied", strips="copied", packed=2, group=2, panels=2)


@pytest.mark.parametrize(
    ("text", "wrong", "problem"),
    [
        ("ik;jk=>ij", PLAIN, "its vectors do not lie along `j`"),
        ("ik;kj=>ij", replace(PLAIN, dot=True), "its vectors do not lie along `k`"),
        ("ik;kj=>ij", replace(PLAIN, panel="transposed"), "its vectors do not lie along `k`"),
        ("ik;kj=>ij", replace(PLAIN, panel="folded"), "there are no such panels"),
        ("ik;jk=>ij", replace(PLAIN, dot=True, panel="copied"), "there are no such panels"),
        ("ki;kj=>ij", replace(PLAIN, strips="copied"), "rows are packed where columns are, for a group of tiles"),
        ("ki;kj=>ij", replace(PACKED, group=0), "rows are packed where columns are, for a group of tiles"),
        ("ki;kj=>ij", replace(PACKED, strips="folded"), "rows are packed where columns are, for a group of tiles"),
        ("ki;kj=>ij", replace(PLAIN, panels=2), "panels follow each other for a group of tiles"),
        ("ki;kj=>ij", replace(PACKED, packed=0), "strips are packed together where rows are packed"),
        ("ki;kj=>ij", replace(PLAIN, at_once=2), TOGETHER),
        ("ik;jk=>ij", replace(PLAIN, panel="transposed", at_once=2), TOGETHER),
        ("ki;kj=>ij", replace(PACKED, at_once=0), TOGETHER),
        (
            "ki;kj=>ij",
            replace(PLAIN, group=2),
            "groups are of tiles that share a block of sums, or strips, or have several sums",
        ),
        ("ki;kj=>ij", replace(PACKED, panels=1025), "1025 at once are more than 1024"),
        ("ki;kj=>ij", replace(PLAIN, ahead=1 << 17), "131072 lines are more than 65536"),
        ("ki;kj=>ij", replace(PACKED, ahead=1), "rows are prefetched where tiles read them as they lie"),
        ("i;j=>ij", replace(PLAIN, ahead=1), "rows are prefetched where tiles read them as they lie"),
        ("ki;kj=>ij", replace(PLAIN, looks=1), "only extrema of floats look whether terms are numbers"),
        ("ikl;lkj=>ij", replace(PLAIN, collapse=(1, 1, 2)), "cells of `k` do not follow those of `l`"),
        (
            "ik;kj=>ij",
            replace(PLAIN, collapse=(1, 1, 2)),
            "there are not 2 plain loops, each the whole body of the last",
        ),
        ("ik;kj=>ij", replace(PLAIN, block=20), "blocks are of panels whose sums go on in double precision"),
        ("ik;kj=>ij", replace(PLAIN, parts=(46, 16, 3)), "there are no such parts"),
        ("ik;kj=>ij", replace(PLAIN, vectors=0), "it has no vectors, or more than 64"),
        ("ik;kj=>ij", replace(PLAIN, rows=40), "it has no vectors, or more than 64"),
        ("ik;kj=>ij", replace(PLAIN, rows=0), "it has no vectors, or more than 64"),
        ("ik;kj=>ij", replace(PLAIN, lanes=32), "there are no vectors of 128 bytes"),
        ("ik;kj=>ij", replace(PLAIN, lanes=3), "there are no vectors of 12 bytes"),
    ],
)
def test_a_tile_that_does_not_fit_is_refused(text: str, wrong: Tile, problem: str) -> None:
    staged = contraction(text, i=64, j=80, k=48, l=2)
    bad = replace(staged, what=replace(staged.what, tile=wrong))
    with pytest.raises(MalformedLoops) as caught:
        check(Program((bad,)))
    assert str(caught.value) == f"a product cannot run {wrong}: {problem}"


def test_only_rows_that_a_tile_reads_as_they_are_can_be_prefetched() -> None:
    a, b, c = (Buffer(at, name, (48, 48), "float32") for at, name in enumerate("abc"))
    computed = Call("neg", (Read(a, places("ki")),)), Read(b, places("kj"))
    ends, loops = [Store(c, places("ij"), TOTAL)], ([(name, 48)] for name in "ijk")
    staged = staged_product(*loops, Let(TOTAL, ZERO), SUM_OF_PRODUCTS, computed, ends)
    assert check(Program((replace(staged, what=replace(staged.what, tile=PLAIN)),)))
    bad = replace(staged, what=replace(staged.what, tile=replace(PLAIN, ahead=1)))
    with pytest.raises(MalformedLoops, match="rows are prefetched where tiles read them as they lie"):
        check(Program((bad,)))


def test_cells_that_iterations_share_keep_vectors_and_threads_away() -> None:
    staged = contraction("ik;kj=>ij", i=64, j=80, k=48)
    one = Buffer(9, "d", (1,), "float32")
    shared = staged_product(
        [("i", 64)],
        [("j", 80)],
        [("k", 48)],
        Let(TOTAL, ZERO),
        SUM_OF_PRODUCTS,
        parts(staged),
        [Store(one, (Affine(()),), TOTAL)],
    )
    for wrong in (replace(PLAIN, vector=True), replace(PLAIN, shared="columns")):
        bad = replace(shared, what=replace(shared.what, tile=wrong))
        with pytest.raises(MalformedLoops, match="iterations share cells of `d`"):
            check(Program((bad,)))


def parts(staged: Staged) -> tuple[Read, Read]:
    a, b = (Buffer(at, name, shape, "float32") for at, (name, shape) in enumerate((("a", (64, 48)), ("b", (48, 80)))))
    return Read(a, places("ik")), Read(b, places("kj"))


def test_what_pays_depends_on_the_machine() -> None:
    """A panel, where the second cache does not hold the columns."""
    staged = contraction("ik;kj=>ij", i=999, j=999, k=999)
    here, roomy = (
        best_tile(staged, on(caches=(1 << 15, size), strided_steps=0.001, held_steps=0.001))
        for size in (1 << 20, 1 << 24)
    )
    assert here is not None
    assert roomy is not None
    assert "panel" in show(Program((here,)))
    assert "panel" not in show(Program((roomy,)))


def shape_of(staged: Staged, options: CompileOptions) -> Tile:
    found = best_tile(staged, options)
    assert found is not None
    assert found.what.tile is not None
    return found.what.tile


def test_a_panel_pays_from_so_many_rows_on() -> None:
    staged = contraction("ik;kj=>ij", i=700, j=999, k=999)
    meanwhile = on(strided_steps=0.001, held_steps=0.001)
    assert [shape_of(staged, meanwhile.but(pack_rows=rows)).panel for rows in (1332, 1333)] == ["copied", ""]


@pytest.mark.parametrize(
    ("rows", "columns", "sums", "panel"),
    [
        (64, 500, 128, ""),
        (64, 500, 300, "copied"),  # of three lines each, more than the first cache holds
        (64, 512, 128, "copied"),  # half a way apart: there is a place for one in ten
        (64, 512, 12, ""),
        (10, 512, 128, ""),  # one tile of rows
    ],
)
def test_columns_are_packed_whose_lines_the_first_cache_loses(rows: int, columns: int, sums: int, panel: str) -> None:
    staged = contraction("ik;kj=>ij", i=rows, j=columns, k=sums)
    assert shape_of(staged, DEFAULTS).panel == panel
    assert not shape_of(staged, on(strided_steps=0.001, held_steps=0.001)).panel  # where they come in time


def test_short_sums_are_unrolled() -> None:
    staged = contraction("ilk;klj=>ij", i=64, j=80, k=5, l=9)
    assert [shape_of(staged, DEFAULTS.but(short_loop=most)).unroll for most in (5, 4)] == [True, False]


def test_vectors_lie_along_the_sums_where_loads_are_cheap_and_transposing_is_not() -> None:
    staged = contraction("ik;jk=>ij", i=64, j=80, k=48)
    assert not shape_of(staged, DEFAULTS).dot
    assert shape_of(staged, on(transpose_steps=50.0, load_steps=0.5)).dot


@pytest.mark.parametrize(
    ("text", "rows", "usual", "facts", "other"),
    [
        ("ki;jk=>ij", 64, "copied", {"transpose_steps": 0.001, "line_steps": 0.001}, "transposed"),
        ("ik;kj=>ij", 700, "copied", {"copy_steps": 50.0}, "transposed"),
    ],
)
def test_panels_depend_on_what_packing_takes(
    text: str, rows: int, usual: str, facts: dict[str, float], other: str
) -> None:
    staged = contraction(text, i=rows, j=999, k=700)
    assert [shape_of(staged, options).panel for options in (DEFAULTS, on(**facts))] == [usual, other]


def test_what_is_computed_is_packed_rather_than_computed_again_for_every_tile() -> None:
    found = parts_of(contraction("ik;kj=>ij", i=16, j=1024, k=1024))
    factors = (found.factors[0], Call("relu", found.factors[1:]))
    staged = staged_product(found.left, found.right, found.sums, Let(TOTAL, ZERO), found.ops, factors, found.rest)
    shapes = [shape_of(staged, options).panel for options in (DEFAULTS, on(scalar_steps=1e-6, line_steps=1e-6))]
    assert shapes == ["copied", "transposed"]


def in_semiring(staged: Staged, *ops: str) -> Staged:
    """The same contraction with other operations."""
    found = parts_of(staged)
    start = Let(TOTAL, ZERO)
    return staged_product(found.left, found.right, found.sums, start, (ops[0], ops[1]), found.factors, found.rest)


def test_other_semirings_have_neither_parts_nor_vectors_along_sums() -> None:
    deep, small = contraction("ik;jk=>ij", i=64, j=512, k=12000), contraction("ik;jk=>ij", i=4, j=9, k=4096)
    assert (shape_of(deep, DEFAULTS).parts, shape_of(deep, DEFAULTS).block > 0, shape_of(small, DEFAULTS).dot) == (
        (64, 14),
        True,
        True,
    )
    shape = shape_of(in_semiring(deep, "max", "add"), DEFAULTS)
    assert (shape.panel, shape.parts, shape.block > 0, shape.dot) == ("transposed", (), True, False)
    assert best_tile(in_semiring(small, "max", "add")) is None


def test_factors_that_do_not_commute_keep_their_places() -> None:
    staged = contraction("ki;kj=>ji", i=64, j=80, k=48)
    shapes = [best_tile(one) for one in (staged, in_semiring(staged, "max", "sub"))]
    assert [one and one.what.left for one in shapes] == [("j",), ("i",)]


@pytest.mark.parametrize(
    ("facts", "shape"),
    [
        ({"vector_bytes": 64, "registers": 32}, (8, 3, 16)),
        ({"vector_bytes": 32, "registers": 16}, (6, 2, 8)),
        ({"vector_bytes": 16, "registers": 16}, (6, 2, 4)),
        ({"vector_bytes": 16, "registers": 32}, (8, 3, 4)),
        ({"vector_bytes": 64, "registers": 8}, (2, 2, 16)),
        ({"vector_bytes": 256, "registers": 1}, (1, 1, 16)),
        ({"vector_bytes": 24, "registers": 32}, (8, 3, 4)),
    ],
)
def test_tiles_are_as_large_as_the_machine_s_registers(facts: dict[str, float], shape: tuple[int, ...]) -> None:
    tile = shape_of(contraction("ik;kj=>ij", i=960, j=80, k=48), on(**facts))
    assert (tile.rows, tile.vectors, tile.lanes) == shape
    ways = [one.what.tile for one in tilings(contraction("ik;jk=>ij", i=960, j=80, k=48), on(**facts))]
    (dot,) = (one for one in ways if one and one.dot)
    assert (dot.rows, dot.vectors, dot.lanes) == (max(1, shape[0] // 2), 4, shape[2])


def test_a_few_tiles_are_taller_where_the_last_is_no_lower_for_it() -> None:
    def height(rows: int, options: CompileOptions) -> int:
        return shape_of(contraction("ik;kj=>ij", i=rows, j=80, k=48), options).rows

    avx512 = on(vector_bytes=64, registers=32)
    usual = avx512.but(thresholds=Thresholds(tall_tile_rows=8))
    assert [height(rows, avx512) for rows in (10, 20, 25, 28, 30, 35)] == [10, 10, 9, 7, 10, 7]
    assert all(rows % height(rows, avx512) == 0 for rows in range(1, 50) if rows % height(rows, usual) == 0)


@pytest.mark.parametrize(
    ("columns", "shape"),
    [
        (24, (8, 3, 8)),
        (55, (6, 4, 8)),
        (64, (8, 2, 16)),
        (28, (8, 2, 16)),  # its last vector is more than half full
        (1000, (8, 3, 16)),  # half a vector of so many is not worth narrower ones
        (40, (6, 3, 8)),
    ],
)
def test_vectors_are_narrow_where_the_last_wide_one_would_be_half_empty(columns: int, shape: tuple[int, ...]) -> None:
    """On machines where two narrow ones are as quick as a wide one."""
    staged = contraction("ik;kj=>ij", i=960, j=columns, k=48)
    halves = shape_of(staged, on(narrow_steps=1.08))
    assert (halves.rows, halves.vectors, halves.lanes) == shape
    assert shape_of(staged, DEFAULTS).lanes == 16


@pytest.mark.parametrize(
    ("rows", "columns", "cores", "vectors"),
    [
        (1, 1024, 1, 16),  # as many as there may be
        (1, 1024, 2, 16),
        (1, 768, 2, 12),  # two tiles for each core, where wider ones leave one without its second
        (2, 1024, 1, 8),
        (3, 1024, 1, 6),
        (4, 1024, 1, 6),
        (8, 1024, 1, 3),
        (8, 256, 2, 2),
        (8, 48, 2, 2),
        (1, 256, 2, 8),
        (1, 100, 2, 7),  # cores share the sums of one tile
    ],
)
def test_tiles_that_load_their_columns_where_they_lie_are_wide(
    rows: int, columns: int, cores: int, vectors: int
) -> None:
    """As many vectors as registers hold beside what they are multiplied by, and all cores have about as many."""
    staged = contraction("ik;kj=>ij", i=rows, j=columns, k=100)
    tile = shape_of(staged, on(cores=cores))
    assert (tile.rows, tile.vectors, tile.panel) == (rows, vectors, "")
    narrow = on(cores=cores).but(thresholds=Thresholds(row_vectors=2))
    assert shape_of(staged, narrow).vectors == 2


@pytest.mark.parametrize(
    ("text", "sizes", "at_once", "panels"),
    [
        ("ik;kj=>ij", (64, 1024, 1024), 4, 1),
        ("ik;kj=>ij", (64, 256, 4096), 2, 2),  # so that each core has several
        ("ik;kj=>ij", (64, 1024, 2800), 2, 1),  # that the cache holds
        ("ik;kj=>ij", (64, 1024, 8000), 4, 4),  # in blocks
        ("ki;kj=>ij", (160, 1024, 2000), 4, 8),
        ("ik;jk=>ij", (64, 1024, 1024), 1, 1),  # transposed
        ("ik;kj=>ij", (700, 500, 200), 1, 1),  # whose lines stay in the second cache until the next
    ],
)
def test_panels_are_packed_together_whose_lines_come_from_far(
    text: str, sizes: tuple[int, ...], at_once: int, panels: int
) -> None:
    tile = shape_of(
        contraction(text, **dict(zip("ijk", sizes, strict=True))), on(caches=(3 << 14, 1 << 20, 1 << 25), cores=2)
    )
    assert (tile.at_once, tile.panels) == (at_once, panels)


@pytest.mark.parametrize(
    ("text", "rows", "sums", "ahead"),
    [
        ("ki;kj=>ij", 10, 50000, 64),
        ("ki;kj=>ij", 10, 12000, 0),  # the second cache holds them
        ("ki;kj=>ij", 17, 50000, 0),  # in a line of their own at each sum
        ("ik;kj=>ij", 2048, 2048, 1024),  # those of the next tile
        ("ik;kj=>ij", 2048, 1024, 0),  # the last cache holds them
        ("ik;kj=>ij", 2048, 8192, 0),  # in blocks, and no more in one piece
    ],
)
def test_rows_in_one_piece_that_come_from_far_are_prefetched(text: str, rows: int, sums: int, ahead: int) -> None:
    staged, options = contraction(text, i=rows, j=64, k=sums), on(caches=(3 << 14, 1 << 20, 1 << 25))
    assert shape_of(staged, options).ahead == ahead
    if ahead == DEFAULTS.thresholds.rows_ahead:
        assert shape_of(staged, options.but(thresholds=Thresholds(rows_ahead=9))).ahead == 9


@pytest.mark.parametrize("text", ["ki;kj=>ij", "ik;kj=>ij"])
@pytest.mark.parametrize("ahead", [1, 64, 1 << 16])
def test_what_is_prefetched_changes_nothing(text: str, ahead: int) -> None:
    """Nor do lines beyond the last row."""
    staged = contraction(text, i=13, j=40, k=77)
    body = (replace(staged, what=replace(staged.what, tile=replace(PLAIN, ahead=ahead))),)
    random, program = np.random.default_rng(0), check(Program(body))
    meant = {one: random.integers(-9, 9, one.shape).astype(one.dtype) for one in buffers_of(program)}
    ours = {one: array.copy() for one, array in meant.items()}
    run(program, meant, {})
    Cc().compile([Kernel((), body)]).bind(ours)({})
    for one, array in meant.items():
        np.testing.assert_array_equal(ours[one], array)


def test_what_is_done_at_once_is_drawn_by_thresholds() -> None:
    lines = Thresholds(tile_rows=4, tile_vectors=3, group_tiles=5, group_panels=6, packed_strips=7, look_tiles=9)
    lines = replace(lines, panels_at_once=2)
    options = DEFAULTS.but(thresholds=lines)
    tile = shape_of(contraction("ki;kj=>ij", i=160, j=176, k=480), options)
    assert (tile.rows, tile.vectors, tile.strips) == (4, 3, "copied")
    assert (tile.group, tile.panels, tile.packed, tile.looks) == (5, 6, 7, 0)
    choice = in_semiring(contraction("ik;kj=>ij", i=64, j=80, k=48), "max", "add")
    assert [shape_of(choice, one).looks for one in (DEFAULTS, options)] == [16, 9]
    assert shape_of(choice, DEFAULTS.but(thresholds=Thresholds(look_rows=65))).looks == 0


def test_rows_of_several_loops_share_a_block_if_they_are_few() -> None:
    staged = contraction("hik;jk=>ihj", h=3, i=64, j=80, k=12000)
    for most, group in ((192, 0), (191, 32)):
        tile = shape_of(staged, DEFAULTS.but(thresholds=Thresholds(group_rows=most)))
        assert (tile.block > 0, tile.group) == (True, group)
