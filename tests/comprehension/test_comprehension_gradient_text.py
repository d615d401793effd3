"""The gradient of a definition, as text, is a definition: it can be read, runs, and gives the gradient."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from comprehension.corpus import CORPUS, Entry
from comprehension.running import Array, assert_near, definition, seeds_of, several
from weft.ops.dtypes import numpy_type
from weft.tc import Definition

DIFFERENTIABLE = [one for one in CORPUS if one.differentiable]


def assert_text_agrees(one: Definition, args: list[Array]) -> None:
    """Run the text of a definition's gradient and compare."""
    seeds = seeds_of(several(one(*args)), np.random.default_rng(0))
    wanted = several(one.grad(*args, d=seeds))
    written = definition(one.show("gradient", *args))
    found = several(written(*args, *(seed for seed in seeds if seed is not None)))
    for array, gradient in zip(found, wanted, strict=True):
        assert array.dtype == gradient.dtype
        assert_near(array, gradient, "float16" if array.dtype.itemsize < 4 else "float32")


@pytest.mark.parametrize("entry", DIFFERENTIABLE, ids=[one.name for one in DIFFERENTIABLE])
def test_the_corpus(entry: Entry) -> None:
    inputs = entry.make(np.random.default_rng(1), 1)
    one = definition(entry.text, name=entry.definition)
    assert_text_agrees(one, [inputs[name] for name in one.params])


@pytest.mark.parametrize(
    "text",
    [
        "def f(float(N) A) -> (C) { C(d_A) = A(d_A) * A(d_A) }",
        "def f(float(N) A, float(N) d_A, float(N) d_C) -> (C) { C(i) = A(i) * d_A(i) * d_C(i) }",
        "def f(float(N) A, int32(N) d_A) -> (C, d_C) { C(i) = A(i) * A(i)\n d_C(i) = d_A(i) }",
        "def f(float(N) C_2) -> (C) { C(i) = C_2(i)\n C(C_2_2) = C(C_2_2) * C_2(C_2_2) }",
        "def f(float(N) A) -> (ties_m, m) { m max=! A(zeros_m)\n ties_m(i0) = A(i0) * m }",
        "def f(float(N) i0, float(N) i1) -> (y) { y(i, k) = i0(i) * i1(k)\n y(i, k) *= i0(i) }",
        "def f(float(N) f2) -> (f_gradient) { f_gradient(i) = f2(i) * f2(i) }",
        "def g(float(N) x) -> (y) { y(i) = x(i) * N }\ndef f(float(N) g1_y) -> (z) { t = g(g1_y)\n z(g1_t) = t(g1_t) }",
        "def f(float(N) x) -> (y) { y(j0) = x(N - 1 - j0) * x(j0) }",
    ],
)
def test_names_that_gradients_would_take(text: str) -> None:
    one = definition(text)
    types = one.template.flat.types
    assert_text_agrees(one, [np.arange(1, 5).astype(types[name]) for name in one.params])


def test_nothing_is_written_that_nothing_needs() -> None:
    text = """def g(float(N) x, float(N) y) -> (z) { c(i) min=! 1.5 where i in 0:N
        c(i) = x(i) * y(i)
        z(i) = 2 * c(i) }"""
    one = definition(text)
    assert_text_agrees(one, [np.arange(3, dtype="float32")] * 2)
    assert "ties" not in one.show("gradient", *[np.ones(3, "float32")] * 2)


def test_what_a_choice_guards_stays_guarded() -> None:
    one = definition("def f(float(N) L, int32(B) I) -> (O) { O(i) = 2 * i < I.0 ? L(I(2 * i)) : 0 where i in 0:9 }")
    assert_text_agrees(one, [np.arange(4, dtype="float32"), np.array([3, 0, 1], "int32")])


@pytest.mark.parametrize("dtype", ["double", "half", "bfloat16"])
def test_tensors_keep_their_types(dtype: str) -> None:
    text = f"""def f({dtype}(N) x, {dtype}(N) z, float(N) w, {dtype}(N) unused) -> (y, c) {{
        y max=! x(0) * N + z(0) where i in 0:3
        c(i) = x(i) * w(i) + {dtype}(w(i)) }}"""
    one = definition(text)
    args = [np.arange(1, 4).astype(numpy_type(one.template.flat.types[name])) for name in one.params]
    assert_text_agrees(one, args)


def test_reads_as_the_language_is_written(golden: Callable[..., None]) -> None:
    conv = definition("def conv(float(N) I, float(K) W) -> (O) { O(i) +=! I(2 * i + k) * W(k) }")
    golden(conv.show("gradient", np.ones(9, "float32"), np.ones(3, "float32")), name="strided")
    lookup = definition("def lookup(float(V,D) L, int32(B) I) -> (O) { O(b,d) = L(I(b),d) }")
    golden(lookup.show("gradient", np.ones((5, 2), "float32"), np.zeros(3, "int32")), name="lookup")
    softmax = definition(
        "def softmax(float(N) x) -> (y) { m max=! x(i)\n e(i) = exp(x(i) - m)\n s +=! e(i)\n y(i) = e(i) / s }"
    )
    golden(softmax.show("gradient", np.ones(4, "float32")), name="softmax")
