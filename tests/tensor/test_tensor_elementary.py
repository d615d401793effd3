"""Elementary functions and activations: against NumPy at all kinds of numbers, on both backends, with gradients."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from tensor.differences import check_gradient, double
from tensor.together import together
from weft.ops import OPS

BACKENDS = pytest.mark.parametrize("backend", ["interp", "cc"])
DTYPES = pytest.mark.parametrize("dtype", ["float32", "float64"])
Function = Callable[..., Any]

_erf = np.vectorize(math.erf, otypes=[np.float64])


def gelu_by_tanh(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


#: What each function means.
MEANINGS: dict[str, tuple[Function, Function]] = {
    "tan": (wf.tan, np.tan),
    "asin": (wf.asin, np.arcsin),
    "acos": (wf.acos, np.arccos),
    "atan": (wf.atan, np.arctan),
    "sinh": (wf.sinh, np.sinh),
    "cosh": (wf.cosh, np.cosh),
    "asinh": (wf.asinh, np.arcsinh),
    "acosh": (wf.acosh, np.arccosh),
    "atanh": (wf.atanh, np.arctanh),
    "log1p": (wf.log1p, np.log1p),
    "expm1": (wf.expm1, np.expm1),
    "erfc": (wf.erfc, np.vectorize(math.erfc, otypes=[np.float64])),
    "ceil": (wf.ceil, np.ceil),
    "round": (wf.round, np.round),
    "sign": (wf.sign, np.sign),
    "clip": (lambda x: wf.clip(x, -0.75, 2), lambda x: np.clip(x, -0.75, 2)),
    "isnan": (wf.isnan, np.isnan),
    "isfinite": (wf.isfinite, np.isfinite),
    "gelu": (wf.gelu, lambda x: 0.5 * x * (1 + _erf(x / np.sqrt(2)))),
    "gelu by tanh": (lambda x: wf.gelu(x, tanh=True), gelu_by_tanh),
    "silu": (wf.silu, lambda x: x / (1 + np.exp(-x))),
    "softplus": (wf.softplus, lambda x: np.logaddexp(x, 0)),
    "elu": (wf.elu, lambda x: np.where(x > 0, x, np.expm1(x))),
    "elu of another size": (lambda x: wf.elu(x, alpha=0.5), lambda x: np.where(x > 0, x, 0.5 * np.expm1(x))),
    "leaky_relu": (wf.leaky_relu, lambda x: np.where(x > 0, x, 0.01 * x)),
    "leaky_relu of a slope": (lambda x: wf.leaky_relu(x, slope=0.3), lambda x: np.where(x > 0, x, 0.3 * x)),
}
#: Rows of the table that have a function of their name; what they mean is tested with the table.
ROWS = ["erfcx", "erfinv", "erfcinv", "normcdf", "normcdfinv"]
#: Differences of two numbers that are nearly alike keep fewer digits.
CANCELLING = {"gelu", "gelu by tanh"}
NUMBERS = [
    0.0,
    -0.0,
    1e-30,
    -1e-7,
    0.25,
    0.5,
    -0.5,
    1.0,
    -1.0,
    1.5,
    2.5,
    -2.5,
    3.49,
    30.0,
    -30.0,
    1e6,
    -1e6,
    1e30,
    -1e30,
]
OTHERS = [np.inf, -np.inf, np.nan]


@BACKENDS
@DTYPES
def test_at_all_kinds_of_numbers(dtype: str, backend: str) -> None:
    x = np.array(NUMBERS + OTHERS, dtype)
    with np.errstate(all="ignore"):
        computed = together(backend, {name: function(wf.data(x)) for name, (function, _) in MEANINGS.items()})
    digits = 1e-6 if dtype == "float32" else 1e-14
    for name, found in computed.items():
        with np.errstate(all="ignore"):
            wanted = np.asarray(MEANINGS[name][1](x.astype("float64"))).astype(dtype)
        atol = digits if name in CANCELLING else 0
        assert found.dtype == dtype, name
        np.testing.assert_allclose(found, wanted, rtol=4 * digits, atol=atol, err_msg=name)
        if name in ("ceil", "round", "sign", "clip"):
            np.testing.assert_array_equal(np.signbit(found)[:-1], np.signbit(wanted)[:-1], name)


@BACKENDS
def test_functions_that_are_rows_of_the_table(backend: str) -> None:
    x = np.array([0.1, 0.4, 0.5, 0.9])
    for name, found in together(backend, {name: getattr(wf, name)(wf.data(x)) for name in ROWS}).items():
        np.testing.assert_allclose(found, OPS[name].meaning(x), rtol=1e-13, err_msg=name)


@BACKENDS
def test_angles(backend: str) -> None:
    y, x = np.array([0.0, -0.0, 1, -1, 3, np.inf]), np.array([-1.0, -1.0, 0, -2, 4, -np.inf])
    found = wf.Context(backend)[wf.atan2(wf.data(y), wf.data(x))]
    np.testing.assert_allclose(found, np.arctan2(y, x), rtol=1e-14)


@BACKENDS
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "uint64"])
def test_whole_numbers_stay_whole(dtype: str, backend: str) -> None:
    low = 0 if dtype.startswith("u") else -5
    x = np.array([low, 0, 1, 7, np.iinfo(dtype).max], dtype)
    ctx, tensor = wf.Context(backend), wf.data(x)
    for function in (wf.ceil, wf.round):
        np.testing.assert_array_equal(ctx[function(tensor)], x)
    np.testing.assert_array_equal(ctx[wf.sign(tensor)], np.sign(x))
    np.testing.assert_array_equal(ctx[wf.clip(tensor, 1, 5)], np.clip(x, 1, 5))
    assert ctx[wf.isfinite(tensor)].all()
    assert not ctx[wf.isnan(tensor)].any()


@BACKENDS
def test_bounds_that_are_tensors(backend: str) -> None:
    x, low = np.random.default_rng(0).normal(size=(3, 4)), np.array([-1, 0, -0.5, 0.2])
    found = wf.Context(backend)[wf.clip(wf.data(x, batch=1), wf.data(low), wf.data(low + 0.3))]
    np.testing.assert_array_equal(found, np.clip(x, low, low + 0.3))


#: Points away from kinks, in the domain of all functions but those of other domains.
POINTS = np.array([-0.9, -0.63, -0.4, 0.15, 0.37, 0.55, 0.71, 0.85]).reshape(2, 4)
DOMAINS: dict[str, np.ndarray] = {
    "acosh": POINTS + 2.5,
    **dict.fromkeys(("erfcinv", "normcdfinv"), np.abs(POINTS)),
    **dict.fromkeys(("softplus", "gelu", "silu", "gelu by tanh"), np.arange(-3.0, 5).reshape(2, 4)),
}


@pytest.mark.parametrize("name", [*MEANINGS, *ROWS])
def test_gradients(name: str) -> None:
    function = MEANINGS[name][0] if name in MEANINGS else getattr(wf, name)
    x = double("x", b=2, o=4)
    # a comparison alone depends on nothing
    check_gradient(function(x) * x if name.startswith("is") else function(x), values={x: DOMAINS.get(name, POINTS)})


def test_the_gradient_of_angles_and_bounds() -> None:
    y, x = double("y", b=2, o=4), double("x", o=4)
    check_gradient(wf.atan2(y, x), y, x)
    low, high = double("low", o=4), double("high", o=1)
    check_gradient(wf.clip(y, low, high), y, low, high, values={y: POINTS, low: [-0.7, -0.65, -0.3, 0.2], high: [0.6]})


@BACKENDS
@DTYPES
def test_gradients_far_out_are_numbers(backend: str, dtype: str) -> None:
    """No function of these overflows on its way: its slope far out is 0 or 1."""
    for function in (wf.softplus, wf.silu, wf.elu, wf.gelu, wf.sigmoid, lambda x: wf.gelu(x, tanh=True)):
        x = wf.param("x", o=5, dtype=dtype, init=[-1e3, -200.0, 0.0, 200.0, 1e3])
        ctx = wf.Context(backend)
        with np.errstate(over="ignore"):
            ctx.compile(wf.grad_update(wf.sum(function(x))), keep=[x.grad])()
        slopes = ctx[x.grad]
        assert np.isfinite(slopes).all(), function
        np.testing.assert_allclose(slopes[[0, 1]], 0, atol=1e-12)
        np.testing.assert_allclose(slopes[[3, 4]], 0 if function is wf.sigmoid else 1, atol=1e-12)


def test_the_slope_at_a_kink() -> None:
    x = double("x", o=1, init=0.0)
    slopes = {wf.softplus: 0.5, wf.silu: 0.5, wf.gelu: 0.5, wf.elu: 1.0, wf.leaky_relu: 0.01, wf.sign: 0.0}
    for function, slope in slopes.items():
        ctx = wf.Context("interp")
        ctx.compile(wf.grad_update(wf.sum(function(x) + 0 * x)), keep=[x.grad])()
        assert ctx[x.grad] == [slope], function


def test_a_formula_is_one_assignment() -> None:
    x = wf.data(np.ones(3, "float32"), label="x")
    shown = wf.Context("interp").compile(wf.gelu(x, label="y").forward).show("assign")
    assert shown.count("=:") == 1
    assert shown.startswith("y =: (0.5 *. x) *. (1 + erf(")


def test_formulas_in_the_definition_of_an_operator() -> None:
    @wf.operator
    def gated(v: Any, v1: Any, v2: Any) -> None:
        v[:] = wf.silu(v1) * wf.clip(v2, 0, 1) + wf.gelu(v1, tanh=True) * wf.isfinite(v2)

    x, y = double("x", o=4), double("y", o=4)
    check_gradient(gated(x, y), x, y, values={x: POINTS[0], y: POINTS[1]})


def test_functions_take_specs_and_names() -> None:
    x = wf.data(np.arange(6.0).reshape(2, 3) / 10)
    found = wf.tan(x, spec="ij => ji", label="turned")
    assert found.label == "turned"
    np.testing.assert_allclose(wf.Context("interp")[found], np.tan(np.arange(6).reshape(2, 3) / 10).T)
    assert wf.gelu(x, label="hidden").label == "hidden"


def test_wrong_use() -> None:
    with pytest.raises(wf.WeftError, match=r"gelu takes tensors and numbers, not list \[1, 2\]"):
        wf.gelu([1, 2])
    with pytest.raises(wf.WeftError, match="clip takes tensors and numbers, not the truth value False"):
        wf.clip(wf.number(1.0), wf.number(1.0) == wf.number(2.0), 3)
    with pytest.raises(wf.ArgumentError, match="`elu` takes a number for `alpha`, not 'one'"):
        wf.elu(wf.number(1.0), alpha="one")  # type: ignore[arg-type]
    with pytest.raises(wf.ArgumentError, match="`gelu` takes True or False for `tanh`, not 3"):
        wf.gelu(wf.number(1.0), tanh=3)  # type: ignore[arg-type]
    with pytest.raises(wf.ArgumentError, match="`clip` needs the argument `high`"):
        wf.clip(wf.number(1.0), 3)  # type: ignore[call-arg]
