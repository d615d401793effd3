"""The kernels that made tensor comprehensions known; weft's words are the comprehensions themselves."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from _peers import Array, Words, Work, kind, numbers


def defined(text: str) -> Words:
    """weft's words: the one definition of a text, of tensors in order."""

    def apply(wf: Any, **tensors: Any) -> Any:
        (definition,) = wf.tc.define(text)
        return definition(*tensors.values())

    return apply


def positions(rows: int, *shape: int, seed: int = 0) -> Array:
    return np.random.default_rng([seed, *shape]).integers(0, rows, shape)


@kind("tmm")
def transposed_product(rows: int, depth: int, columns: int) -> Work:
    return Work(
        inputs={"a": numbers(rows, depth), "b": numbers(columns, depth, seed=1)},
        weft=defined("def tmm(float(M,K) A, float(N,K) B) -> (C) { C(m,n) +=! A(m,k) * B(n,k) }"),
        numpy=lambda np, a, b: a @ b.T,
        torch=lambda torch, a, b: a @ b.T,
        jax=lambda jax, a, b: a @ b.T,
        flops=2 * rows * depth * columns,
    )


@kind("tbmm")
def batched_transposed_product(batch: int, rows: int, depth: int, columns: int) -> Work:
    return Work(
        inputs={"x": numbers(batch, rows, depth), "y": numbers(batch, columns, depth, seed=1)},
        weft=defined("def tbmm(float(B,N,M) X, float(B,K,M) Y) -> (Z) { Z(b,n,k) +=! X(b,n,m) * Y(b,k,m) }"),
        numpy=lambda np, x, y: x @ y.transpose(0, 2, 1),
        torch=lambda torch, x, y: torch.bmm(x, y.transpose(1, 2)),
        jax=lambda jax, x, y: x @ y.transpose(0, 2, 1),
        flops=2 * batch * rows * depth * columns,
    )


@kind("group-convolution")
def group_convolution(batch: int, groups: int, channels: int, size: int, filters: int, kernel: int) -> Work:
    images, windows = (batch, groups * channels, size, size), (groups * filters, channels, kernel, kernel)
    left = size - kernel + 1
    result = (batch, groups, filters, left, left)

    def by_torch(torch: Any, image: Any, weights: Any, bias: Any) -> Any:
        flat = torch.nn.functional.conv2d(image.view(images), weights.view(windows), bias.view(-1), groups=groups)
        return flat.view(result)

    def by_jax(jax: Any, image: Any, weights: Any, bias: Any) -> Any:
        flat = jax.lax.conv_general_dilated(
            image.reshape(images), weights.reshape(windows), (1, 1), "VALID", feature_group_count=groups
        )
        return flat.reshape(result) + bias[:, :, None, None]

    return Work(
        inputs={
            "image": numbers(batch, groups, channels, size, size),
            "weights": numbers(groups, filters, channels, kernel, kernel, seed=1),
            "bias": numbers(groups, filters, seed=2),
        },
        weft=defined("""
            def group_convolution(float(N,G,C,H,W) I, float(G,F,C,KH,KW) W1, float(G,F) B) -> (O) {
                O(n,g,f,h,w) +=! I(n,g,c,h+kh,w+kw) * W1(g,f,c,kh,kw)
                O(n,g,f,h,w) = O(n,g,f,h,w) + B(g,f)
            }"""),
        torch=by_torch,
        jax=by_jax,
        flops=2 * batch * groups * filters * left**2 * channels * kernel**2,
    )


@kind("lut1")
def one_table(rows: int, width: int, batch: int, length: int) -> Work:
    return Work(
        inputs={"table": numbers(rows, width), "ids": positions(rows, batch, length)},
        weft=defined("def lut1(float(E,D) T, int64(B,L) I) -> (O) { O(b,d) +=! T(I(b,l),d) }"),
        numpy=lambda np, table, ids: table[ids].sum(1),
        torch=lambda torch, table, ids: torch.nn.functional.embedding_bag(ids, table, mode="sum"),
        jax=lambda jax, table, ids: table[ids].sum(1),
        moved=4 * batch * width * (length + 1),
    )


@kind("lut2")
def two_tables(rows: int, more: int, width: int, batch: int, length: int, longer: int) -> Work:
    def by_torch(torch: Any, one: Any, i: Any, other: Any, j: Any) -> Any:
        bag = torch.nn.functional.embedding_bag
        return bag(i, one, mode="sum"), bag(j, other, mode="sum")

    def summed(_: Any, one: Any, i: Any, other: Any, j: Any) -> Any:
        return one[i].sum(1), other[j].sum(1)

    return Work(
        inputs={
            "one": numbers(rows, width),
            "i": positions(rows, batch, length),
            "other": numbers(more, width),
            "j": positions(more, batch, longer),
        },
        weft=defined("""
            def lut2(float(E,D) T1, int64(B,L) I1, float(F,D) T2, int64(B,M) I2) -> (O1, O2) {
                O1(b,d) +=! T1(I1(b,l),d)
                O2(b,d) +=! T2(I2(b,l),d)
            }"""),
        numpy=summed,
        torch=by_torch,
        jax=summed,
        moved=4 * batch * width * (length + longer + 2),
    )


def layers(by: Any) -> Words:
    """Dense layers with relu: weights and biases in turn."""

    def apply(module: Any, x: Any, **params: Any) -> Any:
        given = [*params.values()]
        for weight, bias in zip(given[::2], given[1::2], strict=True):
            x = by(module, x @ weight.T + bias)
        return x

    return apply


DENSE = {
    "numpy": layers(lambda np, x: np.maximum(x, 0)),
    "jax": layers(lambda jax, x: jax.nn.relu(x)),
    "torch": layers(lambda torch, x: torch.relu(x)),
}


def weights(*widths: int) -> dict[str, Array]:
    """Weights and biases of dense layers, of numbers that keep a layer's results as large as what enters it."""
    found = {}
    for at, (inputs, outputs) in enumerate(pairwise(widths), 1):
        found |= {f"w{at}": numbers(outputs, inputs) / np.float32(inputs**0.5), f"b{at}": numbers(outputs)}
    return found


@kind("mlp1")
def one_layer(batch: int, inputs: int, outputs: int) -> Work:
    return Work(
        inputs={"x": numbers(batch, inputs), **weights(inputs, outputs)},
        weft=defined("""
            def mlp1(float(B,M) I, float(N,M) W, float(N) b) -> (O) {
                O(p,n) +=! I(p,m) * W(n,m)
                O(p,n) = fmax(O(p,n) + b(n), 0)
            }"""),
        **DENSE,
        flops=2 * batch * inputs * outputs,
    )


@kind("mlp3")
def three_layers(batch: int, inputs: int, first: int, second: int, outputs: int) -> Work:
    return Work(
        inputs={"x": numbers(batch, inputs), **weights(inputs, first, second, outputs)},
        weft=defined("""
            def mlp3(float(B,M) I, float(N,M) W1, float(N) b1, float(O,N) W2, float(O) b2, float(P,O) W3, float(P) b3)
            -> (R) {
                H1(p,n) +=! I(p,m) * W1(n,m)
                H1(p,n) = fmax(H1(p,n) + b1(n), 0)
                H2(p,o) +=! H1(p,n) * W2(o,n)
                H2(p,o) = fmax(H2(p,o) + b2(o), 0)
                R(p,q) +=! H2(p,o) * W3(q,o)
                R(p,q) = fmax(R(p,q) + b3(q), 0)
            }"""),
        **DENSE,
        flops=2 * batch * (inputs * first + first * second + second * outputs),
    )


@kind("moments")
def moments(rows: int, columns: int) -> Work:
    return Work(
        inputs={"x": numbers(rows, columns)},
        weft=defined("""
            def moments(float(N,K) I) -> (mean, var) {
                mean(n) +=! I(n,k)
                mean(n) = mean(n) / K
                var(n) +=! I(n,k) * I(n,k)
                var(n) = var(n) / K - mean(n) * mean(n)
            }"""),
        numpy=lambda np, x: (x.mean(1), x.var(1)),
        torch=lambda torch, x: (x.mean(1), x.var(1, unbiased=False)),
        jax=lambda jax, x: (x.mean(1), x.var(1)),
        flops=4 * rows * columns,
    )


@kind("group-norm")
def group_norm(batch: int, groups: int, channels: int, size: int) -> Work:
    images = (batch, groups * channels, size, size)

    def by_torch(torch: Any, image: Any, gamma: Any, beta: Any) -> Any:
        found = torch.nn.functional.group_norm(image.view(images), groups, gamma.view(-1), beta.view(-1))
        return found.view(image.shape)

    def plain(_: Any, image: Any, gamma: Any, beta: Any) -> Any:
        axes = (2, 3, 4)
        spread = (image.var(axes, keepdims=True) + 1e-5) ** 0.5
        return gamma[..., None, None] * (image - image.mean(axes, keepdims=True)) / spread + beta[..., None, None]

    return Work(
        inputs={
            "image": numbers(batch, groups, channels, size, size),
            "gamma": numbers(groups, channels),
            "beta": numbers(groups, channels, seed=1),
        },
        weft=defined("""
            def group_norm(float(N,G,D,H,W) I, float(G,D) gamma, float(G,D) beta) -> (O) {
                sum(n,g) +=! I(n,g,d,h,w)
                sums(n,g) +=! I(n,g,d,h,w) * I(n,g,d,h,w)
                mean(n,g) = sum(n,g) / (D * H * W)
                scale(n,g) = rsqrt(sums(n,g) / (D * H * W) - mean(n,g) * mean(n,g) + 1e-5)
                O(n,g,d,h,w) = gamma(g,d) * (I(n,g,d,h,w) - mean(n,g)) * scale(n,g) + beta(g,d)
            }"""),
        numpy=plain,
        torch=by_torch,
        jax=plain,
        flops=8 * batch * groups * channels * size**2,
    )
