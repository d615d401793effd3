"""Sums of what products make, begun in their launches."""

from __future__ import annotations

from textwrap import dedent

import numpy as np
import pytest

import weft as wf
from backends.on_grid import OnGrid
from weft.loops import MalformedLoops, Program, Role, buffers_of, check, parse
from weft.loops.interp import run
from weft.schedule.gpu.fold_sums import with_folded_sums
from weft.schedule.gpu_model import Gpu
from weft.schedule.nodes import Kernel, as_program

GPU = Gpu(single_blocks=((32, 32, 16, 4, 2),), thread_cells=((1 << 20, 128),), splits=1)
DECLARED = """
    a: float32[96, 24]
    b: float32[24, 64]
    z: float32[96, 64]
    g: float32[96, 64]
    s: float32[64]
    r: float32[96]
    c: float32[64]
"""
PRODUCT = """
    for i in range(96):
        for j in range(64):
            t: float32 = 0.0
            for k in range(24):
                t = t + (a[i, k] * b[k, j])
            g[i, j] = t
"""
SUMS = {
    "columns": """
    for j in range(64):
        s[j] = 0.0
        for i in range(96):
            s[j] += g[i, j] * c[j]
""",
    "rows": """
    for i in range(96):
        m: float32 = -inf
        for j in range(64):
            m = max(m, g[i, j])
        r[i] = m * 2.0
""",
    "two": """
    for q in range(64):
        s[q] = 0.0
        c[q] = 1.0
        for p in range(96):
            x: float32 = g[p, q] * r[p]
            s[q] += x
            c[q] max= g[p, q]
""",
}


def folded(sums: str, gpu: Gpu = GPU) -> tuple[list[Kernel], list[Kernel]]:
    """A product and sums of it, before and after."""
    texts = [dedent(one) for one in (DECLARED, PRODUCT, sums)]
    program = parse("".join(texts).lstrip())
    kernels = [Kernel((), (one,)) for one in program.body]
    return kernels, with_folded_sums(kernels, gpu, False)


@pytest.mark.parametrize("name", SUMS)
def test_they_are_what_they_were(name: str) -> None:
    before, after = folded(SUMS[name])
    assert before != after
    random = np.random.default_rng(3)
    start = {one: random.normal(size=one.shape).astype(np.float32) for one in buffers_of(as_program(after))}
    found = [{one: array.copy() for one, array in start.items()} for _ in range(2)]
    for kernels, memory in zip((before, after), found, strict=True):
        run(check(as_program(kernels)), memory)
    for one, array in found[0].items():
        if one.role is not Role.PARTS:
            near = 1e-6 * float(np.abs(array).max())  # terms cancel, and are added in another order
            np.testing.assert_allclose(found[1][one], array, rtol=1e-5, atol=near, err_msg=one.name)


@pytest.mark.parametrize(
    ("sums", "gpu"),
    [
        (SUMS["columns"].replace("g[i, j] * c[j]", "g[i, j] * z[i, j]"), GPU),
        (SUMS["columns"].replace("s[j] += g[i, j] * c[j]", "s[j] += g[i, j] * s[j]"), GPU),
        (SUMS["columns"].replace("range(96)", "range(95)"), GPU),
        (
            SUMS["rows"].replace(
                "r[i] = m", "for l in range(64):\n            z[i, l] = g[i, l] - m\n        r[i] = m"
            ),
            GPU,
        ),
        (SUMS["columns"], Gpu(block_rows=200)),
        (
            SUMS["columns"],
            Gpu(single_blocks=((32, 32, 16, 4, 2),), multiprocessors=1000, launch_ns=1e-3, program_ns=1e-3),
        ),
    ],
    ids=["not at hand", "of itself", "some rows", "read again", "no blocks", "cut"],
)
def test_what_begins_nowhere_else(sums: str, gpu: Gpu) -> None:
    before, after = folded(sums, gpu)
    assert before == after


BLOCKS = """
a: float32[64, 32]
b: float32[32, 16]
s: float32[4, 16]
product of left p, i; right j; sums k in blocks of {rows} rows by 16 columns by 32 sums, 4 warps, 3 stages, groups of 8:
    for p in range(4):
        for i in range(16):
            for j in range(16):
                t: float32 = 0
                for k in range(32):
                    t = t + (a[16*p + i, k] * b[k, j])
                if 0 <= -i < 1:
                    s[p, j] = {start}
                s[{cell}, j] += t
"""


def test_no_block_has_a_part_of_a_sum() -> None:
    check(parse(BLOCKS.format(rows=32, start="0.0", cell="p")))
    with pytest.raises(MalformedLoops, match="iterations share cells of `s`"):
        check(parse(BLOCKS.format(rows=32, start="1.0", cell="p")))
    with pytest.raises(MalformedLoops, match="a block has a part of `s`"):
        check(
            parse(
                BLOCKS.format(rows=16, start="0.0", cell="p")
                .replace("range(16):\n            for j", "range(32):\n            for j")
                .replace("16*p", "32*p")
                .replace("range(4)", "range(2)")
            )
        )


def test_a_gradient_of_a_bias_is_not_stored_before_it_is_summed_up() -> None:
    x, w = (wf.data(np.zeros(shape, np.float32)) for shape in ((256, 32), (32, 64)))
    u, v, b = wf.param("u", o=[64, 128]), wf.param("v", o=[128, 64]), wf.param("b", o=128)
    h = wf.tanh(wf.einsum("i,k;k,j=>i,j", wf.einsum("i,k;k,j=>i,j", x, w), u) + b)
    loss = wf.sum(wf.tanh(wf.einsum("i,k;k,j=>i,j", h, v)), "...|... => 0")
    options = wf.CompileOptions(gpu=Gpu(splits=1))
    routine = wf.Context(OnGrid()).compile(wf.grad_update(loss), keep=[b.grad], options=options)
    stored = {one.name for one in buffers_of(Program(tuple(s for k in routine.kernels for s in k.body)))}
    assert any(one.endswith(".parts0") for one in stored)
