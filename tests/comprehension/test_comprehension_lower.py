"""Definitions run: the corpus on every backend, and the corners of lowering."""

from __future__ import annotations

import numpy as np
import pytest

from comprehension.corpus import CORPUS, Entry
from comprehension.running import assert_near, backends, definition, several

entries = pytest.mark.parametrize("entry", CORPUS, ids=[one.name for one in CORPUS])


@entries
@backends
def test_the_corpus_gives_what_numpy_gives(entry: Entry, backend: str) -> None:
    one = definition(entry.text, backend, entry.definition)
    for variant in (0, 1):
        inputs = entry.make(np.random.default_rng(variant), variant)
        found = several(one(**inputs))
        for array, wanted in zip(found, entry.expected(inputs), strict=True):
            assert_near(array, wanted)


# Nothing to run over


@backends
@pytest.mark.parametrize("sizes", [(0, 2, 3), (2, 0, 3), (2, 3, 0), (0, 0, 0), (1, 1, 1)])
def test_axes_of_no_and_of_one_cell(backend: str, sizes: tuple[int, int, int]) -> None:
    mm = definition("def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }", backend)
    m, k, n = sizes
    a, b = np.ones((m, k), "float32"), np.ones((k, n), "float32")
    assert_near(mm(a, b), a @ b)
    for found, wanted in zip(mm.grad(a, b), (np.ones((m, n)) @ b.T, a.T @ np.ones((m, n))), strict=True):
        assert_near(found, wanted)


@backends
@pytest.mark.parametrize(
    ("sign", "dtype", "neutral"),
    [
        ("+=!", "float", 0),
        ("*=!", "float", 1),
        ("max=!", "float", -np.inf),
        ("min=!", "int32", 2**31 - 1),
        ("max=!", "int8", -128),
        ("max=!", "uint64", 0),
        ("min=!", "bool", True),
    ],
)
def test_a_reduction_over_nothing_is_its_neutral_element(backend: str, sign: str, dtype: str, neutral: float) -> None:
    f = definition(f"def f({dtype}(M,K) A) -> (c) {{ c(m) {sign} A(m,k) }}", backend)
    kind = {"float": "float32"}.get(dtype, dtype)
    assert f(np.ones((2, 0), kind)).tolist() == [neutral, neutral]
    assert f(np.ones((0, 2), kind)).tolist() == []


@backends
def test_what_is_accumulated_into_stays_if_nothing_is_added(backend: str) -> None:
    f = definition("def f(float(K) A) -> (c) { c += A(k) }", backend)
    assert f(np.ones(0, "float32"), np.float32(3)) == 3


@backends
def test_an_empty_tensor_is_never_read(backend: str) -> None:
    f = definition("def f(float(N) A) -> (O) { O(i) = i < A.0 ? A(i) : 7 where i in 0:3 }", backend)
    assert f(np.zeros(0, "float32")).tolist() == [7, 7, 7]
    assert f(np.ones(2, "float32")).tolist() == [1, 1, 7]
    assert f.grad(np.zeros(0, "float32")).shape == (0,)


# Whole numbers


@backends
def test_whole_numbers_divide_rounding_down_and_nothing_traps(backend: str) -> None:
    f = definition(
        "def f(int32(N) a, int32(N) b) -> (q, r, c) { q(i) = a(i) / b(i)\n r(i) = a(i) % b(i)\n"
        " c(i) = b(i) != 0 ? a(i) / b(i) : -1 }",
        backend,
    )
    a, b = np.array([7, -7, 7, 5, -(2**31)], "int32"), np.array([2, 2, -2, 0, -1], "int32")
    with np.errstate(all="ignore"):
        quotients, remainders, guarded = f(a, b)
    assert quotients[:3].tolist() == [3, -4, -4]
    assert remainders[:3].tolist() == [1, 1, -1]
    assert guarded[:4].tolist() == [3, -4, -4, -1]


@backends
def test_sums_keep_their_type(backend: str) -> None:
    assert definition("def f(int8(N) x) -> (y) { y +=! x(i) }", backend)(np.full(300, 1, "int8")) == 44
    assert definition("def f(int8(N) x) -> (y) { y +=! int32(x(i)) }", backend)(np.full(300, 1, "int8")) == 300
    assert definition("def f(bool(N) x) -> (y) { y +=! x(i) }", backend)(np.array([True, False, True])) == 2
    huge = np.array([2**62, 5], "int64")
    assert definition("def f(int64(N) x) -> (y) { y +=! x(i) }", backend)(huge) == 2**62 + 5
    assert definition("def f(uint64(N) x) -> (y) { y max=! x(i) }", backend)(np.array([2**63, 1], "uint64")) == 2**63


@backends
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sums_of_narrow_floats_are_carried_in_wide_ones(backend: str, dtype: str) -> None:
    import ml_dtypes

    kind = np.dtype(ml_dtypes.bfloat16) if dtype == "bfloat16" else np.dtype(dtype)
    found = definition(f"def f({dtype}(N) x) -> (y) {{ y +=! x(i) }}", backend)(np.full(3000, 0.125).astype(kind))
    assert found.dtype == kind
    assert float(found) == pytest.approx(375, rel=0.01)


# Names


@backends
@pytest.mark.parametrize(
    "text",
    [
        "def for(float(N) int1) -> (while) { while(if) = 2 * int1(if) }",
        "def f(float(N) memcpy) -> (NAN) { NAN(size_t) = 2 * memcpy(size_t) }",
        "def f(float(i0) i1) -> (i2) { i2(i) = 2 * i1(i) }",
        "def f(float(N) _) -> (__) { __(i) = 2 * _(i) }",
        "def f(float(N) x) -> (y) { y(y_sum) = 2 * x(y_sum) }",
        "def f(float(N) self) -> (args) { args(i) = 2 * self(i) }",
    ],
)
def test_names_of_python_c_and_weft(backend: str, text: str) -> None:
    one = definition(text, backend)
    x = np.arange(4, dtype="float32")
    assert_near(one(x), 2 * x)
    assert_near(one.grad(x), np.full(4, 2))


@backends
def test_sizes_of_a_called_definition_are_its_own(backend: str) -> None:
    f = definition(
        "def g(float(N) x) -> (y) { t(i) = x(i) * 2\n y(i) = t(i) + N }\n"
        "def f(float(N) g1_t, float(g1_N) z) -> (w) { q = g(g1_t)\n w(i, g1_y) = q(i) * z(g1_y) * g1_N }",
        backend,
    )
    x, z = np.arange(3, dtype="float32"), np.arange(5, dtype="float32")
    assert_near(f(x, z), np.outer(2 * x + 3, z) * 5)


def test_a_loop_is_not_called_like_what_is_taken() -> None:
    f = definition("def f(float(N) x) -> (y) { y(i) = x(i) }", "cc")
    loops = f.show("loops", np.ones(3, "float32"))
    assert "for i in range(3):" in loops
