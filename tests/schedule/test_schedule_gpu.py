"""The passes of a GPU: what runs on a grid, in lanes, in blocks or on threads, and that it is the same program."""

from __future__ import annotations

from dataclasses import replace
from textwrap import dedent

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import weft as wf
from backends.grid_races import race
from backends.on_grid import OnGrid
from backends.triton_interpreted import is_triton
from schedule.test_schedule_random import OPTIMISERS, agree
from tensor.models import Model, models
from weft.loops import (
    Blocks,
    For,
    Grid,
    Lanes,
    MalformedLoops,
    Program,
    Read,
    Role,
    Simt,
    Staged,
    Store,
    buffers_of,
    check,
    declared as show_declared,
    parse,
    show,
)
from weft.loops.effects import effects
from weft.loops.product_legality import unfit
from weft.loops.staged import further_sums, parts_of
from weft.loops.walk import everything
from weft.schedule import GPU_PASSES, GPU_UNOPTIMISED, Task, stages
from weft.schedule.canonical import systematic
from weft.schedule.decisions import decisions_of
from weft.schedule.gpu.gpu_products import in_blocks
from weft.schedule.gpu.launches import launches
from weft.schedule.gpu.map_to_grid import on_grid
from weft.schedule.gpu.owned_rows import by_owners
from weft.schedule.gpu.split_sums import split_sums
from weft.schedule.gpu_decisions import with_gpu_decisions
from weft.schedule.gpu_model import USUAL_GPU
from weft.schedule.tuning.gpu_knobs import gpu_knobs

BUFFERS = {
    "x": "float32[4096, 64]",
    "y": "float32[64]",
    "z": "float32[64]",
    "s": "float32[1]",
    "t": "float32[64, 4096]",
}


def read(text: str) -> Program:
    used = {name: kind for name, kind in BUFFERS.items() if f"{name}[" in text}
    return parse("".join(f"{name}: {kind}\n" for name, kind in used.items()) + dedent(text).strip() + "\n")


def gridded(text: str) -> str:
    made = Program(on_grid(read(text).body, (), USUAL_GPU))
    check(made)
    return show(made)


def same(found: str, wanted: str) -> None:
    assert found == dedent(wanted).strip()


def test_points_are_one_loop_along_memory() -> None:
    same(
        gridded("""
            for i in range(4096):
                for j in range(64):
                    t[j, i] = 2.0
        """),
        """
            for j in range(64) collapsed by 2, on a grid by 1024 with 4 warps:
                for i in range(4096):
                    t[j, i] = 2.0
        """,
    )


def test_a_transposition_has_blocks_of_both_loops() -> None:
    same(
        gridded("""
            for i in range(4096):
                for j in range(64):
                    t[j, i] = x[i, j]
        """),
        """
            for i in range(4096) on a grid by 64 with 8 warps:
                for j in range(64) on a grid by 64 with 8 warps:
                    t[j, i] = x[i, j]
        """,
    )


def test_rows_are_in_lanes() -> None:
    same(
        gridded("""
            for j in range(64):
                a: float32 = 0
                for i in range(4096):
                    a = a + t[j, i]
                y[j] = a
        """),
        """
            for j in range(64) on a grid by 1 with 16 warps:
                a: float32 = 0
                for i in range(4096) in lanes by 4096:
                    a = a + t[j, i]
                y[j] = a
        """,
    )


def test_few_rows_of_columns_are_added_up_one_by_one() -> None:
    same(
        gridded("""
            for j in range(64):
                a: float32 = 0
                for i in range(8):
                    a = a + x[i, j]
                y[j] = a
        """),
        """
            for j in range(64) on a grid by 64 with 1 warp:
                a: float32 = 0
                for i in range(8):
                    a = a + x[i, j]
                y[j] = a
        """,
    )


@pytest.mark.parametrize(("rows", "wide", "in_lanes"), [(64, 262144, False), (65, 262144, True), (64, 131072, True)])
def test_more_rows_are_added_up_one_by_one_where_columns_fill_a_gpu(rows: int, wide: int, in_lanes: bool) -> None:
    """Those of a product's parts, for example: a program's lanes read cells that follow each other."""
    loops = f"for j in range({wide}):\n    a: float32 = 0\n    for i in range({rows}):\n        a = a + x[i, j]\n"
    whole = parse(f"x: float32[{rows}, {wide}]\ny: float32[{wide}]\n{loops}    y[j] = a\n")
    made = show(Program(on_grid(whole.body, (), USUAL_GPU)))
    assert ("in lanes" in made) == in_lanes
    assert ("on a grid by 1024" in made) != in_lanes


def test_columns_are_on_a_grid() -> None:
    same(
        gridded("""
            for j in range(64):
                a: float32 = 0
                for i in range(4096):
                    a = a + x[i, j]
                y[j] = a
        """),
        """
            for j in range(64) on a grid by 16 with 8 warps:
                a: float32 = 0
                for i in range(4096) in lanes by 128:
                    a = a + x[i, j]
                y[j] = a
        """,
    )


def test_what_a_lane_alone_reads_is_its_own() -> None:
    made = parse(
        dedent("""
            t: float32[64, 4096]
            u: float32[64, 4096]
            for j in range(64):
                a: float32 = 0
                for i in range(4096):
                    u[j, i] = t[j, i] * 2.0
                    a = a + t[j, i]
                for k in range(4096):
                    t[j, k] = u[j, k] + a
        """).lstrip()
    )
    own = next(one for one in effects(made.body).buffers if one.name == "u")
    assert {one.role for one in effects(on_grid(made.body, {own}, USUAL_GPU)).buffers if one.name == "u"} == {
        Role.PRIVATE
    }
    longer = on_grid(parse(show_declared(made).replace("4096", "65536")).body, {own}, USUAL_GPU)
    assert {one.role for one in effects(longer).buffers} == {Role.TENSOR}, "parts of a row are in memory"


def test_long_sums_are_cut_into_strips() -> None:
    made = split_sums(
        read("""
            for j in range(64):
                a: float32 = 0
                for i in range(4096):
                    a = a + x[i, j]
                y[j] = a
        """).body,
        USUAL_GPU,
        False,
    )
    same(
        show(check(Program(made))),
        """
            for strip in range(64):
                for j in range(64):
                    a_own: float32 = 0
                    for i in range(64):
                        a_own = a_own + x[64*strip + i, j]
                    a_part[strip, j] = a_own
            for j in range(64):
                a: float32 = 0
                for strip in range(64):
                    a = a + a_part[strip, j]
                y[j] = a
        """,
    )


def test_kernels_are_shaped_for_the_gpu_that_is_asked_for() -> None:
    x = wf.data(np.zeros((64, 4096), np.float32), batch=1)
    texts = []
    for gpu in (None, wf.Gpu(row_lanes=1024)):
        y = wf.softmax(x).named("y")
        routine = wf.Context(OnGrid()).compile(y.forward, keep=[y], options=wf.CompileOptions(gpu=gpu))
        texts.append(routine.show("kernels"))
    assert "in lanes by 4096" in texts[0]
    assert "in lanes by 1024" in texts[1]


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        ({"multiprocessors": 0}, "Gpu.multiprocessors is a number above 0, not 0"),
        ({"bytes_per_s": "fast"}, "Gpu.bytes_per_s is a number above 0, not 'fast'"),
        ({"thread_cells": ()}, "Gpu.thread_cells is a tuple of tuples of numbers above 0, not ()"),
        ({"narrow_blocks": ((64, 64),)}, "Gpu.narrow_blocks is a tuple of tuples of numbers above 0, not ((64, 64),)"),
    ],
)
def test_there_is_no_such_gpu(wrong: dict[str, object], what: str) -> None:
    with pytest.raises(wf.WeftError) as caught:
        wf.Gpu(**wrong)  # type: ignore[arg-type]
    assert caught.value.what == what
    assert "wf.Gpu(multiprocessors=108)" in str(caught.value)


def test_lanes_that_hold_values_keep_their_number() -> None:
    x = wf.data(np.zeros((64, 100), np.float32), batch=1)
    y = wf.softmax(x).named("y")
    kernel = wf.Context(OnGrid()).compile(y.forward, keep=[y]).kernels[0]
    rules = decisions_of(systematic(kernel.body).body)
    ways = gpu_knobs(systematic(kernel.body).body, USUAL_GPU)
    assert {one.what for one in ways} == {"i0 grid block", "i0 grid warps"}
    fewer = rules.with_how("i0", (Grid(2, 8),))
    assert "on a grid by 2 with 8 warps" in show(Program(with_gpu_decisions(kernel, fewer).body))
    with pytest.raises(MalformedLoops, match="lanes hold values from loop to loop"):
        with_gpu_decisions(kernel, rules.with_how("i1", (Lanes(64),)))


def test_whether_the_copy_engine_loads_factors_is_chosen_where_there_is_one() -> None:
    a, b = (wf.data(np.zeros((1024, 1024), ml_dtypes.bfloat16)) for _ in range(2))
    y = wf.einsum("i,k;k,j=>i,j", a, b).named("y")
    kernel = wf.Context(OnGrid()).compile(y.forward, keep=[y]).kernels[0]
    body = systematic(kernel.body).body
    (knob,) = (one for one in gpu_knobs(body, USUAL_GPU) if one.what.endswith(" maps"))
    assert not any(one.what.endswith(" maps") for one in gpu_knobs(body, wf.Gpu(architecture=80)))
    rules = decisions_of(body)
    assert (knob.read(rules), knob.values) == (False, (False, True))
    mapped = show(Program(with_gpu_decisions(kernel, knob.write(rules, True)).body))
    assert "through tensor maps" in mapped
    assert "through tensor maps" not in show(Program(with_gpu_decisions(kernel, rules).body))


def test_statements_that_share_a_variable_are_one_launch() -> None:
    found = launches(
        read("""
            a: float32 = z[0] * 2.0
            for j in range(64):
                y[j] = a
            b: float32 = 0
            for i in range(64):
                b = b + x[i, 0]
            s[0] = b
        """).body
    )
    same(
        "\n--\n".join(show(Program(one)) for one in found),
        """
            for j in range(64):
                a: float32 = z[0] * 2.0
                y[j] = a
            --
            b: float32 = 0
            for i in range(64):
                b = b + x[i, 0]
            s[0] = b
        """,
    )


@pytest.mark.parametrize(
    ("how", "body", "why"),
    [
        ("in lanes by 48", "y[i] = 1", "48 lanes are no power of two"),
        ("on a grid by 3 with 1 warp", "y[i] = 1", "3 lanes are no power of two"),
        ("in lanes by 64", "s[0] += y[i]", "iterations share cells of `s`"),
        ("in lanes by 64", "a = y[i] - a", "`a` is carried from one iteration to the next"),
        ("on a grid by 64 with 1 warp", "a = a + y[i]", "`a` is carried from one iteration to the next"),
        ("collapsed by 2, in lanes by 64", "y[i] = 1", "there are not 2 plain loops"),
    ],
)
def test_what_no_lanes_can_do(how: str, body: str, why: str) -> None:
    text = f"a: float32 = 0\nfor i in range(64) {how}:\n    {body}\n"
    with pytest.raises(MalformedLoops, match=why):
        check(read(text))


def test_sums_in_lanes_are_legal() -> None:
    check(read("a: float32 = 0\nfor i in range(64) in lanes by 64:\n    a = a + y[i]\n"))


def test_passes_say_what_they_do() -> None:
    for one in GPU_PASSES:
        first, *rest = (one.run.__doc__ or "").strip().splitlines()
        assert first.endswith("."), one.name
        assert "becomes" in "".join(rest), one.name
    assert {one.name for one in GPU_UNOPTIMISED} < {one.name for one in GPU_PASSES}


@pytest.mark.parametrize("optimise", [True, False])
def test_everything_is_placed(optimise: bool) -> None:
    x = wf.data(np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4), batch=1)
    y = wf.nn.softmax()(wf.tanh(wf.param("w", o=5) @ x)).named("y")
    with wf.config.using(optimise=optimise):
        routine = wf.Context(OnGrid()).compile(y.forward, keep=[y])
    for kernel in routine.kernels:
        threads = any(
            isinstance(how, Simt) for one in everything(kernel.body) if isinstance(one, For) for how in one.how
        )
        assert is_triton(kernel) or threads


def test_any_pass_of_a_gpu_can_be_shown() -> None:
    x = wf.data(np.zeros((512, 64), np.float32), batch=1)
    y = wf.nn.softmax()(x * 2.0).named("y")
    routine = wf.Context(OnGrid()).compile(y.forward, keep=[y])
    texts = {one.name: routine.show(one.name) for one in GPU_PASSES}
    assert "in lanes by" not in texts["cut_launches"]
    assert "in lanes by 64" in texts["map_to_grid"]
    assert texts["plan_memory"] == routine.show("kernels")
    assert routine.bisect() is None
    with pytest.raises(wf.WeftError, match="there is no stage 'vectorise'"):
        routine.show("vectorise")


@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(models(), st.sampled_from(sorted(OPTIMISERS)), st.sampled_from([1, 4]))
def test_launches_compute_what_the_program_does(sample: tuple[Model, wf.Tensor], optimiser: str, visits: int) -> None:
    with wf.config.using(verify=True, contraction_points=4):
        agree(sample, optimiser, OnGrid(), visits)


SCATTER = """
    ids: int64[8, 1024]
    values: float32[8, 1024, 768]
    g: float32[768, 50304]
    for d in range(768):
        for b in range(8):
            for t in range(1024):
                row: int64 = ids[b, t]
                if 0 <= row < 50304:
                    g[d, row] += values[b, t, d]
"""


def owned(text: str) -> str | None:
    made = by_owners(parse(dedent(text).lstrip()).body, USUAL_GPU)
    return None if made is None else show(check(Program(made)))


def test_cells_that_positions_choose_have_owners() -> None:
    found = owned(SCATTER)
    assert found is not None
    same(
        found,
        """
            for d in range(768) on a grid by 256 with 4 warps:
                for b in range(8) collapsed by 2, by owners in blocks of 1024 by 16 with 4 warps:
                    for t in range(1024):
                        row: int64 = ids[b, t]
                        if 0 <= row < 50304:
                            g[d, row] += values[b, t, d]
        """,
    )


def test_columns_side_by_side_are_one_program() -> None:
    found = owned(SCATTER.replace("g: float32[768, 50304]", "g: float32[50304, 768]").replace("g[d, row]", "g[row, d]"))
    assert found is not None
    assert "for d in range(768) on a grid by 1024 with 8 warps:" in found
    assert "by owners in blocks of 1024 by 16 with 8 warps:" in found


def test_what_has_no_columns_takes_many_positions_at_once() -> None:
    found = owned("ids: int64[9999]\ng: float32[10]\nfor t in range(9999):\n    g[ids[t]] += 1.0\n")
    assert found is not None
    assert found.splitlines()[0] == "for t in range(9999) by owners in blocks of 1024 by 1024 with 4 warps:"


def test_a_test_outside_of_the_columns_is_one_of_the_cell() -> None:
    found = owned("""
        ids: int64[512]
        values: float32[512, 128]
        g: float32[256, 128]
        for t in range(512):
            if 0 <= ids[t] < 256:
                for d in range(128):
                    g[ids[t], d] max= values[t, d]
    """)
    assert found is not None
    same(
        found,
        """
            for d in range(128) on a grid by 128 with 4 warps:
                for t in range(512) by owners in blocks of 1024 by 32 with 4 warps:
                    if 0 <= ids[t] < 256:
                        g[ids[t], d] max= values[t, d]
        """,
    )


@pytest.mark.parametrize("architecture", [80, 90])
def test_floats_of_eight_bits_are_multiplied_where_lanes_convert_them(architecture: int) -> None:
    a, b = (wf.data(np.zeros((64, 64), ml_dtypes.float8_e4m3fn), label=name) for name in "ab")
    y = wf.einsum("i,k;k,j=>i,j", a, b).named("y")
    options = wf.CompileOptions(gpu=wf.Gpu(architecture=architecture))
    found = wf.Context(OnGrid()).compile(y.forward, keep=[y], options=options).show("kernels")
    assert ("in blocks of" in found) == (architecture >= 89)
    assert ("on simt threads" in found) == (architecture < 89)


def test_what_has_no_owners() -> None:
    assert owned(SCATTER.replace("8", "1").replace("1024", "1")) is None, "in order it is done at once"
    assert owned(SCATTER.replace("range(1024)", "range(8388608)").replace("1024]", "8388608]")) is None, "too many"
    assert owned(SCATTER.replace("+=", "=")) is None, "the last of them counts"
    assert owned(SCATTER.replace("g[d, row] +=", "g[d, t] +=")) is None, "loops alone choose the cell"
    assert owned(SCATTER.replace("values[b, t, d]", "values[b, t, d] * g[d, row]")) is None, "it reads its cells"
    alone = "ids: int64[64]\ng: float32[9, 64]\nfor t in range(64):\n    g[ids[t], t] += 1.0\n"
    assert owned(alone) is None, "each position has cells of its own"


@pytest.mark.parametrize(
    ("how", "body", "why"),
    [
        ("blocks of 48 by 16", "y[int64(z[i])] += 1.0", "48 lanes are no power of two"),
        ("blocks of 64 by 128", "y[int64(z[i])] += 1.0", "128 lanes are no power of two up to 64"),
        ("blocks of 64 by 16", "y[int64(z[i])] = 1.0", "it does more than accumulate into cells"),
        ("blocks of 64 by 16", "y[int64(z[i])] -= 1.0", "values of `sub` may not come in any order"),
        ("blocks of 64 by 16", "y[int64(y[i])] += 1.0", "it reads `y`, which it accumulates into"),
    ],
)
def test_what_owners_cannot_do(how: str, body: str, why: str) -> None:
    with pytest.raises(MalformedLoops, match=why):
        check(read(f"for i in range(64) by owners in {how} with 4 warps:\n    {body}\n"))


SEVERAL_SUMS = """
a: float32[64, 64]
b: float32[64, 64]
y: float32[64, 64]
product of left i; right j; sums k in blocks of 64 rows by 64 columns by 32 sums, 4 warps, 3 stages, groups of 8{maps}:
    for i in range(64):
        for j in range(64):
            t: float32 = 0
            for k in range(64):
                t = t + (a[i, k] * b[k, j])
            for l in range(64):
                t = t + (b[i, l] * a[l, j])
            y[i, j] = t
"""


def test_maps_are_of_the_factors_of_one_sum() -> None:
    check(parse(SEVERAL_SUMS.format(maps="")))
    with pytest.raises(MalformedLoops, match="maps of the factors of one sum"):
        check(parse(SEVERAL_SUMS.format(maps=", through tensor maps")))


def test_factors_of_further_sums_are_in_the_order_of_the_first() -> None:
    text = SEVERAL_SUMS.format(maps="").replace("b[i, l] * a[l, j]", "a[l, j] * b[i, l]")
    (staged,) = check(parse(text)).body
    assert isinstance(staged, Staged)
    (further,), rest = further_sums(parts_of(staged))
    assert [factor.buffer.name for factor in further.factors if isinstance(factor, Read)] == ["b", "a"]
    assert [type(one) for one in rest] == [Store]


def test_sums_of_few_cells_are_cut_and_not_one_launch() -> None:
    a, u, b, v = (wf.param(name, o=shape) for name, shape in zip("aubv", [[16, 8192], [8192, 16]] * 2, strict=True))
    c = wf.node("c")

    @wf.cd
    def code() -> None:
        c[:] = wf.einsum("i,k;k,j=>i,j", a, u)
        c.accumulate("+", wf.einsum("i,k;k,j=>i,j", b, v))

    for splits, products in ((64, 2), (1, 1)):
        options = wf.CompileOptions(gpu=wf.Gpu(splits=splits))
        routine = wf.Context(OnGrid()).compile(code(), keep=[c], options=options)
        assert routine.show("kernels").count("product of") == products


def test_a_product_whose_points_meet_in_a_cell_has_no_blocks() -> None:
    """A maximum over some rows of a product: rows run at the same time, and would all write one cell."""
    text = """
a: float32[8, 32]
b: float32[16, 32]
y: float32[4, 16]
product of left i, p; right j; sums k in blocks of 16 rows by 16 columns by 32 sums, 4 warps, 3 stages, groups of 8:
    for i in range(4):
        for p in range(2):
            for j in range(16):
                t: float32 = 0
                for k in range(32):
                    t = t + (a[2*i + p, k] * b[j, k])
                y[i, j] max= t
"""
    with pytest.raises(MalformedLoops, match="iterations share cells of `y`"):
        check(parse(text))


def chosen(gpu: wf.Gpu, tensor: wf.Tensor) -> str:
    """How the last launch of a program runs."""
    result = tensor.named("y")
    routine = wf.Context(OnGrid()).compile(result.forward, keep=[result], options=wf.CompileOptions(gpu=gpu))
    (staged,) = (one for one in everything(routine.kernels[-1].body) if isinstance(one, Staged))
    return str(staged.what.blocks)


def test_what_registers_do_not_hold_is_done_in_parts() -> None:
    """Where much follows the sums it is done for a part of the columns after another; few cells are held at once."""
    a, b = (wf.data(np.zeros((2048, 2048), ml_dtypes.bfloat16), label=name) for name in "ab")
    product = wf.einsum("i,k;k,j=>i,j", a, b)
    square, single = (wf.data(np.zeros(shape, np.float32)) for shape in ((2048, 2048), (2048,)))
    heavy = wf.relu(product + single) * square + wf.data(np.zeros((2048, 1), np.float32))
    for gpu, tensor, wanted in (
        (wf.Gpu(), product, "128 rows by 256 columns by 64 sums, 8 warps, 3 stages, groups of 8"),
        (wf.Gpu(), heavy, "128 rows by 128 columns by 64 sums, 8 warps, 3 stages, groups of 8, 4 parts"),
        (wf.Gpu(part_cells=32), heavy, "128 rows by 128 columns by 64 sums, 8 warps, 3 stages, groups of 8, 2 parts"),
        (wf.Gpu(parted_from=9), heavy, "128 rows by 128 columns by 64 sums, 8 warps, 4 stages, groups of 8"),
    ):
        assert chosen(gpu, tensor).endswith(wanted)


def test_factors_are_sums_of_three_where_that_is_quicker() -> None:
    """Each product has what takes it the least time, of its sizes: nothing is decided of a GPU as a whole."""

    def product(rows: int, columns: int, sums: int, dtype: type = np.float32) -> wf.Tensor:
        a, b = (wf.data(np.zeros((one, sums), dtype), label=name) for name, one in (("a", rows), ("b", columns)))
        return wf.einsum("i,k;j,k=>i,j", a, b)

    bias, square = (wf.data(np.zeros(shape, np.float32)) for shape in ((2048,), (2048, 2048)))
    heavy = wf.relu(product(2048, 2048, 256) + bias) * square + wf.data(np.zeros((2048, 1), np.float32))
    large = "128 rows by 128 columns by 32 sums, 8 warps, 3 stages, groups of 8"
    for gpu, tensor, wanted in (
        (wf.Gpu(), product(4096, 4096, 4096), f"{large}, as thirds"),
        (wf.Gpu(), product(16, 16, 16), "16 rows by 16 columns by 16 sums, 2 warps, 3 stages, groups of 8"),
        (wf.Gpu(third_step_ns=1.0), product(16, 16, 16), "16 sums, 4 warps, 3 stages, groups of 8, as thirds"),
        (wf.Gpu(), product(1024, 1024, 144), "by 32 sums, 4 warps, 3 stages, groups of 8, as thirds"),
        (wf.Gpu(), heavy, "64 rows by 64 columns by 32 sums, 4 warps, 3 stages, groups of 8, 2 parts, as thirds"),
    ):
        assert chosen(gpu, tensor).endswith(wanted)
    for gpu, tensor in (
        (wf.Gpu(thirds=False), product(2048, 2048, 256)),
        (wf.Gpu(third_times=1e3), product(2048, 2048, 256)),
        (wf.Gpu(), product(2048, 2048, 15)),
        (wf.Gpu(), product(2048, 2048, 256, ml_dtypes.bfloat16)),
    ):
        assert "thirds" not in chosen(gpu, tensor)


def test_a_rounded_factor_is_kept_for_the_gradient() -> None:
    """Making it again would be another pass over memory; what it is rounded from is computed where it is read."""
    h = wf.data(np.zeros((512, 256), np.float32), batch=1)
    for name in "uvw":
        h = wf.gelu(wf.param(name, o=256) @ h)
    loss = wf.sum(h, "...|... => 0")
    options = wf.CompileOptions(products="bfloat16", gpu=wf.Gpu(cache_bytes=1))
    routine = wf.Context(OnGrid()).compile(wf.grad_update(loss), options=options)
    assert "_narrow.again" not in routine.show("virtual")


@pytest.mark.parametrize(
    ("blocks", "wrong"),
    [
        (Blocks(64, 128, 32, parts=4), ""),
        (Blocks(64, 128, 32, parts=8), ""),
        (Blocks(64, 128, 32, parts=16), "its parts are no powers of two, or of fewer than 16 columns"),
        (Blocks(64, 128, 32, parts=3), "its parts are no powers of two, or of fewer than 16 columns"),
        (Blocks(64, 24, 32), "its blocks are no powers of two from 16 on"),
        (Blocks(64, 64, 32, precision="thirds"), ""),
        (Blocks(64, 64, 32, precision="halves"), "there are no such blocks"),
    ],
)
def test_blocks_that_there_are(blocks: Blocks, wrong: str) -> None:
    a, b = (wf.data(np.zeros((64, 64), np.float32), label=name) for name in "ab")
    product = wf.einsum("i,k;k,j=>i,j", a, b)
    (kernel,) = wf.Context(OnGrid()).compile(product.forward, keep=[product]).kernels
    (staged,) = (one for one in everything(kernel.body) if isinstance(one, Staged))
    assert unfit(Staged(replace(staged.what, blocks=blocks), staged.body)) == wrong


@pytest.mark.parametrize(
    ("does", "grid", "repeated"),
    [
        ("g[p, h, i, j] = t", "ph", ""),
        ("g[p, 0, i, j] += t", "p", "h"),
        ("g[0, h, i, j] += tanh(t)", "h", "p"),
        ("g[0, 0, i, j] max= t", "", "ph"),
        ("g[p, h, i, 0] += t", None, ""),
        ("g[p, 0, i, j] = g[p, 0, j, i] + t", None, ""),
        ("g[0, h, i, j] = g[1, h, j, i] + t", "h", "p"),
    ],
)
def test_each_program_runs_the_loops_around_a_product_over_which_its_results_add_up(
    does: str, grid: str | None, repeated: str
) -> None:
    text = f"""
        a: float32[3, 4, 64, 32]
        b: float32[3, 4, 32, 64]
        g: float32[3, 4, 64, 64]
        for p in range(3):
            for h in range(4):
                product of left i; right j; sums k:
                    for i in range(64):
                        for j in range(64):
                            t: float32 = 0.0
                            for k in range(32):
                                t = t + (a[p, h, i, k] * b[p, h, k, j])
                            {does}
    """
    found = in_blocks(parse(dedent(text).lstrip()).body, USUAL_GPU, False)
    assert (found is not None) == (grid is not None)
    if found is not None:
        check(Program(found))
        assert not race(found)
        loops = [one for one in everything(found) if isinstance(one, For) and one.loop in "ph"]
        assert "".join(one.loop for one in loops if one.how) == grid
        assert "".join(one.loop for one in loops if not one.how) == repeated


def test_where_programs_repeat_loops_they_touch_no_cells_of_each_other() -> None:
    text = """
        a: float32[4, 64, 32]
        b: float32[4, 32, 64]
        g: float32[5, 64, 64]
        for h in range(4):
            product of left i; right j; sums k BLOCKS:
                for i in range(64):
                    for j in range(64):
                        t: float32 = 0.0
                        for k in range(32):
                            t = t + (a[h, i, k] * b[h, k, j])
                        g[h + 1, i, j] = t + g[h, CELL]
    """
    blocks = "in blocks of 32 rows by 32 columns by 32 sums, 4 warps, 2 stages, groups of 8"
    text = dedent(text).lstrip().replace("BLOCKS", blocks)
    check(parse(text.replace("CELL", "i, j")))
    with pytest.raises(MalformedLoops, match="programs that share a product cannot each run loop h"):
        check(parse(text.replace("CELL", "j, i")))


@pytest.mark.parametrize("result", ["0", "h", "i", "j", "h,i", "h,j", "i,j"])
@pytest.mark.parametrize("cells", [1, 1 << 20])
def test_programs_share_a_product_whatever_adds_up_its_results(result: str, cells: int) -> None:
    a, b = (wf.data(np.ones(shape, np.float32)) for shape in ((4, 64, 32), (4, 32, 48)))
    total = wf.einsum(f"h,i,j=>{result}", wf.tanh(wf.einsum("h,i,k;h,k,j=>h,i,j", a, b)))
    options = wf.CompileOptions(gpu=wf.Gpu(alone_points=1, multiprocessors=cells))
    routine = wf.Context(OnGrid()).compile(total.forward, keep=[total], options=options)
    kernels = [everything(one.body) for one in routine.kernels]
    ((inside, product),) = ((some, one) for some in kernels for one in some if isinstance(one, Staged))
    assert product.what.blocks is not None
    (repeated,) = (not one.how for one in inside if isinstance(one, For) and one.loop == "h")
    assert repeated == (result == "i,j" and cells == 1)


@pytest.mark.parametrize(("cell", "kernels"), [("g[i, j]", 1), ("g[i, 0]", 2), ("g[0, 0]", 2)])
def test_sums_of_what_a_product_makes_are_a_launch_of_their_own(cell: str, kernels: int) -> None:
    text = f"""
        a: float32[64, 32]
        b: float32[32, 48]
        z: float32[64, 48]
        g: float32[64, 48]
        for i in range(64):
            for j in range(48):
                z[i, j] = 0
        for i in range(64):
            for j in range(48):
                for k in range(32):
                    z[i, j] += a[i, k] * b[k, j]
        for i in range(64):
            for j in range(48):
                {cell} += z[i, j] * z[i, j]
    """
    program = check(parse(dedent(text).lstrip()))
    kept = {one: "kept" for one in buffers_of(program) if one.name in "zg"}
    options = wf.CompileOptions(gpu=wf.Gpu(alone_points=1))
    found = dict(stages(program, Task(kept, places=OnGrid().places, options=options), passes=GPU_PASSES))
    assert len(found["fuse"].kernels) == kernels
