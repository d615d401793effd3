"""The order of a nest's loops, before and after."""

from __future__ import annotations

from textwrap import dedent

import pytest

from loops.written import program, text
from weft.loops.nests import nests
from weft.optimise.loop_order import is_reorderable, ordered, sums_innermost, sums_inside

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


@pytest.mark.parametrize("cell", ["V[0]", "C[i + j]", "V[mod(i + j, 4)]"])
def test_the_last_value_stored_into_a_cell_stays_the_last(cell: str) -> None:
    (nest,) = nests(program(f"for i in range(3):\n    for j in range(4):\n        {cell} = X[j, i]"))
    assert ordered(nest) == nest
    assert sums_innermost(nest) == nest
    assert not is_reorderable(nest)


def test_cells_stored_into_once_are_in_memory_order_whatever_their_subscripts() -> None:
    (nest,) = nests(program("for j in range(3):\n    for i in range(4):\n        C[3 * i + j] = X[i, j]"))
    assert [name for name, _ in ordered(nest).loops] == ["i", "j"]
    assert is_reorderable(nest)


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
