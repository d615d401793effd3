"""Threads that share a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

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
    Role,
    Set,
    Stmt,
    Store,
    Update,
    buffers_of,
    check,
    parse,
)
from weft.loops.affine_accesses import independent
from weft.loops.legality import carried
from weft.loops.walk import retargeted
from weft.machine import Machine
from weft.ops import Num
from weft.schedule import CompileOptions, Kernel
from weft.schedule.annotate import annotate
from weft.schedule.nests.parallelise import parallelised
from weft.schedule.work_estimate import work_ns

ROWS = "\nfor i in range(24):\n    for j in range(40):\n        B[i, j] = A[i, j] * 2\n"
#: A machine so slow that every loop is worth sharing.
SHARING = CompileOptions(chunk_ns=1, machine=Machine(cores=2, flops_per_s=1e6, cached_bytes_per_s=1e6))


def test_before_and_after() -> None:
    before = program(ROWS).body
    assert text(parallelised(before, SHARING)) == ROWS.replace("range(24):", "range(24) on threads by 1:")
    assert parallelised(before, CompileOptions()) == before


def test_chunks_are_long_enough_and_not_too_many() -> None:
    (loop,) = before = program("for i in range(24):\n    C[i] = exp(C[i])\n").body
    whole = work_ns(before, SHARING.machine)
    for parts, chunk in ((1, None), (2, 12), (3, 8), (1000, 1)):
        found = parallelised(before, SHARING.but(chunk_ns=int(whole / parts)))
        wanted = before if chunk is None else (replace(loop, how=(Parallel(chunk),)),)
        assert found == wanted


def test_a_loop_of_few_iterations_is_shared_where_there_is_nothing_to_share_inside() -> None:
    inner = "for i in range(3):\n    for k in range(24):\n        B[k, i] = 1\n"
    assert "for k in range(24) on threads by 1:" in text(parallelised(program(inner).body, SHARING))
    even = inner.replace("range(3)", "range(4)")
    assert "for i in range(4) on threads by 1:" in text(parallelised(program(even).body, SHARING))
    of_three = SHARING.but(machine=replace(SHARING.machine, cores=3))
    assert "for k in range(24) on threads by 1:" in text(parallelised(program(even).body, of_three))
    recurrence = "for i in range(3):\n    for k in range(39):\n        A[i, k + 1] = A[i, k]\n"
    assert "for i in range(3) on threads by 1:" in text(parallelised(program(recurrence).body, SHARING))


def test_loops_that_run_as_one_come_apart_where_threads_can_share_the_inner_one_alone() -> None:
    nest = "for i in range(23) collapsed by 2:\n    for j in range(40):\n        A[i + 1, j] = A[i, j] * 2\n"
    found = text(parallelised(program(nest).body, SHARING))
    assert found.split() == nest.replace(" collapsed by 2", "").replace("40)", "40) on threads by 1").split()
    chain = "for i in range(24) collapsed by 2:\n    for j in range(40):\n        C[0] = C[0] * 0.5 + A[i, j]\n"
    assert parallelised(program(chain).body, SHARING) == program(chain).body


PRODUCT = """
a: float32[24, 40]
b: float32[24, 40]
c: float32[24, 24]
product of left i; right j; sums k in tiles of 8 rows by 3 vectors of 8, transposed panels, then along columns:
    for i in range({rows}):
        for j in range(24):
            t: float32 = 0
            for k in range(40):
                t = t + (a[i, k] * b[j, k])
            c[i, j] = t
"""


@pytest.mark.parametrize(("rows", "head"), [(24, "then along columns, rows on threads by 2:"), (8, "along columns:")])
def test_few_rows_are_shared_once_each_core_is_worth_a_panel(rows: int, head: str) -> None:
    """There is one panel, and too few rows to pack it for each tile."""
    before = parse(PRODUCT.format(rows=rows)).body
    assert head in text(parallelised(before, SHARING)).splitlines()[1]


@pytest.mark.parametrize(("columns", "head"), [(1024, ", columns on threads by 4:"), (32, ", rows on threads by 8:")])
def test_rows_that_are_packed_are_so_for_each_chunk_of_columns(columns: int, head: str) -> None:
    before = f"""
a: float32[512, 128]
b: float32[512, {columns}]
c: float32[128, {columns}]
product of left i; right j; sums k in tiles of 8 rows by 2 vectors of 16, copied panels, copied strips of rows by 8, \
groups of 32 tiles by 8 panels, parts of 64, then along columns:
    for i in range(128):
        for j in range({columns}):
            t: float32 = 0
            for k in range(512):
                t = t + (a[k, i] * b[k, j])
            c[i, j] = t
"""
    assert head in text(parallelised(parse(before).body, SHARING)).splitlines()[1]


@pytest.mark.parametrize(
    ("how", "line_steps", "head"),
    [
        (", looking through 16", 3.6, "columns on threads by 4:"),
        (", looking through 16", 1.0, "columns on threads by 1:"),  # where lines come as soon as they are asked for
        ("", 3.6, "columns on threads by 1:"),
    ],
)
def test_chunks_are_larger_where_each_looks_through_all_rows(how: str, line_steps: float, head: str) -> None:
    before = f"""
a: float32[512, 512]
b: float32[512, 512]
c: float32[512, 512]
product of left i; right j; sums k in tiles of 8 rows by 2 vectors of 16, copied panels{how}, then along columns:
    for i in range(512):
        for j in range(512):
            t: float32 = -inf
            for k in range(512):
                t = max(t, a[i, k] + b[k, j])
            c[i, j] = t
"""
    options = CompileOptions(machine=Machine(cores=2, line_steps=line_steps))
    assert text(parallelised(parse(before).body, options)).splitlines()[1].endswith(head)


def test_inside_a_recurrence_loops_are_shared() -> None:
    before = program("for i in range(23):\n    for j in range(40):\n        B[i + 1, j] = B[i, j] * 2\n").body
    assert "    for j in range(40) on threads by 1:" in text(parallelised(before, SHARING))


def test_what_outlasts_no_iteration_is_had_by_each_thread() -> None:
    filled, read = "C[j] = A[i, j]", "B[i, j] = C[j]"
    rows = f"for i in range(24):\n    for j in range(24):\n        {filled}\n    for j in range(24):\n        {read}\n"
    before = program(rows).body
    own = [one for one in buffers_of(Program(before)) if one.name == "C"]
    assert "on threads" not in text(parallelised(before, SHARING)).splitlines()[0]
    found = parallelised(before, SHARING, own)
    assert text(found).startswith("\nfor i in range(24) on threads by 1:")
    assert [one.role for one in buffers_of(Program(found)) if one.name == "C"] == [Role.PRIVATE]
    check(Program(found))
    after = program(rows + "D[0] = C[3]\n").body
    assert "on threads" not in text(parallelised(after, SHARING, own)).splitlines()[1]
    with pytest.raises(MalformedLoops, match="what each thread has for itself is used where there is one"):
        check(
            Program(
                retargeted(after, lambda buffer, at: (buffer.beside(Role.PRIVATE) if buffer in own else buffer, at))
            )
        )


def test_what_each_thread_has_is_written_before_it_is_read() -> None:
    before = program("for i in range(24):\n    B[i, 0] = C[i]\n    C[0] = A[i, 0]\n").body
    own = [one for one in buffers_of(Program(before)) if one.name == "C"]
    assert parallelised(before, SHARING, own) == before


@pytest.mark.parametrize(
    ("before", "problem"),
    [
        ("for i in range(24):\n    D[0] += C[i]\n", "iterations share cells of `D`"),
        ("t: float32 = 0\nfor i in range(24):\n    t = t + C[i]\n", "`t` is carried from one iteration to the next"),
        (
            "for j in range(24) on threads by 2:\n    for i in range(40):\n        A[j, i] = 1\n",
            "threads share a loop around it, or inside",
        ),
        ("for i in range(24):\n    D[...] = 1\n", "iterations share cells of `D`"),
    ],
)
def test_what_cannot_be(before: str, problem: str) -> None:
    body = program(before).body
    assert parallelised(body, SHARING) == body
    with pytest.raises(wf.WeftError) as caught:
        annotate(Kernel((), body), "i", Parallel(2))
    assert caught.value.what == f"loop `i` cannot run on threads by 2: {problem}"


def test_threads_share_nothing_inside_of_what_they_share() -> None:
    (loop,) = parallelised(program(ROWS).body, SHARING)
    check(Program((For("k", 3, (replace(loop, body=loop.body),)),)))
    with pytest.raises(MalformedLoops, match="threads share what is inside of what they share"):
        check(Program((For("k", 1, (loop,), (Parallel(1),)),)))


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


LAYER = """
a: float32[{rows}, {sums}]
b: float32[{columns}, {sums}]
c: float32[{rows}, {columns}]
product of left i; right j; sums k in tiles of 8 rows by 2 vectors of 16, transposed panels, then along columns:
    for i in range({rows}):
        for j in range({columns}):
            t: float32 = 0
            for k in range({sums}):
                t = t + (a[i, k] * b[j, k])
            c[i, j] = t
"""


@pytest.mark.parametrize(
    ("rows", "columns", "sums", "cores", "head"),
    [
        (768, 1024, 64, 2, "columns on threads by 1:"),
        (768, 96, 64, 2, "rows on threads by 24:"),  # three panels are not as many for each core
        (768, 96, 64, 3, "columns on threads by 1:"),
        (768, 160, 64, 2, "rows on threads by 24:"),
        (16, 160, 64, 2, "columns on threads by 1:"),  # though one core has three panels: so few rows repay no packing
        (64, 32, 64, 2, "rows on threads by 4:"),
        (432, 128, 64, 2, "columns on threads by 1:"),
        (432, 120, 64, 2, "rows on threads by 27:"),  # rows of cells that end in the middle of a line
    ],
)
def test_products_are_shared_so_that_all_cores_are_done_soon(
    rows: int, columns: int, sums: int, cores: int, head: str
) -> None:
    before = parse(LAYER.format(rows=rows, columns=columns, sums=sums)).body
    options = SHARING.but(machine=Machine(cores=cores), chunk_ns=100)
    assert text(parallelised(before, options)).splitlines()[1].endswith(head)
