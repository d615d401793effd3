"""The models in weft."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

import weft as wf
from _models import (
    CHANNELS,
    CLASSES,
    EPSILON,
    HEADS,
    RATE,
    SEQUENCE,
    VOCABULARY,
    WIDTH,
    WIDTHS,
    Details,
    Problem,
    Ready,
)
from weft.schedule.canonical import digest
from weft.schedule.memory import size_of


def ready(name: str, given: Problem) -> Ready:
    """Write the model down, compile a training step and make it once."""
    loss = MODELS[name](given)
    optimiser = wf.optim.adam(loss, lr=RATE[name]) if name == "mlp" else wf.optim.sgd(loss, lr=RATE[name])
    ctx = wf.Context("cc")
    routine = ctx.compile(wf.seq(wf.grad_update(loss), optimiser), keep=[loss])
    for param in loss.params:
        ctx[param] = given.start[param.label]
    routine()

    def step() -> float:
        routine()
        return ctx[loss].item()

    def details() -> Details:
        kernels = routine.kernels
        return Details(routine.timings().seconds, len(kernels), len(set(map(digest, kernels))))

    return Ready(ctx[loss].item(), step, lambda: sum(map(size_of, routine.buffers)), details)


def prepare() -> None:
    """What weft does once for all models: it loads its rooms, which is part of what importing costs."""
    for name in ("Context", "param", "grad_update", "optim"):
        getattr(wf, name)
    wf.plan("i => i", 1)


def cross_entropy(scores: wf.Tensor, labels: wf.Tensor, classes: int) -> wf.Tensor:
    """The mean over the batch of the surprise at the right class."""
    largest = wf.stop_gradient(wf.einsum("...|c => ...|0", scores, accum="max"))
    total = wf.log(wf.einsum("...|c => ...|0", wf.exp(scores - largest))) + largest
    right = wf.einsum("...|c; ...|c => ...|0", one_hot(labels, classes), scores, op="select")
    return wf.einsum("...|... => 0", total - right) * (1.0 / prod(labels.dims.array_shape))


def one_hot(labels: wf.Tensor, classes: int) -> wf.Tensor:
    numbers = wf.einsum("c=>c", wf.offsets(), c=classes)
    return wf.einsum("...|_; c => ...|c", labels, numbers, op="=")


def mlp(given: Problem) -> wf.Tensor:
    x, labels = wf.data(given.data["x"], batch=1, label="x"), wf.data(given.data["labels"], batch=1, label="labels")
    h, last = x, len(WIDTHS) - 1
    for number, width in enumerate(WIDTHS[1:], 1):
        h = wf.param(f"w{number}") @ h + wf.param(f"b{number}", o=width)
        h = wf.relu(h) if number < last else h
    return cross_entropy(h, labels, WIDTHS[-1])


def cnn(given: Problem) -> wf.Tensor:
    x, labels = wf.data(given.data["x"], batch=1, label="x"), wf.data(given.data["labels"], batch=1, label="labels")
    h = x
    for number, channels in enumerate(CHANNELS[1:], 1):
        spec = "...|y=+p, x=+q, c; f, p, q, c => ...|y, x, f"
        h = wf.relu(wf.einsum(spec, h, wf.param(f"k{number}"), p=3, q=3) + wf.param(f"b{number}", o=channels))
        h = wf.einsum("...|2*y<+p, 2*x<+q, c => ...|y, x, c", h, accum="max", p=2, q=2)
    return cross_entropy(wf.param("w") @ h + wf.param("b", o=CLASSES), labels, CLASSES)


@wf.op
def norm(x: wf.Tensor) -> wf.Tensor:
    centred = x - wf.einsum("...|d => ...|0", x) * (1.0 / WIDTH)
    variance = wf.einsum("...|d => ...|0", centred * centred) * (1.0 / WIDTH)
    return centred * wf.recip_sqrt(variance + EPSILON) * wf.param("scale", o=WIDTH) + wf.param("shift", o=WIDTH)


@wf.op
def layer(x: wf.Tensor, *, mask: wf.Tensor) -> wf.Tensor:
    x = x + attention(norm(label="before")(x), mask)
    hidden = "up" @ norm(label="between")(x) + wf.param("up_bias", o=4 * WIDTH)
    hidden = 0.5 * hidden * (1.0 + wf.erf(hidden * 0.5**0.5))
    return x + "down" @ hidden + wf.param("down_bias", o=WIDTH)


def attention(x: wf.Tensor, mask: wf.Tensor) -> wf.Tensor:
    head = WIDTH // HEADS
    query, key, value = (wf.param(one, o=(HEADS, head)) @ x for one in "qkv")
    scores = wf.einsum("b, t | h, e; b, s | h, e => b, t | h, s", query, key) * head**-0.5 + mask
    largest = wf.stop_gradient(wf.einsum("b, t | h, s => b, t | h, 0", scores, accum="max"))
    weights = wf.exp(scores - largest)
    weights = weights / wf.einsum("b, t | h, s => b, t | h, 0", weights)
    return wf.param("o", o=WIDTH) @ wf.einsum("b, t | h, s; b, s | h, e => b, t | h, e", weights, value)


def gpt(given: Problem) -> wf.Tensor:
    tokens, targets = (wf.data(given.data[name], batch=2, label=name) for name in ("tokens", "targets"))
    later = np.triu(np.full((SEQUENCE, SEQUENCE), -1e9, "float32"), 1)
    mask = wf.data(later[:, None, :], batch=1, label="mask")
    embedding = wf.param("embedding", o=WIDTH, i=VOCABULARY)
    x = wf.einsum("b, t | v; v -> d => b, t | d", one_hot(tokens, VOCABULARY), embedding, op="select")
    x = x + wf.param("position", b=SEQUENCE, o=WIDTH)
    for number in range(given.layers):
        x = layer(mask=mask, label=f"l{number}")(x)
    scores = wf.param("head", o=VOCABULARY) @ norm(label="last")(x)
    return cross_entropy(scores, targets, VOCABULARY)


MODELS: dict[str, Callable[[Problem], wf.Tensor]] = {"mlp": mlp, "cnn": cnn, "gpt": gpt}
