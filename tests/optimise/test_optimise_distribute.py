"""Loops that nests share: what leaves them, what stays, what is read elsewhere, which way they run."""

from __future__ import annotations

import numpy as np
import pytest

from optimise.shared_loops import shown
from weft.loops import Program, buffers_of, check, parse, show
from weft.loops.interp import run
from weft.loops.nests import nests
from weft.optimise.distribute import distributed
from weft.schedule import CompileOptions, Task, stages
from weft.schedule.nodes import as_program


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


GATES = """
x: float32[4, 20, 30]
w: float32[16, 30]
u: float32[4, 20, 16]
z: float32[4, 20, 16]
h: float32[5, 20, 16]
for t in range(4):
    for i in range(20):
        for j in range(16):
            u[t, i, j] = 0
    for i in range(20):
        for j in range(16):
            for k in range(30):
                u[t, i, j] += x[t, i, k] * w[j, k]
    for i in range(20):
        for j in range(16):
            z[t, i, j] = h[t, i, j] + u[t, i, j]
    for i in range(20):
        for j in range(16):
            h[t + 1, i, j] = z[t, i, j]"""


def loops_over_time(text: str) -> int:
    return distribute(text).count("for t in")


def test_a_contraction_that_fills_tiles_stays_with_the_recurrence_that_reads_it() -> None:
    assert loops_over_time(GATES) == 1
    assert loops_over_time(GATES.replace("20", "15")) == 3  # too few rows
    assert loops_over_time(f"y: float32[4]\n{GATES}\n    y[t] = u[t, 3, 2]") == 4  # it is stored all the same


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


#: Programs, and what must come out right: what they read again after their loops has changed, or has not.
PROGRAMS = {
    "a cell": ("hw", CELL),
    "what a step found, read after what it leaves is stored": (
        "yh",
        """
h: float32[5]
x: float32[4]
y: float32[4]
h[0] = 1
for t in range(4):
    h[t + 1] = h[t] + x[t]
    y[t] = h[t] * 2
""",
    ),
    "two that read what the other found": (
        "gh",
        """
h: float32[5]
g: float32[5]
x: float32[4]
h[0] = 1
g[0] = 2
for t in range(4):
    h[t + 1] = h[t] + g[t]
    g[t + 1] = h[t] * x[t]
""",
    ),
    "a copy of a cell that every iteration overwrites": (
        "ys",
        """
s: float32[1]
x: float32[4]
a: float32[4]
y: float32[4]
for t in range(4):
    s[0] = s[0] + x[t]
    a[t] = s[0]
for t in range(4):
    y[t] = a[t] * 2
""",
    ),
    "a cell that every iteration overwrites, read by what is inlined elsewhere": (
        "ys",
        """
s: float32[5]
x: float32[4]
a: float32[1]
b: float32[4]
y: float32[4]
for t in range(4):
    a[0] = s[t]
    b[t] = a[0]
    s[t + 1] = b[t] + x[t]
for t in range(4):
    y[t] = b[t] * 2
""",
    ),
    "what two nests write, each before the other somewhere": (
        "y",
        """
a: float32[4]
b: float32[4]
f: float32[4]
y: float32[4]
for t in range(4):
    f[t] = a[t]
    f[-t + 3] = b[t]
for t in range(4):
    y[t] = f[t] * 2
""",
    ),
    "copies to one cell": (
        "yh",
        """
h: float32[1]
x: float32[4]
z: float32[4]
y: float32[4]
for t in range(4):
    z[t] = x[t] + h[0]
    h[0] = z[t]
for t in range(4):
    y[t] = z[t] * 2
""",
    ),
    "copies that the next iteration overwrites": (
        "yh",
        """
h: float32[5]
x: float32[4]
z: float32[4]
y: float32[4]
for t in range(4):
    h[t] = x[t]
    z[t] = x[t] + h[t]
    h[t + 1] = z[t]
for t in range(4):
    y[t] = z[t] * 2
""",
    ),
    "copies of what the next iteration overwrites": (
        "yh",
        """
h: float32[5, 4]
x: float32[4, 4]
z: float32[4]
y: float32[4]
for t in range(4):
    for s in range(4):
        z[s] = x[t, s] + h[t, s]
    h[t + 1, 0] = z[t]
for t in range(4):
    y[t] = z[t] * 2
""",
    ),
    "steps that read other cells than they write": (
        "h",
        """
h: float32[5, 3]
x: float32[3, 4]
for t in range(4):
    for i in range(3):
        h[t + 1, i] = h[t, -i + 2] + x[i, t]
""",
    ),
    "steps that read cells along another axis": (
        "h",
        """
h: float32[5, 3, 3]
x: float32[3, 3, 4]
for t in range(4):
    for i in range(3):
        for k in range(3):
            h[t + 1, i, k] = h[t, k, i] + x[i, k, t]
""",
    ),
    "two loops that carry, and one between their axes": (
        "h",
        """
h: float32[4, 3, 4]
for i in range(3):
    for j in range(3):
        for k in range(3):
            h[i + 1, k, j + 1] = h[i, k, j + 1] + h[i + 1, -k + 2, j]
""",
    ),
    "sums of what was summed before": (
        "a",
        """
a: float32[5]
x: float32[4]
for t in range(4):
    a[t + 1] += a[t]
    a[t + 1] += x[t]
""",
    ),
    "what the iteration before computed": (
        "ys",
        """
s: float32[1]
a: float32[5]
y: float32[4]
a[0] = 1
for t in range(4):
    a[t + 1] = s[0]
    y[t] = a[t] * 2
    s[0] = s[0] + y[t]
""",
    ),
    "what a step leaves, written in two steps": (
        "h",
        """
h: float32[5]
x: float32[4]
h[0] = 1
for t in range(4):
    h[t + 1] = h[t] + x[t]
    h[t + 1] *= 2
""",
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_pass_keeps_the_meaning(name: str) -> None:
    names, text = PROGRAMS[name]
    start = check(parse(text))
    kept = {one: "asked for" for one in buffers_of(start) if one.name in names}
    numbers = np.random.default_rng(0)
    first = {one: numbers.normal(size=one.shape).astype(one.dtype) for one in buffers_of(start)}
    expected = {one: array.copy() for one, array in first.items()}
    run(start, expected, {})
    for done, stage in stages(start, Task(kept=kept, options=CompileOptions(verify=True))):
        memory = {one: array.copy() for one, array in first.items()}
        found = as_program(stage.kernels)
        memory |= {one: np.zeros(one.shape, one.dtype) for one in buffers_of(found) if one not in memory}
        run(found, memory, {})
        for one in kept:
            np.testing.assert_allclose(memory[one], expected[one], rtol=1e-6, err_msg=done)


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
