"""Stores that go past the caches."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import weft as wf
from weft.loops import NonTemporal, check, declared, parse, show
from weft.machine import COMMON
from weft.schedule import Kernel
from weft.schedule.annotate import annotate
from weft.schedule.compile_options import DEFAULTS
from weft.schedule.nests.nontemporal_stores import with_nontemporal_stores

#: A machine whose caches hold little.
SMALL = replace(COMMON, caches=(1 << 8, 1 << 10, 1 << 12))
SCALED = """x: float32[50, 64]
y: float32[50, 64]
for i in range(50):
    for j in range(64) on vectors:
        y[i, j] = x[i, j] * 2.0"""


def after(text: str, machine: wf.Machine = SMALL) -> str:
    program = check(parse(text))
    return declared(replace(program, body=with_nontemporal_stores(program.body, DEFAULTS.but(machine=machine))))


@pytest.mark.parametrize("how", ["on vectors", "in registers of 16"])
def test_before_and_after(how: str) -> None:
    before = SCALED.replace("on vectors", how)
    found = before.replace(f"range(64) {how}:", f"range(64) {how}, non-temporal:")
    assert sorted(after(before).splitlines()) == sorted(found.splitlines())
    assert show(parse(after(before))) == show(check(parse(after(before))))


def test_loops_that_run_as_one_and_those_that_threads_share() -> None:
    collapsed = SCALED.replace("range(50):", "range(50) collapsed by 2, on vectors:").replace("(64) on vectors", "(64)")
    assert "collapsed by 2, on vectors, non-temporal:" in after(collapsed)
    line = "x: float32[2048]\ny: float32[2048]\nfor i in range(2048) on threads by {}, on vectors:\n    y[i] = x[i]"
    assert "non-temporal" in after(line.format(64))
    assert "non-temporal" not in after(line.format(65))  # chunks begin in the middle of a line


TWICE = """x: float32[4096, {0}]
y: float32[4096, {0}]
for i in range(4096):
    top: float32 = 0.0
    for j in range({0}):
        top = max(top, x[i, j])
    for j in range({0}) on vectors:
        y[i, j] = x[i, j] - top"""


def test_rows_that_fill_the_first_cache_with_the_next_ones() -> None:
    roomy = replace(COMMON, caches=(3 << 14, 1 << 16, 1 << 40))
    rows = TWICE.format(2496)  # two of x and two of y take 39 936 bytes of 49 152
    stored = rows.rindex(" on vectors:")
    assert (
        after(rows, roomy).splitlines()[2:]
        == (rows[:stored] + " on vectors, non-temporal:" + rows[stored + 12 :]).splitlines()[2:]
    )
    assert "non-temporal" not in after(TWICE.format(2304), roomy)  # 36 864, three quarters
    once = rows.replace("top = max(top, x[i, j])", "top = max(top, 1.0)")
    assert "non-temporal" not in after(once, roomy)
    assert "non-temporal" not in after(rows, replace(roomy, caches=(3 << 14, 1 << 30, 1 << 40)))


def test_rows_of_strips_count_by_themselves() -> None:
    """Of strips, which are passed over several times as well, no more than a row is in the caches at once."""
    roomy = replace(COMMON, caches=(3 << 14, 1 << 16, 1 << 40))
    start, rows = TWICE.format(1024).split("for i in range(4096):")
    inside = rows.replace("\n", "\n    ").replace("[i,", "[64*strip + i,")
    parts = "for strip in range(64):\n    for k in range(1024) on vectors:\n        part[strip, k] = 0.0"
    strips = f"part: float32[64, 1024]\n{start}{parts}\n    for i in range(64):{inside}"
    summed = strips + "\n            part[strip, j] += x[64*strip + i, j]"
    assert "non-temporal" not in after(summed, roomy)


UNTOUCHED = {
    "caches hold all": (SCALED, COMMON),
    "the second cache holds it": (SCALED, replace(SMALL, caches=(1 << 8, 1 << 20, 1 << 12))),
    "few rows of a table": (
        SCALED.replace("x: float32[50, 64]", "x: float32[999, 64]\nids: int32[50]").replace("x[i, j]", "x[ids[i], j]"),
        replace(SMALL, caches=(1 << 8, 1 << 10, 1 << 16)),
    ),
    "not on vectors": (SCALED.replace(" on vectors", ""), SMALL),
    "read again": (SCALED + "\nfor i in range(50):\n    x[i, 0] = y[i, 1]", SMALL),
    "updated": (SCALED.replace("= x[i, j]", "+= x[i, j]"), SMALL),
    "rows are no whole lines": (SCALED.replace("64]", "65]"), SMALL),
    "rows begin within a line": (SCALED.replace("64]", "80]").replace("y[i, j]", "y[i, j + 8]"), SMALL),
    "rows are short": (SCALED.replace("64", "32"), SMALL),
    "columns": (SCALED.replace("y: float32[50, 64]", "y: float32[64, 50]").replace("y[i, j]", "y[j, i]"), SMALL),
    "a sum on the way": (
        SCALED.replace("for i in", "t: float32 = 0.0\nfor i in").replace("* 2.0", "* 2.0\n        t = t + x[i, j]")
        + "\nx[0, 0] = t",
        SMALL,
    ),
}


@pytest.mark.parametrize(("text", "machine"), UNTOUCHED.values(), ids=UNTOUCHED)
def test_what_stays(text: str, machine: wf.Machine) -> None:
    assert "non-temporal" not in after(text, machine)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (SCALED.replace(" on vectors", ""), "it does not run on vectors"),
        (SCALED.replace("= x[i, j]", "+= x[i, j]"), "it stores nothing in one piece that it does not read"),
        (SCALED.replace("on vectors", "in registers of 8"), "its vectors are no whole lines"),
    ],
)
def test_what_cannot_is_refused(text: str, problem: str) -> None:
    with pytest.raises(wf.WeftError, match=f"cannot run non-temporal: {problem}"):
        annotate(Kernel((), check(parse(text)).body), "j", NonTemporal())


WORKS = {
    "scaled": lambda x: x * 2.0 + 1.0,
    "halves": lambda x: wf.cast(x, "float16"),
    "centred": lambda x: x - wf.mean(x, "...|d => ...|0"),
    "softmax": lambda x: wf.softmax(x),
}


@settings(max_examples=12, deadline=None)
@given(rows=st.integers(2, 40), columns=st.sampled_from([64, 100, 128, 192, 640]), work=st.sampled_from([*WORKS]))
def test_results_are_the_same_to_the_bit(rows: int, columns: int, work: str) -> None:
    """Whatever goes past the caches, on one thread or two."""
    numbers = np.random.default_rng(rows).normal(size=(rows, columns)).astype("float32")
    found = []
    for machine in (replace(wf.Machine.here(), cores=2), replace(wf.Machine.here(), caches=SMALL.caches, cores=2)):
        for threads in (1, 2):
            x = wf.data(numbers, batch=1, label="x")
            y, ctx = WORKS[work](x), wf.Context("cc")
            ctx.compile(y.forward, keep=[y], options=wf.CompileOptions(machine=machine, threads=threads, tuned=""))()
            found.append(np.asarray(ctx[y]))
    np.testing.assert_array_equal(found[1], found[0])
    np.testing.assert_array_equal(found[3], found[2])
    np.testing.assert_allclose(found[2], found[0], rtol=1e-6, atol=1e-6)


def test_a_large_gradient_goes_past_the_caches() -> None:
    x = wf.require_grad(wf.data(np.zeros((4096, 1024), "float32"), batch=1, label="x"))
    y = wf.softmax(x)
    seed = wf.data(np.zeros((4096, 1024), "float32"), batch=1, label="seed")
    options = wf.CompileOptions(machine=replace(COMMON, cores=2), tuned="")
    (dx,) = wf.grad(y, [x], d=seed)
    shown = wf.Context("cc").compile(wf.seq(), keep=(y, dx), options=options).show("kernels")
    assert shown.count("non-temporal:") == 2
