"""Reductions of one row of numbers, or of each of many: sums, extremes, where they are, moments, order."""

from __future__ import annotations

from _peers import Work, kind, numbers


@kind("sum")
def total(size: int) -> Work:
    return Work(
        inputs={"x": numbers(size)},
        numpy=lambda np, x: x.sum(),
        torch=lambda torch, x: x.sum(),
        jax=lambda jax, x: x.sum(),
        weft=lambda wf, x: wf.sum(x),
        flops=size,
    )


@kind("max")
def largest(size: int) -> Work:
    return Work(
        inputs={"x": numbers(size)},
        numpy=lambda np, x: x.max(),
        torch=lambda torch, x: x.amax(),
        jax=lambda jax, x: x.max(),
        weft=lambda wf, x: wf.max(x),
        flops=size,
    )


@kind("argmax")
def argmax(size: int) -> Work:
    return Work(
        inputs={"x": numbers(size)},
        numpy=lambda np, x: x.argmax(),
        torch=lambda torch, x: x.argmax(),
        jax=lambda jax, x: x.argmax(),
        weft=lambda wf, x: wf.argmax(x),
        flops=size,
    )


@kind("columns")
def columns(rows: int, width: int) -> Work:
    """The sum of each column."""
    return Work(
        inputs={"x": numbers(rows, width)},
        numpy=lambda np, x: x.sum(0),
        torch=lambda torch, x: x.sum(0),
        jax=lambda jax, x: x.sum(0),
        weft=lambda wf, x: wf.einsum("ij => j", x),
        flops=rows * width,
    )


@kind("logsumexp")
def logsumexp(rows: int, width: int) -> Work:
    return Work(
        inputs={"x": numbers(rows, width)},
        numpy=lambda np, x: np.logaddexp.reduce(x, 1),
        torch=lambda torch, x: torch.logsumexp(x, 1),
        jax=lambda jax, x: jax.nn.logsumexp(x, 1),
        weft=lambda wf, x: wf.einsum("b|i => b", x, accum="logsumexp"),
        batch={"x": 1},
    )


@kind("variance")
def variance(rows: int, width: int) -> Work:
    return Work(
        inputs={"x": numbers(rows, width)},
        numpy=lambda np, x: x.var(1),
        torch=lambda torch, x: x.var(1, unbiased=False),
        jax=lambda jax, x: x.var(1),
        weft=lambda wf, x: wf.einsum("b|i => b", x, accum="var"),
        batch={"x": 1},
    )


@kind("top")
def top(rows: int, width: int, count: int) -> Work:
    """Where the largest few numbers of each row are."""
    return Work(
        inputs={"x": numbers(rows, width)},
        numpy=lambda np, x: np.argsort(-x, 1)[:, :count],
        torch=lambda torch, x: x.topk(count).indices,
        jax=lambda jax, x: jax.lax.top_k(x, count)[1],
        weft=lambda wf, x: wf.top_k(x, count)[1],
        batch={"x": 1},
    )


@kind("sort")
def sort(rows: int, width: int) -> Work:
    return Work(
        inputs={"x": numbers(rows, width)},
        numpy=lambda np, x: np.sort(x, 1),
        torch=lambda torch, x: x.sort().values,
        jax=lambda jax, x: jax.numpy.sort(x),
        weft=lambda wf, x: wf.sort(x),
        batch={"x": 1},
    )
