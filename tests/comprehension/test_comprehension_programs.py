"""Random programs, tensors without cells among them: what the generator checks, made smaller where it fails."""

from __future__ import annotations

from hypothesis import given, settings

from comprehension.programs import Program, programs
from effort import tries
from generators.comprehensions import assert_gradients, assert_means, quietly


@settings(max_examples=tries(20))
@given(programs(sizes=(0, 4)))
def test_interpreted(program: Program) -> None:
    with quietly():
        assert_means(program, "interp")


@settings(max_examples=tries(8))
@given(programs())
def test_compiled(program: Program) -> None:
    with quietly():
        assert_means(program, "cc")


@settings(max_examples=tries(8))
@given(programs(smooth=True))
def test_gradients(program: Program) -> None:
    with quietly():
        assert_gradients(program)
