"""Sizes by name: numbers like any other, that errors call by their names."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import weft as wf
from weft.shape.named_sizes import NamedSize

s = wf.sizes(batch=32, d=64, heads=8, e=64)
STATED = f"{Path(__file__).name}:18: s = wf.sizes(batch=32, d=64, heads=8, e=64)"


def refusal(wrong: Callable[[], object]) -> wf.WeftError:
    with pytest.raises(wf.WeftError) as caught:
        wrong()
    assert caught.value.origin is not None
    assert caught.value.origin.file == __file__
    return caught.value


def test_a_size_is_a_number() -> None:
    assert (s.d, s.d + 1, s.d / 2, -s.d, list(range(s.heads))) == (64, 65, 32.0, -64, list(range(8)))
    assert (str(s.d), f"{s.d}", f"{s.d:04}", format(s.d, "d"), hash(s.d)) == ("64", "64", "0064", "64", hash(64))
    assert np.zeros((s.batch, s.d)).shape == (32, 64)
    assert np.array([s.d]).dtype == np.int64
    assert s.d == s.e
    assert isinstance(s.d, int)


def test_sizes_print_and_compare_by_what_they_are() -> None:
    assert repr(s) == "wf.sizes(batch=32, d=64, heads=8, e=64)"
    assert repr(s.d) == "<d: 64>"
    assert s == wf.sizes(e=64, heads=8, d=64, batch=32)
    assert hash(s) == hash(wf.sizes(e=64, heads=8, d=64, batch=32))
    assert s != wf.sizes(d=64)
    assert dir(s) == ["batch", "d", "e", "heads"]
    for again in (pickle.loads(pickle.dumps(s)), copy.deepcopy(s), copy.copy(s)):
        assert again == s
        assert repr(again.d * 4) == "<d*4: 256>"


@pytest.mark.parametrize(
    ("size", "shown"),
    [
        (4 * s.d, "<4*d: 256>"),
        (s.d // s.heads, "<d//heads: 8>"),
        ((s.d + 1) * 2, "<(d + 1)*2: 130>"),
        (s.d + 1 + s.e, "<d + 1 + e: 129>"),
        (s.d - (s.e - 1), "<d - (e - 1): 1>"),
        (s.d // (s.heads * 2), "<d//(heads*2): 4>"),
        (s.d * (s.e // s.heads), "<d*(e//heads): 512>"),
        (100 % s.d, "<100%d: 36>"),
        (s.d - -3, "<d - (-3): 67>"),
    ],
)
def test_arithmetic_keeps_a_readable_name(size: int, shown: str) -> None:
    assert repr(size) == shown


def test_what_is_no_whole_number_or_no_name_any_more_is_plain() -> None:
    assert [type(one) for one in (s.d / 2, s.d * 0.5, s.d**2, s.d * True, abs(s.d))] == [float, float, int, int, int]
    total: int = s.d
    for _ in range(100):
        total = total + s.d
    assert type(total) is int
    assert total == 101 * 64


sums = st.recursive(
    st.sampled_from([s.batch, s.d, s.heads, s.e, 1, 3, -2]),
    lambda inner: st.tuples(st.sampled_from(["+", "-", "*", "//", "%"]), inner, inner),
    max_leaves=6,
)


@given(sums)
def test_a_name_is_the_expression_it_was_computed_by(expression: Any) -> None:
    def value(one: Any) -> Any:
        if not isinstance(one, tuple):
            return one
        sign, left, right = one
        a, b = value(left), value(right)
        if sign in ("//", "%") and not b:
            return a
        return {"+": lambda: a + b, "-": lambda: a - b, "*": lambda: a * b, "//": lambda: a // b, "%": lambda: a % b}[
            sign
        ]()

    found = value(expression)
    if isinstance(found, NamedSize):
        assert eval(found.name, {name: int(getattr(s, name)) for name in dir(s)}) == int(found)


def test_two_sizes_of_one_number_fit_and_only_numbers_are_compared() -> None:
    w = wf.param("w", i=s.d, o=s.e)
    assert str((w @ wf.data(np.ones(64))).dims) == "64"
    assert str((wf.param("v", o=s.d) + wf.param("u", o=s.e)).dims) == "64"


def test_an_error_names_the_sizes_that_do_not_fit_and_their_line() -> None:
    w, x = wf.param("w", i=s.d, o=4 * s.d), wf.data(np.ones((2, 30)), batch=1, label="x")
    error = refusal(lambda: w @ x)
    assert error.what == "the input axis of `w` cannot be both `d` = 64 and 30"
    assert f"`d` = 64 of wf.sizes at {STATED}" in error.notes
    error = refusal(lambda: wf.param("v", o=s.e) + wf.param("u", o=s.heads))
    assert error.what == "the output axis of `add` cannot be both `e` = 64 and `heads` = 8"
    assert [note for note in error.notes if "wf.sizes at" in note] == [
        f"`e` = 64 of wf.sizes at {STATED}",
        f"`heads` = 8 of wf.sizes at {STATED}",
    ]
    other = wf.sizes(f=10)
    error = refusal(lambda: w.T @ wf.param("z", o=s.d + other.f))
    assert "`4*d` = 256" in error.what
    assert "`d + f` = 74" in error.what
    (both,) = (note for note in error.notes if note.startswith("`d + f`"))
    assert STATED in both
    assert "other = wf.sizes(f=10)" in both


def test_sizes_of_one_number_are_not_taken_for_each_other_in_errors() -> None:
    for size, name in ((s.d, "`d` = 64"), (s.e, "`e` = 64"), (64, "64"), (2 * s.batch, "`2*batch` = 64")):
        error = refusal(lambda size=size: wf.param("v", o=size) + wf.data(np.ones(3)))  # type: ignore[misc]
        assert error.what == f"the output axis of `add` cannot be both {name} and 3"


def test_sizes_of_an_einsum() -> None:
    x = wf.data(np.ones((3, 4)), label="x")
    error = refusal(lambda: wf.einsum("i j => i", x, j=s.d))
    assert error.what == "`j` cannot be both `d` = 64 and 4"
    error = refusal(lambda: wf.einsum("..r.. => 0", x, r=s.d))
    assert f"`d` = 64 of wf.sizes at {STATED}" in error.notes
    error = refusal(lambda: wf.einsum("h<+k => h", wf.data(np.ones(5)), k=s.heads))
    assert error.what == "a window of 8 does not fit an axis of 5"
    assert "solved so far: k=8 (`heads`)" in error.notes
    split = wf.einsum("8*h<+k => h,k", wf.data(np.ones(64)), k=s.heads, h=s.d // s.heads)
    assert str(split.dims) == "8,8"


def test_a_size_computed_from_a_named_one_is_not_called_by_its_name() -> None:
    spread = wf.einsum("h => 8*h", wf.param("v", o=s.heads))
    error = refusal(lambda: spread + wf.data(np.ones(63)))
    assert error.what == "the output axis of `add` cannot be both 64 and 63"
    assert f"`heads` = 8 of wf.sizes at {STATED}" in error.notes


def test_labelled_sizes_keep_both() -> None:
    for given_size in (wf.Dim(s.heads, "rgb"), {"rgb": s.heads}):
        v = wf.param("v", o=given_size)
        assert str(v.shape) == "...->rgb=8"
        error = refusal(lambda v=v: v + wf.data(np.ones(3)))  # type: ignore[misc]
        assert "`heads` = 8" in error.what


def test_data_of_stated_sizes() -> None:
    x = wf.data(np.ones((32, 64)), b=s.batch, o=s.d, label="x")
    assert str(x.dims) == "32|64"
    assert str(wf.data(np.ones((32, 8, 64)), b=s.batch, i=s.d).dims) == "32|64->8"
    assert str(wf.data(np.ones((32, 8)), b=[s.batch, s.heads]).dims) == "32,8|1"
    assert str(wf.data(np.ones((32, 3)), batch=1, b=s.batch, o={"rgb": 3}).dims) == "32|rgb=3"
    assert "`batch` = 32" in refusal(lambda: x + wf.data(np.ones((5, 64)), batch=1)).what
    error = refusal(lambda: wf.data(np.ones((30, 64)), b=s.batch, o=s.d, label="x"))
    assert error.what == "batch axis 0 of `x` has size 30, not `batch` = 32"
    assert error.notes == (f"`batch` = 32 of wf.sizes at {STATED}",)
    assert error.fix == "give an array of size 32 there, or say 30"
    error = refusal(lambda: wf.data(np.ones((2, 3)), o=(2, 4)))
    assert error.what == "output axis 1 of `data` has size 3, not 4"
    error = refusal(lambda: wf.data(np.ones((2, 3)), batch=1, b=(2, 3)))
    assert error.what == "batch=1 counts the batch axes, and b= has 2"
    error = refusal(lambda: wf.data(np.ones((2, 3)), b=2, o=(3, 4)))
    assert error.what == "o= has 2 sizes, and `data` has 1 output axes"
    assert refusal(lambda: wf.data(np.ones(2), b=2, i=3)).what.startswith("1 batch and 1 input axes do not fit")


def test_names_go_no_further_than_errors() -> None:
    w = wf.param("w", i=s.d, o=s.heads, init=1.0)
    y = s.d * (w @ wf.data(np.ones(64))) + s.heads
    assert {type(size) for size in w.dims.array_shape} == {int}
    ctx = wf.Context("interp")
    np.testing.assert_allclose(ctx[y], 64.0 * 64 + 8)
    plain = wf.param("w", i=64, o=8, init=1.0)
    same = 64 * (plain @ wf.data(np.ones(64))) + 8
    for stage in ("assign", "loops", "kernels"):
        named, counted = (wf.Context("interp").compile(one.forward).show(stage) for one in (y, same))
        assert named == counted
    i = wf.index("i", s.heads)
    assert type(i.size) is int


MISUSES: dict[str, tuple[Callable[[], object], str, str]] = {
    "negative": (lambda: wf.sizes(d=-3), "the size `d` cannot be -3", "sizes are whole numbers from 1 on"),
    "zero": (lambda: wf.sizes(d=0), "the size `d` cannot be 0", "sizes are whole numbers from 1 on"),
    "huge": (lambda: wf.sizes(d=1 << 63), "the size `d` cannot be 9223372036854775808", "sizes are whole numbers"),
    "not whole": (lambda: wf.sizes(d=2.5), "the size `d` must be a whole number, not 2.5", "sizes are whole"),  # type: ignore[arg-type]
    "a truth value": (lambda: wf.sizes(d=True), "the size `d` must be a whole number, not True", "sizes are whole"),
    "text": (lambda: wf.sizes(d="4"), "the size `d` must be a whole number, not '4'", "sizes are whole"),  # type: ignore[arg-type]
    "none": (lambda: wf.sizes(), "wf.sizes names no size", "write wf.sizes(batch=32, d=64)"),
    "hidden": (lambda: wf.sizes(_d=3), "'_d' cannot be the name of a size", "name it by a word"),
    "no name": (lambda: wf.sizes(**{"a b": 3}), "'a b' cannot be the name of a size", "name it by a word"),
    "a keyword": (lambda: wf.sizes(**{"in": 3}), "'in' cannot be the name of a size", "name it by a word"),
    "unknown": (lambda: s.head, "there is no size `head`", "did you mean `heads`?"),
    "unlike any": (lambda: s.width, "there is no size `width`", "state it: wf.sizes(width=…)"),
    "changed": (lambda: setattr(s, "d", 3), "sizes cannot be changed", "state it: wf.sizes(d=3)"),
    "renamed": (lambda: setattr(s.d, "name", "q"), "the size `d` is a number, and cannot be changed", ""),
    "too small": (lambda: wf.param("v", o=s.d - 64), "an axis cannot have size `d - 64` = 0", "sizes are whole"),
}


@pytest.mark.parametrize("case", MISUSES)
def test_misuse(case: str) -> None:
    wrong, what, fix = MISUSES[case]
    error = refusal(wrong)
    assert (error.what, error.fix.startswith(fix)) == (what, True), str(error)


def test_an_unknown_size_shows_what_there_is() -> None:
    error = refusal(lambda: s.head)
    assert error.notes == (f"wf.sizes(batch=32, d=64, heads=8, e=64) at {STATED.partition(': ')[0]}",)
    assert isinstance(error, AttributeError)
    assert not hasattr(s, "head")
