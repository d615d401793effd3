"""Values of long rows, computed again in a launch of a GPU instead of stored."""

from __future__ import annotations

from textwrap import dedent

import numpy as np
import pytest

import weft as wf
from backends.on_grid import OnGrid
from weft.loops import Program, check, parse, show
from weft.loops.effects import effects
from weft.schedule.gpu.map_to_grid import on_grid
from weft.schedule.gpu.recompute_rows import with_recomputed_rows
from weft.schedule.gpu_model import USUAL_GPU

SOFTMAX = """
    x: float32[8, 65536]
    e: float32[8, 65536]
    y: float32[8, 65536]
    for i in range(8):
        m: float32 = x[i, 0]
        s: float32 = 0
        for k in range(65536):
            d: float32 = x[i, k] - m
            v: float32 = exp(d)
            e[i, k] = v
            s = s + v
        for j in range(65536):
            y[i, j] = e[i, j] / s
"""


def recomputed(text: str) -> str:
    """The text of a nest without the rows of `e`, which nobody else reads."""
    program = parse(dedent(text).lstrip())
    loop = program.body[0]
    own = {one for one in effects(program.body).buffers if one.name == "e"}
    made = with_recomputed_rows(loop.body, own)  # type: ignore[union-attr]
    body = (type(loop)(loop.loop, loop.size, made),)  # type: ignore[union-attr, call-arg, arg-type]
    return show(check(Program(body)))


def test_a_row_is_computed_again() -> None:
    wanted = """
        for i in range(8):
            m: float32 = x[i, 0]
            s: float32 = 0
            for k in range(65536):
                d: float32 = x[i, k] - m
                v: float32 = exp(d)
                s = s + v
            for j in range(65536):
                y[i, j] = exp((x[i, j] - m)) / s
    """
    assert recomputed(SOFTMAX) == dedent(wanted).strip()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("exp(d)", "exp(d) * y[i, k]"),  # what is written here, and another row
        ("= x[i, k] - m", "= x[i, k] - s"),  # a variable that changes
        ("x[i, 0]", "e[i, 0]"),  # what was there before
        ("e[i, j] / s", "e[0, j] / s"),  # another row
        ("for k in range(65536)", "for k in range(65535)"),  # not all of it
    ],
)
def test_what_stays_in_memory(old: str, new: str) -> None:
    text = SOFTMAX.replace(old, new)
    assert text != SOFTMAX
    assert "e[i, k] = v" in recomputed(text)


def test_long_rows_that_are_read_again_are_found_in_the_cache() -> None:
    program = parse(dedent(SOFTMAX).lstrip())
    own = {one for one in effects(program.body).buffers if one.name == "e"}
    found = show(check(Program(on_grid(program.body, own, USUAL_GPU))))
    assert "on a grid by 1 with 32 warps" in found
    assert "in lanes by 16384" in found
    once = show(Program(on_grid(parse(dedent(SOFTMAX).lstrip().replace("e[i, j] / s", "s")).body, (), USUAL_GPU)))
    assert "in lanes by 2048" in once


def test_it_is_the_same_softmax() -> None:
    x = np.random.default_rng(0).normal(size=(3, 20000)).astype(np.float32)
    ours, meant = (wf.Context(one)[wf.softmax(wf.data(x, batch=1))] for one in (OnGrid(), "interp"))
    np.testing.assert_allclose(ours, meant, rtol=1e-5)
