"""Products: plain, awkward, of transposed matrices, of layers, in batches, over permuted axes, in another semiring."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from _peers import Array, Work, kind, numbers


@kind("product")
def product(
    rows: int, depth: int, columns: int, *, left_transposed: bool = False, right_transposed: bool = False
) -> Work:
    spec = f"{'ki' if left_transposed else 'ik'}; {'jk' if right_transposed else 'kj'} => ij"

    def multiply(_: Any, a: Any, b: Any) -> Any:
        return (a.T if left_transposed else a) @ (b.T if right_transposed else b)

    return Work(
        inputs={
            "a": numbers(*((depth, rows) if left_transposed else (rows, depth))),
            "b": numbers(*((columns, depth) if right_transposed else (depth, columns)), seed=1),
        },
        numpy=multiply,
        torch=multiply,
        jax=multiply,
        weft=lambda wf, a, b: wf.einsum(spec, a, b),
        flops=2 * rows * depth * columns,
    )


@kind("narrow-product")
def narrow_product(rows: int, depth: int, columns: int, *, int8: bool = False) -> Work:
    """A product of bfloat16 numbers, added up in single precision, or of small whole numbers, exactly."""
    a, b = numbers(rows, depth), numbers(depth, columns, seed=1)
    flops = 2 * rows * depth * columns
    if not int8:
        return Work(
            inputs={"a": a.astype(ml_dtypes.bfloat16), "b": b.astype(ml_dtypes.bfloat16)},
            torch=lambda torch, a, b: a @ b,
            jax=lambda jax, a, b: a @ b,
            weft=lambda wf, a, b: wf.einsum("ik; kj => ij", a, b),
            flops=flops,
            rounded=1e-2,
        )
    return Work(
        inputs={"a": (30 * a).astype("int8"), "b": (30 * b).astype("int8")},
        numpy=lambda np, a, b: a.astype("int32") @ b.astype("int32"),
        torch=lambda torch, a, b: torch._int_mm(a, b),
        jax=lambda jax, a, b: jax.lax.dot(a, b, preferred_element_type="int32"),
        weft=lambda wf, a, b: wf.einsum("ik; kj => ij", a, b),
        flops=flops,
    )


@kind("layer")
def layer(rows: int, depth: int, columns: int) -> Work:
    """A product with bias and relu."""
    return Work(
        inputs={"x": numbers(rows, depth), "w": numbers(columns, depth, seed=1), "bias": numbers(columns, seed=2)},
        numpy=lambda np, x, w, bias: np.maximum(x @ w.T + bias, 0),
        torch=lambda torch, x, w, bias: torch.nn.functional.linear(x, w, bias).relu_(),
        jax=lambda jax, x, w, bias: jax.nn.relu(x @ w.T + bias),
        weft=lambda wf, x, w, bias: wf.relu(wf.einsum("ik; jk => ij", x, w) + bias),
        flops=2 * rows * depth * columns,
    )


@kind("batched")
def batched(batch: int, rows: int, depth: int, columns: int) -> Work:
    return Work(
        inputs={"a": numbers(batch, rows, depth), "b": numbers(batch, depth, columns, seed=1)},
        numpy=lambda np, a, b: a @ b,
        torch=lambda torch, a, b: torch.bmm(a, b),
        jax=lambda jax, a, b: a @ b,
        weft=lambda wf, a, b: wf.einsum("bik; bkj => bij", a, b),
        flops=2 * batch * rows * depth * columns,
    )


@kind("permuted")
def permuted(i: int, j: int, k: int, m: int, p: int, q: int) -> Work:
    """Two axes summed over and four left, none where a matrix would have it."""
    return Work(
        inputs={"a": numbers(i, p, j, q), "b": numbers(q, k, p, m, seed=1)},
        numpy=lambda np, a, b: np.einsum("ipjq,qkpm->mikj", a, b, optimize=True),
        torch=lambda torch, a, b: torch.einsum("ipjq,qkpm->mikj", a, b).contiguous(),
        jax=lambda jax, a, b: jax.numpy.einsum("ipjq,qkpm->mikj", a, b),
        weft=lambda wf, a, b: wf.einsum("ipjq; qkpm => mikj", a, b),
        flops=2 * i * j * k * m * p * q,
    )


@kind("max-plus")
def max_plus(rows: int, depth: int, columns: int) -> Work:
    """The product of matrices with `max` for the sum and `+` for the product."""

    def by_rows(np: Any, a: Array, b: Array) -> Array:
        return np.stack([(row[:, None] + b).max(0) for row in a])

    return Work(
        inputs={"a": numbers(rows, depth), "b": numbers(depth, columns, seed=1)},
        numpy=by_rows,
        torch=lambda torch, a, b: (a[:, :, None] + b).amax(1),
        jax=lambda jax, a, b: (a[:, :, None] + b).max(1),
        weft=lambda wf, a, b: wf.einsum("ik; kj => ij", a, b, op="+", accum="max"),
        flops=2 * rows * depth * columns,
    )


def drawn(count: int, seed: int) -> list[str]:
    """Sizes of products, each drawn evenly by its logarithm from 1 to 1500, of a million operations at least."""
    random, found = np.random.default_rng(seed), []
    while len(found) < count:
        sizes = np.exp(random.uniform(0, np.log(1500), 3)).astype(int)
        if sizes.prod() >= 500_000:
            found.append("×".join(map(str, sizes)))
    return found
