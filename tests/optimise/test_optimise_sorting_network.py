"""Rows sorted side by side by a network: on rows of every length, as many as there are lanes or not, of every type."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import weft as wf
from effort import tries
from loops.written import text
from weft.affine import Affine
from weft.loops import Buffer, Program, Read
from weft.loops.interp import run
from weft.loops.names import BlockNames
from weft.loops.walk import buffers_of
from weft.machine import COMMON
from weft.ops.dtypes import numpy_type
from weft.optimise.sorted_row import SortedRow
from weft.optimise.sorting_network import lanes_for, sorted_in_lanes

WIDE = replace(COMMON, vector_bytes=64, caches=(1 << 15, 1 << 20))
Made = Callable[..., Buffer]


def row(size: int, rows: int, dtype: str = "float32", descending: bool = False) -> SortedRow:
    """The elements of a row of a matrix."""
    x = Buffer(0, "x", (rows, size), dtype)
    return SortedRow(Read(x, (Affine.of("i"), Affine.of("v"))), ("v", size), (("i", rows),), descending)


def network(of: SortedRow, lanes: int) -> tuple[Program, Buffer]:
    """The program that sorts rows, and the buffer that has their order afterwards."""
    ids = count(1)
    order = Buffer(next(ids), "order", of.shape, "int32")

    def made(name: str, dtype: str, *shape: int) -> Buffer:
        return Buffer(next(ids), name, shape, dtype)

    return Program(sorted_in_lanes(of, order, made, BlockNames(), lanes)), order


def ordered(of: SortedRow, values: np.ndarray, lanes: int) -> np.ndarray:
    """The order of rows, whatever was in memory before."""
    code, order = network(of, lanes)
    memory = {one: np.full(one.shape, 77, numpy_type(one.dtype)) for one in buffers_of(code)}
    memory[of.cell.buffer][:] = values
    run(code, memory)
    return memory[order]


@pytest.mark.parametrize("size", [*range(2, 20), 31, 32, 33, 65])
def test_zeros_and_ones_are_put_in_order(size: int) -> None:
    """A network that sorts all of zeros and ones sorts everything; equal ones stay in order."""
    rng = np.random.default_rng(size)
    values = (rng.random((24, size)) < rng.random((24, 1))).astype(np.float32)
    wanted = np.argsort(values, axis=1, kind="stable")
    assert np.array_equal(ordered(row(size, 24), values, 4), wanted)


@given(rows=st.integers(4, 21), lanes=st.sampled_from([4, 8]), descending=st.booleans(), size=st.integers(2, 18))
@settings(max_examples=tries(20))
def test_not_every_lane_has_a_row_in_the_last_group(rows: int, lanes: int, descending: bool, size: int) -> None:
    values = np.random.default_rng(rows).integers(-3, 3, (rows, size)).astype(np.float32)
    wanted = np.argsort(-values if descending else values, axis=1, kind="stable")
    assert np.array_equal(ordered(row(size, rows, descending=descending), values, lanes), wanted)


def test_a_network_is_written_out_in_rounds() -> None:
    code, _ = network(row(4, 8), 4)
    assert text(code.body).startswith("""
for i in range(2):
    for v in range(4):
        for lane in range(4):
            keys[v, lane] = ((int64(order_place(x[4*i + lane, v])) - 2147483648) * 4294967296) + v
    for block in range(1):
        for lane in range(4):
            number: int64 = keys[4*block, lane]
            number_2: int64 = keys[4*block + 1, lane]
            number_3: int64 = keys[4*block + 2, lane]
            number_4: int64 = keys[4*block + 3, lane]
            min: int64 = min(number, number_2)
            max: int64 = max(number, number_2)
""")


@pytest.mark.parametrize(
    ("given", "machine", "lanes"),
    [
        (row(1000, 1024), WIDE, 8),
        (row(1000, 1024), replace(WIDE, vector_bytes=32), 4),
        (row(1000, 1024), replace(WIDE, vector_bytes=16), 0),
        (row(1000, 7), WIDE, 0),
        (row(9000, 1024), WIDE, 0),
        (row(1000, 1024, "float64"), WIDE, 0),
        (row(1000, 1024, "int8"), WIDE, 8),
    ],
    ids=["vectors", "narrow vectors", "narrower ones", "too few rows", "rows too long", "keys too wide", "short keys"],
)
def test_rows_are_sorted_side_by_side_where_that_pays(given: SortedRow, machine: wf.Machine, lanes: int) -> None:
    assert lanes_for(given, machine) == lanes


def test_rounds_run_on_vectors_and_groups_on_threads() -> None:
    x = wf.data(np.zeros((64, 200), np.float32), batch=1, label="x")
    machine = replace(WIDE, cores=2)
    options = wf.CompileOptions(machine=machine)
    routine = wf.Context("cc").compile(wf.seq(), keep=[wf.sort(x)], options=options)
    lines = routine.show("kernels").splitlines()
    assert any("for i in range(8) on threads" in one for one in lines)
    inner = [one for at, one in enumerate(lines) if "for lane" in one and "collapsed" not in lines[at - 1]]
    assert len(inner) > 6
    assert all("on vectors" in one for one in inner)
