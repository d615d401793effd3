"""Kernels printed and read back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import weft as wf
from schedule.kernels import at, floats, loop, plus, read, store
from schedule.programs import PROGRAMS
from weft.errors import WeftError
from weft.loops import Program, buffers_of, typed
from weft.loops.interp import run
from weft.runtime import Routine
from weft.schedule import Kernel, as_program, declared_kernels, parse_kernels, show_kernels

X, Y = floats(0, "x", 4), floats(1, "y", 4)


def step(target: str = "y") -> Kernel:
    into = replace(Y, name=target, id=len(target))
    body = (loop("i", 4, store(into, at("i"), plus(read(X, "i"), 1.0))),)
    return Kernel((f"{target} =: x + 1",), typed(Program(body)).body)


def said(kernels: tuple[Kernel, ...]) -> list[object]:
    return [(one.remarks, one.body, one.why, one.plain) for one in kernels]


@pytest.mark.usefixtures("shared_cache")
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_shown_reads_back(name: str) -> None:
    sample = PROGRAMS[name]()
    routine = wf.Context("cc").compile(sample.code, keep=sample.keep)  # type: ignore[arg-type]
    kernels = routine.compiled.stages.kernels
    text = routine.show("kernels")
    found = parse_kernels(text, buffers_of(as_program(kernels)), routine.compiled.request.sizes)  # type: ignore[union-attr]
    assert said(found) == said(kernels)
    assert show_kernels(found) == text


def test_the_oracle_runs_the_text_of_what_was_compiled() -> None:
    x = wf.data(np.arange(12, dtype=np.float32).reshape(3, 4), batch=1, label="x")
    y = wf.softmax(x).named("y")
    ctx = wf.Context("cc")
    routine: Routine = ctx.compile(y.forward, keep=[y])
    routine()
    program = as_program(parse_kernels(declared_kernels(routine.compiled.stages.kernels)))
    memory = {one: np.zeros(one.shape, one.dtype) for one in buffers_of(program)}
    named = {one.name: one for one in memory}
    memory[named["x"]][...] = ctx[x]
    run(program, memory, {})
    np.testing.assert_allclose(memory[named["y"]], ctx[y], rtol=1e-6)


def test_reasons_and_remarks_read_back() -> None:
    kernels = (step(), replace(step("zz"), why="it runs to 8: not to 4", plain="its sums are short"))
    text = show_kernels(kernels)
    assert text.splitlines()[5:9] == [
        "kernel 1: it runs to 8: not to 4",
        "# zz =: x + 1",
        "# in plain loops: its sums are short",
        "for i in range(4):",
    ]
    assert said(parse_kernels(text, buffers_of(as_program(kernels)))) == said(kernels)


def test_a_buffer_has_one_name_in_all_kernels() -> None:
    """Two buffers that are called alike are told apart, also where no kernel touches both."""
    kernels = (step(), step().with_body((loop("i", 4, store(replace(Y, id=7), at("i"), read(X, "i"))),)))
    assert "    y_2[i] = x[i]" in show_kernels(kernels)
    assert said(parse_kernels(show_kernels(kernels), buffers_of(as_program(kernels)))) == said(kernels)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("for i in range(4):\n    pass", "line 1, column 1: no kernel begins here"),
        ("x: float32[4]\nkernel 0\n# a remark\nx[0] = z[0]", "line 4, column 8: "),
        ("x: float32[4]\n\nkernel 0\nx[0] = 1\n\nkernel 1: why\nx[0] =", "line 7, column "),
    ],
)
def test_mistakes_are_told_by_their_line(text: str, message: str) -> None:
    with pytest.raises(WeftError) as caught:
        parse_kernels(text)
    assert caught.value.what.startswith(message)
