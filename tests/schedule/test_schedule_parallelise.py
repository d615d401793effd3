"""Threads that share a kernel."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import weft as wf
from loops.written import program, text
from weft.affine import Affine
from weft.loops import (
    Buffer,
    Cast,
    For,
    Let,
    Local,
    MalformedLoops,
    Parallel,
    Program,
    Read,
    Set,
    Stmt,
    Store,
    Update,
    check,
)
from weft.loops.legality import carried
from weft.loops.sites import independent
from weft.ops import Num
from weft.schedule import Kernel
from weft.schedule.annotate import annotate
from weft.schedule.parallelise import parallelised

ROWS = "\nfor i in range(24):\n    for j in range(40):\n        B[i, j] = A[i, j] * 2\n"


def test_before_and_after() -> None:
    before = program(ROWS).body
    assert text(parallelised(before, 2, worth=960)) == ROWS.replace("range(24):", "range(24) on 2 threads:")
    assert parallelised(before, 2, worth=961) == before
    assert parallelised(before, 1, worth=1) == before


@pytest.mark.parametrize(
    ("before", "problem"),
    [
        ("for i in range(24):\n    D[0] += C[i]\n", "iterations share cells of `D`"),
        ("t: float32 = 0\nfor i in range(24):\n    t = t + C[i]\n", "it is not the whole of the kernel"),
        ("for i in range(24):\n    C[i] = 1\nfor j in range(24):\n    D[0] = 1\n", "it is not the whole of the kernel"),
        ("for i in range(24):\n    D[...] = 1\n", "iterations share cells of `D`"),
    ],
)
def test_what_cannot_be(before: str, problem: str) -> None:
    body = program(before).body
    assert parallelised(body, 2, worth=1) == body
    with pytest.raises(wf.WeftError) as caught:
        annotate(Kernel((), body), "i", Parallel(2))
    assert caught.value.what == f"loop `i` cannot run on 2 threads: {problem}"


def test_only_what_is_the_whole_of_a_kernel_is_shared() -> None:
    (loop,) = parallelised(program(ROWS).body, 2, worth=1)
    check(Program((loop,)))
    for wrong in ((loop, Store(Buffer(0, "y", (1,), "int64"), (Affine(()),), Affine(()))), (For("k", 3, (loop,)),)):
        with pytest.raises(MalformedLoops, match="threads share what is not the whole of a kernel"):
            check(Program(wrong))


def test_a_loop_is_shared_and_runs_on_vectors() -> None:
    n = 1 << 17
    grown = wf.tc.define("def grown(float(N) x) -> (y) { y(i) = exp(x(i)) }", backend="cc").grown
    x = np.linspace(0, 1, n, dtype="float32")
    grown.options(x, choose=wf.tc.Options(threads=2))
    assert f"for i in range({n}) on 2 threads, on vectors:" in grown.show("kernels", x)
    np.testing.assert_allclose(grown(x), np.exp(x), rtol=1e-6)


X, Y = (Buffer(number, name, (8, 8), "float32") for number, name in enumerate("xy"))
I, J = Affine(((1, "i"),)), Affine(((1, "j"),))  # noqa: E741 these are their names
ONE = Cast("float32", Num(1))
SUM = Local("sum", "float32")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ([Store(X, (I, J), Read(Y, (J, I)))], True),
        ([Store(X, (J, I), Read(Y, (J, I)))], True),
        ([Store(X, (I, J), Read(X, (I, I)))], True),
        ([Store(X, (I, J), Read(X, (J, I)))], False),
        ([Store(X, (J, J), ONE)], False),
        ([Update(X, (J, J), "add", ONE)], False),
        ([Store(X, (Affine(((1, "i"), (1, "j"))), J), ONE)], True),
        ([Store(X, (Affine(((1, "i"), (1, "j"))), Affine()), ONE)], False),
        ([Store(X, (Affine(((8, "i"), (1, "j"))), Affine()), ONE)], True),
        ([Store(X, (Affine(((2, "i"),), 1), J), ONE)], True),
        ([Store(X, (I, J), ONE), Store(X, (Affine(((1, "i"),), 1), J), ONE)], False),
        ([Let(SUM, ONE), Set(SUM, ONE), Store(X, (I, J), SUM)], True),
        ([Set(SUM, ONE), Store(X, (I, J), ONE)], False),
    ],
)
def test_which_loops_have_independent_iterations(body: Sequence[Stmt], expected: bool) -> None:
    loop = For("i", 8, (For("j", 8, tuple(body)),))
    assert (not carried([("i", 8)], loop.body)) == independent(loop) == expected
