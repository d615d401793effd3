"""Innermost loops on vectors."""

from __future__ import annotations

import pytest

import weft as wf
from loops.written import program, text
from weft.loops import Program, Unroll, Vector, check
from weft.schedule import Kernel
from weft.schedule.annotate import annotate
from weft.schedule.compile_options import DEFAULTS, CompileOptions
from weft.schedule.nests.vectorise import vectorised
from weft.schedule.options import Options


def asking(lanes: int = 0, unroll: int = 0) -> CompileOptions:
    return DEFAULTS.but(schedule=Options(lanes=lanes, unroll=unroll))


def test_before_and_after() -> None:
    before = """
t: float64 = 0.0
for i in range(24):
    for j in range(40):
        B[i, j] = A[i, j] * 2
        t = t + float64(A[i, j])
D[0] = float32(t)
"""
    after = before.replace("range(40):", "range(40) on vectors of 4:")
    assert text(vectorised(program(before).body)) == after
    assert text(vectorised(program(before).body, asking(lanes=16))) == after.replace("of 4", "of 16")


def test_a_sum_in_one_cell_is_a_variable_first() -> None:
    before = """
for i in range(24):
    for j in range(40):
        C[i] += A[i, j] * 2
"""
    after = """
for i in range(24):
    C_sum: float64 = 0
    for j in range(40) on vectors of 4:
        C_sum = C_sum + float64(A[i, j] * 2)
    C[i] = float32(float64(C[i]) + C_sum)
"""
    assert text(vectorised(program(before).body)) == after


@pytest.mark.parametrize("core", ["D[0] += D[0] * C[j]", "K[0] += j", "D[0] max= C[j]"])
def test_what_is_no_sum_in_one_cell_stays_as_it_is(core: str) -> None:
    """What is added is read from the cell; the sum is of whole numbers; it is none."""
    before = f"\nfor j in range(40):\n    {core}\n"
    assert text(vectorised(program(before).body)) == before


def test_sums_in_a_cell_for_each_iteration_need_no_variable() -> None:
    before = "\nfor j in range(40):\n    C[j] += A[0, j]\n"
    assert text(vectorised(program(before).body)) == before.replace("(40)", "(40) on vectors")


@pytest.mark.parametrize(
    ("loops", "stmt", "line"),
    [
        ("j:3", "C[j] = 1", "for j in range(3):"),
        ("j:4", "C[j] = 1", "for j in range(4) on vectors:"),
        ("j:7", "t = t + C[j]", "for j in range(7):"),
        ("j:8", "t = t + C[j]", "for j in range(8) on vectors of 4:"),
        ("j:64", "t = t + C[0]", "for j in range(64) on vectors of 8:"),
        ("j:200", "t = t + C[0]", "for j in range(200) on vectors:"),
        ("j:40", "if 0 <= j < 9:\n        C[j] = 1", "for j in range(40) on vectors:"),
    ],
)
def test_how_long_they_must_be(loops: str, stmt: str, line: str) -> None:
    name, size = loops.split(":")
    body = program(f"\nt: float32 = 0\nfor {name} in range({size}):\n    {stmt}\n").body
    assert line in text(vectorised(body)).splitlines()


@pytest.mark.parametrize(
    ("short", "size", "lanes"),
    [
        (1, 1, " of 4"),
        (1, 8, " of 8"),
        (1, 16, ""),
        (8, 63, " of 4"),
        (8, 127, " of 8"),
        (8, 128, ""),
        (9, 128, " of 8"),
    ],
)
def test_so_many_terms_are_worth_a_lane(short: int, size: int, lanes: str) -> None:
    body = program(f"\nt: float32 = 0\nfor j in range({size}):\n    t = t + C[0]\n").body
    shown = text(vectorised(body, DEFAULTS.but(short_loop=short)))
    assert f"for j in range({size}) on vectors{lanes}:" in shown.splitlines()


@pytest.mark.parametrize(
    ("size", "lanes"),
    [(3, None), (4, " of 4"), (7, " of 4"), (8, " of 8"), (12, " of 4"), (16, " of 16"), (31, " of 4"), (128, "")],
)
def test_terms_that_take_long_leave_few_over(size: int, lanes: str | None) -> None:
    """One by one they take as long as a vector of them: twelve are three vectors of four, not one of eight and four."""
    body = program(f"\nt: float32 = 0\nfor j in range({size}):\n    t = t + exp(C[0])\n").body
    how = "" if lanes is None else f" on vectors{lanes}"
    assert f"for j in range({size}){how}:" in text(vectorised(body)).splitlines()


def test_a_term_may_be_found_where_a_test_holds() -> None:
    """What is added is a variable of each iteration, which the test sets or leaves."""
    before = """
t: float32 = 0
for j in range(40):
    u: float32 = 0
    k: int64 = K[0] + j
    if 0 <= k < 9:
        u = C[k]
    t = t + u
"""
    shown = text(vectorised(program(before).body))
    assert shown == before.replace("range(40):", "range(40) on vectors of 4:")


@pytest.mark.parametrize(
    ("stmt", "problem"),
    [
        ("C[j] = C[39 - j]", "iterations share cells of `C`"),
        ("D[0] = C[j]", "iterations share cells of `D`"),
        ("C[K[0]] = A[0, j]", "iterations share cells of `C`"),
        ("t = t * C[j]", "`t` is not a sum"),
        ("t = max(t, C[j])", "`t` is not a sum"),
        ("t = t + C[j]\n    B[0, j] = t", "`t` is used before all is added"),
        ("t = t + C[j]\n    t = t + A[0, j]", "`t` is used before all is added"),
        ("if 0 <= j < 3:\n        t = t + C[j]", "`t` is added to where a test holds"),
        ("for i in range(3):\n        B[i, j] = 1", "it holds other loops"),
    ],
)
def test_what_cannot_be(stmt: str, problem: str) -> None:
    body = program(f"\nt: float32 = 0\nfor j in range(40):\n    {stmt}\n").body
    assert "for j in range(40):" in text(vectorised(body)).splitlines()
    with pytest.raises(wf.WeftError) as caught:
        annotate(Kernel((), body), "j", Vector(8))
    assert caught.value.what == f"loop `j` cannot run on vectors of 8: {problem}"


def test_what_runs_as_one_loop_must_be_independent_as_one() -> None:
    """A row is copied to the next: each row is independent of itself, but all of them are not of each other."""
    before = "\nfor i in range(23):\n    for j in range(40):\n        A[i + 1, j] = A[i, j]\n"
    whole = program(before.replace("(23):", "(23) collapsed by 2:")).body
    assert vectorised(whole) == whole
    assert "for j in range(40) on vectors:" in text(vectorised(program(before).body))


def test_loops_are_unrolled_if_asked_but_not_sums() -> None:
    before = "\nt: float32 = 0\nfor j in range(40):\n    C[j] = 1\nfor i in range(8):\n    t = t + C[i]\n"
    shown = text(vectorised(program(before).body, asking(unroll=4)))
    assert "for j in range(40) unrolled by 4:" in shown
    assert "for i in range(8) on vectors of 4:" in shown


def test_one_excludes_another() -> None:
    kernel = Kernel((), program("\nfor j in range(40):\n    C[j] = 1\n").body)
    both = annotate(kernel, "j", Unroll(4))
    check(Program(both.body))
    with pytest.raises(wf.WeftError, match="on vectors: on vectors and unrolled by 4 exclude each other"):
        annotate(both, "j", Vector())
    with pytest.raises(wf.WeftError, match="loop `q` cannot run on vectors: there is no such loop"):
        annotate(kernel, "q", Vector())
