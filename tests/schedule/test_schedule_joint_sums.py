"""Contractions of the same cells whose results meet: one kernel, a sum beside the other, where that pays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import weft as wf
from weft.loops import check, parse
from weft.loops.interp import run
from weft.loops.joint_sums import all_sums, joint_sums
from weft.loops.nodes import Program, Staged, Tile
from weft.loops.product_legality import unfit
from weft.loops.staged import parts_of
from weft.loops.walk import buffers_of, everything

#: A gated unit as a product, with a sum beside its own.
GATED = """
x: float32[24, 40]
u: float32[40, 32]
v: float32[{depth}, 32]
y: float32[24, 32]
product of left i; right j; sums k:
    for i in range(24):
        for j in range(32):
            g: float32 = 0
            for k in range(40):
                g = g + (x[i, k] * u[k, j])
            h: float32 = 1
            for l in range({depth}):
                h = h + ({other} * v[l, j])
            y[i, j] = g * h
"""


def factors(*shapes: tuple[int, int]) -> list[wf.Tensor]:
    rng = np.random.default_rng(0)
    return [
        wf.param("abcdefgh"[at], o=one, init=rng.normal(size=one).astype("float32") / 4)
        for at, one in enumerate(shapes)
    ]


def product(one: wf.Tensor, other: wf.Tensor) -> wf.Tensor:
    return wf.einsum("ik; kj => ij", one, other)


def kernels(*wanted: wf.Tensor, **thresholds: int) -> tuple[list[np.ndarray], str, int]:
    """What a program finds, how it prints, and how many kernels it is."""
    ctx = wf.Context("cc")
    options = wf.config.options.but(thresholds=wf.Thresholds(**thresholds))
    routine = ctx.compile(wf.seq(), keep=list(wanted), options=options)
    routine()
    return [np.asarray(ctx[one]) for one in wanted], routine.show("kernels"), len(routine.kernels)


def same(found: list[np.ndarray], *wanted: wf.Tensor) -> None:
    oracle = wf.Context("interp")
    for one, tensor in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, oracle[tensor], rtol=1e-4, atol=1e-4)


def gated(rows: int = 48, depth: int = 40, columns: int = 64) -> wf.Tensor:
    x, u, v = factors((rows, depth), (depth, columns), (depth, columns))
    return wf.silu(product(x, u)) * product(x, v)


def test_a_gated_unit_is_one_kernel(golden: Callable[..., None]) -> None:
    out = gated()
    found, text, count = kernels(out)
    assert count == 1
    golden(text)
    same(found, out)


def test_it_is_two_where_that_is_asked() -> None:
    out = gated()
    found, text, count = kernels(out, joint_sums=1)
    assert count == 2
    assert "beside" not in text
    same(found, out)


def test_no_more_sums_than_asked_meet() -> None:
    x, *others = factors((16, 24), *[(24, 32)] * 5)
    first, *rest = [product(x, one) for one in others]
    out = first
    for one in rest:
        out = wf.tanh(out) * one
    found, text, count = kernels(out, joint_sums=3)
    assert count == 2
    assert "more than 3 sums meet there" in text
    same(found, out)


def test_sums_of_other_lengths_and_factors_meet() -> None:
    """The gate of a recurrent unit, of what it is given and of its state."""
    x, w, h, u = factors((24, 40), (40, 32), (24, 16), (16, 32))
    out = wf.sigmoid(product(x, w) + product(h, u))
    found, _, count = kernels(out)
    assert count == 1
    same(found, out)


def test_the_parts_of_complex_numbers() -> None:
    a, b, c, d = factors((24, 40), (24, 40), (40, 32), (40, 32))
    out = [product(a, c) - product(b, d), product(a, d) + product(b, c)]
    found, _, count = kernels(*out)
    assert count == 2
    same(found, *out)


def test_what_is_wanted_for_itself_is_stored() -> None:
    x, u, v = factors((24, 40), (40, 32), (40, 32))
    one = product(x, u)
    out = one * product(x, v)
    found, _, count = kernels(one, out)
    assert count == 1
    same(found, one, out)


def test_the_gradient_of_a_gated_unit_joins_what_comes_back() -> None:
    x, u, v = factors((48, 40), (40, 64), (40, 64))
    slope = wf.grad(wf.einsum("... => 0", wf.silu(product(x, u)) * product(x, v)), x)
    found, _, count = kernels(slope)
    _, _, apart = kernels(slope, joint_sums=1)
    assert count < apart
    same(found, slope)


def test_a_product_of_a_product_waits_for_it() -> None:
    """h is used at its cell, and is a factor, too."""
    x, u, v = factors((32, 32), (32, 32), (32, 32))
    h = product(x, u)
    out = h * product(h, v)
    found, _, count = kernels(out)
    assert count == 2
    same(found, out)


def test_columns_from_memory_are_read_one_tensor_after_another() -> None:
    x, u, v = factors((4, 600), (600, 1000), (600, 1000))
    out = product(x, u) * product(x, v)
    with wf.config.using(machine=replace(wf.Machine(), caches=(1 << 15, 1 << 18, 1 << 20))):
        found, text, count = kernels(out)
    assert count == 2
    assert "the columns of each come from memory, as they lie" in text
    same(found, out)


def staged(depth: int = 40, other: str = "x[i, l]") -> Staged:
    program = check(parse(GATED.format(depth=depth, other=other)))
    return next(one for one in everything(program.body) if isinstance(one, Staged))


def test_a_sum_of_as_many_terms_is_told_by_the_same_loops() -> None:
    (one,), rest = joint_sums(parts_of(staged()))
    assert one.sums == parts_of(staged()).sums
    assert len(rest) == 2  # what it starts from, and what is stored
    (one,), _ = joint_sums(parts_of(staged(16)))
    assert one.sums == (("l", 16),)


@pytest.mark.parametrize("other", ["x[i, l] + g", "u[l, j]", "y[i, l]"])
def test_what_is_no_sum_beside_it(other: str) -> None:
    """What uses the product's own sum, has both factors of its columns, or of what it writes."""
    assert len(all_sums(parts_of(staged(24, other)))) == 1


@pytest.mark.parametrize(
    ("tile", "why"),
    [
        (Tile(8, 2, 16, group=4), ""),
        (Tile(8, 2, 16), "groups are of tiles"),
        (Tile(8, 2, 16, panel="copied", block=20, group=4, parts=(64, 64)), "of several sums"),
        (Tile(8, 2, 16, panel="transposed", group=4), "its vectors do not lie along"),
    ],
)
def test_tiles_that_have_several_sums(tile: Tile, why: str) -> None:
    one = staged()
    found = unfit(Staged(replace(one.what, tile=tile), one.body))
    assert found.startswith(why) if why else not found


def test_the_oracle_runs_them_as_they_are_written() -> None:
    program = check(parse(GATED.format(depth=16, other="x[i, l]")))
    rng = np.random.default_rng(0)
    memory = {one: rng.normal(size=one.shape).astype("float32") for one in buffers_of(program)}
    x, u, v, y = memory.values()
    run(Program(program.body), memory)
    np.testing.assert_allclose(y, (x @ u) * (1 + x[:, :16] @ v), rtol=1e-4, atol=1e-4)


def test_one_micro_kernel_does_sums_that_differ_in_tensors_alone() -> None:
    ctx = wf.Context("cc")
    source = ctx.compile(wf.seq(), keep=[gated()]).show("source")
    assert "panel_1" in source or "sums_1" in source
    assert "beside1_whole" not in source
    assert "beside1_pack" not in source
