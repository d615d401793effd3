"""Nests that read across what they store, block by block."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import weft as wf
from weft.loops import Buffer, Program, buffers_of, check, parse, show
from weft.loops.interp import run
from weft.machine import COMMON
from weft.schedule.compile_options import DEFAULTS
from weft.schedule.nests.block_loops import blocked
from weft.tc import Options
from weft.thresholds import Thresholds

#: A machine whose first cache holds 64 lines, so that a block is 32 long, and the options for it.
SMALL = replace(COMMON, caches=(1 << 12, 1 << 21))
OPTIONS = DEFAULTS.but(machine=SMALL)
X, Y = Buffer(0, "x", (70, 96), "float32"), Buffer(1, "y", (96, 70), "float32")
W = Buffer(2, "w", (96, 70), "float32")
BEFORE = """\
for i in range(96):
    for j in range(70):
        t: float32 = x[j, i] * 2
        y[i, j] += t + w[i, j]"""
AFTER = """\
for i_block in range(3):
    for j_block in range(4):
        for j in range(16):
            for i in range(32):
                x_block[j, i] = x[16*j_block + j, 32*i_block + i]
        for i in range(32):
            for j in range(16):
                t: float32 = x_block[j, i] * 2
                y[32*i_block + i, 16*j_block + j] += t + w[32*i_block + i, 16*j_block + j]
for i_block in range(3):
    for j in range(6):
        for i in range(32):
            x_block[j, i] = x[j + 64, 32*i_block + i]
    for i in range(32):
        for j in range(6):
            t: float32 = x_block[j, i] * 2
            y[32*i_block + i, j + 64] += t + w[32*i_block + i, j + 64]"""


def program(text: str, *buffers: Buffer) -> Program:
    return check(parse(text, buffers or (X, Y, W), ["s"]), {"s": 4})


def in_blocks(one: Program) -> Program:
    return check(Program(blocked(one.body, OPTIONS)), {"s": 4})


def test_before_and_after() -> None:
    assert show(in_blocks(program(BEFORE))) == AFTER


@pytest.mark.parametrize(
    ("held", "most", "lines"), [(1 << 12, 4, 1), (1 << 13, 4, 2), (1 << 15, 4, 4), (1 << 15, 3, 3)]
)
def test_blocks_are_some_lines_wide_where_squares_of_that_fit(held: int, most: int, lines: int) -> None:
    options = OPTIONS.but(machine=replace(SMALL, caches=(held, 1 << 21)), thresholds=Thresholds(block_lines=most))
    x, y = replace(X, shape=(960, 960)), replace(Y, shape=(960, 960))
    before = program("for i in range(960):\n    for j in range(960):\n        y[i, j] = x[j, i]", x, y)
    found = check(Program(blocked(before.body, options)), {})
    assert f"x[{16 * lines}*j_block + j, " in show(found)


def test_rows_of_a_copy_are_an_odd_number_of_lines() -> None:
    copies = [one for one in buffers_of(in_blocks(program(BEFORE))) if one.name == "x_block"]
    assert [one.shape for one in copies] == [(16, 48)]


def test_what_no_block_divides_is_left_for_another() -> None:
    x, y = replace(X, shape=(80, 97)), replace(Y, shape=(97, 80))
    found = show(in_blocks(program("for i in range(97):\n    for j in range(80):\n        y[i, j] = x[j, i]", x, y)))
    assert "y[32*i_block + i, 16*j_block + j]" in found
    assert "for i in range(1):\n        for j in range(16):\n            y[i + 96, 16*j_block + j]" in found


def test_loops_that_neither_side_walks_stay_around() -> None:
    x, y = replace(X, shape=(70, 3, 96)), replace(Y, shape=(96, 3, 70))
    before = """\
for i in range(96):
    for k in range(3):
        for j in range(70):
            y[i, k, j] = x[j, k, i]"""
    first = "for i_block in range(3):\n    for k in range(3):\n        for j_block in range(4):"
    assert show(in_blocks(program(before, x, y))).startswith(first)


def test_a_store_that_is_innermost_across() -> None:
    """Loops are in the order of what most is read along: those of a block are in that of what is stored."""
    before = "for j in range(70):\n    for i in range(96):\n        y[i, j] = x[j, i]"
    found = show(in_blocks(program(before, X, Y)))
    assert found.startswith("for j_block in range(4):\n    for i_block in range(3):")
    assert "for i in range(32):\n            for j in range(16):\n                y[" in found


@pytest.mark.parametrize(
    "stmt",
    [
        pytest.param("y[i, j] = w[i, j]", id="both walk along one loop"),
        pytest.param("y[0, j] += x[j, i]", id="points share cells"),
        pytest.param("y[i, j] = x[j, i]\n        x[j, i] = 0", id="it writes what it reads"),
        pytest.param("y[i, j] = x[mod(j + s, 70), i]", id="data says where it reads"),
        pytest.param("y[i, j] = x[0, i]", id="one line serves all"),
        pytest.param("if 0 <= j - i < 9:\n            y[i, j] = x[j, i]", id="a test"),
        pytest.param("y[i, j] = x[j, s]", id="no loop walks along what it reads"),
    ],
)
def test_what_stays_as_it_is(stmt: str) -> None:
    text = f"for i in range(96):\n    for j in range(70):\n        {stmt}"
    assert in_blocks(one := program(text)) == one


def test_what_the_first_cache_holds_stays_as_it_is() -> None:
    """Lines that are a power of two apart compete for places: it holds fewer of them."""
    text = "for i in range({}):\n    for j in range({}):\n        y[i, j] = x[j, i]"
    for rows, columns, holds in ((60, 33, True), (66, 33, False), (30, 64, False), (16, 64, True)):
        x, y = replace(X, shape=(rows, columns)), replace(Y, shape=(columns, rows))
        one = program(text.format(columns, rows), x, y)
        assert (in_blocks(one) == one) is holds


PERMUTED = st.integers(2, 4).flatmap(
    lambda rank: st.tuples(
        st.tuples(*[st.sampled_from([1, 2, 3, 5, 8, 16, 17, 33, 40])] * rank),
        st.lists(st.permutations(range(rank)), min_size=2, max_size=4),
        st.permutations(range(rank)),
    )
)


@settings(max_examples=40)
@given(
    PERMUTED,
    st.sampled_from(["float32", "float64", "int16"]),
    st.sampled_from(["=", "+="]),
    st.sampled_from([(1 << 9, 64), (1 << 10, 16)]),  # blocks are a line wide, or several
)
def test_what_is_computed_stays_the_same(
    drawn: tuple[tuple[int, ...], list[tuple[int, ...]], tuple[int, ...]], dtype: str, how: str, cache: tuple[int, int]
) -> None:
    sizes, (stored, *read), order = drawn
    while np.prod(sizes) > 6000:
        sizes = (*sizes[:-1], sizes[-1] // 2) if sizes[-1] > 1 else (1, *sizes[:-1])
    y, *xs = (
        Buffer(at, f"x{at}", tuple(sizes[axis] for axis in axes), dtype) for at, axes in enumerate([stored, *read])
    )
    cells = [
        f"{one.name}[{', '.join(f'i{axis}' for axis in axes)}]"
        for one, axes in zip([y, *xs], [stored, *read], strict=True)
    ]
    lines = [f"{'    ' * depth}for i{axis} in range({sizes[axis]}):" for depth, axis in enumerate(order)]
    text = "\n".join([*lines, f"{'    ' * len(order)}{cells[0]} {how} {' + '.join(cells[1:])}"])
    one = check(parse(text, (y, *xs)))
    random, (held, line) = np.random.default_rng(0), cache
    tiny = DEFAULTS.but(machine=replace(COMMON, caches=(held, 1 << 21), line_bytes=line))
    values = {each: random.integers(-9, 9, each.shape).astype(dtype) for each in (y, *xs)}
    found = []
    for each in (one, check(Program(blocked(one.body, tiny)))):
        memory = {buffer: np.zeros(buffer.shape, buffer.dtype) for buffer in buffers_of(each)}
        memory |= {buffer: numbers.copy() for buffer, numbers in values.items()}
        run(each, memory)
        found.append(memory[y])
    np.testing.assert_array_equal(*found)


def test_compiled() -> None:
    numbers = np.random.default_rng(0).standard_normal((3, 37, 70)).astype("float32")
    x = wf.data(numbers, label="x")
    turned = {spec: wf.einsum(f"abc => {spec}", x) for spec in ("acb", "cba", "bca")}
    mixed = wf.einsum("abc => acb", wf.tanh(x)) * 2.0 + turned["acb"]
    for threads in (1, 2):
        with wf.config.using(machine=replace(wf.Machine.here(), caches=(1 << 11, 1 << 21)), threads=threads):
            ctx = wf.Context("cc")
            assert "x_block" in ctx.compile(turned["cba"].forward).show("kernels")
            for spec, one in turned.items():
                np.testing.assert_array_equal(ctx[one], np.einsum(f"abc -> {spec}", numbers))
            across = numbers.transpose(0, 2, 1)
            np.testing.assert_allclose(ctx[mixed], np.tanh(across) * 2 + across, rtol=1e-6, atol=1e-6)


def test_an_order_that_is_asked_for_stays() -> None:
    y = wf.einsum("ij => ji", wf.data(np.ones((512, 512), "float32"), label="x"))
    for schedule, blocks in ((Options(), True), (Options(tiles=(("i", 32),)), False), (Options(order=("i",)), False)):
        with wf.config.using(schedule=schedule):
            assert ("x_block" in wf.Context("cc").compile(y.forward).show("kernels")) is blocks
