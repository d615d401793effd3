"""Numbers on the left side, tensors written in parts, and results whose types say how large they are."""

from __future__ import annotations

import numpy as np
import pytest

import weft as wf
from comprehension.running import assert_slopes, backends, definition
from weft.comprehension import ComprehensionError, check, infer, parse
from weft.comprehension.ranges import Ranges

X = np.array([1, -2, 3, 5, 4], "float32")


def ranges(text: str, **shapes: tuple[int, ...]) -> Ranges:
    program = check(parse(text))
    return infer(program, list(program.definitions)[-1], shapes)


def refused(text: str, **shapes: tuple[int, ...]) -> tuple[str, str, str]:
    """The characters marked, what is said of them and the fix, of the one mistake."""
    with pytest.raises(ComprehensionError) as raised:
        ranges(text, **shapes)
    (one,) = raised.value.mistakes
    return text[one.span.start : one.span.end], one.what, one.fix


PARTS = {
    "O(0) +=! x(r)": [11],
    "O(0) +=! x(r) O(1) max=! x(r) O(2) min=! x(r) O(3) *=! x(r)": [11, 5, -2, -120],
    "O(1) = x(3) O(0) = x(1)": [-2, 5],
    "O(0) = 1.0 O(1) = 2.0 O(2) = O(0) + O(1)": [1, 2, 3],
    "O(0) = x(0) O(0) += x(i)": [12],
    "O(0, i) = x(i) O(1, i) = 2 * x(i) O(1, i) += 1": [X, 2 * X + 1],
    "O(1, i) max=! x(j) + i where i in 0:2 O(0, i) = i where i in 0:2": [[0, 1], [5, 6]],
    "O(i) = x(i - 1) where i in 1:N O(0) = 7": [7, *X[:-1]],
    "O(i) = x(i) O(2) = 9 O(3) +=! 1.0": [1, -2, 9, 1, 4],
    "t(0) = 5.0 t(1) +=! x(i) O(i) = t(0) * x(i) + t(1)": 5 * X + 11,
}


@backends
@pytest.mark.parametrize("body", PARTS)
def test_numbers_on_the_left(body: str, backend: str) -> None:
    found = definition(f"def f(float(N) x) -> (O) {{ {body} }}", backend)(X)
    np.testing.assert_array_equal(found, PARTS[body])


@pytest.mark.parametrize("body", PARTS)
def test_gradients_of_parts(body: str) -> None:
    one = definition(f"def f(double(N) x) -> (O) {{ {body} }}", "interp")
    x = X.astype("float64")
    seed = np.random.default_rng(3).standard_normal(one(x).shape).astype(one(x).dtype)
    gradient = one.grad(x, d=seed)
    assert_slopes({"x": gradient}, {"x": x}, lambda given: float((one(given["x"]) * seed).sum()), near=1e-5)
    written = definition(one.show("gradient", x))
    np.testing.assert_allclose(written(x, seed), gradient, rtol=1e-12)


@backends
def test_a_part_that_begins_afresh_leaves_the_rest(backend: str) -> None:
    f = definition("def f(float(N) x, float(2,N) O) -> (O) { O(1, i) +=! x(i) * x(j) }", backend)
    before = np.arange(10, dtype="float32").reshape(2, 5)
    np.testing.assert_array_equal(f(X, before), [before[0], 11 * X])


@backends
def test_a_cell_may_go_on_from_what_the_caller_passes(backend: str) -> None:
    f = definition("def f(float(N) x) -> (O) { O(1) += x(i) }", backend)
    found = np.ones(3, "float32")
    f(X, outputs=(found,))
    np.testing.assert_array_equal(found, [1, 12, 1])


UNDEFINED = {
    "O(1) = x(0)": ("O", "nothing defines `O(0)`", "write every cell before it is read or given out"),
    "t(0) = x(0) O(i) = t(0) * x(i) + t(1) t(1) = x(1)": (
        "t", "nothing defines `t(1)`", "write every cell before it is read or given out"
    ),
    "O(0) = x(0) O(1) += x(1)": (
        "O", "`+=` goes on from what `O(1)` holds, and nothing has defined it", "define it before"
    ),
    "O(i) = x(i - 1) where i in 1:N O(1) = 7": (
        "i",
        "`i` runs over 1:5, so nothing defines `O` below 1",
        "let it begin at 0: write `i + 1` for `i` on the right",
    ),
    "O(i) = x(i) O(5) = 0": (
        "5",
        "axis 0 of `O` is 5, and 5 is not in it",
        "write the numbers from 0 on, or give the result a type that is long enough",
    ),
    "O(i, j) = x(i) * x(j) O(0, j) +=! x(j) where j in 0:2": (
        "j", "`+=!` starts `O` afresh, and `j` covers 0:2 of 0:5", "cover all of it, or write `+=`"
    ),
    "O(0) = O(0)": (
        "O",
        "`O` is read by the statement that defines it",
        "go on from what the caller passes: `O(0) += …`, or make `O` a parameter too",
    ),
}  # fmt: skip


@pytest.mark.parametrize("body", UNDEFINED)
def test_every_cell_is_defined_before_it_is_read_or_given_out(body: str) -> None:
    assert refused(f"def f(float(N) x) -> (O) {{ {body} }}", x=(5,)) == UNDEFINED[body]


# Types of results


@backends
def test_the_type_of_a_result_bounds_what_nothing_else_does(backend: str) -> None:
    f = definition("def f(float(N) a, float(M) c) -> (float(N,M) b) { b(i,j) = a(i) }", backend)
    np.testing.assert_array_equal(f(X, X[:2]), np.stack([X, X], 1))
    numbers = definition("def f(float(N) a) -> (float(N,2) b) { b(i,j) = a(i) + j }", backend)
    np.testing.assert_array_equal(numbers(X), np.stack([X, X + 1], 1))
    parts = definition("def f(float(N) x) -> (float(N) O) { O(0) = 0.0 O(i) = x(i - 1) where i in 1:N }", backend)
    np.testing.assert_array_equal(parts(X), [0, *X[:-1]])


def test_the_type_of_a_result_does_not_cut_it_off() -> None:
    text = "def f(float(N) a, float(M) c) -> (float(M) b) { b(i) = a(i) }"
    assert refused(text, a=(5,), c=(3,))[1] == "`M` is 3 as a parameter and 5 as axis 0 of `b`"


def test_a_size_that_only_the_result_has_bounds_nothing() -> None:
    text = "def f(float(N) a) -> (float(N,M) b) { b(i,j) = a(i) }"
    assert refused(text, a=(5,)) == ("j", "nothing says how far `j` runs", "give its range: `where j in 0:N`")


# What can never run


NEVER = {
    "def f(float(N) a) -> (O) { O(i,j) = 3 }": "nothing says how far `i` runs",
    "def f(float(N) a) -> (b) { b(i,j) = a(i) }": "nothing says how far `j` runs",
    "def f(float(I,J,K,L,M) I1) -> (O) { O(i,j,k,l,m) = I1(j,i,k,i,l) }": "nothing says how far `m` runs",
    "def f(float(N) x, int32 s) -> (y) { y(i) = x(s * i) }": (
        "`x(s * i)` does not say how far `i` runs: the subscript depends on what tensors hold"
    ),
    "def f(float(N) x) -> (y) { y(i) +=! x(i + j) }": "`x(i + j)` does not say how far each of `i` and `j` runs",
    "def f(float(N) x) -> (y) { y(i) = x(i - 1) }": "`i` begins at 1, so nothing defines `y` below 1",
    "def f(float(N) x) -> (y) { y(i) = x(3 * i - 7) }": "`i` begins at 3, so nothing defines `y` below 3",
    "def f(float(N) x) -> (y) { y(i) = x(i) where i in 4:8 }": "`i` begins at 4, so nothing defines `y` below 4",
    "def f(float(N) x) -> (y) { y(i) = x(i - N) }": "`i` begins at N, so nothing defines `y` below N",
    "def f(float(N) x) -> (y) { y(i) = x(i) where i in N:N }": "`i` begins at N, so nothing defines `y` below N",
    "def f(float(N,M) x) -> (y) { y(i) +=! x(i - 2 * N - M + 1, j) }": (
        "`i` begins at 2 * N + M - 1, so nothing defines `y` below 2 * N + M - 1"
    ),
    "def f(float(N) x) -> (y) { y(i) = x(i + N) }": (
        "`i + N` leaves axis 0 of `x`, which is `N`, from `i = 0` on, so nothing of `y` is written whatever the sizes"
    ),
    "def f(float(N) x) -> (y) { y(i) = x(i) y(i) = x(2 * i + 3 * N) }": (
        "`2 * i + 3 * N` leaves axis 0 of `x`, which is `N`, from `i = 0` on, so nothing of `y` is written whatever "
        "the sizes"
    ),
    "def f(float(N) x) -> (y) { y(i) = x(0 - i - 1) }": (
        "`0 - i - 1` leaves axis 0 of `x`, which is `N`, from `i = 0` on, so nothing of `y` is written whatever the "
        "sizes"
    ),
    "def f(float(N) x) -> (y) { y(i) +=! x(i + j) where j in 0:N+1 }": (
        "`i + j` leaves axis 0 of `x`, which is `N`, from `i = 0` on, so nothing of `y` is written whatever the sizes"
    ),
    "def f(float(N) x, float(4) z) -> (y) { y(i, k) = x(i) * z(i + k + 4) }": (
        "`i + k + 4` leaves axis 0 of `z`, which is `4`, from `i = 0` on, so nothing of `y` is written whatever the "
        "sizes"
    ),
    "def f(float(N) x) -> (y) { y(i) = x(i + 1) where i in 0:N }": (
        "`i + 1` leaves axis 0 of `x`, which is `N`, whatever the sizes"
    ),
    "def f(float(N) x) -> (y) { y(i) = x(i - 1) where i in 0:N }": (
        "`i - 1` leaves axis 0 of `x`, which is `N`, whatever the sizes"
    ),
    "def f(float(4) x) -> (y) { y(i) = x(7) * x(i) }": "`7` leaves axis 0 of `x`, which is `4`, whatever the sizes",
    "def f(float(4) x) -> (y) { y(i) = x(i) where i in 0:9 }": (
        "`i` leaves axis 0 of `x`, which is `4`, whatever the sizes"
    ),
    "def f(float(N,M) x) -> (y) { y(i) +=! x(i + j, j) where i in 0:N, j in 0:2 }": (
        "`i + j` leaves axis 0 of `x`, which is `N`, whatever the sizes"
    ),
    "def f(float(N) x, float(M) z) -> (y) { y(i) = x(i + M) where i in 0:N }": (
        "`i + M` leaves axis 0 of `x`, which is `N`, whatever the sizes"
    ),
}


@pytest.mark.parametrize("text", NEVER)
def test_what_can_never_run_is_refused_when_it_is_defined(text: str) -> None:
    with pytest.raises(ComprehensionError) as raised:
        wf.tc.define(text)
    assert [one.what for one in raised.value.mistakes] == [NEVER[text]]


def test_what_could_run_for_some_sizes_is_not_refused_beforehand() -> None:
    for body in (
        "y(i) = x(i - N + 4)",
        "y(i) = x(i + N - 1)",
        "y(i) = x(N - 1 - i)",
        "y(i) +=! x(j + N) * x(i)",
        "y(i) = x(i) y(i) += x(i - N)",
        "y(i) +=! x(i + j) where j in 0:N",
        "y(i) = i < 0 ? x(i + N) : x(i)",
        "y(i) +=! x(i - k) * x(k) where k in 0:N",
        "y(i) = x(i - 1) y(0) = 0",
        "y(i) = i > 0 ? x(i - 1) : x(i)",
        "y(i) = x((i - i + 2) * i)",
        "y(i) = x(7) * x(i)",
        "y(i) = x(i + 1) where i in 0:N-1",
        "y(i) = x(4 - i) where i in 0:N",
        "y(i) = i < N - 1 ? x(i + 1) : x(i) where i in 0:N",
        "y(i) +=! x(i + k) where i in 0:N, k in 0:1",
        "y(i) +=! x(i + k) where i in 0:N, k in 0:N-2",
    ):
        check(parse(f"def f(float(N) x) -> (y) {{ {body} }}"))
