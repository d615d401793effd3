"""Long accumulations in strips that threads share."""

from __future__ import annotations

import numpy as np
import pytest

from loops.written import BUFFERS, program, text
from weft.loops import Program, buffers_of, check
from weft.loops.interp import run
from weft.machine import Machine
from weft.schedule import CompileOptions
from weft.schedule.nests.partition import partitioned, strips_in

#: A machine on which an operation takes a microsecond, and memory costs nothing.
SHARING = CompileOptions(chunk_ns=8000, machine=Machine(cores=2, flops_per_s=1e6, cached_bytes_per_s=1e12))


def test_a_sum() -> None:
    before = program("t: float32 = 1\nfor i in range(40):\n    t = t + C[i]\nD[0] = t\n").body
    after = text(partitioned(before, SHARING))
    assert after == (
        """
t: float32 = 1
for strip in range(5):
    t_own: float32 = 0
    for i in range(8):
        t_own = t_own + C[8*strip + i]
    t_part[strip] = t_own
t_all: float32 = 0
for strip in range(5):
    t_all = t_all + t_part[strip]
t = t + t_all
D[0] = t
"""
    )


def test_cells() -> None:
    before = program("for i in range(23):\n    for j in range(2):\n        C[j] max= A[i, j]\n").body
    after = text(partitioned(before, SHARING.but(chunk_ns=20000)))
    assert after == (
        """
for strip in range(2):
    for strip_0 in range(40):
        C_part[strip, strip_0] = -inf
    for i in range(11):
        for j in range(2):
            C_part[strip, j] max= A[11*strip + i, j]
for i in range(1):
    for j in range(2):
        C[j] max= A[i + 22, j]
for strip in range(2):
    for strip_0 in range(40):
        C[strip_0] max= C_part[strip, strip_0]
"""
    )


@pytest.mark.parametrize(
    "before",
    [
        "t: float32 = 1\nfor i in range(40):\n    t = max(t, C[i])\nD[0] = t\n",
        "t: float32 = 0\nfor i in range(24):\n    t = t + C[i]\n    B[i, 0] = t * 0\nD[0] = t\n",
        "t: float32 = 0\nu: float32 = 1\nfor i in range(39):\n    t = t + C[i]\n    u = u * C[i]\nD[0] = t + u\n",
        "t: float32 = 0\nfor i in range(9):\n    B[i, 0] = 1\n    for j in range(9):\n        t = t + A[i, j]\nD[0]"
        " = t\n",
        "for i in range(24):\n    D[0] += C[i]\n",
        "for i in range(23):\n    for j in range(40):\n        C[j] += A[i, j]\n    D[0] += A[i, 3]\n",
        "for i in range(4):\n    for j in range(37):\n        V[i] += A[i, j]\n",
        "for i in range(23):\n    if 0 <= i - 3 < 10:\n        D[0] += C[i]\n",
    ],
)
def test_strips_accumulate_the_same(before: str) -> None:
    body, rng = program(before).body, np.random.default_rng(0)
    after = check(Program(partitioned(body, SHARING)), {})
    memory = {one: rng.integers(-4, 4, one.shape).astype(one.dtype) for one in BUFFERS.values()}
    found = {one: np.copy(array) for one, array in memory.items()}
    run(Program(body), memory, {})
    run(after, found | {one: np.full(one.shape, 77, one.dtype) for one in buffers_of(after) if one not in found}, {})
    for one, array in memory.items():
        np.testing.assert_array_equal(found[one], array, err_msg=one.name)
    assert ("strip" in text(after.body)) == ("t * 0" not in before and "V[i]" not in before)


@pytest.mark.parametrize(
    "before",
    [
        "for i in range(24):\n    C[i] = C[i] + 1\n",  # it is shared as it is
        "for i in range(23):\n    C[i + 1] = C[i] + 1\n",
        "for i in range(24):\n    D[0] += D[0] * C[i]\n",
        "for i in range(24):\n    D[0] += C[i]\n    D[0] max= C[i]\n",
        "for i in range(4):\n    C[K[i]] += V[i]\n",  # in the order that is promised
    ],
)
def test_what_is_no_accumulation_stays(before: str) -> None:
    body = program(before).body
    assert partitioned(body, SHARING.but(chunk_ns=1)) == body


def test_the_cells_of_strips_are_worth_it() -> None:
    body = program("for i in range(24):\n    for j in range(2):\n        C[j] += A[i, j]\n").body
    assert partitioned(body, SHARING) != body
    slow = Machine(cores=2, flops_per_s=1e6, cached_bytes_per_s=1e6)
    assert partitioned(body, SHARING.but(machine=slow)) == body


@pytest.mark.parametrize(
    ("size", "most", "strips"), [(1000, 64, 50), (1024, 64, 64), (1009, 64, 63), (5, 64, 5), (7, 2, 2), (9, 1, 1)]
)
def test_strips_leave_little_over(size: int, most: int, strips: int) -> None:
    assert strips_in(size, most) == strips
