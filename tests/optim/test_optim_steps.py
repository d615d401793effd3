"""Optimisers against a plain NumPy version of themselves."""

from __future__ import annotations

import numpy as np
import pytest

import weft as wf

STEPS = 6
START = np.array([1.0, -2.0, 0.5])
TARGET = np.array([0.3, 0.7, -1.1])


def gradient(w: np.ndarray) -> np.ndarray:
    """Of the sum of (w - target)**4 / 4 + sin(w)."""
    return (w - TARGET) ** 3 + np.cos(w)


def trained(optimiser: object, **options: object) -> list[np.ndarray]:
    """The parameter after each step."""
    ctx, w = wf.Context("interp"), wf.param("w", o=3, dtype="float64")
    ctx[w] = START
    apart = w - wf.data(TARGET)
    loss = wf.einsum("...|... => 0", apart**4 * 0.25 + wf.sin(w))
    step = ctx.compile(wf.seq(wf.grad_update(loss), optimiser(loss, **options)))  # type: ignore[operator]
    seen = []
    for _ in range(STEPS):
        step()
        seen.append(ctx[w])
    return seen


def sgd(lr: float, momentum: float = 0.0, weight_decay: float = 0.0, nesterov: bool = False) -> list[np.ndarray]:
    w, v, seen = START.copy(), np.zeros(3), []
    for _ in range(STEPS):
        delta = gradient(w) + weight_decay * w
        if momentum:
            v = momentum * v + delta
            delta = delta + momentum * v if nesterov else v
        w = w - lr * delta
        seen.append(w)
    return seen


SGD = [
    {"lr": 0.05},
    {"lr": 0.05, "weight_decay": 0.1},
    {"lr": 0.05, "momentum": 0.9},
    {"lr": 0.05, "momentum": 0.9, "nesterov": True},
    {"lr": 0.05, "momentum": 0.8, "weight_decay": 0.1, "nesterov": True},
    {"lr": 0.05, "momentum": 0.8, "weight_decay": 0.1},
]


@pytest.mark.parametrize("options", SGD, ids=str)
def test_sgd(options: dict[str, float]) -> None:
    np.testing.assert_allclose(trained(wf.optim.sgd, **options), sgd(**options), rtol=1e-12)  # type: ignore[arg-type]


def test_a_learning_rate_that_falls_with_a_static_index() -> None:
    i, ctx = wf.index("i", STEPS), wf.Context("interp")
    w = wf.param("w", o=3, dtype="float64")
    ctx[w] = START
    loss = wf.einsum("...|... => 0", w * w)
    step = ctx.compile(wf.seq(wf.grad_update(loss), wf.optim.sgd(loss, lr=0.1 / (i + 1))), bindings=[i])
    expected = START
    for at in range(STEPS):
        step(i=at)
        expected = expected - 0.1 / (at + 1) * 2 * expected
        np.testing.assert_allclose(ctx[w], expected, rtol=1e-12)


def test_a_learning_rate_that_is_a_tensor() -> None:
    ctx, rate = wf.Context("interp"), wf.node("rate", init=0.1, dtype="float64")
    w = wf.param("w", o=3, dtype="float64")
    ctx[w] = START
    loss = wf.einsum("...|... => 0", w * w)
    step = ctx.compile(wf.seq(wf.grad_update(loss), wf.optim.sgd(loss, lr=rate)))
    step()
    np.testing.assert_allclose(ctx[w], 0.8 * START, rtol=1e-7)
    ctx[rate] = 0.25
    step()
    np.testing.assert_allclose(ctx[w], 0.4 * START, rtol=1e-7)


def test_every_parameter_has_its_own_state() -> None:
    ctx = wf.Context("interp")
    a, b = (wf.param(name, o=size, init=1.0, dtype="float64") for name, size in (("a", 2), ("b", 3)))
    loss = wf.einsum("...|... => 0", a * a) + wf.einsum("...|... => 0", b * b) * 2.0
    step = ctx.compile(wf.seq(wf.grad_update(loss), wf.optim.sgd(loss, lr=0.1, momentum=0.5)))
    step()
    step()
    first, v = 1.0, 0.0
    second, u = 1.0, 0.0
    for _ in range(2):
        v, u = 0.5 * v + 2 * first, 0.5 * u + 4 * second
        first, second = first - 0.1 * v, second - 0.1 * u
    np.testing.assert_allclose(ctx[a], first, rtol=1e-12)
    np.testing.assert_allclose(ctx[b], second, rtol=1e-12)


def test_how_a_step_of_sgd_prints() -> None:
    w = wf.param("w", o=3)
    loss = wf.einsum("...|... => 0", w * w)
    code = wf.optim.sgd(loss, lr=0.1, momentum=0.9, weight_decay=0.01, nesterov=True)
    assert str(code) == (
        '~~("sgd w";\n'
        "  sgd.delta.w =: w.grad + (0.01 *. w);\n"
        '  sgd.momentum.w =: (0.9 *. sgd.momentum.w) + sgd.delta.w ~at_least:"float32";\n'
        "  sgd.delta.w =+ 0.9 *. sgd.momentum.w;\n"
        "  w =- 0.1 *. sgd.delta.w)"
    )


def test_a_regression_converges() -> None:
    numbers = np.random.default_rng(1)
    inputs = numbers.normal(size=(64, 3))
    truth = inputs @ np.array([[1.0, -2.0, 0.5], [0.0, 3.0, 1.0]]).T + np.array([0.5, -0.5])
    ctx, x, y = wf.Context("interp"), wf.data(inputs, batch=1), wf.data(truth, batch=1)
    w, b = wf.param("w", dtype="float64"), wf.param("b", o=2, dtype="float64")
    apart = w @ x + b - y
    loss = wf.einsum("...|... => 0", apart * apart) * (1 / 64)
    step = ctx.compile(wf.seq(wf.grad_update(loss), wf.optim.adam(loss, lr=0.1)))
    for _ in range(300):
        step()
    assert ctx[loss].item() < 1e-4
    np.testing.assert_allclose(ctx[w], [[1.0, -2.0, 0.5], [0.0, 3.0, 1.0]], atol=0.02)
    np.testing.assert_allclose(ctx[b], [0.5, -0.5], atol=0.02)


@pytest.mark.parametrize("beta2", [0.999, 0.9999, 0.99999])
def test_a_step_of_adam_is_the_learning_rate_where_the_gradient_stays_the_same(beta2: float) -> None:
    """What corrects the bias of the early steps has all its digits."""
    p = wf.param("p", o=3, init=0.0)
    loss = wf.einsum("...|... => 0", p)
    ctx = wf.Context("interp")
    step = ctx.compile(wf.seq(wf.grad_update(loss), wf.optim.adam(loss, lr=1.0, beta2=beta2)))
    for _ in range(20):
        ctx[p] = np.zeros(3, "float32")
        step()
        np.testing.assert_allclose(-ctx[p], 1.0, rtol=2e-6)


@pytest.mark.parametrize("say", ["the data", "the default"])
def test_the_weights_of_means_are_as_wide_as_the_means(say: str) -> None:
    """Whoever says that a parameter is in double precision, nothing about its step is in single."""
    ids = wf.input("ids", b="batch", dtype="int32")
    y = wf.input("y", b="batch", o=3, dtype="float64") if say == "the data" else wf.constant(1.0)
    if say == "the default":
        wf.default_precision("float64")
    try:
        loss = wf.mean((wf.take(wf.param("t", o=(4, 3)), ids) - y) ** 2, "...|... => 0")
        code = wf.seq(wf.grad_update(loss), wf.optim.adam(loss, lr=0.003))
        given = (ids, y) if say == "the data" else (ids,)
        state = (ctx := wf.Context("interp")).state(ctx.function(*given, code=code, returns=loss))
    finally:
        wf.default_precision("float32")
    assert {label: str(array.dtype) for label, array in state.items()} == dict.fromkeys(state, "float64")
    assert "adam.weight1.t" in state
