"""Two loops that C runs as one."""

from __future__ import annotations

import numpy as np
import pytest

import weft as wf
from weft.affine import Affine
from weft.backends.cc.collapse import collapsed
from weft.loops import Buffer, Cast, For, If, Inside, Let, Local, Read, Set, Stmt, Store, Update
from weft.ops import Call, Num

X, Y = (Buffer(number, name, (4, 6, 8), "float32") for number, name in enumerate("xy"))
WIDE = Buffer(2, "wide", (4, 6, 9), "float32")
ROW, ONE = Buffer(3, "row", (8,), "float32"), Buffer(4, "one", (1,), "float32")
I, J, K, ZERO = Affine(((1, "i"),)), Affine(((1, "j"),)), Affine(((1, "k"),)), Affine(())  # noqa: E741
SUM = Local("sum", "float32")


def loops(*body: Stmt) -> list[tuple[str, int]]:
    """The loops of a nest over a 4×6×8 block, once collapsed, to the innermost."""
    (stmt,) = collapsed((For("i", 4, (For("j", 6, (For("k", 8, body),)),)),))
    found = []
    while isinstance(stmt, For):
        found.append((stmt.loop, stmt.size))
        stmt = stmt.body[0]
    return found


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ([Store(Y, (I, J, K), Read(X, (I, J, K)))], [("k", 192)]),
        ([Update(ONE, (ZERO,), "add", Read(X, (I, J, K)))], [("k", 192)]),
        ([Let(SUM, Read(X, (I, J, K))), Set(SUM, Call("neg", (SUM,))), Store(Y, (I, J, K), SUM)], [("k", 192)]),
        ([Store(Y, (I, J, K), Read(ROW, (K,)))], [("j", 24), ("k", 8)]),
        ([Store(Y, (I, J, K), Read(WIDE, (I, J, K)))], [("j", 24), ("k", 8)]),
        ([Store(Y, (J, I, K), Read(X, (I, J, K)))], [("i", 4), ("j", 6), ("k", 8)]),
        ([Store(Y, (I, J, K), Cast("float32", K))], [("j", 24), ("k", 8)]),
        ([Store(Y, (I, J, K), Cast("float32", I))], [("i", 4), ("k", 48)]),
        ([If((Inside(K, 3),), (Store(Y, (I, J, K), Read(X, (I, J, K))),))], [("i", 4), ("j", 6), ("k", 8)]),
        ([Store(Y, (I, J, K), Read(ROW, (Call("add", (K, K)),)))], [("j", 24), ("k", 8)]),
        ([Store(Y, (I, J, K), Cast("float32", Num(1)))], [("k", 192)]),
    ],
)
def test_which_loops_become_one(body: list[Stmt], expected: list[tuple[str, int]]) -> None:
    assert loops(*body) == expected


def test_the_numbers_are_the_same() -> None:
    numbers = np.random.default_rng(0).standard_normal((3, 5, 7, 11)).astype("float32")
    x = wf.data(numbers, label="x")
    row = wf.data(numbers[0, 0, 0], label="row")
    some = {
        "chain": wf.exp(x * 2.0 - 1.0),
        "rows": x * row + 1.0,
        "turned": wf.einsum("abcd => badc", wf.tanh(x)),
        "sums": wf.einsum("abcd => ab", x * x),
        "cut": wf.einsum("abcd => abc", wf.maximum(x, row)),
    }
    for name, tensor in some.items():
        found, meant = wf.Context("cc")[tensor], wf.Context("interp")[tensor]
        np.testing.assert_allclose(found, meant, rtol=1e-5, atol=1e-5, err_msg=name)
