"""A program as a list of nests."""

from __future__ import annotations

import numpy as np

import weft as wf
from weft.loops import Program, check, parse, show
from weft.loops.nests import common_loops, nests


def test_a_variable_is_a_nest_of_its_own_that_later_ones_read() -> None:
    program = check(
        parse("""
x: float32[3]
y: float32[3]
z: float32[1]
part: float32 = x[0] * x[1]
z[0] = part + part
for i in range(3):
    square: float32 = x[i] * x[i]
    y[i] = square + part
""")
    )
    split = Program(tuple(nest.stmt for nest in nests(program)))
    assert (
        show(check(split))
        == """
part[0] = x[0] * x[1]
z[0] = part[0] + part[0]
for i in range(3):
    square[i] = x[i] * x[i]
for i in range(3):
    y[i] = square[i] + part[0]
""".strip()
    )


def test_writes_of_one_block_share_its_loops() -> None:
    program = check(parse("x: float32[4]\ny: float32[4]\nfor t in range(3):\n    y[t] = x[t]\n    x[t + 1] = y[t]"))
    first, second = nests(program)
    assert common_loops(first, second) == 1
    tested = "x: float32[4]\nfor t in range(3):\n    x[t] = 1\n    if 0 <= t < 2:\n        x[t + 1] = x[t]"
    first, second = nests(check(parse(tested)))
    assert common_loops(first, second) == 1
    assert second.tests


def test_parts_of_what_is_computed_without_loops_are_known_where_they_are_used() -> None:
    """The gradient of a product of one number in float16 is deep enough to have parts."""
    (product,) = wf.tc.define("def product(float16 s) -> (t) { t *=! max(s, 0.25) }", backend="cc")
    s = wf.require_grad(wf.data(np.float16(1.5), label="s"))
    loss = wf.einsum("...|...->... => 0", product(s))
    ctx = wf.Context("cc")
    ctx.compile(wf.grad_update(loss), keep=[s.grad])()
    assert ctx[s.grad] == [1.0]
