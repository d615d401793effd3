"""Gradients: of the corpus against central differences of what NumPy computes, and what is special about each kind."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from comprehension.corpus import CORPUS, Entry
from comprehension.oracle import run
from comprehension.running import Array, assert_near, assert_slopes, backends, definition, seeds_of, several
from weft.comprehension import check, parse
from weft.comprehension.builtins import BUILTINS

DIFFERENTIABLE = [one for one in CORPUS if one.differentiable]


@pytest.mark.parametrize("entry", DIFFERENTIABLE, ids=[one.name for one in DIFFERENTIABLE])
@pytest.mark.parametrize(("backend", "variant"), [("cc", 0), ("interp", 1)])
def test_the_corpus_agrees_with_differences(entry: Entry, backend: str, variant: int) -> None:
    rng = np.random.default_rng(variant)
    one, inputs = definition(entry.text, backend, entry.definition), entry.make(rng, variant)
    seeds = seeds_of(several(definition(entry.text, name=entry.definition)(**inputs)), rng)
    found = several(one.grad(*(inputs[name] for name in one.params), wrt=entry.differentiable, d=seeds))

    def value(given: Mapping[str, Array]) -> float:
        outputs = entry.expected(given)
        pairs = zip(outputs, seeds, strict=True)
        return sum(float((output * seed).sum()) for output, seed in pairs if seed is not None)

    assert_slopes(dict(zip(entry.differentiable, found, strict=True)), inputs, value)


# Minima, maxima, products


@backends
def test_all_that_attain_a_maximum_share_its_gradient(backend: str) -> None:
    f = definition("def f(float(M,N) x) -> (y) { y(m) max=! x(m,n) }", backend)
    x = np.array([[1, 3, 3], [2, 2, 2], [5, 1, 0]], "float32")
    assert_near(f.grad(x), [[0, 0.5, 0.5], [1 / 3, 1 / 3, 1 / 3], [1, 0, 0]])


@backends
def test_what_was_there_before_shares_too(backend: str) -> None:
    f = definition("def f(float(M,N) x, float(M) y) -> (y) { y(m) min= x(m,n) }", backend)
    x, y = np.array([[1, 1, 2], [4, 5, 6]], "float32"), np.array([1, 0], "float32")
    by_x, by_y = f.grad(x, y)
    assert_near(by_x, [[1 / 3, 1 / 3, 0], [0, 0, 0]])
    assert_near(by_y, [1 / 3, 1])


@backends
def test_a_maximum_that_is_added_to_afterwards(backend: str) -> None:
    f = definition("def f(float(N) x, float(N) y) -> (m) { m max=! x(i)\n m += y(i) }", backend)
    x, y = np.array([1, 3, 2], "float32"), np.array([0.5, 0.25, 0.125], "float32")
    assert f(x, y) == 3.875
    by_x, by_y = f.grad(x, y)
    assert_near(by_x, [0, 1, 0])
    assert_near(by_y, [1, 1, 1])


@backends
def test_a_maximum_that_is_written_over_in_part(backend: str) -> None:
    f = definition("def f(float(N,K) x, float(N) y) -> (m) { m(i) max=! x(i,k)\n m(i) = y(i) where i in 1:2 }", backend)
    x, y = np.arange(12, dtype="float32").reshape(3, 4), np.ones(3, "float32")
    by_x, by_y = f.grad(x, y)
    assert_near(by_x, [[0, 0, 0, 1], [0, 0, 0, 0], [0, 0, 0, 1]])
    assert_near(by_y, [0, 1, 0])


@backends
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_a_maximum_of_rounded_products(backend: str, dtype: str) -> None:
    import ml_dtypes

    kind = np.dtype(ml_dtypes.bfloat16) if dtype == "bfloat16" else np.dtype(dtype)
    f = definition(f"def f({dtype}(N) x, {dtype}(N) z) -> (y) {{ y max=! x(i) * z(i) }}", backend)
    rng = np.random.default_rng(3)
    x, z = (rng.standard_normal(33).astype(kind) for _ in range(2))
    by_x, _ = f.grad(x, z)
    best = (x.astype("float64") * z.astype("float64")).argmax()
    assert np.flatnonzero(by_x.astype("float64")).tolist() == [best]
    assert by_x[best] == z[best]


@backends
def test_every_factor_gets_the_product_of_the_others_zeros_included(backend: str) -> None:
    f = definition("def f(float(M,N) x, float(M) y) -> (y) { y(m) *= x(m,n) }", backend)
    x = np.array([[0, 2, 3], [0, 0, 3], [1, 2, 3]], "float32")
    by_x, by_y = f.grad(x, np.array([4, 2, 5], "float32"))
    assert_near(by_x, [[24, 0, 0], [0, 0, 0], [30, 15, 10]])
    assert_near(by_y, [0, 0, 6])


# Writing again


@backends
def test_a_tensor_that_is_written_and_read_in_turns(backend: str) -> None:
    text = """def f(double(N) x) -> (y, z) { y(i) = x(i) * x(i)
        z(i) = y(i) * 3
        y(i) = y(i) * x(i) where i in 1:3
        y(i) *= z(i)
        y(i) max= x(i)
        y(i) += x(i) }"""
    f, x = definition(text, backend), np.array([0.5, 2, 3, -1.5])
    seeds = np.array([1.0, 2, 3, 4]), np.array([4.0, 3, 2, 1])

    def numpy(x: Array) -> tuple[Array, Array]:
        y = x * x
        z = y * 3
        y = np.concatenate([y[:1], y[1:3] * x[1:3], y[3:]]) * z
        return np.maximum(y, x) + x, z

    for found, wanted in zip(f(x), numpy(x), strict=True):
        assert_near(found, wanted)

    def value(given: Mapping[str, Array]) -> float:
        return sum(float((one * seed).sum()) for one, seed in zip(numpy(given["x"]), seeds, strict=True))

    assert_slopes({"x": f.grad(x, d=seeds)}, {"x": x}, value, near=1e-6)


@backends
def test_calls_hand_gradients_through(backend: str) -> None:
    f = definition(
        "def square(float(N) x) -> (y) { y(i) = x(i) * x(i) }\n"
        "def f(float(N) x) -> (z) { y = square(x)\n z = square(y) }",
        backend,
    )
    x = np.array([1, -2, 0.5], "float32")
    assert_near(f.grad(x), 4 * x**3)


# Functions and operators

ARGUMENTS = ("x(i)", "w(i)", "x(i) * w(i)", "w(i) + 1")
#: What is put in for x where a function is defined only there.
INSIDE = {
    **dict.fromkeys(("acos", "asin", "atanh", "erfinv", "normcdfinv"), "0.3 * x(i)"),
    "acosh": "x(i) + 1",
    "erfcinv": "0.7 * x(i)",
}
CALLS = [
    f"{name}({', '.join((INSIDE.get(name, 'x(i)'), *ARGUMENTS[1:])[: one.arity])})"
    for name, one in BUILTINS.items()
    if name not in ("nextafter", "trigamma")  # they have no derivative
]
OPERATORS = ["x(i) / w(i)", "x(i) % w(i)", "-x(i) - w(i)", "x(i) < w(i) ? x(i) : w(i)", "float(double(x(i)) * 2)"]


@pytest.mark.parametrize("expression", [*CALLS, *OPERATORS])
def test_every_function_and_operator(expression: str) -> None:
    text = f"def f(double(N) x, double(N) w) -> (y) {{ y(i) = {expression} }}"
    one, checked = definition(text), check(parse(text))
    inputs = {"x": np.array([0.3, 1.2, 2.6, 0.7]), "w": np.array([1.1, 0.5, 0.9, 2.3])}
    seed = np.array([1.0, -2.0, 0.5, 3.0])
    given = seed.astype(one(**inputs).dtype)
    found = dict(zip("xw", one.grad(**inputs, d=given), strict=True))
    assert_slopes(found, inputs, lambda given: float((run(checked, "f", given)["y"] * seed).sum()), near=1e-3)
    written = definition(one.show("gradient", **inputs))
    for array, gradient in zip(written(*inputs.values(), given), found.values(), strict=True):
        assert_near(array, gradient)


# Choices, conversions, no dependence


@backends
def test_the_branch_not_taken_gets_nothing(backend: str) -> None:
    f = definition("def f(float(N) x) -> (y) { y(i) = x(i) > 0 ? log(x(i)) : 2 * x(i) }", backend)
    x = np.array([-1, 4, 0], "float32")
    with np.errstate(all="ignore"):
        assert_near(f.grad(x), [2, 0.25, 2])


@backends
def test_what_the_result_does_not_depend_on_gets_zeros(backend: str) -> None:
    f = definition("def f(float(N) x, float(N) w) -> (y) { y(i) = floor(x(i)) + int32(w(i)) + 0.5 }", backend)
    x = np.ones(3, "float32")
    for found in f.grad(x, x):
        assert_near(found, [0, 0, 0])


@backends
def test_deep_expressions_and_calls(backend: str) -> None:
    x = np.full(3, 1.01, "float32")
    power = definition(f"def f(float(N) x) -> (y) {{ y(i) = {' * '.join(['x(i)'] * 40)} }}", backend)
    assert_near(power.grad(x), 40 * x**39)
    calls = "\n".join(f"def g{n}(float(N) x) -> (y) {{ y = g{n - 1}(x) }}" for n in range(1, 40))
    nested = definition(f"def g0(float(N) x) -> (y) {{ y(i) = 3 * x(i) }}\n{calls}", backend)
    assert_near(nested.grad(x), np.full(3, 3))
