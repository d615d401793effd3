"""Tensors and models that the tests of the code notation share."""

from __future__ import annotations

from typing import Any

import numpy as np

import weft as wf

RNG = np.random.default_rng(7)


NA, NB = RNG.uniform(-1, 1, (2, 3, 3)).astype("float32")
NX = RNG.uniform(-1, 1, (2, 3, 3)).astype("float32")


def matrices() -> tuple[wf.Tensor, wf.Tensor, wf.Tensor]:
    """Two square matrices and a batch of two."""
    a, b = wf.data(NA, input=1, label="a"), wf.data(NB, input=1, label="b")
    return a, b, wf.data(NX, batch=1, input=1, label="x")


def by_label(*tensors: wf.Tensor, **more: Any) -> dict[str, Any]:
    return {**{tensor.label: tensor for tensor in tensors}, **more}


def perceptron() -> tuple[wf.Tensor, dict[str, Any]]:
    @wf.op
    def layer(x: Any, *, width: int) -> Any:
        return wf.relu(wf.param("w") @ x + wf.param("b", o=width))

    first, second = layer(width=8, label="net.L1"), layer(width=2, label="net.L2")
    rng = np.random.default_rng(7)
    x = wf.data(rng.uniform(size=(5, 3)).astype("float32"), batch=1, label="x")
    y = wf.data(rng.uniform(size=(5, 2)).astype("float32"), batch=1, label="y")
    loss = wf.einsum("...|... => 0", (second(first(x)) - y) ** 2) / 5
    return loss, by_label(x, y, *loss.params)


def convolution() -> tuple[wf.Tensor, dict[str, Any]]:
    rng = np.random.default_rng(7)
    image = wf.data(rng.uniform(size=(2, 6, 6, 1)).astype("float32"), batch=1, label="image")
    kernel = wf.param("kernel", i=[3, 3, 1], o=[2])
    spec = "...|h<+kh, w<+kw, ic; kh, kw, ic -> oc => ...|h, w, oc"
    features = wf.relu(wf.einsum(spec, image, kernel))
    pooled = wf.einsum("...|2*h<+a, 2*w<+b, c => ...|h, w, c", features, accum="max", a=2, b=2)
    return wf.einsum("...|... => 0", pooled), by_label(image, kernel)


def mixture() -> tuple[wf.Tensor, dict[str, Any]]:
    """Gradients with slices, concatenation, transposition, products, and one tensor in several slots."""
    rng = np.random.default_rng(7)
    x = wf.data(rng.uniform(1, 2, size=(5, 3)).astype("float32"), batch=1, label="x")
    p, q = wf.param("p", o=3, init=wf.uniform(0.5, 1.0)), wf.param("q", o=3, init=wf.uniform(0.5, 1.0))
    i = wf.index("i", 5)
    joined = wf.concat(p * x[i], wf.exp(x[2] * i), q)
    cube = wf.einsum("i;i;i => 0", p, p, p) + wf.einsum("i => 0", q, accum="*")
    tropical = wf.einsum("i; j => i", p, q, accum="max", op="+")
    return wf.einsum("...|... => 0", joined.T) * cube + wf.einsum("i => 0", tropical), by_label(x, p, q, i=i)


MODELS = {"perceptron": perceptron, "convolution": convolution, "mixture": mixture}
