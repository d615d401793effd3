"""The models in weft."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

import weft as wf
from _models import EPSILON, Details, Images, Perceptron, Problem, Ready, Transformer
from weft.loops import Buffer
from weft.ops.dtypes import numpy_type
from weft.schedule.canonical import digest


def ready(name: str, given: Problem, *, ctx: wf.Context | None = None, products: str = "float32") -> Ready:
    """Write the model down, compile a training step and make it once."""
    ctx = ctx or wf.Context("cc")
    loss = MODELS[name](given)
    optimiser = (wf.optim.adam if given.adam else wf.optim.sgd)(loss, lr=given.rate)
    chosen = {} if products == "float32" else {"options": wf.config.options.but(products=products)}
    routine = ctx.compile(wf.seq(wf.grad_update(loss), optimiser), keep=[loss], **chosen)
    for param in loss.params:
        ctx[param] = given.start[param.label]
    routine()

    def details() -> Details:
        kernels = routine.kernels
        return Details(routine.timings().seconds, len(kernels), len(set(map(digest, kernels))))

    return Ready(routine, lambda: ctx[loss].item(), lambda: sum(map(_bytes, routine.buffers)), details)


def _bytes(buffer: Buffer) -> int:
    return prod(buffer.shape) * numpy_type(buffer.dtype).itemsize


def prepare() -> None:
    """What weft does once for all models: it loads its rooms, which is part of what importing costs."""
    for name in ("Context", "param", "data", "grad_update", "optim", "nn"):
        getattr(wf, name, None)  # revisions that are compared with have fewer
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
    assert isinstance(given.sizes, Perceptron)
    h, widths = x, given.sizes.widths
    for number, width in enumerate(widths[1:], 1):
        h = wf.param(f"w{number}") @ h + wf.param(f"b{number}", o=width)
        h = wf.relu(h) if number < len(widths) - 1 else h
    return cross_entropy(h, labels, widths[-1])


def cnn(given: Problem) -> wf.Tensor:
    x, labels = wf.data(given.data["x"], batch=1, label="x"), wf.data(given.data["labels"], batch=1, label="labels")
    assert isinstance(given.sizes, Images)
    h, classes = x, given.sizes.classes
    for number, channels in enumerate(given.sizes.channels[1:], 1):
        spec = "...|y=+p, x=+q, c; f, p, q, c => ...|y, x, f"
        h = wf.relu(wf.einsum(spec, h, wf.param(f"k{number}"), p=3, q=3) + wf.param(f"b{number}", o=channels))
        h = wf.einsum("...|2*y<+p, 2*x<+q, c => ...|y, x, c", h, accum="max", p=2, q=2)
    return cross_entropy(wf.param("w") @ h + wf.param("b", o=classes), labels, classes)


@wf.op
def norm(x: wf.Tensor, *, width: int) -> wf.Tensor:
    centred = x - wf.einsum("...|d => ...|0", x) * (1.0 / width)
    variance = wf.einsum("...|d => ...|0", centred * centred) * (1.0 / width)
    return centred * wf.recip_sqrt(variance + EPSILON) * wf.param("scale", o=width) + wf.param("shift", o=width)


@wf.op
def layer(x: wf.Tensor, *, mask: wf.Tensor, sizes: Transformer) -> wf.Tensor:
    width = sizes.width
    x = x + attention(norm(width=width, label="before")(x), mask, width, sizes.heads)
    hidden = "up" @ norm(width=width, label="between")(x) + wf.param("up_bias", o=4 * width)
    hidden = 0.5 * hidden * (1.0 + wf.erf(hidden * 0.5**0.5))
    return x + "down" @ hidden + wf.param("down_bias", o=width)


def attention(x: wf.Tensor, mask: wf.Tensor, width: int, heads: int) -> wf.Tensor:
    head = width // heads
    query, key, value = (wf.param(one, o=(heads, head)) @ x for one in "qkv")
    scores = wf.einsum("b, t | h, e; b, s | h, e => b, t | h, s", query, key) * head**-0.5 + mask
    largest = wf.stop_gradient(wf.einsum("b, t | h, s => b, t | h, 0", scores, accum="max"))
    weights = wf.exp(scores - largest)
    weights = weights / wf.einsum("b, t | h, s => b, t | h, 0", weights)
    return wf.param("o", o=width) @ wf.einsum("b, t | h, s; b, s | h, e => b, t | h, e", weights, value)


def visible(length: int) -> wf.Tensor:
    """Which places each place sees; revisions that are compared with may have no layers."""
    if hasattr(wf, "nn"):
        return wf.nn.causal_mask(length)
    return wf.data(np.tri(length, dtype="bool"), batch=1, label="visible")


def gpt(given: Problem) -> wf.Tensor:
    assert isinstance(given.sizes, Transformer)
    length, width, vocabulary = given.sizes.length, given.sizes.width, given.sizes.vocabulary
    tokens, targets = (wf.data(given.data[name], batch=2, label=name) for name in ("tokens", "targets"))
    mask = wf.einsum("t | s => t | 0, s", wf.where(visible(length), 0.0, -1e9), label="mask")
    embedding = wf.param("embedding", o=width, i=vocabulary)
    x = wf.einsum("b, t | v; v -> d => b, t | d", one_hot(tokens, vocabulary), embedding, op="select")
    x = x + wf.param("position", b=length, o=width)
    for number in range(given.sizes.layers):
        x = layer(mask=mask, sizes=given.sizes, label=f"l{number}")(x)
    scores = wf.param("head", o=vocabulary) @ norm(width=width, label="last")(x)
    return cross_entropy(scores, targets, vocabulary)


MODELS: dict[str, Callable[[Problem], wf.Tensor]] = {"mlp": mlp, "cnn": cnn, "gpt": gpt}
