"""Contractions with no term at some points: read under tests, from a copy with a border of zeros; or under a gate."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

import weft as wf
from weft.loops import Cold, Program, buffers_of, check, parse, show
from weft.loops.interp import run
from weft.schedule.compile_options import DEFAULTS
from weft.schedule.products.pad_windows import with_padded_windows

DECLARED = "x: float32[28, 8]\nw: float32[3, 8, 16]\ny: float32[28, 16]\nz: float32[1]\n"
BEFORE = """\
for o in range(28):
    for d in range(16):
        t: float32 = 0
        for k in range(3):
            for c in range(8):
                if 0 <= o + k - 1 < 28:
                    t = t + (x[o + k - 1, c] * w[k, c, d])
        y[o, d] = max(t, 0)"""
PADDED = """\
for at in range(1):
    for at_2 in range(8):
        x_padded[at, at_2] = 0
for at in range(28):
    for at_2 in range(8):
        x_padded[at + 1, at_2] = x[at, at_2]
for at in range(1):
    for at_2 in range(8):
        x_padded[at + 29, at_2] = 0
"""
PRODUCT = """\
for o in range(28):
    for d in range(16):
        t: float32 = 0
        for k in range(3):
            for c in range(8):
                t = t + (x_padded[o + k, c] * w[k, c, d])
        y[o, d] = max(t, 0)"""
ASKED = """\
off: float32 = 0
for at_3 in range(3):
    for at_4 in range(8):
        for at_5 in range(16):
            off = off + (w[at_3, at_4, at_5] * 0)
"""


def indented(text: str) -> str:
    return "".join(f"\n    {line}" for line in text.splitlines())


def padded(text: str, points: int = 1, fast: bool = False) -> str:
    options = DEFAULTS.but(contraction_points=points, fast_math=fast)
    return show(check(Program(with_padded_windows(check(parse(DECLARED + text)).body, options))))


def test_before_and_after() -> None:
    again = f"\nif 0 <= int64(eq(off, off)) < 1:{indented(BEFORE)}"
    assert padded(BEFORE) == PADDED + ASKED + PRODUCT + again


def test_what_hardly_ever_runs_is_cold() -> None:
    found = show(Program(with_padded_windows(check(parse(DECLARED + BEFORE)).body, cold=(Cold(),))))
    again = BEFORE.replace("range(28):", "range(28) cold:")
    assert found == f"{PADDED}{ASKED}{PRODUCT}\nif 0 <= int64(eq(off, off)) < 1:{indented(again)}"


def test_what_is_cold_is_so_to_the_end() -> None:
    x, k = wf.data(np.ones((4, 16, 16, 8), "float32"), batch=1), wf.data(np.ones((8, 3, 3, 8), "float32"))
    y = wf.einsum("...|y=+p, x=+q, c; f, p, q, c => ...|y, x, f", x, k)
    assert wf.Context("cc").compile(y.forward).show("kernels").count(" cold:") == 1


def test_fast_math_does_not_look_for_what_is_not_finite() -> None:
    assert padded(BEFORE, fast=True) == PADDED + PRODUCT


def test_what_cannot_be_done_twice_is_done_once() -> None:
    text = "s: float32 = 0\n" + BEFORE.replace("y[o, d] = max(t, 0)", "s = s + t") + "\nz[0] = s"
    assert f"if 0 <= int64(ne(off, off)) < 1:{indented(PRODUCT.replace('y[o, d] = max(t, 0)', 's = s + t'))}" in padded(
        text
    )


def test_an_accumulation_in_memory_is_done_once() -> None:
    text = "for o in range(28):\n    for d in range(16):\n        for k in range(3):\n            for c in range(8):\n"
    text += "                if 0 <= o + k - 1 < 28:\n                    y[o, d] += x[o + k - 1, c] * w[k, c, d]"
    found = padded(text)
    assert "if 0 <= int64(ne(off, off)) < 1:\n    for o in range(28)" in found
    assert found.endswith(f"if 0 <= int64(eq(off, off)) < 1:{indented(text)}")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("0 <= o + k - 1 < 28", "0 <= o - k < 28"),  # the factor does not move so
        ("if 0 <= o + k - 1 < 28", "if 0 <= o + k - 1 < 28 and 0 <= o - d + 1 < 28"),  # nor any
        ("x[o + k - 1, c] * w[k, c, d]", "exp(x[o + k - 1, c]) * w[k, c, d]"),  # it is computed
    ],
)
def test_other_tests_stay(old: str, new: str) -> None:
    text = BEFORE.replace("o + k - 1, c]", "o, c]") if new == "0 <= o - k < 28" else BEFORE
    text = text.replace(old, new)
    assert padded(text) == show(check(parse(DECLARED + text)))
    assert padded(BEFORE, points=1 << 20) == BEFORE


def test_a_copy_that_is_mostly_zeros_is_not_made() -> None:
    far = BEFORE.replace("o + k - 1", "o + 9000*k - 9000")
    assert padded(far) == far


def results(text: str, given: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    before = check(parse(DECLARED + text))
    found = []
    for program in (before, Program(with_padded_windows(before.body))):
        memory = {one: np.full(one.shape, np.nan, one.dtype) for one in buffers_of(program)}
        for one, values in memory.items():
            if one.name in given:
                values[...] = given[one.name]
        run(program, memory)
        found.append(next(values for one, values in memory.items() if one.name == "y"))
    return found


@pytest.mark.parametrize(("where", "odd"), [("x", np.inf), ("w", -np.inf), ("w", np.nan)])
def test_what_is_not_finite_is_skipped_outside(where: str, odd: float) -> None:
    random = np.random.default_rng(0)
    given = {"x": random.integers(1, 9, (28, 8)), "w": random.integers(1, 9, (3, 8, 16))}
    given = {name: values.astype("float32") for name, values in given.items()}
    given[where].flat[5] = odd
    before, after = results(BEFORE.replace("max(t, 0)", "t").replace("range(16)", "range(6)"), given)
    np.testing.assert_array_equal(before, after)
    assert where == "x" or np.isfinite(before[0, :6]).all()  # the first term of the first window is outside


GATED = """\
for o in range(28):
    for d in range(16):
        t: float32 = 0
        for c in range(8):
            t = t + where(ne(x[o, c], 0), (x[o, c] * w[0, c, d]), 0)
        y[o, d] = t"""
LOOKED = """\
off: float32 = 0
for at in range(8):
    for at_2 in range(16):
        off = off + (w[0, at, at_2] * 0)
"""


def test_a_gate_before_and_after() -> None:
    product = GATED.replace("where(ne(x[o, c], 0), (x[o, c] * w[0, c, d]), 0)", "(x[o, c] * w[0, c, d])")
    assert padded(GATED, fast=True) == product
    assert padded(GATED) == f"{LOOKED}{product}\nif 0 <= int64(eq(off, off)) < 1:{indented(GATED)}"


@pytest.mark.parametrize("other", ["ne(x[o, c], 1)", "ne(x[o, 0], 0)", "lt(x[o, c], 0)"])
def test_other_choices_stay(other: str) -> None:
    text = GATED.replace("ne(x[o, c], 0)", other)
    assert padded(text) == show(check(parse(DECLARED + text)))


@pytest.mark.parametrize("odd", [1.0, np.inf, np.nan])
def test_what_a_gate_hides_stays_hidden(odd: float) -> None:
    random = np.random.default_rng(1)
    x = random.integers(0, 3, (28, 8)).astype("float32")
    w = random.integers(1, 9, (3, 8, 16)).astype("float32")
    w[0, 5, 2] = odd
    before, after = results(GATED, {"x": x, "w": w})
    np.testing.assert_array_equal(before, after)
    np.testing.assert_array_equal(np.isfinite(after[:, 2]), (x[:, 5] == 0) | np.isfinite(odd))
