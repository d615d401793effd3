"""What is done with the results of a product, cell by cell."""

from __future__ import annotations

import numpy as np
import pytest

from schedule.kernels import add, at, floats, loop, placed, plus, read, store
from weft.loops import Program, check
from weft.loops.interp import run
from weft.ops import call
from weft.schedule import Kernel
from weft.schedule.contractions import staged_in

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
