"""Factors that a loop does not change, packed before it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from weft.loops import Buffer, Program, buffers_of, check, show
from weft.loops.interp import run
from weft.loops.parse import parse
from weft.machine import COMMON
from weft.schedule.compile_options import DEFAULTS
from weft.schedule.products.pack_invariants import with_packed_invariants

U, H, Z = (
    Buffer(0, "u", (64, 24), "float32"),
    Buffer(1, "h", (4, 40, 24), "float32"),
    Buffer(2, "z", (40, 64), "float32"),
)
BEFORE = """\
for t in range(3):
    product of left j; right i; sums k:
        for j in range(64):
            for i in range(40):
                s: float32 = 0
                for k in range(24):
                    s = s + (u[j, k] * h[t, i, k])
                z[i, j] = s"""
AFTER = """\
for j_3 in range(2):
    for k_2 in range(24):
        for j_4 in range(32):
            u_packed[j_3, k_2, j_4] = u[32*j_3 + j_4, k_2]
for t in range(3):
    product of left j_2, j; right i; sums k:
        for j_2 in range(2):
            for j in range(32):
                for i in range(40):
                    s: float32 = 0
                    for k in range(24):
                        s = s + (u_packed[j_2, k, j] * h[t, i, k])
                    z[i, 32*j_2 + j] = s"""


def packed(text: str, *buffers: Buffer) -> str:
    return show(check(Program(with_packed_invariants(parse(text, buffers or (U, H, Z)).body))))


def test_before_and_after() -> None:
    assert packed(BEFORE) == AFTER


def test_what_is_computed_stays_the_same() -> None:
    program = parse(BEFORE, (U, H, Z))
    random = np.random.default_rng(0)
    given = {one: random.uniform(-1, 1, one.shape).astype("float32") for one in (U, H, Z)}
    found = []
    for one in (program, Program(with_packed_invariants(program.body))):
        memory = {buffer: np.zeros(buffer.shape, "float32") for buffer in buffers_of(one)}
        memory |= {buffer: values.copy() for buffer, values in given.items()}
        run(check(one), memory)
        found.append(memory[Z])
    np.testing.assert_array_equal(*found)
    assert np.ptp(found[0]) > 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("u[j, k]", "h[t, j, k]"),  # both change
        ("z[i, j] = s", "u[j, i] = s"),  # it is written
        ("for t in range(3):\n    product", "if 0 <= t < 3:\n    product"),  # no loop
    ],
)
def test_what_changes_is_read_where_it_is(old: str, new: str) -> None:
    wide = (replace(U, shape=(64, 40)), replace(H, shape=(4, 64, 24)), Z)
    text = BEFORE.replace(old, new)
    program = parse(text, wide, ["t"] if "if" in text else [])
    assert with_packed_invariants(program.body) == program.body


def test_few_rows_do_not_repay_a_copy() -> None:
    h, z = replace(H, shape=(4, 7, 24)), replace(Z, shape=(7, 64))
    assert "packed" not in packed(BEFORE.replace("range(40)", "range(7)"), U, h, z)


def test_columns_that_fill_no_tile_lie_side_by_side() -> None:
    u, z = replace(U, shape=(50, 24)), replace(Z, shape=(40, 50))
    assert "u_packed[k_2, j_2] = u[j_2, k_2]" in packed(BEFORE.replace("range(64)", "range(50)"), u, H, z)


def test_what_lies_well_is_copied_where_the_first_cache_does_not_hold_it() -> None:
    u = replace(U, shape=(24, 64))
    program = parse(BEFORE.replace("u[j, k]", "u[k, j]"), (u, H, Z))
    assert with_packed_invariants(program.body) == program.body
    small = DEFAULTS.but(machine=replace(COMMON, caches=(1 << 12, 1 << 21)))
    assert "u_packed" in show(Program(with_packed_invariants(program.body, small)))


ROWS = """\
product of left i; right j; sums k:
    for i in range({rows}):
        for j in range({columns}):
            s: float32 = 0
            for k in range(1000):
                s = s + (a[k, i] * b[k, j])
            c[i, j] = s"""
COPIED = """\
for k_3 in range(20):
    for i_3 in range(4):
        for k_2 in range(50):
            for i_5 in range(5):
                for i_4 in range(8):
                    a_packed[5*i_3 + i_5, 50*k_3 + k_2, i_4] = a[50*k_3 + k_2, 40*i_3 + 8*i_5 + i_4]
product of left i_2, i; right j; sums k:
    for i_2 in range(20):
        for i in range(8):
            for j in range(300):
                s: float32 = 0
                for k in range(1000):
                    s = s + (a_packed[i_2, k, i] * b[k, j])
                c[8*i_2 + i, j] = s"""


def rows_and_columns(rows: int, columns: int, sums: int = 1000) -> tuple[str, tuple[Buffer, ...]]:
    shapes = {"a": (sums, rows), "b": (sums, columns), "c": (rows, columns)}
    buffers = tuple(Buffer(at, name, shape, "float32") for at, (name, shape) in enumerate(shapes.items()))
    return ROWS.format(rows=rows, columns=columns).replace("1000", str(sums)), buffers


def test_rows_that_many_columns_would_pack_again_are_copied_once() -> None:
    text, buffers = rows_and_columns(160, 300)
    assert packed(text, *buffers) == COPIED
    text, buffers = rows_and_columns(160, 300, sums=997)  # which no block of sums divides
    assert packed(text, *buffers).startswith("for i_3 in range(4):\n    for k_2 in range(997):\n        for i_5 in")


@pytest.mark.parametrize(("rows", "columns"), [(160, 250), (163, 300), (40, 300)])
def test_rows_are_read_where_they_are(rows: int, columns: int) -> None:
    """Columns are few, the last tile is no whole one, or rows would be no more than columns, which lie as well."""
    text, buffers = rows_and_columns(rows, columns)
    assert "a_packed" not in packed(text, *buffers)


def test_a_product_of_copied_rows_is_the_same() -> None:
    text, buffers = rows_and_columns(160, 300)
    program, random = parse(text, buffers), np.random.default_rng(0)
    given = {one: random.uniform(-1, 1, one.shape).astype("float32") for one in buffers}
    kernel = Program(with_packed_invariants(program.body))
    memory = {buffer: given.get(buffer, np.zeros(buffer.shape, "float32")).copy() for buffer in buffers_of(kernel)}
    (copy, product), a = kernel.body, buffers[0]
    run(check(Program((copy,))), memory)
    (packed_rows,) = (one for one in memory if one.name == "a_packed")
    np.testing.assert_array_equal(memory[packed_rows].transpose(1, 0, 2).reshape(1000, 160), given[a])
    assert {one.name for one in buffers_of(Program((product,)))} == {"a_packed", "b", "c"}


CONVERTED = """\
product of left i; right j; sums k:
    for i in range(40):
        for j in range(64):
            s: float32 = 0
            for k in range(24):
                s = s + (float32(p[i, k]) * float32(q[k, j]))
            r[i, j] = s"""
NARROW = (Buffer(0, "p", (40, 24), "int8"), Buffer(1, "q", (24, 64), "bfloat16"), Buffer(2, "r", (40, 64), "float32"))


def test_rows_of_another_type_are_converted_once_for_many_tiles_of_columns() -> None:
    wanted = """\
for i_2 in range(40):
    for k_2 in range(24):
        p_packed[i_2, k_2] = float32(p[i_2, k_2])
product of left i; right j; sums k:
    for i in range(40):
        for j in range(64):
            s: float32 = 0
            for k in range(24):
                s = s + (p_packed[i, k] * float32(q[k, j]))
            r[i, j] = s"""
    assert packed(CONVERTED, *NARROW) == wanted


@pytest.mark.parametrize(("old", "new", "shape"), [("64", "32", (40, 24)), ("p[i, k]", "p[0, i + k]", (1, 63))])
def test_rows_that_are_converted_as_they_are_read(old: str, new: str, shape: tuple[int, ...]) -> None:
    """One tile has all columns; or they are windows, each of whose cells several sums read."""
    columns = 32 if old == "64" else 64
    buffers = [
        replace(one, shape=each) for one, each in zip(NARROW, (shape, (24, columns), (40, columns)), strict=True)
    ]
    assert "packed" not in packed(CONVERTED.replace(old, new), *buffers)
