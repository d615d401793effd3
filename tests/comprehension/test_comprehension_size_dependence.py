"""Which sizes the axes of tensors depend on, by the text alone."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from hypothesis import given, settings

import weft as wf
from comprehension.corpus import CORPUS, Entry
from comprehension.programs import Program, programs
from effort import tries
from weft.comprehension import CheckedProgram, check, infer, parse
from weft.comprehension.size_dependence import find_dependences
from weft.errors import WeftError


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("float(B,T) x, float(K) w) -> (y) { y(b, t) +=! x(b, t + k) * w(k) }", "B | T K"),
        ("float(B,T) x) -> (y) { y(b, t) = x(b, t + 1) where t in 0:5 }", "B | T"),
        ("float(B,T) x) -> (y) { h(t, b) = x(b, 2 * t)  y(t) +=! h(t, b) }", "T"),
        ("float(B,T) x) -> (y) { y(b, t) = t < B ? x(b, t) : 0 where t in 0:4 }", "B T | B T"),
        ("float(B,T) x) -> (y) { y(b, t) = x(b, n) where n = t + 1 }", "B T | B T"),
        ("float(B,T) x) -> (y) { y(0) +=! x(b, t)  y(1) max=! x(b, t) }", ""),
        ("float(B,T) x, float(B) w) -> (y) { y(t) +=! x(b, b + t) * w(b) }", "B T"),
    ],
)
def test_the_sizes_that_the_axes_of_a_result_depend_on(text: str, found: str) -> None:
    checked = check(parse(f"def f({text}"))["f"]
    wanted = [frozenset(one.split()) for one in found.split(" | ")]
    assert list(find_dependences(checked)["y"]) == wanted


def test_what_a_call_gives_may_depend_on_everything_also_where_it_is_written_again() -> None:
    called = "def g(float(P) X) -> (Z) { Z(p, q) = X(p) * X(q) + p }"
    text = "def f(float(N) B) -> (y) { y = g(B)  y(i, j) = y(i, j) * 2  z(i) = y(i, 0) }"
    checked = check(parse(f"{called}\n{text}"))["f"]
    assert find_dependences(checked) == {"B": (frozenset("N"),), "z": (frozenset("N"),)}


def assert_independent(checked: CheckedProgram, name: str, shapes: dict[str, tuple[int, ...]]) -> None:
    """No other size changes an axis."""
    one, before = checked[name], infer(checked, name, shapes)
    found = find_dependences(one)
    for size in before.sizes:
        other = {
            param.name.name: tuple(
                extent + 3 if str(dim) == size else extent
                for dim, extent in zip(param.type.dims, shapes[param.name.name], strict=True)
            )
            for param in one.definition.params
        }
        with contextlib.suppress(WeftError):
            after = infer(checked, name, {**shapes, **other})
            for tensor, axes in found.items():
                for axis, sizes in enumerate(axes):
                    if size not in sizes:
                        assert after.shapes[tensor][axis] == before.shapes[tensor][axis], (tensor, axis, size)


@settings(max_examples=tries(40))
@given(programs())
def test_of_random_programs_no_other_size_changes_an_axis(program: Program) -> None:
    assert_independent(program.checked, "f", {name: one.shape for name, one in program.inputs.items()})


@pytest.mark.parametrize("entry", CORPUS, ids=lambda one: one.name)
def test_of_known_programs_no_other_size_changes_an_axis(entry: Entry) -> None:
    checked = check(parse(entry.text))
    name = entry.entry or checked.program.definitions[-1].name.name
    inputs = entry.make(np.random.default_rng(0), 0)
    assert_independent(checked, name, {one: array.shape for one, array in inputs.items()})


def test_sizes_that_calls_decide_leave_the_others_known() -> None:
    """A window along time, and a layer over what it gives: the batch is open, and the parameter is not."""
    x, w = wf.input("x", b="batch", o=8), wf.param("w", o=3, init=[1.0, 2.0, 3.0])
    windows = wf.tc.define("def f(float(B,T) x, float(K) w) -> (y) { y(b, t) +=! x(b, t + k) * w(k) }").f
    y = windows(x, w)
    assert str(y.shape) == "batch|6"
    head = wf.nn.linear(o=2, bias=False, label="head")
    ctx = wf.Context("interp")
    run = ctx.function(x, returns=(y, head(y)))
    assert str(head.param("w").dims) == "6->2"
    for length in (4, 5):
        given = np.random.default_rng(length).normal(size=(length, 8)).astype("float32")
        found, mapped = run(given)
        wanted = np.stack([given[:, t : t + 3] @ [1.0, 2.0, 3.0] for t in range(6)], axis=1)
        np.testing.assert_allclose(found, wanted, rtol=1e-5)
        np.testing.assert_allclose(mapped, wanted @ ctx[head.param("w")].T, rtol=1e-4, atol=1e-5)


def test_a_size_that_must_be_large_enough_is_waited_for() -> None:
    """`b` runs further than anything that stands in for the batch: the other axis is known when the batch is."""
    x = wf.input("x", b="batch", o=8)
    first = wf.tc.define("def f(float(B,T) x) -> (y) { y(b, t) = x(b, t + 2) where b in 0:64 }").f
    y = first(x)
    assert str(y.shape) == "?,?"
    run = wf.Context("interp").function(x, returns=y)
    assert run(np.ones((64, 8), "float32")).shape == (64, 6)
