"""A result row of no axes is one axis of size 1: when is it that?"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from shape.pool import blank, closed, einsum, known, varying
from weft.einsum import parse_spec
from weft.shape import Dim, ShapeVar, infer
from weft.shape.logic import Einsum


@pytest.mark.parametrize("make", [varying, blank])
def test_a_size_says_that_an_open_result_is_no_scalar(make: Callable[[], ShapeVar]) -> None:
    """An axis of 3 comes from an axis of the operand, before ranks are closed as low as they go."""
    operand = make()
    result = einsum("a...=>...", operand, sizes={"a": 2}).result
    einsum("i;i=>", result, known("3"))
    assert closed(operand, result) == ["2,3", "3"]


def test_a_labelled_one_is_a_scalar_or_not_in_any_order() -> None:
    turn, one = Einsum(parse_spec("..v..a=>a..v..")), {"a": Dim(1, "rgb")}
    outcomes = set()
    for order in ((0, 1), (1, 0)):
        first, second, third = blank("first", "leaf"), blank("second"), blank("third", "leaf")
        for at in order:
            if at == 0:
                einsum("a...=>...", third, result=first)
            else:
                infer(turn, [second], result=first, sizes=one)
        outcomes.add(tuple(closed(first, second, third)))
    assert outcomes == {("rgb=1", "rgb=1", "1")}
