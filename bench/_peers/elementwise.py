"""Works that memory bounds: a chain of operations, a transpose, softmax and layer norm, lookups and scatters."""

from __future__ import annotations

from typing import Any

import numpy as np

from _peers import Work, kind, numbers

EPSILON = 1e-5


@kind("chain")
def chain(size: int) -> Work:
    """Eight operations, one of them tanh."""
    return Work(
        inputs={"x": numbers(size)},
        numpy=lambda np, x: (np.tanh(x * 2.0 + 1.0) * x + 0.5 * x - 1.0) * x,
        torch=lambda torch, x: (torch.tanh(x * 2.0 + 1.0) * x + 0.5 * x - 1.0) * x,
        jax=lambda jax, x: (jax.numpy.tanh(x * 2.0 + 1.0) * x + 0.5 * x - 1.0) * x,
        weft=lambda wf, x: (wf.tanh(x * 2.0 + 1.0) * x + 0.5 * x - 1.0) * x,
        flops=8 * size,
    )


@kind("transpose")
def transpose(rows: int, columns: int) -> Work:
    return Work(
        inputs={"x": numbers(rows, columns)},
        numpy=lambda np, x: np.ascontiguousarray(x.T),
        torch=lambda torch, x: x.T.contiguous(),
        jax=lambda jax, x: x.T,
        weft=lambda wf, x: wf.einsum("ij => ji", x),
    )


@kind("softmax")
def softmax(rows: int, columns: int, *, gradient: bool = False) -> Work:
    def plain(np: Any, x: Any) -> Any:
        powers = np.exp(x - x.max(-1, keepdims=True))
        return powers / powers.sum(-1, keepdims=True)

    return Work(
        inputs={"x": numbers(rows, columns)},
        numpy=plain,
        torch=lambda torch, x: torch.softmax(x, -1),
        jax=lambda jax, x: jax.nn.softmax(x),
        weft=lambda wf, x: wf.softmax(x),
        gradients=("x",) if gradient else (),
        batch={"x": 1},
    )


@kind("layer-norm")
def layer_norm(rows: int, columns: int, *, gradient: bool = False) -> Work:
    def plain(_: Any, x: Any, scale: Any, shift: Any) -> Any:
        centred = x - x.mean(-1, keepdims=True)
        return centred / (((centred * centred).mean(-1, keepdims=True) + EPSILON) ** 0.5) * scale + shift

    def ours(wf: Any, x: Any, scale: Any, shift: Any) -> Any:
        centred = x - wf.mean(x, "...|d => ...|0")
        return centred * wf.recip_sqrt(wf.mean(centred * centred, "...|d => ...|0") + EPSILON) * scale + shift

    return Work(
        inputs={"x": numbers(rows, columns), "scale": numbers(columns, seed=1), "shift": numbers(columns, seed=2)},
        numpy=plain,
        torch=lambda torch, x, scale, shift: torch.nn.functional.layer_norm(x, (columns,), scale, shift, EPSILON),
        jax=plain,
        weft=ours,
        gradients=("x", "scale", "shift") if gradient else (),
        batch={"x": 1},
    )


@kind("embedding")
def embedding(rows: int, width: int, positions: int, *, gradient: bool = False) -> Work:
    """Rows of a table; the gradient is the whole table's."""
    ids = np.random.default_rng(0).integers(0, rows, positions)
    return Work(
        inputs={"table": numbers(rows, width), "ids": ids},
        numpy=lambda np, table, ids: table[ids],
        torch=lambda torch, table, ids: torch.nn.functional.embedding(ids, table),
        jax=lambda jax, table, ids: table[ids],
        weft=lambda wf, table, ids: wf.einsum("v, d; ...|@v => ...|d", table, ids),
        gradients=("table",) if gradient else (),
        batch={"ids": 1},
        moved=4 * width * (2 * positions + (rows + 2 * positions if gradient else 0)),
    )


@kind("scatter")
def scatter(rows: int, width: int, positions: int) -> Work:
    """Rows added to those of a table of zeros."""
    ids = np.random.default_rng(0).integers(0, rows, positions)

    def plain(np: Any, updates: Any, ids: Any) -> Any:
        table = np.zeros((rows, width), updates.dtype)
        np.add.at(table, ids, updates)
        return table

    return Work(
        inputs={"updates": numbers(positions, width), "ids": ids},
        numpy=plain,
        torch=lambda torch, updates, ids: torch.zeros(rows, width, dtype=updates.dtype).index_add_(0, ids, updates),
        jax=lambda jax, updates, ids: jax.numpy.zeros((rows, width), updates.dtype).at[ids].add(updates),
        weft=lambda wf, updates, ids: wf.einsum("...|d; ...|@v => v, d", updates, ids, v=rows),
        batch={"updates": 1, "ids": 1},
        moved=4 * width * (rows + 3 * positions),
    )
