"""Rows that are fetched while the one before is worked on, and accumulators that stay in registers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import weft as wf
from effort import tries
from weft.loops import For, PrefetchRows, Registers, check, declared, parse, show
from weft.loops.show import show_scalar
from weft.loops.streams import fetched_by, gathered_rows, streams_of
from weft.machine import COMMON
from weft.schedule import Kernel
from weft.schedule.annotate import annotate
from weft.schedule.compile_options import DEFAULTS
from weft.schedule.nests.prefetch_rows import prefetching_rows
from weft.schedule.nests.vectorise import vectorised

NORMALISED = """x: float32[{rows}, {columns}]
y: float32[{rows}, {columns}]
part: float32[64]
for i in range({rows}):
    for l in range(64):
        part[l] = 0
    for row in range({blocks}):
        for lane in range(64):
            part[lane] += x[i, 64*row + lane]
    for j in range({columns}):
        y[i, j] = x[i, j] * part[0]"""
GATHERED = """ids: int64[50]
table: float32[{rows}, {columns}]
y: float32[50, {columns}]
for i in range(50):
    row: int64 = max(ids[i], 0)
    for d in range({columns}):
        y[i, d] = table[row, d]"""
#: The next row is worth fetching from a second cache of so little.
SMALL = replace(COMMON, caches=(1 << 10, 1 << 16, 1 << 20))


def written(rows: int, blocks: int, over: int = 0) -> str:
    return NORMALISED.format(rows=rows, columns=64 * blocks + over, blocks=blocks)


def fetching(text: str, options: wf.CompileOptions) -> str:
    return declared(replace(program := check(parse(text)), body=prefetching_rows(program.body, options)))


def test_before_and_after() -> None:
    before = written(100, 4)
    after = before.replace("for i in range(100):", "for i in range(100) prefetching 1 ahead:")
    assert sorted(fetching(before, DEFAULTS.but(machine=SMALL)).splitlines()) == sorted(after.splitlines())


def test_loops_that_run_as_one_with_others_are_left_alone() -> None:
    def within(how: str) -> str:
        head, rest = written(100, 4).split("for i in")
        inner = "".join(f"    {line}\n" for line in f"for i in{rest}".splitlines())
        return f"{head}for b in range(5){how}:\n{inner}".replace("[i, ", "[b, i, ").replace("[100,", "[5, 100,")

    options = DEFAULTS.but(machine=SMALL)
    assert "for i in range(100) prefetching 1 ahead:" in fetching(within(""), options)
    after = fetching(within(" collapsed by 2"), options)
    assert "ahead" not in after
    check(parse(after))


@pytest.mark.parametrize(
    ("text", "machine"),
    [
        pytest.param(written(100, 4), COMMON, id="the second cache holds it"),
        pytest.param(written(100, 200), SMALL, id="two rows are more than it holds"),
        pytest.param(written(1000, 1), SMALL, id="rows are short"),
        pytest.param(written(100, 4).replace("x[i, 64*row + lane]", "x[0, 64*row + lane]")
                     .replace("y[i, j] = x[i, j]", "y[0, j] = x[0, j]"), SMALL, id="nothing moves"),
    ],
)  # fmt: skip
def test_what_is_left_alone(text: str, machine: wf.Machine) -> None:
    assert "ahead" not in fetching(text, DEFAULTS.but(machine=machine))


def test_one_pass_over_memory_is_left_to_the_processor() -> None:
    """The other loops touch nothing that moves."""
    once = written(1000, 4).replace("y[i, j] = x[i, j] * part[0]", "y[0, j] = part[0]")
    assert "ahead" not in fetching(once, DEFAULTS.but(machine=SMALL))


def test_a_long_sum_is_read_in_quarters() -> None:
    machine = replace(COMMON, cores=2)
    x = wf.data(np.zeros(1 << 22, "float32"), label="x")
    shown = wf.Context("cc").compile(wf.sum(x).forward, options=wf.CompileOptions(machine=machine)).show("kernels")
    assert "x[65536*strip + 512*i + 64*row + 16384*stream + lane]" in shown
    assert "ahead" not in shown


def test_streams_are_whole_rows_in_the_order_of_their_use() -> None:
    (loop,) = check(parse(written(100, 4, over=24))).body
    found = streams_of(loop)
    assert [(one.buffer.name, one.cells, str(one.first.terms), one.written) for one in found] == [
        ("x", 280, "((280, 'i'),)", False),
        ("y", 280, "((280, 'i'),)", True),
    ]
    (by,) = fetched_by(loop)
    assert by.loop == "row"


def test_pieces_that_follow_each_other_are_one_stream_and_others_are_not() -> None:
    text = """x: float32[10, 1000]
s: float32[64]
for i in range(10):
    for a in range(64):
        s[a] += x[i, a] + x[i, a + 64]
    for b in range(64):
        s[b] += x[i, b + 500]"""
    (loop,) = check(parse(text)).body
    assert [(one.first.offset, one.cells) for one in streams_of(loop)] == [(0, 128), (500, 64)]


@pytest.mark.parametrize(("columns", "ahead"), [(128, 16), (256, 8), (600, 3), (2048, 1)])
def test_rows_that_are_gathered_from_far_are_fetched_before_they_are_read(columns: int, ahead: int) -> None:
    before = GATHERED.format(rows=1000, columns=columns)
    after = fetching(before, DEFAULTS.but(machine=SMALL))
    assert f"for i in range(50) prefetching {ahead} ahead:" in after
    (loop,) = check(parse(after)).body
    assert isinstance(loop, For)
    (row,) = gathered_rows(loop)
    assert show_scalar(row.first) == "table[max(ids[i], 0), 0]"
    assert row.cells == columns


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("1000", "60", id="the second cache holds the table"),
        pytest.param("256", "64", id="rows are short"),
        pytest.param("256", "4096", id="rows are very long"),
        pytest.param("y[i, d] = table[row, d]", "y[i, d] = table[row, 255 - d]", id="rows are reversed"),
        pytest.param("y[i, d] = table[row, d]", "table[row, d] = y[i, d]", id="they are scattered"),
        pytest.param("ids[i]", "ids[0]", id="all iterations read the same"),
        pytest.param(
            "    for d in", "    if 0 <= ids[i] < 9:\n      for d in", id="they are read in some iterations alone"
        ),
        pytest.param("    for d in", "    row = row - row\n    for d in", id="the variable that says which changes"),
        pytest.param("    for d in", "    ids[i] = 0\n    for d in", id="what says which is written"),
    ],
)
def test_rows_that_are_left_alone(before: str, after: str) -> None:
    text = GATHERED.format(rows=1000, columns=256)
    assert "prefetching" in fetching(text, DEFAULTS.but(machine=SMALL))
    assert before in text
    assert "prefetching" not in fetching(text.replace(before, after), DEFAULTS.but(machine=SMALL))


@settings(max_examples=tries(8), deadline=None)
@given(
    rows=st.integers(1, 300),
    columns=st.sampled_from([16, 130, 257]),
    positions=st.integers(1, 90),
    ahead=st.sampled_from([1, 7, 64]),
)
def test_rows_are_gathered_to_the_bit(rows: int, columns: int, positions: int, ahead: int) -> None:
    """However far ahead they are fetched, the last of a loop as well."""
    random = np.random.default_rng(rows)
    numbers, ids = random.normal(size=(rows, columns)).astype("float32"), random.integers(0, rows, positions)
    lines = wf.Thresholds(fetched_lines=1, gathered_lines=ahead * -(-columns // 16))
    machine = replace(wf.Machine.here(), caches=(1 << 10, 1 << 12, 1 << 20), cores=2)
    options = wf.CompileOptions(machine=machine, thresholds=lines, threads=2, tuned="")
    table = wf.data(numbers, label="table")
    found = wf.einsum("v, d; ...|@v => ...|d", table, wf.data(ids, batch=1, label="ids"))
    ctx = wf.Context("cc")
    routine = ctx.compile(wf.seq(), keep=[found], options=options)
    assert (f"prefetching {ahead} ahead" in routine.show("kernels")) == (numbers.nbytes > 1 << 12 and positions > 1)
    routine()
    np.testing.assert_array_equal(np.asarray(ctx[found]), numbers[ids])


def test_what_has_no_loops_to_fetch_is_refused() -> None:
    program = check(parse("x: float32[64]\nfor i in range(64):\n    x[i] = 0"))
    with pytest.raises(
        wf.WeftError, match="cannot run prefetching 1 ahead: no loop inside could fetch what it touches"
    ):
        annotate(Kernel((), program.body), "i", PrefetchRows(1))


@pytest.mark.parametrize(
    ("size", "problem"), [(24, "24 iterations are no whole number of vectors"), (32, "`t` is a variable")]
)
def test_what_is_not_for_registers_is_refused(size: int, problem: str) -> None:
    text = f"x: float32[64]\nt: float32 = 0\nfor i in range({size}):\n    t = t + x[i]\nx[0] = t"
    program = check(parse(text))
    with pytest.raises(wf.WeftError, match=f"cannot run in registers of 16: {problem}"):
        annotate(Kernel((), program.body), "i", Registers(16))


def test_how_it_runs_is_read_back() -> None:
    text = written(10, 2).replace("range(10):", "range(10) prefetching 1 ahead:")
    text = text.replace("for lane in range(64):", "for lane in range(64) in registers of 16:")
    program = check(parse(text))
    assert show(parse(declared(program))) == show(program)


def test_registers_hold_few_and_short_accumulators() -> None:
    body = check(parse("x: float32[8, 64]\npart: float32[64]\nfor i in range(8):\n    for lane in range(64):\n"
                       "        part[lane] += x[i, lane]")).body  # fmt: skip
    assert "registers" not in str(vectorised(body))  # a tensor is no accumulator


WORKS = {
    "softmax": lambda x: wf.softmax(x),
    "centred": lambda x: x - wf.mean(x, "...|d => ...|0"),
    "largest": lambda x: x - wf.einsum("...|d => ...|0", x, accum="max"),
}


@settings(max_examples=12, deadline=None)
@given(rows=st.integers(2, 70), columns=st.sampled_from([16, 64, 100, 257, 640, 1000]), work=st.sampled_from([*WORKS]))
def test_results_are_the_same_to_the_bit(rows: int, columns: int, work: str) -> None:
    """However rows are fetched and accumulators kept, on one thread or two."""
    numbers = np.random.default_rng(rows).normal(size=(rows, columns)).astype("float32")
    machine = replace(wf.Machine.here(), caches=(1 << 10, 1 << 15, 1 << 20), cores=2)
    found = []
    for thresholds in (wf.Thresholds(), wf.Thresholds(fetched_lines=1 << 20, written_operations=1)):
        for threads in (1, 2):
            options = wf.CompileOptions(machine=machine, thresholds=thresholds, threads=threads, tuned="")
            x = wf.data(numbers, batch=1, label="x")
            y = WORKS[work](x)
            ctx = wf.Context("cc")
            ctx.compile(y.forward, keep=[y], options=options)()
            found.append(np.asarray(ctx[y]))
    for one in found[1:]:
        np.testing.assert_array_equal(one, found[0])
    np.testing.assert_allclose(found[0], wf.Context("interp")[WORKS[work](wf.data(numbers, batch=1))], atol=1e-5)


def test_a_softmax_fetches_ahead_and_accumulates_in_registers() -> None:
    machine = replace(COMMON, cores=2)
    x = wf.data(np.zeros((4096, 1024), "float32"), batch=1, label="x")
    shown = wf.Context("cc").compile(wf.softmax(x).forward, options=wf.CompileOptions(machine=machine)).show("kernels")
    assert "prefetching 1 ahead:" in shown
    assert "for lane in range(64) in registers of 16:" in shown
