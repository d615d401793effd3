"""One-hot sums whose loops come in any order: the place is found inside the loops that it depends on."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

import weft as wf
from loops.written import GIVEN, K, X, Y, program, text
from weft.loops import For, Program, Stmt, check
from weft.loops.interp import run
from weft.optimise.gather import gathered

SIZES = {"k": 4, "b": 4, "d": 3}
CORE = "X[b, d] += Y[k, d] * float32(eq(K[b], k))"

GATHERED = {
    "bkd": """
for b in range(4):
    k_at: int64 = K[b]
    if 0 <= k_at < 4:
        for d in range(3):
            X[b, d] += Y[k_at, d]
""",
    "kbd": """
for b in range(4):
    k_at: int64 = K[b]
    if 0 <= k_at < 4:
        for d in range(3):
            X[b, d] += Y[k_at, d]
""",
    "kdb": """
for d in range(3):
    for b in range(4):
        k_at: int64 = K[b]
        if 0 <= k_at < 4:
            X[b, d] += Y[k_at, d]
""",
}


def nest(order: str) -> Program:
    lines = [f"{'    ' * depth}for {name} in range({SIZES[name]}):" for depth, name in enumerate(order)]
    return program("\n".join([*lines, "    " * len(order) + CORE]))


@pytest.mark.parametrize("order", GATHERED)
def test_where_the_place_is_found(order: str) -> None:
    assert text(gathered(nest(order).body, fast=True)) == GATHERED[order]


@pytest.mark.parametrize("order", ["".join(one) for one in permutations("kbd")])
def test_any_order_gathers_the_same(order: str) -> None:
    rng = np.random.default_rng(0)
    meant = {one: rng.uniform(-1, 1, one.shape).astype("float32") for one in (X, Y)} | {K: np.array([3, 0, 9, 3])}
    ours = {buffer: array.copy() for buffer, array in meant.items()}
    run(nest(order), meant, dict.fromkeys(GIVEN, 0))
    body = gathered(nest(order).body, fast=True)
    run(check(Program(body), GIVEN), ours, dict.fromkeys(GIVEN, 0))
    assert loops(body) == sorted(set(order) - {"k"}, key=order.index)
    np.testing.assert_allclose(ours[X], meant[X])


def loops(body: tuple[Stmt, ...]) -> list[str]:
    found = [[stmt.loop] if isinstance(stmt, For) else [] for stmt in body]
    return [name for stmt, own in zip(body, found, strict=True) for name in [*own, *loops(getattr(stmt, "body", ()))]]


@pytest.mark.parametrize("term", ["w(k, d) * float(l(b) == k)", "l(b) == k ? w(k, d) : 0"])
def test_asked_for_by_options(term: str) -> None:
    text = f"def pick(float(K,D) w, int32(B) l) -> (y) {{ y(b, d) +=! {term} }}"
    pick = wf.tc.define(text, backend="cc").pick
    w, labels = np.arange(160, dtype="float32").reshape(40, 4), np.array([4, 0, 2, 39, 7, 7, 1, 3], "int32")
    pick.options(w, labels, choose=wf.tc.Options(order=("k", "b", "d")))
    np.testing.assert_array_equal(pick(w, labels), w[labels])
