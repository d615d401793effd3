"""Products in strips of their sums, before and after: partial products that threads share, joined in order."""

from __future__ import annotations

from dataclasses import replace
from textwrap import dedent

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import weft as wf
from weft.loops import Program, buffers_of, check, parse, show
from weft.loops.interp import run
from weft.loops.names import BlockNames, fresh_ids
from weft.loops.nodes import Role, Staged
from weft.loops.walk import Body, perfect
from weft.machine import COMMON
from weft.schedule.compile_options import DEFAULTS
from weft.schedule.nests.split_products import best_strips, joined_strips, with_split_products
from weft.schedule.products.contractions import contracting

#: Two cores to which a short product is long.
EAGER = DEFAULTS.but(
    chunk_ns=1,
    machine=replace(COMMON, cores=2, bytes_per_s=1e12, cached_bytes_per_s=1e12),
    thresholds=wf.Thresholds(few_iterations=2, joining_share=1e-9),
)

PRODUCT = """
a: float32[4, 300]
b: float32[300, 6]
c: float32[4, 6]
y: float32[4, 6]
for i in range(4):
    for j in range(6):
        t: float32 = c[i, j]
        for k in range(300):
            t = t + a[i, k] * b[k, j]
        y[i, j] = relu(t)
"""
UNEVEN = PRODUCT.replace("300", "307")
EXTREMA = PRODUCT.replace("t + a[i, k] * b[k, j]", "max(t, a[i, k] + b[k, j])")
COUNTS = PRODUCT.replace("float32", "int64").replace("relu(t)", "t + 1")
STORED_ACROSS = PRODUCT.replace("y: float32[4, 6]", "y: float32[6, 4]").replace("y[i, j]", "y[j, i]")
TWO_SUMS = """
a: float32[4, 9, 40]
b: float32[9, 40, 6]
y: float32[4, 6]
for i in range(4):
    for j in range(6):
        t: float32 = 0
        for h in range(9):
            for k in range(40):
                t = t + a[i, h, k] * b[h, k, j]
        y[i, j] = t
"""


def product_of(rows: int, depth: int, columns: int, batches: int) -> str:
    """A program that is a product of such sizes."""
    return f"""
a: float32[{batches}, {rows}, {depth}]
b: float32[{batches}, {depth}, {columns}]
y: float32[{batches}, {rows}, {columns}]
for n in range({batches}):
    for i in range({rows}):
        for j in range({columns}):
            t: float32 = 0
            for k in range({depth}):
                t = t + a[n, i, k] * b[n, k, j]
            y[n, i, j] = t
"""


EVERY = [PRODUCT, UNEVEN, EXTREMA, COUNTS, STORED_ACROSS, TWO_SUMS, product_of(4, 300, 6, batches=2)]


def staged(text: str) -> tuple[Program, Body]:
    """A program that is a product, as it is written and as it is placed."""
    program = check(parse(text.lstrip()))
    found = contracting(program.body[0])
    assert found is not None
    return program, found.placed


def split(text: str, strips: int) -> tuple[Program, Program]:
    program, placed = staged(text)
    batch, (product,) = perfect(placed)
    assert isinstance(product, Staged)
    made = joined_strips(batch, product, strips, BlockNames(placed), fresh_ids(placed, Role.PARTIAL))
    return program, check(Program(made))


def test_a_product() -> None:
    wanted = """
        for strip in range(3):
            product of left i; right j; sums k:
                for i in range(4):
                    for j in range(6):
                        t_own: float32 = 0
                        for k in range(100):
                            t_own = t_own + (a[i, 100*strip + k] * b[100*strip + k, j])
                        t_part[strip, i, j] = t_own
        for i in range(4):
            for j in range(6):
                t_all[i, j] = float64(t_part[0, i, j])
        for strip in range(2):
            for i in range(4):
                for j in range(6):
                    t_all[i, j] += float64(t_part[strip + 1, i, j])
        for i in range(4):
            for j in range(6):
                t: float32 = float32(float64(c[i, j]) + t_all[i, j])
                y[i, j] = relu(t)
    """
    assert show(split(PRODUCT, 3)[1]) == dedent(wanted).strip()


def test_what_no_strip_has_is_added_in_order() -> None:
    wanted = """
        for k in range(7):
            for i in range(4):
                for j in range(6):
                    t_all[i, j] += float64(a[i, k + 300] * b[k + 300, j])
    """
    assert dedent(wanted).strip() in show(split(UNEVEN, 10)[1])


@pytest.mark.parametrize("text", EVERY)
@pytest.mark.parametrize("strips", [2, 7, 13])
def test_the_products_are_the_same(text: str, strips: int) -> None:
    same(*split(text, strips))


def same(before: Program, after: Program) -> None:
    """Whole numbers are summed exactly."""
    rng = np.random.default_rng(7)
    memory = {one: rng.integers(-4, 5, one.shape).astype(one.dtype) for one in buffers_of(after)}
    found = {one: values.copy() for one, values in memory.items()}
    run(before, memory, {})
    run(after, found, {})
    for one in buffers_of(before):
        np.testing.assert_array_equal(found[one], memory[one])


# Whether it pays


def strips_of(rows: int, depth: int, columns: int, batches: int = 1, cores: int = 2) -> int:
    batch, (product,) = perfect(staged(product_of(rows, depth, columns, batches))[1])
    assert isinstance(product, Staged)
    return best_strips(batch, product, DEFAULTS.but(machine=replace(COMMON, cores=cores)))


@pytest.mark.parametrize("sizes", [(8, 100_000, 8), (32, 100_000, 32), (1, 50_000, 100), (17, 4099, 65)])
def test_few_cells_of_long_sums_are_in_strips(sizes: tuple[int, int, int]) -> None:
    assert strips_of(*sizes) >= 8
    assert strips_of(*sizes, cores=1) == 1


@pytest.mark.parametrize("sizes", [(256, 256, 256), (1024, 1024, 1024), (64, 784, 256), (8, 64, 8), (2000, 64, 10)])
def test_many_cells_are_shared_as_they_are(sizes: tuple[int, int, int]) -> None:
    assert strips_of(*sizes) == 1


def test_batches_are_shared_as_they_are() -> None:
    assert strips_of(32, 50_000, 32, batches=16) == 1
    assert strips_of(32, 50_000, 32, batches=3) > 1


def test_a_product_that_a_loop_carries_on_stays_whole() -> None:
    """In each iteration it starts from what the one before has written."""
    text = """
        a: float32[4, 300]
        b: float32[300, 6]
        h: float32[9, 4, 6]
        for t in range(3):
            for i in range(4):
                for j in range(6):
                    s: float32 = h[t, i, j]
                    for k in range(300):
                        s = s + a[i, k] * b[k, j]
                    h[t + 1, i, j] = s
    """
    (loop,) = check(parse(dedent(text).lstrip())).body
    found = contracting(loop.body[0])  # type: ignore[union-attr]
    assert found is not None
    body = (replace(loop, body=found.placed),)  # type: ignore[type-var]
    assert with_split_products(found.placed, EAGER) != found.placed
    assert with_split_products(body, EAGER) == body


# Compiled


@pytest.mark.parametrize(
    ("spec", "shapes"), [("ki; kj => ij", ((20_011, 5), (20_011, 7))), ("ik; kj => ji", ((16, 9_000), (9_000, 33)))]
)
def test_any_number_of_threads_computes_the_same(spec: str, shapes: tuple[tuple[int, int], ...]) -> None:
    rng = np.random.default_rng(3)
    a, b = (rng.normal(size=shape).astype(np.float32) for shape in shapes)
    results, machine = [], replace(wf.Machine.here(), cores=2)
    for threads in (1, 2, 3, 5):
        ctx, out = wf.Context("cc"), wf.relu(wf.einsum(spec, wf.data(a), wf.data(b)))
        routine = ctx.compile(wf.seq(), keep=[out], options=wf.config.options.but(threads=threads, machine=machine))
        assert "for strip in range" in routine.show("kernels")
        routine()
        results.append(ctx[out])
    letters = spec.replace("; ", ",").replace(" => ", "->")
    wanted = np.maximum(np.einsum(letters, a.astype(float), b.astype(float)), 0)
    sizes = np.einsum(letters, np.abs(a).astype(float), np.abs(b).astype(float))
    assert (np.abs(results[0] - wanted) <= 40 * np.finfo(np.float32).eps * sizes).all()
    for one in results[1:]:
        np.testing.assert_array_equal(one, results[0])


@settings(max_examples=20)
@given(st.integers(2, 9), st.integers(20, 60), st.integers(2, 9), st.integers(1, 3), st.integers(1, 8))
def test_every_term_is_in_one_strip_or_left_over(rows: int, depth: int, columns: int, batches: int, few: int) -> None:
    program, placed = staged(product_of(rows, depth, columns, batches))
    options = EAGER.but(thresholds=replace(EAGER.thresholds, few_iterations=few))
    same(program, check(Program(with_split_products(placed, options))))
