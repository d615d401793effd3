"""Values one after another accumulated by the short cuts of monoids: before and after, and as good as otherwise."""

from __future__ import annotations

from dataclasses import replace
from textwrap import dedent

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import weft as wf
from loops.written import C, D, program, text
from weft.loops import Program, Role, buffers_of, check
from weft.loops.interp import run
from weft.ops.dtypes import numpy_type
from weft.optimise.partial_states import partial_states

SPREAD = """
t: float64.float64.float64 = pack3(0.0, 0.0, 0.0)
for i in range(40):
    t = var(t, pack3(float64(1.0), float64(C[i]), float64(0.0)))
D[0] = float32(item2(t) / item0(t))
"""
LARGEST = """
t: float32.float32 = pack2(float32(-inf), float32(2147483647))
for i in range({}):
    t = argmax(t, pack2(C[i], float32(i)))
D[0] = item1(t)
"""


def test_before_and_after() -> None:
    after = """
        t: float32.float32 = pack2(-inf, 2147483647)
        t_first: float32.float32 = t
        for i in range(1):
            t_first = pack2(C[i], i)
        for lane in range(8):
            t_part[lane] = pack2(item0(t_first), item1(t_first))
        for i in range(4):
            for lane in range(8):
                t_part[lane] = …
        for lane in range(5):
            t_part[lane] = …
        for lane in range(4):
            t_part[lane] argmax= t_part[lane + 4]
        for lane in range(2):
            t_part[lane] argmax= t_part[lane + 2]
        for lane in range(1):
            t_part[lane] argmax= t_part[lane + 1]
        t = argmax(t, pack2(item0(t_part[0]), item1(t_part[0])))
        D[0] = item1(t)
        """
    found = text(partial_states(program(LARGEST.format(37)).body))
    wanted = [line.split("=")[0] for line in dedent(after).splitlines()]
    assert [line.split("=")[0] for line in found.splitlines()] == wanted
    assert "float32(8*i) + float32(lane)" in found  # what lanes share is converted once for all
    assert "range(37)" not in found


@pytest.mark.parametrize(
    "text_of",
    [
        pytest.param(SPREAD.replace("float64(C[i])", "float64(i)"), id="values that are as wide as states"),
        pytest.param(LARGEST.format(37).replace("float32(i)", "float32(36 - i)"), id="positions that fall"),
    ],
)
def test_what_takes_no_short_cut(text_of: str) -> None:
    assert "first" not in text(partial_states(program(text_of).body))


@pytest.mark.parametrize("values", [SPREAD, LARGEST.format(40)])
def test_what_else_a_loop_does_is_done_once(values: str) -> None:
    old = program(values.replace("    t =", "    A[0, i] += C[i]\n    t ="))
    new = check(Program(partial_states(old.body)))
    assert "first" in text(new.body)
    found = []
    for one in (old, new):
        memory = {buffer: np.ones(buffer.shape, numpy_type(buffer.dtype)) for buffer in buffers_of(one)}
        run(one, memory)
        found.append({buffer.name: values for buffer, values in memory.items()})
    np.testing.assert_array_equal(found[0]["A"], found[1]["A"])


@pytest.mark.parametrize("write", ["C[i] = 2.0", "C[i] += 1.0", "C[0] += 1.0"])
def test_values_of_what_the_loop_writes_are_computed_once(write: str) -> None:
    for before in (SPREAD, LARGEST.format(40)):
        found = text(partial_states(program(before.replace("    t =", f"    {write}\n    t =")).body))
        assert "first" not in found
        assert "t_part" in found


@pytest.mark.parametrize("size", [32, 37, 40])
def test_every_value_counts_once(size: int) -> None:
    values = np.random.default_rng(size).normal(size=40).astype("float32")
    for before, wanted in ((SPREAD, values[:size].var(dtype="float64")), (LARGEST, values[:size].argmax())):
        old = program(before.format(size).replace("range(40)", f"range({size})"))
        new = check(Program(partial_states(old.body)))
        assert new.body != old.body
        memory = {C: values.copy(), D: np.zeros(1, "float32")}
        parts = {one: np.zeros(one.shape, numpy_type(one.dtype)) for one in buffers_of(new) if one.role is Role.PARTIAL}
        run(new, {**parts, **memory})
        np.testing.assert_allclose(memory[D][0], wanted, rtol=1e-6)


def found_by(backend: str, values: np.ndarray, accum: str, threads: int = 0) -> np.ndarray:
    machine = replace(wf.Machine.here(), cores=2)
    options = wf.CompileOptions(machine=machine, threads=threads, tuned="")
    ctx = wf.Context(backend)
    y = wf.einsum("b|i => b", wf.data(values, batch=1), accum=accum)
    ctx.compile(y.forward, keep=[y], options=options)()
    return np.asarray(ctx[y])


@settings(max_examples=25, deadline=None)
@given(
    size=st.sampled_from([31, 32, 33, 64, 100, 256, 257, 1000, 4099]),
    accum=st.sampled_from(["argmax", "argmin"]),
    kinds=st.lists(st.sampled_from([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan]), min_size=1, max_size=4),
    seed=st.integers(0, 1000),
)
def test_of_equal_values_and_of_what_is_no_number_the_first_counts(
    size: int, accum: str, kinds: list[float], seed: int
) -> None:
    values = np.random.default_rng(seed).choice(np.float32(kinds), (3, size))
    wanted = getattr(np, accum)(values, 1)
    for backend in ("cc", "interp"):
        np.testing.assert_array_equal(found_by(backend, values, accum), wanted)


@settings(max_examples=20, deadline=None)
@given(
    size=st.sampled_from([31, 32, 33, 64, 100, 257, 1000]),
    count=st.sampled_from([1, 2, 3, 4, 7, 16]),
    kinds=st.lists(st.sampled_from([0.0, 1.0, 2.0, -1.0, np.inf, -np.inf, np.nan]), min_size=1, max_size=5),
    seed=st.integers(0, 1000),
)
def test_the_largest_few_are_in_order_each_once(size: int, count: int, kinds: list[float], seed: int) -> None:
    """What is not a number comes first, and of equal values the first."""
    values = np.random.default_rng(seed).choice(np.float32(kinds), (3, size))
    order = np.lexsort((np.tile(np.arange(size), (3, 1)), -values, ~np.isnan(values)), axis=1)[:, :count]
    for backend in ("cc", "interp"):
        ctx, (largest, where) = wf.Context(backend), wf.top_k(wf.data(values, batch=1), count)
        ctx.compile(wf.seq(), keep=[largest, where])()
        np.testing.assert_array_equal(ctx[where], order)
        np.testing.assert_array_equal(ctx[largest], np.take_along_axis(values, order, 1))


def test_the_largest_of_very_many_on_any_number_of_threads() -> None:
    values = np.random.default_rng(0).normal(size=(1, 300_001)).astype("float32").round(2)
    for threads in (1, 2):
        assert found_by("cc", values, "argmax", threads) == values.argmax()


@settings(max_examples=20, deadline=None)
@given(
    size=st.sampled_from([32, 100, 257, 1000, 4099, 70_000]),
    offset=st.sampled_from([0.0, 1.0, -1e3, 1e6]),
    outlier=st.sampled_from([0.0, 1.0, 1e4, 1e20]),
    where=st.sampled_from([0, 1, -1]),
    seed=st.integers(0, 1000),
)
def test_a_variance_is_right_wherever_values_lie(
    size: int, offset: float, outlier: float, where: int, seed: int
) -> None:
    values = (np.random.default_rng(seed).normal(size=(2, size)) + offset).astype("float32")
    values[0, where] += np.float32(outlier)
    wanted = values.astype("float64").var(1)
    for threads in (1, 2):
        np.testing.assert_allclose(found_by("cc", values, "var", threads), wanted, rtol=4 * 2.0**-23)


@pytest.mark.parametrize("special", [np.inf, np.nan])
def test_the_variance_of_what_is_infinite_is_no_number(special: float) -> None:
    values = np.ones((1, 1000), "float32")
    values[0, 500] = special
    assert np.isnan(found_by("cc", values, "var")).all()


def test_equal_values_have_no_variance() -> None:
    assert found_by("cc", np.full((2, 1000), 0.1, "float32"), "var").tolist() == [0.0, 0.0]
