"""Instructive programs, each as code with what it needs to be compiled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import weft as wf

TOTAL = "...|... => 0"


@dataclass(frozen=True)
class Sample:
    """Code, and the tensors whose values must come out right."""

    code: wf.assign  # type: ignore[valid-type]
    keep: tuple[wf.Tensor, ...] = ()


def numbers(*shape: int, label: str = "x", batch: int = 0) -> wf.Tensor:
    values = np.random.default_rng(sum(shape)).normal(size=shape).astype("float32")
    return wf.data(values, batch=batch, label=label)


def trained(loss: wf.Tensor, optimiser: Callable[..., object] = wf.optim.sgd) -> Sample:
    return Sample(wf.seq(wf.grad_update(loss), optimiser(loss, lr=0.1)), (loss, *loss.params))  # type: ignore[arg-type]


def total(tensor: wf.Tensor) -> wf.Tensor:
    return wf.einsum(TOTAL, tensor, label="loss")


def softmax(x: wf.Tensor) -> wf.Tensor:
    e = wf.exp(x - wf.stop_gradient(wf.einsum("b|i => b|0", x, accum="max", label="top")), label="e")
    return wf.einsum("b|i; b|0 => b|i", e, wf.recip(wf.einsum("b|i => b|0", e, label="sum")), label="softmax")


def standardised(x: wf.Tensor, size: int) -> wf.Tensor:
    mean = wf.einsum("b|i => b|0", x, label="mean") * (1 / size)
    centred = x - mean
    variance = wf.einsum("b|i => b|0", centred * centred, label="variance") * (1 / size)
    return centred * wf.recip_sqrt(variance + 1e-5)


def mlp() -> Sample:
    x, y = numbers(8, 3, batch=1), numbers(8, 1, label="y", batch=1)
    hidden = wf.relu(wf.param("w1") @ x + wf.param("b1", o=4))
    error = wf.param("w2") @ hidden + wf.param("b2", o=1) - y
    return trained(total(error * error))


def softmax_and_gradient() -> Sample:
    w = wf.param("w", b=4, o=5)
    return trained(total(softmax(w) * numbers(4, 5, label="g", batch=1)))


def layer_norm_and_gradient() -> Sample:
    w = wf.param("w", b=4, o=6)
    scaled = standardised(w, 6) * wf.param("gain", o=6, init=1.0) + wf.param("bias", o=6, init=0.0)
    return trained(total(scaled * numbers(4, 6, label="g", batch=1)))


def attention() -> Sample:
    x = numbers(5, 4, batch=1)
    q, k, v = (wf.param(name, o=3) @ x for name in ("q", "k", "v"))
    scores = wf.einsum("t|d; s|d => t|s", q, k, label="scores") * 0.5
    e = wf.exp(scores - wf.stop_gradient(wf.einsum("t|s => t|0", scores, accum="max")))
    weights = e / wf.einsum("t|s => t|0", e)
    return trained(total(wf.einsum("t|s; s|d => t|d", weights, v, label="mixed")))


def convolution() -> Sample:
    x = numbers(2, 3, 8, batch=1)
    k = wf.param("k", o=(4, 3, 3))
    return trained(total(wf.relu(wf.einsum("b | c, 2*o=+k; d, c, k => b | d, o", x, k))))


def max_pooling() -> Sample:
    return trained(total(wf.einsum("b | 2*o<+k => b | o", wf.param("w", b=2, o=8), accum="max", k=2, label="pool")))


def embedding() -> Sample:
    labels = wf.data(np.array([3, 1, 4, 1, 5]), batch=1, label="labels")
    rows = wf.einsum("v => v", wf.offsets(), v=9)
    hot = wf.einsum("b | _; v => b | v", labels, rows, op="=", label="hot")
    table = wf.param("table", o=(4, 9))
    return trained(total(wf.einsum("b | v; d, v => b | d", hot, table, op="select", label="found")))


def concatenation() -> Sample:
    both = wf.concat(wf.param("left", o=(2, 3)), wf.param("right", o=(4, 3)), label="both")
    return trained(total(wf.tanh(both) * numbers(6, 3, label="g")))


def recurrent_step() -> Sample:
    h, x = wf.node("h"), numbers(3, label="x")
    w, u = wf.param("w", o=4, i=4), wf.param("u", o=4, i=3)

    @wf.cd
    def step() -> None:
        h[:] = wf.tanh(w @ h + u @ x)

    return Sample(step(), (h,))


def adam() -> Sample:
    w = wf.param("w", o=(3, 4))
    return trained(total(w * w * numbers(3, 4, label="g")), wf.optim.adam)


def long_chain() -> Sample:
    y = x = numbers(6, 7)
    for _ in range(12):
        y = wf.relu(y * 0.9 + x) - y * 0.1
    return Sample(y.named("y").forward, (y,))


def functions_in_a_row() -> Sample:
    y = numbers(40, 70)
    for _ in range(3):
        y = wf.tanh(y * 0.9) + 0.1
    return Sample(y.named("y").forward, (y,))


def moments() -> Sample:
    x = numbers(6, 7)
    first = wf.einsum("ij => i", x, label="first")
    second = wf.einsum("ij; ij => i", x, x, label="second")
    return Sample(wf.seq(first.forward, second.forward), (first, second))


PROGRAMS: dict[str, Callable[[], Sample]] = {
    one.__name__: one
    for one in (
        mlp,
        softmax_and_gradient,
        layer_norm_and_gradient,
        attention,
        convolution,
        max_pooling,
        embedding,
        concatenation,
        recurrent_step,
        adam,
        long_chain,
        functions_in_a_row,
        moments,
    )
}
