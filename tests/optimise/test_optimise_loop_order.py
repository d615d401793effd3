"""The order of a nest's loops, before and after."""

from __future__ import annotations

from textwrap import dedent

import pytest

from loops.written import program, text
from weft.loops.nests import nests
from weft.optimise.loop_order import ordered, sums_inside

CASES = {
    "cells in memory order": (
        """
        for j in range(3):
            for i in range(4):
                X[i, j] = Y[i, j]
        """,
        """
        for i in range(4):
            for j in range(3):
                X[i, j] = Y[i, j]
        """,
    ),
    "sums inside": (
        """
        for j in range(3):
            for i in range(4):
                V[i] += X[i, j]
        """,
        """
        for i in range(4):
            for j in range(3):
                V[i] += X[i, j]
        """,
    ),
    "innermost what walks memory, though it is no sum": (
        """
        for j in range(3):
            for i in range(4):
                W[j] += X[i, j]
        """,
        """
        for i in range(4):
            for j in range(3):
                W[j] += X[i, j]
        """,
    ),
}


def lines(text: str) -> str:
    return "\n" + dedent(text).strip() + "\n"


@pytest.mark.parametrize("name", CASES)
def test_before_and_after(name: str) -> None:
    before, after = CASES[name]
    (nest,) = nests(program(before))
    assert text((ordered(nest).stmt,)) == lines(after)
    assert ordered(ordered(nest)) == ordered(nest)


def test_an_accumulation_that_minds_its_order_keeps_it() -> None:
    (nest,) = nests(program("for j in range(3):\n    for i in range(4):\n        V[i] /= X[i, j]"))
    assert ordered(nest) is nest


@pytest.mark.parametrize(("order", "inside"), [("ij", True), ("ji", False)])
def test_sums_inside(order: str, inside: bool) -> None:
    sizes = {"i": 4, "j": 3}
    one, other = order
    (nest,) = nests(
        program(
            f"for {one} in range({sizes[one]}):\n    for {other} in range({sizes[other]}):\n        V[i] += X[i, j]"
        )
    )
    assert sums_inside(nest) == inside
