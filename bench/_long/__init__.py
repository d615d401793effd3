"""Programs of any length: what `bench/lengths.py` measures and the suite counts the work of."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import weft as wf


def chain(length: int) -> wf.Code:
    y = wf.data(np.linspace(0, 1, 64, dtype="float32"))
    for number in range(length):
        y = wf.tanh(y) if number % 2 else y + 0.5
    return y.forward


def terms(length: int) -> wf.Code:
    p = wf.param("p", o=4, init=1.0)
    loss = wf.einsum("i => 0", p)
    for number in range(length):
        loss = loss + wf.einsum("i => 0", p * float(number))
    return wf.grad_update(loss)


def parts(length: int) -> wf.Code:
    return wf.concat(*(wf.data(np.full(3, number, "float32")) for number in range(length))).forward


def joined(length: int) -> wf.Code:
    parts = [wf.param(f"p{number}", o=3, init=float(number)) for number in range(length)]
    return wf.grad_update(wf.einsum("i => 0", wf.concat(*parts) ** 2))


def steps(length: int) -> wf.Code:
    """One statement, in which each step uses the value of the last one three times."""

    @wf.operator
    def stepped(v: wf.Slot, v1: wf.Slot) -> None:
        value = v1 * 0.9
        for _ in range(length):
            value = value * value * 0.25 - value * 0.5
        v[:] = value

    return wf.grad_update(wf.einsum("i => 0", stepped(wf.param("p", o=4, init=0.5))))


def updates(length: int) -> wf.Code:
    """Statements that update two tensors from each other."""
    a, b = wf.param("a", o=64, init=1.0), wf.param("b", o=64, init=0.5)

    @wf.cd
    def code(a: wf.Tensor, b: wf.Tensor) -> None:
        for _ in range(length // 2):
            a[:] = a * 0.5 + b * 0.25
            b += a * 0.125

    return code(a, b)


def recurrence(length: int) -> wf.Code:
    w, h = wf.param("w", o=16, i=16, init=1 / 16), wf.data(np.ones((8, 16), "float32"), batch=1)
    for _ in range(length):
        h = wf.tanh(w @ h)
    return wf.grad_update(wf.einsum("...|... => 0", h))


def gates(length: int) -> wf.Code:
    w = {name: wf.param(name, o=16, i=16, init=1 / 16) for name in "abcdef"}
    x = h = wf.data(np.ones((8, 16), "float32"), batch=1)
    for _ in range(length):
        update, reset = wf.sigmoid(w["a"] @ x + w["b"] @ h), wf.sigmoid(w["c"] @ x + w["d"] @ h)
        h = (1 - update) * h + update * wf.tanh(w["e"] @ x + w["f"] @ (reset * h))
    return wf.grad_update(wf.einsum("...|... => 0", h))


def layers(length: int) -> wf.Code:
    h = wf.data(np.ones((8, 4), "float32"), batch=1)
    for number in range(length):
        h = wf.relu(wf.param(f"w{number}", o=4, i=4, init=0.25) @ h + wf.param(f"b{number}", o=4, init=0.1))
    return wf.grad_update(wf.einsum("...|... => 0", h))


PROGRAMS: dict[str, Callable[[int], wf.Code]] = {
    one.__name__: one for one in (chain, terms, parts, joined, steps, updates, recurrence, gates, layers)
}
