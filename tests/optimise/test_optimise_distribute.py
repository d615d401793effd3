"""Loops that nests share: what leaves them, what stays, what is read elsewhere, which way they run."""

from __future__ import annotations

import numpy as np

from weft.loops import Program, buffers_of, check, parse, show
from weft.loops.interp import run
from weft.loops.nests import Nest, nests
from weft.optimise.distribute import distributed
from weft.optimise.reuse_copies import reusing_copies
from weft.schedule import CompileOptions, Task, stages
from weft.schedule.nodes import Kernel, as_program, with_shared_loops


def shown(found: list[Nest]) -> str:
    shared = [tuple((number, *loop) for number, loop in zip(one.shared, one.loops, strict=False)) for one in found]
    kernels = [Kernel((), (one.stmt,), shared=around) for one, around in zip(found, shared, strict=True)]
    return show(check(Program(tuple(stmt for one in with_shared_loops(kernels) for stmt in one.body))))


def distribute(text: str) -> str:
    return shown(distributed(nests(check(parse(text)))))


CELL = """
x: float32[4, 3]
u: float32[4, 3]
h: float32[5, 3]
y: float32[4, 3]
w: float32[3]
for t in range(4):
    for i in range(3):
        u[t, i] = x[t, i] * x[t, i]
    for i in range(3):
        y[t, i] = h[t, i] + u[t, i]
    for i in range(3):
        h[t + 1, i] = y[t, i]
    for i in range(3):
        w[i] += y[t, i]
"""


def test_what_lies_on_no_cycle_leaves_the_loop() -> None:
    assert (
        distribute(CELL)
        == """\
for t in range(4):
    for i in range(3):
        u[t, i] = x[t, i] * x[t, i]
for t in range(4):
    for i in range(3):
        y[t, i] = h[t, i] + u[t, i]
    for i_2 in range(3):
        h[t + 1, i_2] = y[t, i_2]
for t in range(4):
    for i in range(3):
        w[i] += y[t, i]"""
    )


def test_what_is_overwritten_in_each_iteration_stays() -> None:
    text = (
        "x: float32[4]\nz: float32[1]\ny: float32[4]\nfor t in range(4):\n    for i in range(1):\n        z[i] = x[t]\n"
    )
    text += "    for i in range(1):\n        y[t] = z[i] + 1"
    assert distribute(text).count("for t") == 1


def test_dependences_between_iterations_order_what_leaves() -> None:
    text = "a: float32[5]\nb: float32[4]\nfor t in range(4):\n    for i in range(1):\n        b[t] = a[t]\n"
    later = distribute(text + "    for i in range(1):\n        a[t + 1] = 2")
    assert later.index("a[t + 1]") < later.index("b[t]")
    earlier = distribute(text + "    for i in range(1):\n        a[t] = 2")
    assert earlier.index("b[t]") < earlier.index("a[t]")


def test_copies_that_a_recurrence_stores_are_read() -> None:
    found = distributed(nests(check(parse(CELL))))
    assert "w[i] += h[t + 1, i]" in shown(reusing_copies(found, ()))
    y = next(one.target for one in found if one.target.name == "y")
    assert "w[i] += y[t, i]" in shown(reusing_copies(found, {y}))


def test_a_copy_at_a_static_index_is_none_of_the_whole() -> None:
    text = "z: float32[4, 3]\nh: float32[5, 3]\ny: float32[3]\nfor t in range(4):\n    for i in range(3):\n"
    text += "        h[t + 1, i] = h[t, i] + z[s, i]\nfor i in range(3):\n    y[i] = z[s, i]"
    found = distributed(nests(check(parse(text, (), {"s": 4}), {"s": 4})))
    assert reusing_copies(found, ()) == found


def test_every_pass_keeps_the_meaning() -> None:
    start = check(parse(CELL))
    kept = {one: "asked for" for one in buffers_of(start) if one.name in "hw"}
    numbers = np.random.default_rng(0)
    first = {one: numbers.normal(size=one.shape).astype(one.dtype) for one in buffers_of(start)}
    expected = {one: array.copy() for one, array in first.items()}
    run(start, expected, {})
    for name, stage in stages(start, Task(kept=kept, options=CompileOptions(verify=True))):
        memory = {one: array.copy() for one, array in first.items()}
        found = as_program(stage.kernels)
        memory |= {one: np.zeros(one.shape, one.dtype) for one in buffers_of(found) if one not in memory}
        run(found, memory, {})
        for one in kept:
            np.testing.assert_allclose(memory[one], expected[one], rtol=1e-6, err_msg=name)


def test_a_recurrence_of_one_nest_runs_inside_with_its_carry_in_a_variable() -> None:
    text = "x: float32[2, 8]\nh: float32[9, 2]\ny: float32[2, 8]\nfor i in range(2):\n    h[0, i] = 0\n"
    text += "for t in range(8):\n    for i in range(2):\n        h[t + 1, i] = h[t, i] + x[i, t]\n"
    text += "for i in range(2):\n    for t in range(8):\n        y[i, t] = h[t + 1, i]"
    start = check(parse(text))
    kept = {one: "asked for" for one in buffers_of(start) if one.name == "y"}
    *_, (_, last) = stages(start, Task(kept=kept))
    assert (
        show(Program(tuple(stmt for one in last.kernels for stmt in one.body)))
        == """\
for i in range(2):
    h: float32 = 0
    for t in range(8):
        h = h + x[i, t]
        y[i, t] = h"""
    )
