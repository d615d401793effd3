"""Every optimiser beside its recurrence in NumPy, in both precisions; all of them in one step on every backend."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft as wf
from optim import recurrences

STEPS = 10
#: A map from 3 inputs to 2 outputs, one the other way round, a table of rows and a bias.
SIZES: dict[str, dict[str, Any]] = {"w": {"o": 2, "i": 3}, "tall": {"o": 3, "i": 2}, "t": {"o": (4, 2)}, "b": {"o": 3}}
SHAPES = {"w": (2, 3), "tall": (3, 2), "t": (4, 2), "b": (3,)}


def numbers(seed: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    return {name: random.normal(size=shape) for name, shape in SHAPES.items()}


START, TARGET = numbers(0), numbers(1)


def gradient(name: str, value: np.ndarray) -> np.ndarray:
    """Of the sum of (value - target)**4 / 4 + sin(value)."""
    return (value - TARGET[name]) ** 3 + np.cos(value)


def problem(dtype: str = "float64") -> tuple[dict[str, wf.Tensor], wf.Tensor]:
    params, terms = {}, []
    for name, sizes in SIZES.items():
        p = params[name] = wf.param(name, dtype=dtype, **sizes)
        target = wf.data(TARGET[name].astype(dtype), input="i" in sizes, label=f"target_{name}")
        terms.append(wf.einsum("...|...->... => 0", (p - target) ** 4 * 0.25 + wf.sin(p)))
    return params, (terms[0] + terms[1] + terms[2] + terms[3]).named("loss")


def set_start(ctx: wf.Context, params: dict[str, wf.Tensor]) -> None:
    for name, p in params.items():
        ctx[p] = START[name].astype(p.dtype)


def expected(method: recurrences.Method, options: dict[str, Any], name: str, dtype: str = "float64") -> np.ndarray:
    value, state = START[name].astype(dtype).astype("float64"), {}  # type: ignore[var-annotated]
    for _ in range(STEPS):
        value = method(value, gradient(name, value), state, **options)
    return value


CASES: list[tuple[str, dict[str, Any]]] = [
    ("sgd", {"lr": 0.02}),
    ("sgd", {"lr": 0.02, "momentum": 0.9, "weight_decay": 0.1}),
    ("sgd", {"lr": 0.02, "momentum": 0.9, "nesterov": True}),
    ("adam", {}),
    ("adam", {"lr": 0.1, "beta1": 0.5, "beta2": 0.9, "eps": 1e-3, "weight_decay": 0.1}),
    ("adam", {"lr": 0.1, "beta2": 0.5, "amsgrad": True}),
    ("adamw", {}),
    ("adamw", {"lr": 0.1, "weight_decay": 0.2}),
    ("adamw", {"lr": 0.1, "beta2": 0.5, "amsgrad": True}),
    ("rmsprop", {}),
    ("rmsprop", {"lr": 0.01, "beta": 0.9, "momentum": 0.8, "weight_decay": 0.1}),
    ("rmsprop", {"lr": 0.01, "beta": 0.9, "centered": True}),
    ("adagrad", {}),
    ("adagrad", {"lr": 0.1, "init": 0.5, "eps": 1e-3, "weight_decay": 0.1}),
    ("lion", {}),
    ("lion", {"lr": 0.4, "beta1": 0.6, "beta2": 0.9, "weight_decay": 0.1}),
    ("lamb", {}),
    ("lamb", {"lr": 0.05, "beta1": 0.8, "weight_decay": 0.1}),
    ("muon", {}),
    ("muon", {"lr": 0.05, "momentum": 0.8, "nesterov": False, "weight_decay": 0.1, "steps": 3, "others": {"lr": 0.1}}),
]


@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-9), ("float32", 2e-4)])
@pytest.mark.parametrize(("name", "options"), CASES, ids=[f"{name}-{options}" for name, options in CASES])
def test_a_method_follows_its_recurrence(name: str, options: dict[str, Any], dtype: str, tolerance: float) -> None:
    params, loss = problem(dtype)
    ctx = wf.Context("interp")
    set_start(ctx, params)
    step = ctx.compile(wf.seq(wf.grad_update(loss), getattr(wf.optim, name)(loss, **options)))
    for _ in range(STEPS):
        step()
    for label, p in params.items():
        found, wanted = ctx[p], expected(getattr(recurrences, name), options, label, dtype)
        assert found.dtype == dtype
        np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


MIXED: dict[str, tuple[str, dict[str, Any]]] = {
    "w": ("muon", {"lr": 0.05}),
    "tall": ("lamb", {"lr": 0.05, "weight_decay": 0.1}),
    "t": ("sgd", {"lr": 0.02, "momentum": 0.9}),
    "b": ("rmsprop", {"lr": 0.01, "momentum": 0.9}),
}
OTHERS: dict[str, tuple[str, dict[str, Any]]] = {
    "w": ("adamw", {"lr": 0.05}),
    "tall": ("lion", {"lr": 0.05}),
    "t": ("adagrad", {"lr": 0.02}),
    "b": ("adam", {"lr": 0.01, "amsgrad": True}),
}


@pytest.mark.parametrize("mixed", [MIXED, OTHERS], ids=["mixed", "others"])
def test_several_optimisers_share_a_step_in_compiled_code(mixed: dict[str, tuple[str, dict[str, Any]]]) -> None:
    params, loss = problem()
    ctx = wf.Context("cc")
    set_start(ctx, params)
    updates = [getattr(wf.optim, name)(loss, only=label, **options) for label, (name, options) in mixed.items()]
    step = ctx.compile(wf.seq(wf.grad_update(loss), *updates))
    for _ in range(STEPS):
        step()
    for label, (name, options) in mixed.items():
        wanted = expected(getattr(recurrences, name), options, label)
        np.testing.assert_allclose(ctx[params[label]], wanted, rtol=1e-9, atol=1e-9)


def test_muon_multiplies_the_shorter_side_with_itself() -> None:
    params, _ = problem()
    assert '~logic:"k->i; k->j => i, j"' in str(wf.optim.muon_one(params["w"]))
    assert '~logic:"i->k; j->k => i, j"' in str(wf.optim.muon_one(params["tall"]))
    assert '~logic:"k, i; k, j => i, j"' in str(wf.optim.muon_one(params["t"]))


def test_a_parameter_of_zeros_takes_a_step_of_lamb() -> None:
    w, ctx = wf.param("w", o=3, init=0.0, dtype="float64"), wf.Context("interp")
    loss = wf.einsum("...|... => 0", (w - 1.0) ** 2)
    ctx.compile(wf.seq(wf.grad_update(loss), wf.optim.lamb(loss, lr=0.5)))()
    np.testing.assert_allclose(ctx[w], 0.5, rtol=1e-5)


def test_equal_gradients_do_not_leave_a_centered_step_without_a_number() -> None:
    w, ctx = wf.param("w", o=50, init=0.0), wf.Context("interp")
    loss = wf.einsum("i; i => 0", w, wf.data(np.linspace(0.1, 3, 50, dtype="float32")))
    step = ctx.compile(wf.seq(wf.grad_update(loss), wf.optim.rmsprop(loss, beta=0.5, centered=True)))
    for _ in range(40):
        step()
    assert np.isfinite(ctx[w]).all()


@pytest.mark.parametrize("name", ["sgd", "adam", "adamw", "rmsprop", "adagrad", "lion", "lamb", "muon"])
def test_printed_code_reads_back(name: str) -> None:
    params, loss = problem()
    options = {"momentum": 0.9} if name == "sgd" else {}
    code = getattr(wf.optim, name)(loss, lr=0.1, **options)
    assert str(wf.parse_cd(str(code), dict(params), declare=True)) == str(code)


def test_state_is_called_after_optimiser_quantity_and_parameter() -> None:
    @wf.op
    def mlp(x: wf.Tensor) -> wf.Tensor:
        return "w1" @ x  # type: ignore[operator, no-any-return]

    loss = wf.mean(mlp(wf.data(np.ones((2, 3)), batch=1)) ** 2 + wf.param("b", o=2), "...|... => 0")
    text = str(wf.optim.adam(loss))
    assert "adam.m.mlp.w1 =: (0.9 *. adam.m.mlp.w1)" in text
    assert "{ adam.weight1.b; scalar; init = 0.0 } =: " in text
    assert "muon.momentum.mlp.w1 =: " in str(wf.optim.muon(loss))
    assert "adamw.v.b =: " in str(wf.optim.muon(loss))
