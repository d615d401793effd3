"""Factors that are stored as they are multiplied: rounded, or with sums side by side."""

from __future__ import annotations

import numpy as np
import pytest

from weft.loops import Program, buffers_of, check, parse, show
from weft.loops.interp import run
from weft.loops.nests import nests
from weft.optimise.factor_copies import with_columns_in_memory, with_narrow_factors, with_turned_factors

HEAD = "a: float32[4, 6]\nb: float32[6, 5]\nc: float32[4, 5]\nd: float32[4, 5]\nh: float32[4, 6]\n"
PRODUCT = """
for i in range(4):
    for j in range(5):
        for k in range(6):
            {c}[i, j] += float32(bfloat16({a}[i, k])) * float32(bfloat16(b[k, j]))
"""
WRITE = """
for i in range(4):
    for k in range(6):
        h[i, k] = {} * a[i, k]
"""


def after(text: str) -> Program:
    return Program(tuple(one.stmt for one in with_narrow_factors(nests(parse(HEAD + text)))))


def stored(program: Program) -> list[str]:
    return [line.split("[")[0].strip() for line in show(program).splitlines() if " = " in line or " += " in line]


def test_a_copy_follows_what_was_written_last() -> None:
    assert stored(after(WRITE.format(2.0) + PRODUCT.format(a="h", c="c"))) == ["h", "h_narrow", "b_narrow", "c"]


def test_two_products_share_a_copy() -> None:
    text = PRODUCT.format(a="a", c="c") + PRODUCT.format(a="a", c="d")
    assert stored(after(text)) == ["a_narrow", "b_narrow", "c", "d"]


def test_what_is_written_again_is_copied_again() -> None:
    first, second = WRITE.format(2.0), WRITE.format(3.0)
    text = first + PRODUCT.format(a="h", c="c") + second + PRODUCT.format(a="h", c="d")
    assert stored(after(text)) == ["h", "h_narrow", "b_narrow", "c", "h", "h_narrow", "d"]


@pytest.mark.parametrize("again", [False, True])
def test_every_value_is_what_it_was(again: bool) -> None:
    text = WRITE.format(2.0) + PRODUCT.format(a="h", c="c")
    text += (WRITE.format(3.0) if again else "") + PRODUCT.format(a="h", c="d")
    found = []
    for program in (parse(HEAD + text), after(text)):
        check(program)
        rng = np.random.default_rng(5)
        starts = {one.name: rng.standard_normal(one.shape, np.float32) for one in buffers_of(parse(HEAD + text))}
        memory = {one: starts.get(one.name, np.zeros(one.shape)).astype(one.dtype) for one in buffers_of(program)}
        run(program, memory, {})
        found.append({one.name: array for one, array in memory.items() if one.name in "cdh"})
    for name, array in found[0].items():
        np.testing.assert_array_equal(array, found[1][name])


WIDE = """
for i in range(4):
    for j in range(5):
        for k in range(6):
            c[i, j] += a[i, k] * b[k, j]
"""


def turned(text: str, points: int = 1) -> Program:
    return Program(tuple(one.stmt for one in with_turned_factors(nests(parse(HEAD + text)), points)))


def test_a_factor_across_its_sums_is_turned() -> None:
    lines = [line.strip() for line in show(turned(WIDE)).splitlines() if "=" in line]
    assert lines == ["b_turned[i1, i0] = b[i0, i1]", "c[i, j] += a[i, k] * b_turned[j, k]"]


def test_a_small_contraction_reads_factors_as_they_lie() -> None:
    assert turned(WIDE, 121) == turned(WIDE, 10**9) == Program(parse(HEAD + WIDE).body)


def test_turned_factors_give_the_same_values() -> None:
    found = []
    for program in (parse(HEAD + WIDE), turned(WIDE)):
        rng = np.random.default_rng(1)
        starts = {one.name: rng.standard_normal(one.shape, np.float32) for one in buffers_of(parse(HEAD + WIDE))}
        memory = {one: starts.get(one.name, np.zeros(one.shape)).astype(one.dtype) for one in buffers_of(program)}
        run(check(program), memory, {})
        found.append(next(array for one, array in memory.items() if one.name == "c"))
    np.testing.assert_array_equal(*found)


def test_columns_that_do_not_lie_side_by_side_are_turned() -> None:
    text = WIDE.replace("b[k, j]", "h[j, k]").replace("range(5)", "range(4)")
    before = nests(parse(HEAD + text))
    lines = [
        line.strip()
        for one in with_columns_in_memory(before, 1)
        for line in show(Program((one.stmt,))).splitlines()
        if "=" in line
    ]
    assert lines == ["h_turned[i1, i0] = h[i0, i1]", "c[i, j] += a[i, k] * h_turned[k, j]"]
    assert with_columns_in_memory(nests(parse(HEAD + WIDE)), 1) == nests(parse(HEAD + WIDE))
