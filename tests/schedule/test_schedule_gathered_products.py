"""Contractions of rows that values say: in tiles on a processor, which read each row wherever it is."""

from __future__ import annotations

from textwrap import dedent

import numpy as np
import pytest

import weft as wf
from weft.loops import Program, Staged, Tile, check, parse
from weft.loops.nodes import Let
from weft.loops.product_legality import unfit
from weft.loops.staged import Parts, parts_of, staged_product
from weft.loops.walk import reads
from weft.schedule.products.contractions import contracting
from weft.schedule.products.tile import tilings

GATHERED = """
    t: float32[50, 24]
    ids: int64[40]
    w: float32[24, 36]
    c: float32[40, 36]
    for i in range(40):
        for j in range(36):
            for k in range(24):
                c[i, j] += t[max(min(ids[i], 49), 0), k] * w[k, j]
"""


def placed(text: str) -> tuple[Program, Staged]:
    program = check(parse(dedent(text).lstrip()))
    found = contracting(program.body[0], gathers=True)
    assert found is not None
    assert found.what.why == ""
    return program, found.staged


def test_backends_that_do_not_gather_say_so() -> None:
    program, _ = placed(GATHERED)
    found = contracting(program.body[0])
    assert found is not None
    assert (found.what.why, found.what.gathers) == ("a factor is gathered", True)


def test_what_says_rows_is_no_row_that_is_said() -> None:
    text = GATHERED.replace("ids[i]", "ids[max(min(ids[i], 39), 0)]")
    found = contracting(check(parse(dedent(text).lstrip())).body[0], gathers=True)
    assert found is not None
    assert (found.what.why, found.what.gathers) == ("a factor is gathered", False)


def test_rows_that_lie_anywhere_are_not_transposed() -> None:
    """Panels are of columns that are as far apart each time."""
    _, staged = placed(GATHERED.replace("w: float32[24, 36]", "w: float32[36, 24]").replace("w[k, j]", "w[j, k]"))
    turned = [one for one in tilings(staged) if one.what.tile and one.what.tile.panel == "transposed"]
    assert {one.buffer.name for each in turned for one in reads(parts_of(each).factors[1])} == {"w"}
    assert unfit(_turned(parts_of(staged))) == "its vectors do not lie along `k`"


def _turned(found: Parts) -> Staged:
    """The product with rows as columns, in transposed panels."""
    start, tile = Let(found.total, found.start), Tile(8, 2, 16, panel="transposed")
    return staged_product(found.right, found.left, found.sums, start, found.ops, found.factors[::-1], found.rest, tile)


SIZES = {"V": 50, "D": 40, "B": 70, "N": 36}


@pytest.mark.parametrize(
    ("table", "other", "result", "product", "numpy"),
    [
        ("V,D", "D,N", "C(b, n)", "T(I(b), d) * W(d, n)", "bd,dn->bn"),
        ("V,D", "N,D", "C(b, n)", "T(I(b), d) * W(n, d)", "bd,nd->bn"),
        ("D,V", "D,N", "C(b, n)", "T(d, I(b)) * W(d, n)", "bd,dn->bn"),
        ("V,D", "B,N", "C(d, n)", "T(I(b), d) * W(b, n)", "bd,bn->dn"),  # as in the gradient of the first
    ],
)
def test_compiled(table: str, other: str, result: str, product: str, numpy: str) -> None:
    rng = np.random.default_rng(5)
    shapes = [tuple(SIZES[one] for one in shape.split(",")) for shape in (table, other)]
    t, w = (rng.normal(size=shape).astype(np.float32) for shape in shapes)
    ids = rng.integers(0, SIZES["V"], SIZES["B"]).astype(np.int32)
    text = f"def f(float({table}) T, int32(B) I, float({other}) W) -> (C) {{ {result} +=! {product} }}"
    rows = (t if table == "V,D" else t.T)[ids].astype(float)
    for backend in ("cc", "interp"):
        ctx, function = wf.Context(backend), wf.tc.define(text).f
        out = function(wf.data(t), wf.data(ids), wf.data(w))
        routine = ctx.compile(wf.seq(), keep=[out])
        routine()
        np.testing.assert_allclose(ctx[out], np.einsum(numpy, rows, w.astype(float)), rtol=1e-4, atol=1e-4)
        if backend == "cc":
            assert "product of" in routine.show("kernels")


def test_its_gradients() -> None:
    """Rows that are asked for several times get the sum of what comes back."""
    rng = np.random.default_rng(6)
    sizes, ids = {"V": 9, "D": 40, "N": 36}, rng.integers(0, 9, 70)
    values = {name: rng.normal(size=(sizes[name[0]], sizes[name[1]])).astype(np.float32) for name in ("VD", "DN")}
    ctx, text = (
        wf.Context("cc"),
        "def f(float(V,D) T, int32(B) I, float(D,N) W) -> (C) { C(b, n) +=! T(I(b), d) * W(d, n) }",
    )
    t, w = (wf.param(name, o=one.shape, init=one) for name, one in values.items())
    out = wf.tc.define(text).f(t, wf.data(ids.astype(np.int32)), w)
    ctx = wf.Context("cc")
    routine = ctx.compile(wf.grad_update(wf.einsum("ij => 0", out * out)), keep=[t.grad, w.grad])
    routine()
    assert routine.show("kernels").count("product of") == 3
    table, other = values["VD"].astype(float), values["DN"].astype(float)
    back = 2 * table[ids] @ other
    wanted = np.zeros_like(table)
    np.add.at(wanted, ids, back @ other.T)
    np.testing.assert_allclose(ctx[t.grad], wanted, rtol=1e-4, atol=1e-2)
    np.testing.assert_allclose(ctx[w.grad], table[ids].T @ back, rtol=1e-4, atol=1e-2)
