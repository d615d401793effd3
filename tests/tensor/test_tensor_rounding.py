"""Results do not depend on where a value happened to be rounded, nor random numbers on the backend."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

import weft as wf
from weft.ops.dtypes import digits

BACKENDS = pytest.mark.parametrize("backend", ["interp", "cc"])
FLOATS = ("float64", "float32", "float16", "bfloat16")


def stored(values: object, dtype: str) -> np.ndarray:
    return np.asarray(values, float).astype(getattr(ml_dtypes, dtype, dtype))


# Maxima and minima


@BACKENDS
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("accum", ["max", "min"])
def test_gradients_of_extremes_of_what_is_computed(backend: str, dtype: str, accum: str) -> None:
    a, b = stored([0.1, 0.7, 0.3], dtype), stored([0.3, 0.9, 0.2], dtype)
    x, y = (wf.require_grad(wf.data(one)) for one in (a, b))
    top = wf.einsum("i; i => 0", x, y, accum=accum, op="*")
    ctx = wf.Context(backend)
    ctx.compile(wf.grad_update(top), keep=[x.grad, y.grad])()
    products = a.astype(float) * b.astype(float)
    wins = products == (products.max() if accum == "max" else products.min())
    np.testing.assert_array_equal(ctx[x.grad].astype(float), np.where(wins, b, 0).astype(float))
    np.testing.assert_array_equal(ctx[y.grad].astype(float), np.where(wins, a, 0).astype(float))


@BACKENDS
def test_values_that_round_to_the_same_share_the_gradient(backend: str) -> None:
    """1.0625 times 1.0625 and 1.129 are one number in bfloat16."""
    x = wf.require_grad(wf.data(stored([1.0625, 1.0], "bfloat16")))
    y = wf.data(stored([1.0625, 1.1289], "bfloat16"))
    top = wf.einsum("i; i => 0", x, y, accum="max", op="*")
    ctx = wf.Context(backend)
    ctx.compile(wf.grad_update(top), keep=[x.grad])()
    assert ctx[x.grad].astype(float).tolist() == [0.53125, 0.5625]


EXTREMES: list[tuple[str, str, str, list[int], list[int], int]] = [
    ("max", "+", "int8", [100, 50], [100, 50], -56),
    ("min", "-", "uint8", [1, 1], [3, 2], 254),
    ("max", "*", "uint16", [300, 2], [300, 2], 24464),
    ("min", "*", "int32", [-(2**31), 1], [2, 1], 0),
]


@BACKENDS
@pytest.mark.parametrize(("accum", "op", "dtype", "left", "right", "found"), EXTREMES)
def test_extremes_of_whole_numbers_wrap_when_they_are_stored(
    backend: str, accum: str, op: str, dtype: str, left: list[int], right: list[int], found: int
) -> None:
    for order in (slice(None), slice(None, None, -1)):
        x, y = (wf.data(np.array(one[order], dtype)) for one in (left, right))
        top = wf.einsum("i; i => 0", x, y, accum=accum, op=op)
        assert (top.dtype, wf.Context(backend)[top].tolist()) == (dtype, [found])


@BACKENDS
def test_extremes_in_comprehensions_wrap_when_they_are_stored(backend: str) -> None:
    x = np.random.default_rng(0).integers(-128, 128, (40, 3)).astype("int8")
    f = wf.tc.define("def f(int8(N,M) x) -> (y) { y(j) max=! x(i,j) + x(i,j) }", backend=backend).f
    for given in (x, x[::-1].copy()):
        np.testing.assert_array_equal(f(given), (2 * x.astype(int)).max(0).astype("int8"))


@BACKENDS
@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32"])
def test_what_nothing_is_compared_with_is_the_end_of_its_type(backend: str, dtype: str) -> None:
    """Also where numbers are compared in 64 bits on the way."""
    x = wf.data(np.array([3, 4], dtype))
    ends = np.iinfo(dtype)
    top, low = (wf.einsum("i; i => 2*i", x, x, accum=accum, op="+") for accum in ("max", "min"))
    assert wf.Context(backend)[top].tolist() == [6, ends.min, 8, ends.min]
    assert wf.Context(backend)[low].tolist() == [6, ends.max, 8, ends.max]
    over = wf.einsum("i, j; j, => 2*i,", wf.data(np.array([[3, 4]], dtype)), x, accum="max", op="+")
    assert wf.Context(backend)[over].tolist() == [8, ends.min]


# Random numbers

DRAWN: dict[str, Callable[[], wf.Tensor]] = {
    "uniform": lambda: wf.random_uniform("r", step=3),
    "normal": lambda: wf.random_standard_normal("r", step=3),
    "coins": lambda: wf.bernoulli("r", 0.3, step=3),
}


@pytest.mark.parametrize("name", DRAWN)
@pytest.mark.parametrize("dtype", [*FLOATS, "float8_e4m3fn", "float8_e5m2"])
def test_every_backend_draws_the_same_numbers(name: str, dtype: str) -> None:
    def draw(backend: str) -> bytes:
        wf.seed(11)
        ctx = wf.Context(backend)
        random = DRAWN[name]()
        ctx.compile(wf.where(random, random, wf.data(stored(np.zeros(5_000), dtype))).forward, keep=[random])()
        assert ctx[random].dtype.name == dtype
        return ctx[random].tobytes()

    assert draw("interp") == draw("cc")


@pytest.mark.parametrize("dtype", [*FLOATS, "float8_e4m3fn", "float8_e5m2"])
def test_uniform_numbers_have_the_digits_of_their_type_and_stay_below_1(dtype: str) -> None:
    wf.seed(0)
    ctx = wf.Context("interp")
    random = wf.random_uniform("u", step=0)
    ctx.compile(wf.where(random, random, wf.data(stored(np.zeros(20_000), dtype))).forward, keep=[random])()
    drawn = ctx[random].astype(float)
    units = drawn * 2.0 ** digits(dtype)
    assert drawn.max() < 1
    assert (units == np.floor(units)).all()
    assert (units % 2 == 1).mean() > 0.45, "the last digit is used"
    assert abs(drawn.mean() - 0.5) < 0.005 + 2.0 ** -digits(dtype)


def test_first_values_are_the_same_on_every_backend() -> None:
    def first(backend: str) -> list[bytes]:
        wf.seed(4)
        ctx = wf.Context(backend)
        inits = (wf.normal(1.0, 2.0), wf.uniform(-3, 5), wf.kaiming(), wf.xavier())
        params = [
            wf.param(f"p{at}", o=40, i=30, init=init, dtype=dtype) for at, init in enumerate(inits) for dtype in FLOATS
        ]
        return [ctx[one].tobytes() for one in params]

    assert first("interp") == first("cc")


# Edges


@BACKENDS
@pytest.mark.parametrize("exponent", [1.5, 0.5, -0.5, 2.5])
def test_powers_of_infinities(backend: str, exponent: float) -> None:
    """As C has them: a root of minus infinity is infinity as a power, though not as a root."""
    x = wf.require_grad(wf.data(np.array([-np.inf, np.inf, 0.0, 4.0])))
    ctx = wf.Context(backend)
    y = x**exponent
    ctx.compile(wf.grad_update(y, sum=True), keep=[x.grad, y])()
    power = {1.5: np.inf, 0.5: np.inf, -0.5: 0.0, 2.5: np.inf}[exponent]
    slope = {1.5: np.inf, 0.5: 0.0, -0.5: -0.0, 2.5: np.inf}[exponent]
    assert ctx[y][0] == power
    assert ctx[x.grad][0] == slope
    assert ctx[y][3] == 4.0**exponent
