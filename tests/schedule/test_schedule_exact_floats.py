"""Products of narrow whole numbers as products of floats: before and after, where it is exact, and the same numbers."""

from __future__ import annotations

from textwrap import dedent

import numpy as np
import pytest

import weft as wf
from weft.loops import Program, buffers_of, check, parse, show
from weft.loops.interp import run
from weft.loops.nodes import Staged
from weft.loops.staged import parts_of
from weft.loops.walk import Body, everything
from weft.schedule.products.contractions import contracting
from weft.schedule.products.exact_floats import exact_type, in_exact_floats

PRODUCT = """
a: int8[4, 9]
b: uint8[9, 5]
y: int64[4, 5]
for i in range(4):
    for j in range(5):
        for k in range(9):
            y[i, j] += int64(a[i, k]) * int64(b[k, j])
"""
SHIFTED = PRODUCT.replace("int64(a[i, k])", "(int64(a[i, k]) - 3)")


def placed(text: str) -> tuple[Program, Body]:
    program = check(parse(text.lstrip()))
    found = contracting(program.body[0])
    assert found is not None
    return program, found.placed


def test_a_product() -> None:
    wanted = """
        product of left i; right j; sums k:
            for i in range(4):
                for j in range(5):
                    y_total_float: float32 = 0
                    for k in range(9):
                        y_total_float = y_total_float + (float32(a[i, k]) * float32(b[k, j]))
                    y_total: int64 = y[i, j] + int64(y_total_float)
                    y[i, j] = y_total
    """
    assert show(Program(in_exact_floats(placed(PRODUCT)[1]))) == dedent(wanted).strip()


@pytest.mark.parametrize("text", [PRODUCT, SHIFTED])
def test_the_products_are_the_same(text: str) -> None:
    before, body = placed(text)
    after, rng = check(Program(in_exact_floats(body))), np.random.default_rng(0)
    assert "float32" in show(after)
    limits = {one: np.iinfo(one.dtype) for one in buffers_of(before)}
    memory = {one: rng.choice([found.min, found.max], one.shape).astype(one.dtype) for one, found in limits.items()}
    found = {one: values.copy() for one, values in memory.items()}
    with np.errstate(over="ignore"):
        run(before, memory, {})
        run(after, found, {})
    for one, values in memory.items():
        np.testing.assert_array_equal(found[one], values)


@pytest.mark.parametrize(
    ("one", "other", "sums", "dtype"),
    [
        ("int8", "int8", 1024, "float32"),
        ("int8", "int8", 1025, "float64"),
        ("uint8", "uint8", 258, "float32"),
        ("uint8", "uint8", 259, "float64"),
        ("uint16", "int8", 2, "float32"),
        ("int16", "int16", 1 << 23, "float64"),
        ("int16", "int16", (1 << 23) + 1, None),
        ("int8", "int32", 1 << 15, "float64"),
        ("int32", "int32", 2, None),
        ("int64", "int8", 2, None),
    ],
)
def test_floats_hold_every_sum(one: str, other: str, sums: int, dtype: str | None) -> None:
    """So many of the largest terms fit, and not one more."""
    text = PRODUCT.replace("uint8", other).replace("a: int8", f"a: {one}")
    text = text.replace("9", str(sums)).replace("int64(a[i, k])", "a[i, k]" if one == "int64" else "int64(a[i, k])")
    (staged,) = (stmt for stmt in everything(placed(text)[1]) if isinstance(stmt, Staged))
    assert exact_type(parts_of(staged)) == dtype


def test_other_semirings_stay_as_they_are() -> None:
    body = placed(PRODUCT.replace("+= int64(a[i, k]) *", "max= int64(a[i, k]) +"))[1]
    assert in_exact_floats(body) == body


@pytest.mark.parametrize(("dtype", "sums"), [("int8", 1024), ("int8", 1500), ("int16", 300), ("uint8", 70)])
def test_compiled_products_are_exact(dtype: str, sums: int) -> None:
    """At the largest numbers that there are, all of one sign."""
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    rng = np.random.default_rng(sums)
    a, b = (rng.choice([least, most], shape).astype(dtype) for shape in ((40, sums), (sums, 50)))
    a[0], b[:, 0] = least or most, least or most
    ctx, out = wf.Context("cc"), wf.einsum("ik; kj => ij", wf.data(a), wf.data(b))
    routine = ctx.compile(wf.seq(), keep=[out])
    assert "_float: float" in routine.show("kernels")
    routine()
    np.testing.assert_array_equal(ctx[out], a.astype("int64") @ b.astype("int64"))
