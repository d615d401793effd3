"""What joining nests saves and costs."""

from __future__ import annotations

from dataclasses import replace
from textwrap import dedent

import pytest

from weft.affine import Affine
from weft.loops import Buffer, Cast, For, Read, Stmt, Store, Update, check, parse
from weft.machine import Machine
from weft.ops import Call, Num
from weft.schedule import CompileOptions
from weft.schedule.fusion.fuse import fused
from weft.schedule.fusion.fusion_cost import FusionCost
from weft.schedule.gpu.gpu_fusion_cost import GpuFusionCost
from weft.schedule.gpu_model import Gpu
from weft.schedule.loop_tree import Level
from weft.schedule.nodes import Kernel
from weft.schedule.products.contractions import contracting
from weft.schedule.products.epilogue import followed


def buffer(number: int, name: str, *shape: int) -> Buffer:
    return Buffer(number, name, shape, "float32")


A, B = buffer(0, "a", 64, 32, 16), buffer(1, "b", 64, 32)
C = buffer(2, "c", 64, 32)
I, J, K = (Affine(((1, name),)) for name in "ijk")  # noqa: E741 these are their names


def nest(*loops: tuple[str, int], stmt: Stmt) -> Kernel:
    body = stmt
    for loop, size in reversed(loops):
        body = For(loop, size, (body,))
    return Kernel(("",), (body,))


SUM = nest(("i", 64), ("j", 32), ("k", 16), stmt=Update(B, (I, J), "add", Read(A, (I, J, K))))


def after(op: str) -> Kernel:
    value = Call(op, (Read(B, (I, J)),)) if op != "max" else Call(op, (Read(B, (I, J)), Cast("float32", Num(0))))
    return nest(("i", 64), ("j", 32), stmt=Store(C, (I, J), value))


def test_what_runs_on_vectors_stays_beside_a_sum() -> None:
    """The loop over rows is shared; that over a row's numbers is not, so that it has no loop inside."""
    (kernel,) = fused([SUM, after("tanh")])
    (loop,) = kernel.body
    assert isinstance(loop, For)
    assert [type(one) for one in loop.body] == [For, For]
    summing, applying = loop.body
    assert isinstance(summing, For)
    assert isinstance(applying, For)
    assert isinstance(summing.body[0], For)
    assert isinstance(applying.body[0], Store)


def test_what_does_not_joins_it() -> None:
    (kernel,) = fused([SUM, after("max")])
    (loop,) = kernel.body
    assert isinstance(loop, For)
    (inner,) = loop.body
    assert isinstance(inner, For)
    assert [type(one) for one in inner.body] == [For, Store]


def test_it_says_what_would_be_saved_and_lost() -> None:
    shared = (("i", "i"), ("j", "j"))
    mine, theirs = Level.of(SUM.body), Level.of(after("tanh").body)
    said = FusionCost(CompileOptions()).obstacle(mine, theirs, shared)
    assert said == "sharing `j` would save 97 ns of memory and lose 14336 ns of vectorisation"
    machine = replace(Machine(), scalar_function_ns=1.0)  # as fast on one number as on several
    assert FusionCost(CompileOptions(machine=machine)).obstacle(mine, theirs, shared) == ""
    assert FusionCost(CompileOptions()).obstacle(mine, theirs, shared[:1]) == ""
    assert FusionCost(CompileOptions()).obstacle(mine, Level.of(after("max").body), shared) == ""


@pytest.mark.parametrize("cores", [1, 2])
def test_a_loop_for_threads_is_not_joined_to_one_that_cannot_have_them(cores: int) -> None:
    total, options = buffer(3, "total", 65), CompileOptions(chunk_ns=1, machine=Machine(cores=cores))
    before, here = Read(total, (I,)), (Affine(((1, "i"),), 1),)
    running = nest(("i", 64), ("j", 32), stmt=Store(total, here, Call("add", (before, Read(B, (I, J))))))
    found = fused([SUM, running], (), options)
    assert [one.why for one in found[1:]] == ["sharing `i` would leave both to one thread"] * (cores - 1)
    adding = nest(("i", 64), ("j", 32), stmt=Update(total, (Affine(()),), "add", Read(B, (I, J))))
    assert len(fused([SUM, adding], (), options)) == 1  # a sum is cut into strips
    started = adding.with_body((Store(total, (Affine(()),), Cast("float32", Num(0))), *adding.body))
    assert len(fused([SUM, started], (), options)) == 1  # whatever it starts from


def test_sums_over_the_same_numbers_run_together() -> None:
    """What comes between them and only needs the first waits."""
    mean, squares = buffer(4, "mean", 64), buffer(5, "squares", 64)
    total = buffer(6, "total", 64)
    value = Read(B, (I, J))
    parts = [
        nest(("i", 64), ("j", 32), stmt=Update(total, (I,), "add", value)),
        nest(("i", 64), stmt=Store(mean, (I,), Call("neg", (Read(total, (I,)),)))),
        nest(("i", 64), ("j", 32), stmt=Update(squares, (I,), "add", Call("mul", (value, value)))),
    ]
    (kernel,) = fused(parts)
    (loop,) = kernel.body
    assert isinstance(loop, For)
    inner, after = loop.body
    assert isinstance(inner, For)
    assert [type(one) for one in inner.body] == [Update, Update]
    assert isinstance(after, Store)


def test_a_sum_that_needs_what_comes_between_waits_for_it() -> None:
    mean, squares = buffer(4, "mean", 64), buffer(5, "squares", 64)
    total = buffer(6, "total", 64)
    away = Call("sub", (Read(B, (I, J)), Read(mean, (I,))))
    parts = [
        nest(("i", 64), ("j", 32), stmt=Update(total, (I,), "add", Read(B, (I, J)))),
        nest(("i", 64), stmt=Store(mean, (I,), Call("neg", (Read(total, (I,)),)))),
        nest(("i", 64), ("j", 32), stmt=Update(squares, (I,), "add", Call("mul", (away, away)))),
    ]
    (kernel,) = fused(parts)
    (loop,) = kernel.body
    assert isinstance(loop, For)
    assert [type(one) for one in loop.body] == [For, Store, For]


# Contractions


@pytest.mark.parametrize(
    ("use", "said"),
    [
        ("s[0] += c[i, j]", "it would save 179 ns of memory and leave 5325 ns to one thread"),
        ("s[j] += c[i, j]", ""),
        ("d[i, j] = c[i, j] * 2", ""),
    ],
)
def test_a_sum_of_all_cells_leaves_a_contraction_to_one_thread_and_of_some_to_few_programs(use: str, said: str) -> None:
    text = f"""
        a: float32[64, 64]
        c: float32[64, 64]
        d: float32[64, 64]
        s: float32[64]
        for i in range(64):
            for j in range(64):
                for k in range(64):
                    c[i, j] += a[i, k] * a[k, j]
        for i in range(64):
            for j in range(64):
                {use}
    """
    product, nest = check(parse(dedent(text).lstrip())).body
    before = contracting(product)
    assert before is not None
    after = followed(before, nest)
    assert after is not None
    options = CompileOptions(machine=Machine(cores=2))
    assert FusionCost(options).epilogue(before, after) == said
    assert FusionCost(options.but(machine=Machine())).epilogue(before, after) == ""
    assert FusionCost(options.but(chunk_ns=1 << 20)).epilogue(before, after) == ""
    assert GpuFusionCost(options).epilogue(before, after) == ("few programs would add it up" if "+=" in use else "")
    alone = options.but(gpu=Gpu(alone_points=64**3))
    assert GpuFusionCost(alone).epilogue(before, after) == ""


@pytest.mark.parametrize(("columns", "shared"), [(16, False), (32, False), (64, True)])
def test_sums_of_columns_leave_a_contraction_to_one_thread_where_one_tile_has_all_columns(
    columns: int, shared: bool
) -> None:
    text = f"""
        a: float32[256, 64]
        b: float32[64, {columns}]
        c: float32[256, {columns}]
        s: float32[{columns}]
        for i in range(256):
            for j in range({columns}):
                for k in range(64):
                    c[i, j] += a[i, k] * b[k, j]
        for i in range(256):
            for j in range({columns}):
                s[j] += c[i, j]
    """
    product, nest = check(parse(dedent(text).lstrip())).body
    before = contracting(product)
    assert before is not None
    after = followed(before, nest)
    assert after is not None
    said = FusionCost(CompileOptions(machine=Machine(cores=2))).epilogue(before, after)
    assert (said == "") == shared
    assert FusionCost(CompileOptions(machine=Machine())).epilogue(before, after) == ""
