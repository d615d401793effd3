"""Straight-line code that runs early and together."""

from __future__ import annotations

import numpy as np
from hypothesis import given, strategies as st

from weft.loops import For, Program, buffers_of, check, parse, show
from weft.loops.interp import run
from weft.schedule.gpu.straight_line import straight_first
from weft.schedule.nodes import Kernel, as_kernels, as_program, with_shared_loops

HEAD = "n: float32[1]\nm: float32[1]\nw: float32[4]\nv: float32[4]\n"
LINES = {
    "count": "n[0] += 1.0",
    "double": "m[0] = m[0] * 2.0",
    "from": "m[0] = w[2] + n[0]",
    "fill": "for i in range(4):\n    w[i] = 3.0 + n[0]",
    "read": "for i in range(4):\n    v[i] = w[i] * m[0]",
}


def parts(*names: str) -> Program:
    return check(parse(HEAD + "\n".join(LINES[name] for name in names)))


def after(*names: str) -> list[str]:
    return [show(Program(one.body)).strip() for one in straight_first(as_kernels(parts(*names)))]


def test_what_depends_on_nothing_comes_first_and_reads_first() -> None:
    first, *rest = after("fill", "double", "read", "count")
    assert len(rest) == 3
    assert first.splitlines() == ["m_: float32 = m[0] * 2.0", "m[0] = m_"]
    # `n` is read by the fill, so it counts after that; `m` is nobody's before.
    assert "n_: float32 = n[0] + 1.0" in after("fill", "count", "double")[-1]


def test_code_that_comes_to_stand_together_is_one_kernel() -> None:
    (first, second) = after("count", "fill", "double")
    assert first.splitlines() == [
        "n_: float32 = n[0] + 1.0",
        "m_: float32 = m[0] * 2.0",
        "n[0] = n_",
        "m[0] = m_",
    ]
    assert second.startswith("for i")


@given(st.lists(st.sampled_from(sorted(LINES)), min_size=1, max_size=8))
def test_it_computes_what_it_did(names: list[str]) -> None:
    found = []
    program = parts(*names)
    moved = Program(tuple(stmt for one in straight_first(as_kernels(program)) for stmt in one.body))
    for which in (program, moved):
        check(which)
        memory = {buffer: np.arange(1, buffer.shape[0] + 1, dtype=np.float32) for buffer in buffers_of(program)}
        run(which, memory, {})
        found.append({buffer.name: array for buffer, array in memory.items()})
    for name, array in found[0].items():
        np.testing.assert_array_equal(array, found[1][name])


def test_nothing_comes_between_what_shares_the_iterations_of_a_loop() -> None:
    text = "for t in range(3):\n    w[t + 1] = w[t] + v[t]\n    v[t + 1] = w[t + 1] * 2.0"
    first, second = as_kernels(check(parse(HEAD + "w[0] = 1.0\nv[0] = 1.0")))
    (loop,) = check(parse(HEAD + text)).body
    assert isinstance(loop, For)
    inner = [Kernel((), (stmt,), shared=((1, "t", 3),)) for stmt in loop.body]
    (last,) = as_kernels(check(parse(HEAD + "m[0] = w[3]")))
    moved = straight_first([first, second, *inner, last])
    assert [one.shared for one in moved] == [(), *[((1, "t", 3),)] * 2, ()]
    memory = {buffer: np.ones(buffer.shape, np.float32) for buffer in buffers_of(parts(*LINES))}
    run(as_program(with_shared_loops(moved)), memory, {})
    assert {buffer.name: array[0] for buffer, array in memory.items()}["m"] == 18  # 1 + 1, 2 + 4, 6 + 12
