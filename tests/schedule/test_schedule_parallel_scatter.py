"""Scatters of rows that threads share by columns, before and after; what stays as it is."""

from __future__ import annotations

from dataclasses import replace
from textwrap import dedent

import numpy as np
import pytest

import weft as wf
from weft.loops import Buffer, For, Parallel, Program, check, parse, show
from weft.loops.legality import illegal
from weft.loops.names import BlockNames
from weft.schedule.annotate import annotated
from weft.schedule.compile_options import CompileOptions
from weft.schedule.nests.parallel_scatter import in_columns

X, Y = Buffer(0, "X", (40, 128), "float32"), Buffer(1, "Y", (9, 128), "float32")
IDS, ENDS, ODD = (
    Buffer(2, "ids", (40,), "int64"),
    Buffer(3, "ends", (1,), "int64"),
    Buffer(4, "odd", (9, 100), "float32"),
)
OPTIONS = CompileOptions()
CASES = {
    "rows": (
        """
        for i in range(40):
            for d in range(128):
                Y[ids[i], d] += X[i, d]
        """,
        """
        for strip in range(4):
            for i in range(40):
                for d in range(32):
                    Y[ids[i], 32*strip + d] += X[i, 32*strip + d]
        """,
    ),
    "what is done besides": (
        """
        for i in range(40):
            ends[0] max= ids[i]
            at: int64 = ids[i]
            if 0 <= at < 9:
                for d in range(128):
                    Y[at, d] += X[i, d]
        """,
        """
        for i in range(40):
            at: int64 = ids[i]
            ends[0] max= ids[i]
        for strip in range(4):
            for i in range(40):
                at: int64 = ids[i]
                if 0 <= at < 9:
                    for d in range(32):
                        Y[at, 32*strip + d] += X[i, 32*strip + d]
        """,
    ),
}
STAYS = {
    "columns depend on each other": """
        for i in range(40):
            for d in range(128):
                Y[ids[i], d] += Y[0, 0]
        """,
    "columns that are no whole cache lines": """
        for i in range(40):
            for d in range(100):
                odd[ids[i], d] += X[i, d]
        """,
    "rows that follow each other": """
        for i in range(8):
            for d in range(128):
                Y[i + 1, d] = Y[i, d]
        """,
    "no columns": """
        for i in range(40):
            Y[ids[i], 0] += X[i, 0]
        """,
    "what is done besides reads the rows": """
        for i in range(40):
            ends[0] max= int64(Y[0, 0])
            for d in range(128):
                Y[ids[i], d] += X[i, d]
        """,
    "positions that the rows change": """
        for i in range(40):
            at: int64 = int64(Y[0, 0])
            for d in range(128):
                Y[at, d] += X[i, d]
        """,
    "a variable from one iteration to the next": """
        total: float32 = 0
        for i in range(40):
            total = total + X[i, 0]
            for d in range(128):
                Y[ids[i], d] += total
        """,
}


def loop_of(written: str) -> For:
    body = check(parse(dedent(written), [X, Y, IDS, ENDS, ODD])).body
    assert isinstance(body[-1], For)
    return body[-1]


def with_cores(cores: int) -> CompileOptions:
    return OPTIONS.but(machine=replace(OPTIONS.machine, cores=cores, line_bytes=64))


@pytest.mark.parametrize(("before", "after"), CASES.values(), ids=CASES.keys())
def test_threads_have_columns(before: str, after: str) -> None:
    loop = loop_of(before)
    found = in_columns(loop, with_cores(2), BlockNames((loop,)))
    assert found is not None
    assert "\n" + show(check(Program(found))) + "\n" == dedent(after)


@pytest.mark.parametrize("written", STAYS.values(), ids=STAYS.keys())
def test_what_cannot_be_shared_stays(written: str) -> None:
    loop = loop_of(written)
    assert in_columns(loop, with_cores(2), BlockNames((loop,))) is None


def test_rows_that_meet_are_added_up_in_order_by_any_number_of_threads() -> None:
    rng = np.random.default_rng(5)
    ids, rows = rng.integers(0, 7, 20_000), rng.normal(size=(20_000, 128)).astype(np.float32)
    wanted = np.zeros((7, 128))
    np.add.at(wanted, ids, rows.astype(np.float64))
    found = []
    for threads in (1, 2, 3):
        with wf.config.using(threads=threads):
            x, at = wf.data(rows, label="rows"), wf.data(ids, label="ids")
            y = wf.einsum("n, d; n @v => v, d", x, at, v=50_000)
            found.append(wf.Context("cc")[y][:7])
    assert all(np.array_equal(one, found[0]) for one in found)
    np.testing.assert_allclose(found[0], wanted, atol=2e-3)


@pytest.mark.parametrize(("width", "apart"), [(32, True), (33, False)])
def test_strips_that_overlap_are_not_shared(width: int, apart: bool) -> None:
    loop = loop_of(f"""
        for strip in range(3):
            for i in range(40):
                for d in range({width}):
                    Y[ids[i], 32*strip + d] += X[i, 32*strip + d]
        """)
    assert bool(illegal(annotated(loop, Parallel(1)))) != apart
