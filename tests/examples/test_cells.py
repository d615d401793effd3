"""An LSTM cell, a GRU cell and multi-head attention as layers that return several tensors, against NumPy.

The NumPy versions compute in one array of all gates or heads, in another order; gradients are compared with the slopes
of these versions, not of weft's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest

import weft as wf

Array = npt.NDArray[np.float64]
BATCH, STEPS, INPUTS, HIDDEN, HEADS = 3, 4, 5, 6, 2


class State(NamedTuple):
    h: wf.Tensor
    c: wf.Tensor


@wf.op
def gate(x: wf.Tensor, h: wf.Tensor, *, size: int) -> wf.Tensor:
    return "w" @ x + "u" @ h + wf.param("b", o=size)


@wf.op
def lstm_cell(x: wf.Tensor, h: wf.Tensor, c: wf.Tensor, *, size: int) -> tuple[wf.Tensor, wf.Tensor]:
    i, f, o, g = (gate(x, h, size=size, label=name) for name in "ifog")
    c = wf.sigmoid(f) * c + wf.sigmoid(i) * wf.tanh(g)
    h = wf.sigmoid(o) * wf.tanh(c)
    return h, c


@wf.op
def lstm(xs: list[wf.Tensor], state: State, *, size: int) -> dict[str, Any]:
    cell, outputs = lstm_cell(size=size, label="cell"), []
    for x in xs:
        state = State(*cell(x, **state._asdict()))
        outputs.append(state.h)
    return {"outputs": outputs, "last": state}


@wf.op
def gru_cell(x: wf.Tensor, h: wf.Tensor, *, size: int) -> dict[str, wf.Tensor]:
    z, r = (wf.sigmoid(gate(x, h, size=size, label=name)) for name in "zr")
    n = wf.tanh("w_n" @ x + r * ("u_n" @ h) + wf.param("b_n", o=size))
    return {"h": (1 - z) * n + z * h, "reset": r}


@wf.op
def multi_head(x: wf.Tensor, source: wf.Tensor | None = None, *, heads: int, d: int) -> tuple[wf.Tensor, wf.Tensor]:
    q, k, v = "w_q" @ x, "w_k" @ (x if source is None else source), "w_v" @ (x if source is None else source)
    scores = wf.einsum("... s|h d; ... t|h d => ... s|t -> h", q, k, h=heads, d=d) / d**0.5
    above = wf.exp(scores - wf.einsum("...|t -> h => ...|0 -> h", scores, accum="max"))
    weights = above / wf.einsum("...|t -> h => ...|0 -> h", above)
    out = "w_o" @ wf.einsum("... s|t -> h; ... t|h e => ... s|h e", weights, v, e=d)
    return out, weights


def sigmoid(x: Array) -> Array:
    return np.asarray(0.5 * (1 + np.tanh(x / 2)))


def numpy_lstm(p: dict[str, Array], xs: Array, h: Array, c: Array) -> list[Array]:
    """`xs` is (batch, steps, inputs); all gates in one product of joined weights."""
    joined = np.concatenate([np.hstack([p[f"cell.{g}.w"], p[f"cell.{g}.u"]]) for g in "ifog"])
    bias = np.concatenate([p[f"cell.{g}.b"] for g in "ifog"])
    outputs = []
    for t in range(xs.shape[1]):
        i, f, o, g = np.split(np.hstack([xs[:, t], h]) @ joined.T + bias, 4, axis=1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        outputs.append(h)
    return [*outputs, h, c]


def numpy_gru(p: dict[str, Array], x: Array, h: Array) -> list[Array]:
    z, r = (sigmoid(x @ p[f"{g}.w"].T + h @ p[f"{g}.u"].T + p[f"{g}.b"]) for g in "zr")
    n = np.tanh(x @ p["w_n"].T + r * (h @ p["u_n"].T) + p["b_n"])
    return [n + z * (h - n), r]


def numpy_attention(p: dict[str, Array], x: Array, source: Array) -> list[Array]:
    """One head after another; the weights of weft lie (batch, position, head, other position)."""
    outs, weights = [], []
    for head in range(HEADS):
        q, k, v = (one @ p[name][head].T for one, name in ((x, "w_q"), (source, "w_k"), (source, "w_v")))
        scores = np.exp(q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1]))
        weights.append(scores / scores.sum(axis=-1, keepdims=True))
        outs.append(weights[-1] @ v @ p["w_o"][:, head].T)
    return [np.sum(outs, axis=0), np.stack(weights, axis=2)]


def values(layer: wf.Layer, ctx: wf.Context, rng: np.random.Generator) -> dict[str, Array]:
    """New parameters for a layer, by path."""
    found = {path: rng.normal(0, 0.6, layer.param(path).dims.array_shape) for path in paths(layer)}
    for path, value in found.items():
        ctx[layer.param(path)] = value
    return found


def paths(layer: wf.Layer) -> list[str]:
    return [param.label.removeprefix(f"{layer.label}.") for param in layer.params]


def total(results: list[Array]) -> float:
    """Depends on every number of every result, on each in its own way."""
    return float(sum(np.sin(one * (1 + 0.3 * n) + 0.2).sum() for n, one in enumerate(results)))


def loss_of(results: list[wf.Tensor]) -> wf.Tensor:
    sums = [wf.einsum("...|...->... => 0", wf.sin(one * (1 + 0.3 * n) + 0.2)) for n, one in enumerate(results)]
    return sum(sums[1:], sums[0])


def slopes(numpy_loss: Callable[[dict[str, Array]], float], given: dict[str, Array]) -> dict[str, Array]:
    """Central differences by every number."""
    found = {}
    for path, value in given.items():
        slope = np.empty_like(value)
        for at in np.ndindex(value.shape):
            moved = [value.copy(), value.copy()]
            moved[0][at] += 1e-5
            moved[1][at] -= 1e-5
            above, below = (numpy_loss({**given, path: one}) for one in moved)
            slope[at] = (above - below) / 2e-5
        found[path] = slope
    return found


def check(
    layer: wf.Layer, results: list[wf.Tensor], numpy: Callable[[dict[str, Array]], list[Array]], backend: str
) -> None:
    """Values and gradients of a layer's results are those of NumPy."""
    ctx, loss = wf.Context(backend), loss_of(results)
    given = values(layer, ctx, np.random.default_rng(1))
    for found, expected in zip(results, numpy(given), strict=True):
        np.testing.assert_allclose(ctx[found], expected, rtol=1e-10, atol=1e-12)
    ctx.compile(wf.grad_update(loss), keep=[param.grad for param in layer.params])()
    for path, slope in slopes(lambda p: total(numpy(p)), given).items():
        np.testing.assert_allclose(ctx[layer.param(path).grad], slope, rtol=1e-5, atol=1e-7, err_msg=path)


def data(rng: np.random.Generator, *shape: int, batch: int) -> tuple[wf.Tensor, Array]:
    array = rng.normal(size=shape)
    return wf.data(array, batch=batch), array


@pytest.mark.parametrize("backend", ["interp", "cc"])
def test_an_lstm(backend: str) -> None:
    rng = np.random.default_rng(0)
    xs, (h0, h), (c0, c) = rng.normal(size=(BATCH, STEPS, INPUTS)), *(data(rng, BATCH, HIDDEN, batch=1) for _ in "hc")
    layer = lstm(size=HIDDEN)
    made = layer([wf.data(xs[:, t], batch=1) for t in range(STEPS)], State(h0, c0))
    assert [one.label for one in (*made["outputs"][:1], *made["last"])] == ["lstm.cell.h", "lstm.cell.h", "lstm.cell.c"]
    assert made["last"].h is made["outputs"][-1]
    assert {tuple(one.dims.array_shape) for one in made["last"]} == {(BATCH, HIDDEN)}
    assert paths(layer) == [f"cell.{g}.{name}" for g in "ifog" for name in ("w", "u", "b")]
    check(layer, [*made["outputs"], *made["last"]], lambda p: numpy_lstm(p, xs, h, c), backend)


@pytest.mark.parametrize("backend", ["interp", "cc"])
def test_a_gru_cell(backend: str) -> None:
    rng = np.random.default_rng(0)
    (x, xs), (h, hs) = data(rng, BATCH, INPUTS, batch=1), data(rng, BATCH, HIDDEN, batch=1)
    layer = gru_cell(size=HIDDEN, label="gru")
    made = layer(x, h=h)
    assert {key: one.label for key, one in made.items()} == {"h": "gru.h", "reset": "gru.reset"}
    check(layer, list(made.values()), lambda p: numpy_gru(p, xs, hs), backend)


@pytest.mark.parametrize("backend", ["interp", "cc"])
def test_multi_head_attention_returns_its_weights_too(backend: str) -> None:
    rng = np.random.default_rng(0)
    (x, xs), (source, sources) = data(rng, BATCH, 4, 5, batch=2), data(rng, BATCH, 3, 5, batch=2)
    layer = multi_head(heads=HEADS, d=3, label="attention")
    out, weights = layer(x, source=source)
    assert (out.label, weights.label) == ("attention.out", "attention.weights")
    results = [out * wf.data(np.ones(5)), weights]
    assert str(weights.dims) == f"{BATCH},4|3->{HEADS}"
    check(layer, results, lambda p: numpy_attention(p, xs, sources), backend)
    own, _ = layer(x)
    assert set(own.params) == set(layer.params)
