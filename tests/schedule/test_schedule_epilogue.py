"""What is done with the results of a product, cell by cell."""

from __future__ import annotations

import numpy as np
import pytest

import weft as wf
from schedule.kernels import add, at, floats, loop, placed, plus, read, staged_in, store
from weft.loops import Let, Local, Program, Set, check
from weft.loops.interp import run
from weft.ops import call
from weft.schedule import Kernel
from weft.schedule.products.contractions import contracting

A, B, C, D = (floats(number, name, 32, 32) for number, name in enumerate("abcd"))


@pytest.mark.parametrize("again", [1, 2])
def test_results_that_are_stored_again_are_read_as_they_are_then(again: int) -> None:
    """c = a b;  c = c + c, perhaps again;  d = c + c: d is of the last c, not of the first."""
    cell = at("i", "j")
    nests = [store(C, cell, plus(read(C, "i", "j"), read(C, "i", "j")))] * again
    nests.append(store(D, cell, plus(read(C, "i", "j"), read(C, "i", "j"))))
    body = (
        loop("i", 32, loop("j", 32, store(C, cell, 0.0))),
        loop("i", 32, loop("j", 32, loop("k", 32, add(C, cell, call("mul", read(A, "i", "k"), read(B, "k", "j")))))),
        *(loop("i", 32, loop("j", 32, one)) for one in nests),
    )
    (kernel,) = placed([Kernel((), (one,)) for one in body], [C, D])
    assert staged_in(kernel.body)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, (32, 32)).astype("float32") for _ in range(2))
    memory = {A: a, B: b, C: np.full((32, 32), 9, "float32"), D: np.zeros((32, 32), "float32")}
    run(check(Program(kernel.body)), memory)
    np.testing.assert_array_equal(memory[C], a @ b * 2**again)
    np.testing.assert_array_equal(memory[D], a @ b * 2 ** (again + 1))


@pytest.mark.parametrize("labels", [("a.b", "a_b"), ("k", "j")])
def test_variables_before_the_loops_of_what_follows_keep_their_values(labels: tuple[str, str]) -> None:
    """c = a b;  d = c u;  e = c v: where names of u and v come to the same, or to those of loops of the product."""
    a, b, c, d, e = (wf.param(name, o=[16, 16], init=1.0) for name in "abcde")
    numbers = [wf.param(name, o=1, init=value) for name, value in (("p", 4.0), ("q", 9.0))]

    @wf.cd
    def code() -> None:
        c[:] = wf.einsum("ij; jk => ik", a, b)
        d[:] = c * wf.sqrt(numbers[0], label=labels[0])
        e[:] = c * wf.sqrt(numbers[1], label=labels[1])

    ctx = wf.Context("cc")
    routine = ctx.compile(code())
    assert len(routine.kernels) == 1
    routine()
    np.testing.assert_array_equal(ctx[d], np.full((16, 16), 32.0))
    np.testing.assert_array_equal(ctx[e], np.full((16, 16), 48.0))


def test_a_start_that_is_long_to_write_out_stays_a_kernel_of_its_own() -> None:
    a, b, c, d = (wf.param(name, o=[16, 16], init=0.5) for name in "abcd")

    @wf.cd
    def code() -> None:
        value = d
        for _ in range(30):
            value = value * 0.5 + d
        c[:] = value
        c.accumulate("+", wf.einsum("ij; jk => ik", a, b))

    ctx = wf.Context("cc")
    ctx.compile(code())()
    np.testing.assert_allclose(ctx[c], np.full((16, 16), 5.0))


def test_a_start_in_variables_that_are_long_to_write_out() -> None:
    """for i: for j: { x = …;  total = x;  for k: total += …;  c[i, j] = total }"""
    long, total = Local("x", "float32"), Local("total", "float32")
    value = read(D, "i", "j")
    for _ in range(40):
        value = plus(value, read(D, "i", "j"))
    more = call("mul", read(A, "i", "k"), read(B, "k", "j"))
    steps = (Let(long, value), Let(total, long), loop("k", 32, Set(total, plus(total, more))))
    nest = loop("i", 32, loop("j", 32, *steps, store(C, at("i", "j"), total)))
    check(Program((nest,)))
    found = contracting(nest)
    check(Program(found.body if found is not None else (nest,)))
