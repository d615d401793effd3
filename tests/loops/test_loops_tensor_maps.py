"""Factors of products as matrices in memory: which are, and that a block of one has a factor's cells."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import prod

import pytest
from hypothesis import given, settings, strategies as st

from weft.affine import Affine
from weft.loops import Blocks, Buffer, Cast, Let, Local, Read, Staged, Store
from weft.loops.product_legality import unfit
from weft.loops.staged import parts_of, staged_product
from weft.loops.tensor_maps import TensorMap, factor_maps
from weft.loops.walk import Loop
from weft.ops import Call, Num, Scalar

AT_I, AT_J, AT_K, AT_L, AT_B = (Affine.of(name) for name in "ijklb")
ROWS: tuple[Loop, ...] = (("i", 6),)
COLUMNS: tuple[Loop, ...] = (("j", 8),)
SUMS: tuple[Loop, ...] = (("k", 16),)
OUT = Buffer(9, "c", (3, 6, 8), "float32")


def buffer(*shape: int, dtype: str = "float32", number: int = 0) -> Buffer:
    return Buffer(number, f"x{number}", shape, dtype)


def staged(left: Scalar, right: Scalar, rows: tuple[Loop, ...] = ROWS, sums: tuple[Loop, ...] = SUMS) -> Staged:
    total = Local("total", "float32")
    rest = (Store(OUT, (AT_B, AT_I, AT_J), total),)
    start = Let(total, Cast("float32", Num(0)))
    return staged_product(rows, COLUMNS, sums, start, ("add", "mul"), (left, right), rest)


def maps(left: Scalar, right: Scalar, **loops: tuple[Loop, ...]) -> tuple[TensorMap, TensorMap] | None:
    return factor_maps(parts_of(staged(left, right, **loops)))


RIGHT = Read(buffer(8, 16, number=1), (AT_J, AT_K))


@pytest.mark.parametrize(
    ("read", "height", "width", "outer", "inner", "sums_inside"),
    [
        (Read(buffer(6, 16), (AT_I, AT_K)), 6, 16, Affine(()), Affine(()), True),
        (Read(buffer(16, 8), (AT_K, AT_I)), 16, 8, Affine(()), Affine(()), False),
        (Read(buffer(3, 6, 16), (AT_B, AT_I, AT_K)), 18, 16, AT_B * 6, Affine(()), True),
        (Read(buffer(6, 3, 16), (AT_I, AT_B, AT_K)), 6, 48, Affine(()), AT_B * 16, True),
        (Read(buffer(9, 20), (AT_I + 2, AT_K + 4)), 9, 20, Affine((), 2), Affine((), 4), True),
    ],
)
def test_matrices(read: Read, height: int, width: int, outer: Affine, inner: Affine, sums_inside: bool) -> None:
    found = maps(read, RIGHT)
    assert found is not None
    assert found[0] == TensorMap(read.buffer, height, width, outer, inner, sums_inside)


@pytest.mark.parametrize(
    "factor",
    [
        Read(buffer(6, 18), (AT_I, AT_K)),  # rows of 72 bytes
        Read(buffer(12, 16), (AT_I * 2, AT_K)),
        Read(buffer(6, 32), (AT_I, AT_K * 2)),
        Read(buffer(24), (AT_I + AT_K,)),
        Read(buffer(6, 6, 16), (AT_I, AT_I, AT_K)),
        Read(buffer(6, 16, dtype="float64"), (AT_I, AT_K)),
        Call("relu", (Read(buffer(6, 16), (AT_I, AT_K)),)),
        Cast("float32", Read(buffer(6, 16, dtype="bfloat16"), (AT_I, AT_K))),  # the other one is of four bytes
        Read(buffer(6, 16), (AT_I, Cast("int64", Read(buffer(16, number=2), (AT_K,))))),
    ],
)
def test_no_matrices(factor: Scalar) -> None:
    assert maps(factor, RIGHT) is None


def test_narrow_factors_are_copied_as_they_are_stored() -> None:
    left, right = (
        Read(buffer(6, 16, dtype="bfloat16"), (AT_I, AT_K)),
        Read(buffer(16, 8, dtype="bfloat16", number=1), (AT_K, AT_J)),
    )
    found = maps(Cast("float32", left), Cast("float32", right))
    assert found is not None
    assert [one.sums_inside for one in found] == [True, False]


def test_loops_that_follow_each_other_are_one_axis() -> None:
    left, right = Read(buffer(6, 4, 4), (AT_I, AT_K, AT_L)), Read(buffer(8, 4, 4, number=1), (AT_J, AT_K, AT_L))
    assert maps(left, right, sums=(("k", 4), ("l", 4))) is not None
    assert maps(left, right, sums=(("l", 4), ("k", 4))) is None


def test_blocks_of_sums_that_are_not_filled_have_no_maps() -> None:
    def mapped(sums: int, left: Scalar) -> str:
        made = staged(left, RIGHT)
        return unfit(Staged(replace(made.what, blocks=Blocks(64, 16, sums, maps=True)), made.body))

    left = Read(buffer(6, 16), (AT_I, AT_K))
    assert mapped(16, left) == ""
    assert mapped(32, left) == "a block of sums has terms that are not there, and would not be zero"
    assert mapped(16, Read(buffer(12, 16), (AT_I * 2, AT_K))) == "a factor is no matrix of whole rows"


@settings(max_examples=60)
@given(st.data())
def test_a_block_has_the_cells_of_its_factor(data: st.DataObject) -> None:
    """Where a map finds a factor's cell lies that cell, for every point of the loops."""
    sizes = {"i": 3, "l": 2, "k": 4, "b": 2}
    names = data.draw(st.permutations(["i", "k", "b", *data.draw(st.sampled_from([[], ["l"]]))]))
    more = [data.draw(st.integers(0, 1)) for _ in names]
    shape = tuple(sizes[name] + 4 * extra for name, extra in zip(names, more, strict=True))
    at = tuple(Affine.of(name) + data.draw(st.integers(0, 4 * extra)) for name, extra in zip(names, more, strict=True))
    read = Read(buffer(*shape), at)
    sums = (("k", 4), ("l", 2)) if "l" in names else (("k", 4),)
    right = Read(buffer(8, *(size for _, size in sums), number=1), (AT_J, *(Affine.of(name) for name, _ in sums)))
    found = maps(read, right, rows=(("i", 3),), sums=sums)
    if found is None:
        return
    one = found[0]
    assert (one.height * one.width, one.width * 4 % 16) == (prod(shape), 0)
    for values in product(*(range(sizes[name]) for name in names)):
        point = dict(zip(names, values, strict=True))
        number = 0
        for index, size in zip(at, shape, strict=True):
            number = number * size + index.value(point)
        along = point["k"] * 2 + point["l"] if "l" in point else point["k"]
        row, cell = (point["i"], along) if one.sums_inside else (along, point["i"])
        assert (one.outer.value(point) + row) * one.width + one.inner.value(point) + cell == number
