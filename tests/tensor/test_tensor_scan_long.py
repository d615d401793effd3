"""A long recurrence: an LSTM over a thousand steps against NumPy, and how little of it depends on its length."""

from __future__ import annotations

import re

import numpy as np
import pytest

import weft as wf

EXAMPLES, FEATURES, STATE = 2, 3, 4


def lstm(array: np.ndarray) -> tuple[wf.Tensor, list[wf.Tensor]]:
    """An LSTM of weft, and its weights: of all four gates at once."""
    rng = np.random.default_rng(1)
    shapes = {"w": (4, STATE, FEATURES), "u": (4, STATE, STATE), "b": (4, STATE)}
    w, u, b = (
        wf.require_grad(wf.data(rng.normal(size=shape).astype(array.dtype), input=len(shape) - 2, label=name))
        for name, shape in shapes.items()
    )

    def cell(carry: tuple[wf.Tensor, wf.Tensor], x: wf.Tensor) -> tuple[wf.Tensor, wf.Tensor]:
        h, c = carry
        gates = w @ x + u @ h + b
        add, forget, new, give = (wf.einsum(f"...|{gate}, j => ...|j", gates) for gate in range(4))
        c = wf.sigmoid(forget) * c + wf.sigmoid(add) * wf.tanh(new)
        return wf.sigmoid(give) * wf.tanh(c), c

    (hs, _), _ = wf.scan(cell, wf.data(array, batch=2, label="xs"), init=(0.0, 0.0))
    return hs, [w, u, b]


def numpy_lstm(xs: np.ndarray, w: np.ndarray, u: np.ndarray, b: np.ndarray) -> list[np.ndarray]:
    """States, and the gradients of the sum of their squares by the weights, in matrices of all gates."""
    flat = [np.concatenate(list(one)) for one in (w, u, b)]
    h = c = np.zeros((xs.shape[1], STATE))
    kept, states = [], []
    for x in xs:
        z = x @ flat[0].T + h @ flat[1].T + flat[2]
        i, f, g, o = np.split(z, 4, axis=1)
        i, f, o, g = *(1 / (1 + np.exp(-one)) for one in (i, f, o)), np.tanh(g)
        kept.append((x, h, c, i, f, g, o))
        c = f * c + i * g
        h = o * np.tanh(c)
        states.append(h)
        kept[-1] += (np.tanh(c),)
    found = [np.zeros_like(one) for one in flat]
    dh = dc = np.zeros_like(h)
    for (x, before, c, i, f, g, o, squashed), h in zip(kept[::-1], states[::-1], strict=True):
        dh = dh + 2 * h
        dc = dc + dh * o * (1 - squashed**2)
        parts = dc * g * i * (1 - i), dc * c * f * (1 - f), dc * i * (1 - g**2), dh * squashed * o * (1 - o)
        dz = np.concatenate(parts, axis=1)
        found[0] += dz.T @ x
        found[1] += dz.T @ before
        found[2] += dz.sum(0)
        dh, dc = dz @ flat[1], dc * f
    return [np.stack(states), *(one.reshape(like.shape) for one, like in zip(found, (w, u, b), strict=True))]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_thousand_steps_and_their_gradient(dtype: str) -> None:
    array = np.random.default_rng(0).normal(size=(1000, EXAMPLES, FEATURES)).astype(dtype)
    hs, weights = lstm(array)
    gradients = wf.grad(wf.einsum("...|... => 0", hs * hs), weights)
    ctx = wf.Context("cc")
    ctx.compile(wf.seq(hs.forward, *(one.forward for one in gradients)))()
    expected = numpy_lstm(array.astype(np.float64), *(ctx[one].astype(np.float64) for one in weights))
    rounding = 1e-11 if dtype == "float64" else 2e-5
    for one, other in zip([hs, *gradients], expected, strict=True):
        np.testing.assert_allclose(ctx[one], other, rtol=0, atol=rounding * np.abs(other).max())


def test_what_is_compiled_does_not_grow_with_the_steps() -> None:
    """Loops, and the C of the recurrence, are the same text but for sizes; sums over steps may be cut otherwise."""
    routines = {}
    for steps in (100, 1000):
        hs, weights = lstm(np.zeros((steps, EXAMPLES, FEATURES), "float32"))
        ctx = wf.Context("cc")
        routines[steps] = (
            ctx.compile(hs.forward),
            ctx.compile(wf.seq(*(one.forward for one in wf.grad(wf.einsum("...|... => 0", hs * hs), weights)))),
        )

    def text(steps: int, which: int, stage: str) -> str:
        return re.sub(r"\d+", "#", routines[steps][which].show(stage))

    assert text(100, 0, "source") == text(1000, 0, "source")
    assert text(100, 1, "loops") == text(1000, 1, "loops")
    assert len(routines[100][1].kernels) == len(routines[1000][1].kernels)
    assert len(text(1000, 1, "source")) < 1.25 * len(text(100, 1, "source"))
