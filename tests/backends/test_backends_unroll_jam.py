"""Several turns of a sum over an outer axis done at once."""

from __future__ import annotations

import numpy as np
import pytest

from weft.affine import Affine
from weft.backends.cc.unroll_jam import jammed
from weft.loops import Buffer, Cast, For, Program, Read, Stmt, Update, check
from weft.loops.effects import everything
from weft.loops.interp import run
from weft.ops import Call, Num

X, Y, SUMS = (Buffer(n, name, (11, 5, 8), "float32") for n, name in enumerate(("x", "y", "sums")))
I, J, K, ZERO = (Affine(((1, name),)) if name else Affine(()) for name in ("i", "j", "k", ""))  # noqa: E741
CELL = Read(X, (I, J, K))
LONG = CELL
for _ in range(9):
    LONG = Call("mul", (LONG, Cast("float32", Num(2))))  # type: ignore[assignment]


def nest(stmt: Stmt, size: int = 11) -> tuple[Stmt, ...]:
    return (For("i", size, (For("j", 5, (For("k", 8, (stmt,)),)),)),)


@pytest.mark.parametrize("op", ["add", "max"])
@pytest.mark.parametrize("size", [4, 7, 11])
def test_every_turn_is_done_once(op: str, size: int) -> None:
    body = nest(Update(SUMS, (ZERO, J, K), op, Call("add", (CELL, Cast("float32", I)))), size)
    done = jammed(body)
    assert sum(isinstance(one, Update) for one in everything(done)) == 4 + (size % 4 > 0)
    found = []
    for each in (body, done):
        rng = np.random.default_rng(size)
        memory = {one: rng.integers(-99, 99, one.shape).astype("float32") for one in (X, SUMS)}
        run(check(Program(each)), memory)
        found.append(memory[SUMS])
    np.testing.assert_array_equal(*found)


def test_the_innermost_of_two_sums_is_done_so() -> None:
    (loop,) = jammed(nest(Update(SUMS, (ZERO, ZERO, K), "add", CELL)))
    assert isinstance(loop, For)
    assert [(one.loop, one.size) for one in (loop, *loop.body) if isinstance(one, For)] == [
        ("i", 11),
        ("j", 1),
        ("j", 1),
    ]


@pytest.mark.parametrize(
    "stmt",
    [
        pytest.param(Update(SUMS, (I, J, K), "add", CELL), id="cells move with the loop"),
        pytest.param(Update(SUMS, (ZERO, J, K), "add", Read(SUMS, (ZERO, K, J))), id="what is added is a sum"),
        pytest.param(Update(SUMS, (ZERO, J, Call("add", (K, K))), "add", CELL), id="a place is computed"),
        pytest.param(Update(SUMS, (ZERO, J, K), "add", LONG), id="what is added is long"),
    ],
)
def test_what_stays_as_it_is(stmt: Update) -> None:
    assert jammed(nest(stmt)) == nest(stmt)
