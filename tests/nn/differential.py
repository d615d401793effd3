"""A block against a function of NumPy: its value, and its gradients against differences of that function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import weft as wf

Arrays = dict[str, np.ndarray]
#: Of `x` and the parameters by name, what a block computes.
Reference = Callable[[np.ndarray, Arrays], np.ndarray]


def check_block(
    block: Any,
    x: np.ndarray,
    reference: Reference,
    *,
    batch: int = 1,
    values: Mapping[str, Any] | None = None,
    backend: str = "interp",
    seed: int = 0,
) -> Arrays:
    """Compare a configured layer, applied to `x`, with a reference; in double precision. Its parameters are random."""
    random = np.random.default_rng(seed)
    ctx = wf.Context(backend)
    data = wf.require_grad(wf.data(x.astype("float64"), batch=batch, label="x"))
    y = block(data)
    weights = wf.data(random.normal(size=y.dims.array_shape), batch=len(y.dims.batch), label="weights")
    loss = wf.einsum("...|...->...; ...|...->... => 0", y, weights)
    params = dict(block._paths()) if isinstance(block, wf.Layer) else {}
    for name, param in params.items():
        given = (values or {}).get(name)
        shape = param.dims.array_shape
        ctx[param] = random.normal(size=shape) if given is None else np.broadcast_to(given, shape)
    arrays = {name: ctx[param] for name, param in params.items()}
    learned = {name: param for name, param in params.items() if param.is_param}
    leaves = {"x": data, **learned}
    ctx.compile(wf.grad_update(loss), keep=[y, *(one.grad for one in leaves.values())])()
    np.testing.assert_allclose(ctx[y], reference(x, arrays), rtol=1e-9, atol=1e-9)
    gradients = {name: ctx[one.grad] for name, one in leaves.items()}
    factors = ctx[weights]

    def total(name: str, moved: np.ndarray) -> float:
        there = reference(moved, arrays) if name == "x" else reference(x, {**arrays, name: moved})
        return float((there * factors).sum())

    for name, gradient in gradients.items():
        here = x if name == "x" else arrays[name]
        for _ in range(3):
            way = random.normal(size=here.shape)
            slope = (total(name, here + 1e-5 * way) - total(name, here - 1e-5 * way)) / 2e-5
            np.testing.assert_allclose((gradient * way).sum(), slope, rtol=1e-5, atol=1e-6, err_msg=name)
    return gradients


def check_batches(block: Any, x: np.ndarray, *, more: tuple[int, ...] = (2, 3)) -> None:
    """A block computes the same with further batch axes, one example at a time, and with none at all."""
    ctx = wf.Context("interp")
    many = np.stack([x * (1 + 0.1 * at) for at in range(int(np.prod(more)))]).reshape(*more, *x.shape)
    whole = ctx[block(wf.data(many, batch=len(more)))]
    one = ctx[block(wf.data(many[0, 1], batch=0))]
    np.testing.assert_allclose(whole[0, 1], one.reshape(whole[0, 1].shape), rtol=1e-12, atol=1e-12)
