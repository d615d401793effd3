"""Long sums in single precision: as good as docs/precisions.md says, whatever they are over; infinities stay."""

from __future__ import annotations

import numpy as np
import pytest

import weft as wf
from weft.backends.cc.lines import CLoop, Part, in_parts
from weft.schedule.products.tile import number_of_parts

EPSILON = 2.0**-23
LAYOUTS = {"ik; jk => ij": (True, True), "ik; kj => ij": (True, False), "ki; kj => ij": (False, False)}


@pytest.mark.parametrize("backend", ["interp", "cc"])
def test_a_million_numbers_over_an_outer_axis(backend: str) -> None:
    numbers = np.full((1_000_000, 2), 0.1, "float32")
    for optimise in (True, False):
        with wf.config.using(optimise=optimise):
            found = wf.Context(backend)[wf.einsum("ij => j", wf.data(numbers))]
        exact = numbers.sum(0, dtype="float64")
        assert (np.abs(found - exact) <= 40 * EPSILON * exact).all(), found


@pytest.mark.parametrize("backend", ["interp", "cc"])
@pytest.mark.parametrize("count", [10, 12, 64, 3000])
def test_numbers_that_cancel_leave_what_is_small_beside_their_sizes(backend: str, count: int) -> None:
    """First all that is added, then all that is taken away: sums on the way are half as many times as large."""
    numbers = np.random.default_rng(count).uniform(1, 2, (count // 2, 600)).astype("float32")
    both = np.concatenate([numbers, -np.roll(numbers, 3, axis=0)])
    found = wf.Context(backend)[wf.einsum("ij => j", wf.data(both))]
    assert (np.abs(found) <= 40 * EPSILON * np.abs(both).sum(0)).all()


@pytest.mark.parametrize("spec", LAYOUTS)
def test_a_product_of_many_terms(spec: str) -> None:
    numbers = np.full((9, 200_000), 0.1, "float32")
    factors = [numbers if along else np.ascontiguousarray(numbers.T) for along in LAYOUTS[spec]]
    found = wf.Context("cc")[wf.einsum(spec, *map(wf.data, factors))]
    exact = 200_000 * float(np.float32(0.1)) ** 2
    assert (np.abs(found - exact) <= 40 * EPSILON * exact).all(), found


@pytest.mark.parametrize("spec", LAYOUTS)
@pytest.mark.parametrize("special", [np.inf, -np.inf, np.nan, 3e38])
def test_what_is_infinite_stays_so_in_a_long_product(spec: str, special: float) -> None:
    numbers = np.full((33, 3000), 1.0, "float32")
    numbers[4, [7, 2999]] = special
    factors = [numbers if along else np.ascontiguousarray(numbers.T) for along in LAYOUTS[spec]]
    found = wf.Context("cc")[wf.einsum(spec, wf.data(factors[0]), wf.data(np.ones_like(factors[1])))]
    expected = numbers.sum(1, dtype="float64")
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(found, np.repeat(expected[:, None], 33, 1).astype("float32"))


def test_the_gradient_of_a_bias_over_a_large_batch() -> None:
    n = 300_000
    x, b = wf.data(np.full((n, 1), 0.1, "float32"), batch=1), wf.param("b", o=3, init=0.0)
    loss = wf.einsum("...|... => 0", x * b)
    ctx = wf.Context("cc")
    ctx.compile(wf.grad_update(loss), keep=[b.grad])()
    exact = n * float(np.float32(0.1))
    assert (np.abs(ctx[b.grad] - exact) <= 40 * EPSILON * exact).all()


@pytest.mark.parametrize("sizes", [(7,), (33,), (1024,), (1025,), (33, 31), (3, 3, 40), (5000, 2), (2, 5000), (70, 70)])
def test_no_part_is_longer_than_it_may_be(sizes: tuple[int, ...]) -> None:
    """Loops cut into parts do every turn once, and no number has more added to it than it may."""
    loops = [(CLoop(f"i{at}", "0", str(size)), size) for at, size in enumerate(sizes)]
    parts = [Part(["begin(0)"], ["end(0)"], 48), Part(["begin(1)"], ["end(1)"], 14)]
    turns, held, longest = 0, [0, 0], [0, 0]
    for line in _run(in_parts(loops, ["turn()"], parts)):
        match line:
            case "turn()":
                turns, held[0] = turns + 1, held[0] + 1
            case "begin(0)" | "begin(1)":
                held[int(line[6])] = 0
            case "end(0)" | "end(1)":
                level = int(line[4])
                longest[level] = max(longest[level], held[level])
                held = [held[0], held[1] + 1] if level == 0 else held
    assert turns == np.prod(sizes)
    assert longest[0] <= 48, longest
    assert longest[1] <= 14, longest
    once = _run(in_parts(loops, ["turn()"], parts[:1]))
    assert once.count("end(0)") == number_of_parts(sizes, 48)


def _run(lines: list[str]) -> list[str]:
    """Runs loops in C as Python: what they do, line by line."""
    text, depth = ["def run(do):"], 1
    for line in map(str.strip, lines):
        if line == "}":
            depth -= 1
            continue
        name, *_ = line.removeprefix("for (int64_t ").split(" ")
        if line.startswith("for"):
            start, end, step = (part.strip() for part in line[line.index("=") + 1 : -3].split(";"))
            by = "1" if step.endswith("++") else step.split("+= ")[1]
            text.append(f"{'    ' * depth}for {name} in range({start}, {end.split('< ')[1]}, {by}):")
            depth += 1
        elif line.startswith("const"):
            name, _, value = line.removeprefix("const int64_t ").removesuffix(";").partition(" = ")
            test, _, (yes, _, no) = *value.partition(" ? ")[:2], value.partition(" ? ")[2].partition(" : ")
            text.append(f"{'    ' * depth}{name} = {yes} if {test} else {no}")
        else:
            text.append(f"{'    ' * depth}do({line!r})")
    names: dict[str, object] = {}
    done: list[str] = []
    exec("\n".join(text), names)
    names["run"](done.append)  # type: ignore[operator]
    return done


def test_long_sums_in_tiles_that_end_inside_of_a_tensor() -> None:
    """Where loops are cut into pieces, the last piece is only partly there, and so is what grows beside it."""
    x = np.linspace(0, 1, 70 * 130, dtype="float32").reshape(70, 130)
    text = "def f(float(M,K) A) -> (S, T) { S(m) +=! A(m,k) T(k) +=! A(m,k) * A(m,k) }"
    f = wf.tc.define(text, backend="cc").f
    f.options(x, choose=wf.tc.Options(tiles=(("m", 16), ("k", 32)), order=("k", "m")))
    for found, exact in zip(f(x), (x.sum(1, dtype=float), (x.astype(float) ** 2).sum(0)), strict=True):
        np.testing.assert_allclose(found, exact, rtol=1e-6)
