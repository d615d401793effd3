"""Several iterations of a sum over an outer axis done at once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import weft as wf
from loops.written import BUFFERS, program, text
from weft.backends.cc.expanded_loops import written_out
from weft.loops import For, Jam, Program, Update, check
from weft.loops.interp import run_scalar
from weft.loops.walk import everything
from weft.schedule import Kernel
from weft.schedule.annotate import annotate
from weft.schedule.compile_options import DEFAULTS
from weft.schedule.nests.unroll_jam import jammed

NEST = "\nfor i in range({}):\n    for j in range(40):\n        {}\n"


def test_before_and_after() -> None:
    before = """
for i in range(24):
    for j in range(40):
        C[j] += A[i, j] * 2
"""
    assert text(jammed(program(before).body)) == before.replace("range(24):", "range(24) jammed by 4:")


#: Which row is added, and by what factor, is in variables of each iteration; one outside has a name like theirs.
ROWS = """
t_2: float32 = V[1]
for i in range({}):
    r: int64 = min(K[0], i)
    t: float32 = V[r] * 2
    for j in range(40):
        {}
"""


@pytest.mark.parametrize(
    ("nest", "stmt"),
    [
        (NEST, "C[j] += A[i, j] * float32(i)"),
        (NEST, "C[j] *= A[i, j]"),
        (ROWS, "C[j] += A[add(r, r), j] * t * t_2"),
    ],
)
@pytest.mark.parametrize("size", [4, 7, 11])
def test_every_iteration_is_done_once(nest: str, stmt: str, size: int) -> None:
    """What C has for it is a program as well, as nothing goes beyond an axis."""
    body = program(nest.format(size, stmt)).body
    *before, loop = jammed(body)
    assert isinstance(loop, For)
    assert loop.how == (Jam(4),)
    done = (*before, *written_out(loop))
    assert sum(isinstance(one, Update) for one in everything(done)) == 4 + (size % 4 > 0)
    found = []
    for each in (body, done):
        rng = np.random.default_rng(size)
        memory = {one: rng.integers(0, 4, one.shape).astype(one.dtype) for one in BUFFERS.values()}
        run_scalar(check(Program(each)), memory)
        found.append(memory[BUFFERS["C"]])
    np.testing.assert_array_equal(*found)


def test_the_inner_of_two_sums_is_done_so() -> None:
    before = """
for s2 in range(3):
    for i in range(24):
        for j in range(40):
            C[j] += A[i, j] * float32(s2)
"""
    assert text(jammed(program(before).body)).splitlines()[1:3] == [
        "for s2 in range(3):",
        "    for i in range(24) jammed by 4:",
    ]


@pytest.mark.parametrize(
    ("stmt", "problem"),
    [
        ("B[i, j] += A[i, j]", "its iterations do not each add to all of the same cells of `B`"),
        ("D[0] += A[i, j]", "its iterations do not each add to all of the same cells of `D`"),
        ("C[j] += C[39 - j]", "what is added is read from `C`"),
        ("C[add(j, j)] += A[i, j]", "its cells are not indexed by one loop each"),
        ("C[j] = A[i, j]", "it holds more than variables, and loops around one update"),
    ],
)
def test_what_cannot_be(stmt: str, problem: str) -> None:
    body = program(NEST.format(24, stmt)).body
    assert jammed(body) == body
    with pytest.raises(wf.WeftError) as caught:
        annotate(Kernel((), body), "i", Jam(4))
    assert caught.value.what == f"loop `i` cannot run jammed by 4: {problem}"


def test_more_at_once_than_there_are_is_refused() -> None:
    with pytest.raises(wf.WeftError, match="cannot run jammed by 4: it has 3 iterations"):
        annotate(Kernel((), program(NEST.format(3, "C[j] += A[i, j]")).body), "i", Jam(4))


def test_what_is_long_stays_as_it_is() -> None:
    body = program(NEST.format(24, f"C[j] += A[i, j]{' * B[i, j]' * 5}")).body
    assert jammed(body) == body
    (loop,) = jammed(body, DEFAULTS.but(jam_iterations=2, jam_operations=99))
    assert isinstance(loop, For)
    assert loop.how == (Jam(2),)


def test_one_at_once_is_as_it_stands() -> None:
    body = program(NEST.format(24, "C[j] += A[i, j]")).body
    assert jammed(body, DEFAULTS.but(jam_iterations=1)) == body


def test_cells_that_registers_hold_are_written_out() -> None:
    """Twenty-four numbers are three vectors of eight, of which registers hold as many, forty are five."""
    machine = replace(DEFAULTS.machine, vector_bytes=32, registers=6)
    before = NEST.format(24, "C[j] += A[i, j]").replace("range(40)", "range(24)")
    (found,) = jammed(program(before).body, DEFAULTS.but(machine=machine), registers=True)
    assert text((found,)) == before.replace("j in range(24):", "j in range(24) in registers of 8:")
    longer = program(NEST.format(24, "C[j] += A[i, j]")).body
    assert jammed(longer, DEFAULTS.but(machine=machine), registers=True) == jammed(longer)
    odd = program(before.replace("j in range(24)", "j in range(20)")).body
    assert jammed(odd, DEFAULTS.but(machine=machine), registers=True) == jammed(odd)
