"""Kernels as launches of SIMT threads."""

from __future__ import annotations

from textwrap import dedent

import numpy as np
import pytest

import weft as wf
from backends.simt_host import OnHost
from weft.loops import MalformedLoops, Program, check, parse, show
from weft.loops.legality import beside_threads
from weft.schedule import Kernel
from weft.schedule.compile_options import DEFAULTS
from weft.schedule.gpu.simt import is_on_gpu, on_simt

BUFFERS = {"x": "float32[64, 8]", "y": "float32[64]", "z": "float32[64]", "s": "float32[1]", "ids": "int64[64]"}
BUFFERS |= {"h": "float32[9, 64]", "u": "float32[64]"}


def written(text: str) -> str:
    used = {name: kind for name, kind in BUFFERS.items() if f"{name}[" in text}
    return "".join(f"{name}: {kind}\n" for name, kind in used.items()) + dedent(text).strip() + "\n"


def launched(text: str, **lines: float) -> list[str]:
    """What becomes of the loops of a kernel, a text for each launch."""
    kernel = Kernel(("remark",), parse(written(text)).body)
    found = on_simt(
        kernel,
        DEFAULTS.but(
            thresholds=wf.Thresholds(**lines)  # type: ignore[arg-type]
        ),
    )
    assert all(one.remarks == ("remark",) and is_on_gpu(one) and not is_on_gpu(kernel) for one in found)
    for one in found:
        check(Program(one.body))
    return [show(Program(one.body)) for one in found]


def same(found: list[str], *wanted: str) -> None:
    assert found == [dedent(one).strip() for one in wanted]


def test_loops_that_carry_nothing_come_first() -> None:
    same(
        launched("""
            for k in range(8):
                for i in range(64):
                    y[i] += x[i, k]
        """),
        """
            for i in range(64) on simt threads by 256:
                for k in range(8):
                    y[i] += x[i, k]
        """,
    )


def test_statements_that_share_nothing_are_cut_and_fills_are_loops() -> None:
    same(
        launched("""
            y[...] = 0
            for i in range(64):
                z[i] = y[63 - i]
        """),
        """
            for at in range(64) on simt threads by 256:
                y[at] = 0
        """,
        """
            for i in range(64) on simt threads by 256:
                z[i] = y[-i + 63]
        """,
    )


def test_what_carries_everything_is_one_thread_s() -> None:
    same(
        launched("""
            for i in range(64):
                y[ids[i]] += z[i]
        """),
        """
            for alone in range(1) on simt threads by 256:
                for i in range(64):
                    y[ids[i]] += z[i]
        """,
    )


def test_a_loop_is_shared_only_if_it_could_be_alone() -> None:
    """No k passes the test, so nothing is written at all; but that is known of both loops together, not of one."""
    same(
        launched("""
            for k in range(2):
                for j in range(4):
                    if 0 <= -k + 6 < 3:
                        y[k] += z[j]
        """),
        """
            for k in range(2) on simt threads by 256:
                for j in range(4):
                    if 0 <= -k + 6 < 3:
                        y[k] += z[j]
        """,
    )


def test_scatters_are_parallel_along_what_is_not_scattered() -> None:
    same(
        launched("""
            for i in range(64):
                for k in range(8):
                    x[ids[i], k] += z[i]
        """),
        """
            for k in range(8) on simt threads by 256:
                for i in range(64):
                    x[ids[i], k] += z[i]
        """,
    )


def test_variables_and_tests_around_a_loop_go_inside_it() -> None:
    same(
        launched("""
            a: float32 = s[0]
            for k in range(8):
                if 0 <= k - 1 < 6:
                    b: float32 = a * 2
                    for i in range(64):
                        x[i, k] = b
        """),
        """
            for k in range(8) on simt threads by 256:
                for i in range(64) on simt threads by 256:
                    a: float32 = s[0]
                    if 0 <= k - 1 < 6:
                        b: float32 = a * 2
                        x[i, k] = b
        """,
    )


def test_a_variable_that_a_loop_sets_stays_outside_of_it() -> None:
    same(
        launched("""
            a: float32 = 0
            for i in range(64):
                a = max(a, y[i])
            for i in range(64):
                z[i] = a
        """),
        """
            a: float32 = 0
            for i in range(64):
                a = max(a, y[i])
            for i in range(64) on simt threads by 256:
                z[i] = a
        """,
    )


def test_a_variable_that_is_carried_along_a_loop_keeps_it_together() -> None:
    same(
        launched("""
            a: float32 = 0
            for i in range(64):
                a = max(a, y[i])
                z[i] = a
        """),
        """
            for alone in range(1) on simt threads by 256:
                a: float32 = 0
                for i in range(64):
                    a = max(a, y[i])
                    z[i] = a
        """,
    )


def test_a_variable_that_is_read_from_what_a_loop_writes_stays_outside_of_it() -> None:
    same(
        launched("""
            a: float32 = y[0]
            for i in range(64):
                y[i] = y[i] - a
        """),
        """
            a: float32 = y[0]
            for i in range(64) on simt threads by 256:
                y[i] = y[i] - a
        """,
    )


def test_independent_cells_of_a_recurrence_each_walk_along_it() -> None:
    same(
        launched("""
            for t in range(8):
                for i in range(64):
                    h[t + 1, i] = h[t, i] * 2
        """),
        """
            for i in range(64) on simt threads by 256:
                for t in range(8):
                    h[t + 1, i] = h[t, i] * 2
        """,
    )


def test_steps_in_which_cells_mix_run_in_one_thread_block() -> None:
    same(
        launched("""
            for t in range(8):
                for i in range(64):
                    u[i] = h[t, 63 - i]
                s[0] = u[0]
                for i in range(64):
                    h[t + 1, i] = u[i] + s[0]
        """),
        """
            for t in range(8):
                for i in range(64) on simt threads by 256:
                    u[i] = h[t, -i + 63]
                for alone in range(1) on simt threads by 256:
                    s[0] = u[0]
                for i in range(64) on simt threads by 256:
                    h[t + 1, i] = u[i] + s[0]
        """,
    )


def test_steps_with_work_for_many_threads_are_launches_of_their_own() -> None:
    text = """
        for t in range(2):
            for i in range(64):
                u[i] = h[t, 63 - i]
            for i in range(64):
                h[t + 1, i] = u[i]
    """
    same(
        launched(text, simt_wide=64),
        *(
            one
            for t in (0, 1)
            for one in (
                f"for i in range(64) on simt threads by 256:\n    u[i] = h[{t}, -i + 63]",
                f"for i in range(64) on simt threads by 256:\n    h[{t + 1}, i] = u[i]",
            )
        ),
    )
    assert len(launched(text, simt_wide=64, simt_steps=3)) == len(launched(text, simt_wide=65)) == 1


def test_a_long_sum_is_wide() -> None:
    same(
        launched("""
            for k in range(8):
                a: float32 = 0
                for i in range(64):
                    a = a + x[i, k]
                y[k] = a
        """),
        """
            for k in range(8) on simt threads by 256:
                a: float64 = 0.0
                for i in range(64):
                    a = a + float64(x[i, k])
                y[k] = float32(a)
        """,
    )


def test_a_long_sum_is_cut_into_strips() -> None:
    same(
        launched(
            """
            a: float64 = 0
            for i in range(64):
                a = a + float64(y[i])
            s[0] = float32(a)
        """,
            simt_strips=2,
            simt_joining_share=100.0,
        ),
        """
            for strip in range(2) on simt threads by 256:
                a_own: float64 = 0
                for i in range(32):
                    a_own = a_own + float64(y[32*strip + i])
                a_part[strip] = a_own
        """,
        """
            for alone in range(1) on simt threads by 256:
                a_all: float64 = 0
                for strip in range(2):
                    a_all = a_all + a_part[strip]
                a: float64 = 0
                a = a + a_all
                s[0] = float32(a)
        """,
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "for t in range(8):\n    y[t] = 0\n    for i in range(64) on simt threads by 256:\n        z[i] = y[t]",
            "each of the simt threads would store",
        ),
        (
            "for t in range(8) on simt threads by 256:\n    y[t] = 0\n    for i in range(8) on simt threads by 256:\n"
            "        x[t, i] = y[t]",
            "simt threads share what is inside of what they share",
        ),
        ("for i in range(64) on simt threads by 256:\n    s[0] += y[i]", "iterations share cells of `s`"),
    ],
)
def test_what_threads_cannot_run_is_refused(text: str, problem: str) -> None:
    with pytest.raises(MalformedLoops, match=problem):
        check(parse(written(text)))


def test_what_one_thread_runs_is_beside_no_threads() -> None:
    (stmt,) = parse(written("for t in range(8):\n    y[t] = 0")).body
    assert beside_threads(stmt) == ""


def test_memory_is_planned_for_launches() -> None:
    x = wf.data(np.ones((4, 5), "float32"), label="x")
    h = wf.einsum("ij => i", x, accum="max", label="h")
    y = wf.einsum("ij; i => j", x, h, label="y")
    ctx = wf.Context(OnHost())
    routine = ctx.compile(y.forward, keep=[y])
    lives = [last for _, last in routine._schedule.plan.lives.values()]
    assert all(0 <= last < len(routine.kernels) for last in lives)
    np.testing.assert_array_equal(ctx[y], np.full(5, 4))
