"""Layers of sequences in NumPy: heads, positions and steps one after another. Sequences are batch, time, features."""

from __future__ import annotations

from collections.abc import Callable
from math import erf

import numpy as np

from nn.differential import Arrays
from nn.reference import normalise, relu, sigmoid

#: Does the query at one position see the key at another?
Sees = Callable[[int, int], bool]


def everything(query: int, key: int) -> bool:
    return True


def before(query: int, key: int) -> bool:
    return key <= query


def gelu(x: np.ndarray) -> np.ndarray:
    return x * 0.5 * (1 + np.vectorize(erf)(x / np.sqrt(2)))


def gelu_tanh(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def inner(p: Arrays, name: str) -> Arrays:
    """The parameters of a layer inside, by their names there."""
    return {path.removeprefix(f"{name}."): value for path, value in p.items() if path.startswith(f"{name}.")}


def linear(x: np.ndarray, p: Arrays) -> np.ndarray:
    return x @ p["w"].T + p.get("b", 0.0)


def layer_norm(x: np.ndarray, p: Arrays) -> np.ndarray:
    return normalise(x, (-1,)) * p["gamma"] + p.get("beta", 0.0)


def rms_norm(x: np.ndarray, p: Arrays, eps: float = 1e-5) -> np.ndarray:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * p["gamma"]


def turned(x: np.ndarray, base: float = 10000.0, *, interleaved: bool = True) -> np.ndarray:
    """Time, features: pairs as complex numbers, each turned by its own angle."""
    half = x.shape[-1] // 2
    first, second = (x[:, ::2], x[:, 1::2]) if interleaved else (x[:, :half], x[:, half:])
    angle = np.arange(len(x))[:, None] * base ** (-np.arange(half) / half)
    pairs = (first + 1j * second) * (np.cos(angle) + 1j * np.sin(angle))
    if not interleaved:
        return np.concatenate([pairs.real, pairs.imag], axis=1)
    found = np.empty_like(x)
    found[:, ::2], found[:, 1::2] = pairs.real, pairs.imag
    return found


def attention(
    x: np.ndarray,
    p: Arrays,
    *,
    source: np.ndarray | None = None,
    sees: Callable[[int], Sees] = lambda row: everything,
    rope: bool = False,
    interleaved: bool = True,
) -> np.ndarray:
    """Head after head; `sees` says of each row of the batch who sees whom."""
    source = x if source is None else source
    groups, d_k = p["k"].shape[:2]
    q_weights, o_weights = p["q"].reshape(-1, d_k, x.shape[-1]), p["o"].reshape(p["o"].shape[0], -1, p["v"].shape[1])
    heads = len(q_weights)
    zero = np.zeros(1)
    q_bias = p.get("q_bias", np.zeros((heads, d_k))).reshape(heads, d_k)
    k_bias, v_bias = p.get("k_bias", np.zeros((groups, 1))), p.get("v_bias", np.zeros((groups, 1)))
    y = np.zeros((*x.shape[:2], len(o_weights))) + p.get("o_bias", zero)
    for row in range(len(x)):
        seen = np.array([[sees(row)(t, s) for s in range(source.shape[1])] for t in range(x.shape[1])])
        for head in range(heads):
            group = head * groups // heads
            q = x[row] @ q_weights[head].T + q_bias[head]
            k = source[row] @ p["k"][group].T + k_bias[group]
            v = source[row] @ p["v"][group].T + v_bias[group]
            if rope:
                q, k = turned(q, interleaved=interleaved), turned(k, interleaved=interleaved)
            above = np.where(seen, q @ k.T / np.sqrt(d_k), -np.inf)
            weights = np.exp(above - above.max(1, keepdims=True))
            y[row] += (weights / weights.sum(1, keepdims=True)) @ v @ o_weights[:, head].T
    return y


def feed_forward(x: np.ndarray, p: Arrays, kind: str = "gelu") -> np.ndarray:
    up = linear(x, inner(p, "up"))
    match kind:
        case "swiglu":
            gate = linear(x, inner(p, "gate"))
            hidden = gate * sigmoid(gate) * up
        case _:
            hidden = {"gelu": gelu, "gelu_tanh": gelu_tanh, "relu": relu}[kind](up)
    return linear(hidden, inner(p, "down"))


def rnn(x: np.ndarray, p: Arrays) -> np.ndarray:
    h = np.zeros((len(x), len(p["b"])))
    states = []
    for t in range(x.shape[1]):
        h = np.tanh(np.hstack([x[:, t], h]) @ np.hstack([p["w"], p["u"]]).T + p["b"])
        states.append(h)
    return np.stack(states, 1)


def lstm(x: np.ndarray, p: Arrays, lengths: list[int] | None = None) -> tuple[np.ndarray, np.ndarray]:
    """What each step gives, and the last state of the cells."""
    size = p["u"].shape[-1]
    h, c = np.zeros((len(x), size)), np.zeros((len(x), size))
    states = []
    for t in range(x.shape[1]):
        joined = np.concatenate([p["w"], p["u"]], axis=-1).reshape(4 * size, -1)
        i, f, g, o = np.split(np.hstack([x[:, t], h]) @ joined.T + p["b"].ravel(), 4, axis=1)
        new_c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        new_h = sigmoid(o) * np.tanh(new_c)
        goes_on = np.array([[t < n] for n in lengths or [x.shape[1]] * len(x)])
        h, c = np.where(goes_on, new_h, h), np.where(goes_on, new_c, c)
        states.append(new_h)
    return np.stack(states, 1), c


def gru(x: np.ndarray, p: Arrays) -> np.ndarray:
    size = p["u"].shape[-1]
    h = np.zeros((len(x), size))
    states = []
    for t in range(x.shape[1]):
        given = [x[:, t] @ p["w"][at].T + p["b"][at] for at in range(3)]
        held = [h @ p["u"][at].T for at in range(3)]
        reset, update = sigmoid(given[0] + held[0]), sigmoid(given[1] + held[1])
        new = np.tanh(given[2] + reset * (held[2] + p["b_n"]))
        h = new + update * (h - new)
        states.append(h)
    return np.stack(states, 1)
