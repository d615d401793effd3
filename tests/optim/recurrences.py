"""Optimisers as their papers and PyTorch have them, in NumPy: one step of a parameter `w` along a gradient `g`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = Any
State = dict[str, Any]
Method = Callable[..., Array]


def sgd(
    w: Array,
    g: Array,
    s: State,
    lr: float,
    momentum: float = 0.0,
    weight_decay: float = 0.0,
    nesterov: bool = False,
) -> Array:
    g = g + weight_decay * w
    if momentum:
        s["buffer"] = g if "buffer" not in s else momentum * s["buffer"] + g
        g = g + momentum * s["buffer"] if nesterov else s["buffer"]
    return w - lr * g


def _adam_step(g: Array, s: State, beta1: float, beta2: float, eps: float, amsgrad: bool = False) -> Array:
    s["t"] = s.get("t", 0) + 1
    s["m"] = beta1 * s.get("m", 0.0) + (1 - beta1) * g
    s["v"] = beta2 * s.get("v", 0.0) + (1 - beta2) * g**2
    s["top"] = np.fmax(s.get("top", 0.0), s["v"])
    root = np.sqrt(s["top"] if amsgrad else s["v"]) / np.sqrt(1 - beta2 ** s["t"])
    return s["m"] / (1 - beta1 ** s["t"]) / (root + eps)


def adam(
    w: Array,
    g: Array,
    s: State,
    lr: float = 1e-3,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    amsgrad: bool = False,
) -> Array:
    return w - lr * _adam_step(g + weight_decay * w, s, beta1, beta2, eps, amsgrad)


def adamw(
    w: Array,
    g: Array,
    s: State,
    lr: float = 1e-3,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 0.01,
    amsgrad: bool = False,
) -> Array:
    return w * (1 - lr * weight_decay) - lr * _adam_step(g, s, beta1, beta2, eps, amsgrad)


def lamb(
    w: Array,
    g: Array,
    s: State,
    lr: float = 1e-3,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-6,
    weight_decay: float = 0.0,
) -> Array:
    step = _adam_step(g, s, beta1, beta2, eps) + weight_decay * w
    of_w, of_step = np.linalg.norm(w.ravel()), np.linalg.norm(step.ravel())
    return w - lr * (of_w / of_step if of_w and of_step else 1.0) * step


def rmsprop(
    w: Array,
    g: Array,
    s: State,
    lr: float = 1e-2,
    beta: float = 0.99,
    eps: float = 1e-8,
    momentum: float = 0.0,
    centered: bool = False,
    weight_decay: float = 0.0,
) -> Array:
    g = g + weight_decay * w
    s["squares"] = beta * s.get("squares", 0.0) + (1 - beta) * g**2
    s["mean"] = beta * s.get("mean", 0.0) + (1 - beta) * g
    step = g / (np.sqrt(s["squares"] - (s["mean"] ** 2 if centered else 0.0)) + eps)
    s["buffer"] = momentum * s.get("buffer", 0.0) + step
    return w - lr * s["buffer"]


def adagrad(
    w: Array,
    g: Array,
    s: State,
    lr: float = 1e-2,
    init: float = 0.0,
    eps: float = 1e-10,
    weight_decay: float = 0.0,
) -> Array:
    g = g + weight_decay * w
    s["sum"] = s.get("sum", init) + g**2
    return w - lr * g / (np.sqrt(s["sum"]) + eps)


def lion(
    w: Array,
    g: Array,
    s: State,
    lr: float = 1e-4,
    beta1: float = 0.9,
    beta2: float = 0.99,
    weight_decay: float = 0.0,
) -> Array:
    m = s.get("m", 0.0)
    s["m"] = beta2 * m + (1 - beta2) * g
    return w * (1 - lr * weight_decay) - lr * np.sign(beta1 * m + (1 - beta1) * g)


def muon(
    w: Array,
    g: Array,
    s: State,
    lr: float = 0.02,
    momentum: float = 0.95,
    nesterov: bool = True,
    weight_decay: float = 0.0,
    steps: int = 5,
    others: dict[str, float] | None = None,
) -> Array:
    """What the polynomial does to a matrix it does to its singular values."""
    if w.ndim != 2:
        return adamw(w, g, s, **(others or {}))
    s["m"] = momentum * s.get("m", 0.0) + (1 - momentum) * g
    u, values, v = np.linalg.svd(momentum * s["m"] + (1 - momentum) * g if nesterov else s["m"], full_matrices=False)
    values = values / np.linalg.norm(values)
    for _ in range(steps):
        values = np.polynomial.polynomial.polyval(values, [0, 3.4445, 0, -4.7750, 0, 2.0315])
    rows, columns = w.shape
    return w * (1 - lr * weight_decay) - lr * max(1, rows / columns) ** 0.5 * (u * values) @ v
