"""Steps of training, however they are cut: over devices, or over batches that a static index names; all learn the same.

A model of a layer or two learns for a few steps from batches of random lengths, also odd and shorter than there are
devices. On several devices that merge their gradients, and by one routine that takes its batch out of all data by
an index, it comes to the parameters that NumPy comes to.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import weft as wf
from generators._settings import drawn
from weft.assign import Code

Optimiser = Callable[[wf.Tensor], Code]
OPTIMISERS: dict[str, Optimiser] = {
    "sgd": lambda loss: wf.optim.sgd(loss, lr=0.1),
    "momentum": lambda loss: wf.optim.sgd(loss, lr=0.1, momentum=0.9),
    "adam": lambda loss: wf.optim.adam(loss, lr=0.05),
}
FEATURES, RESULTS = 3, 2


def check(rng: np.random.Generator) -> None:
    hidden, name = int(rng.integers(1, 6)), str(rng.choice(list(OPTIMISERS)))
    starts = [rng.uniform(-1, 1, shape) for shape in ((hidden, FEATURES), (RESULTS, hidden), (RESULTS,))]
    mean = bool(rng.random() < 0.5)
    same = bool(rng.random() < 0.5)
    length = int(rng.integers(1, 8))
    lengths = [length if same else int(rng.integers(1, 8)) for _ in range(int(rng.integers(2, 5)))]
    batches = [(rng.normal(size=(one, FEATURES)), rng.normal(size=(one, RESULTS))) for one in lengths]
    shown = f"{name}, mean {mean}, batches {lengths}"
    meant = _by_numpy(starts, batches, mean, name)
    backend = str(rng.choice(["interp", "cc"]))
    with wf.config.using(**(drawn(rng) if rng.random() < 0.5 else {})):
        _agree(_on_devices(rng, starts, batches, mean, name, backend), meant, f"on devices, {shown}")
        if same:
            _agree(_by_index(starts, batches, mean, name, backend), meant, f"by an index, {shown}")


def _params(starts: list[np.ndarray]) -> list[wf.Tensor]:
    shapes = ({"o": len(starts[0]), "i": FEATURES}, {"o": RESULTS, "i": len(starts[0])}, {"o": RESULTS})
    return [
        wf.param(name, **shape, init=start, dtype="float64")
        for name, shape, start in zip(("v", "w", "c"), shapes, starts, strict=True)
    ]


def _loss(params: list[wf.Tensor], x: wf.Tensor, y: wf.Tensor, count: int) -> wf.Tensor:
    v, w, c = params
    return wf.einsum("...|... => 0", (w @ wf.tanh(v @ x) + c - y) ** 2) * (1.0 / count)


Batches = list[tuple[np.ndarray, np.ndarray]]


def _by_numpy(starts: list[np.ndarray], batches: Batches, mean: bool, name: str) -> list[np.ndarray]:
    params, moments = [one.copy() for one in starts], [np.zeros_like(one) for one in starts]
    squares = [np.zeros_like(one) for one in starts]
    for number, (x, y) in enumerate(batches, 1):
        for at, gradient in enumerate(_gradients(params, x, y, len(x) if mean else 1)):
            match name:
                case "sgd":
                    step = 0.1 * gradient
                case "momentum":
                    moments[at] = 0.9 * moments[at] + gradient
                    step = 0.1 * moments[at]
                case "adam":
                    moments[at] = 0.9 * moments[at] + 0.1 * gradient
                    squares[at] = 0.999 * squares[at] + 0.001 * gradient**2
                    right = np.sqrt(squares[at] / (1 - 0.999**number)) + 1e-8
                    step = 0.05 * moments[at] / (1 - 0.9**number) / right
            params[at] -= step
    return params


def _gradients(params: list[np.ndarray], x: np.ndarray, y: np.ndarray, count: int) -> list[np.ndarray]:
    v, w, c = (one.copy() for one in params)
    h = np.tanh(x @ v.T)
    d_out = 2 * (h @ w.T + c - y) / count
    d_h = (d_out @ w) * (1 - h * h)
    return [d_h.T @ x, d_out.T @ h, d_out.sum(0)]


def _on_devices(
    rng: np.random.Generator, starts: list[np.ndarray], batches: Batches, mean: bool, name: str, backend: str
) -> list[np.ndarray]:
    params, ctx = _params(starts), wf.Context(backend, devices=int(rng.integers(1, 5)))

    def loss(x: wf.Tensor, y: wf.Tensor) -> wf.Tensor:
        return _loss(params, x, y, x.dims.batch[0].size if mean else 1)

    step = wf.train.data_parallel(ctx, loss, OPTIMISERS[name], "mean" if mean else "sum")
    for one in batches:
        step(*one)
    return [ctx[one] for one in params]


def _by_index(starts: list[np.ndarray], batches: Batches, mean: bool, name: str, backend: str) -> list[np.ndarray]:
    """Batches of one length, all in one tensor."""
    params, ctx, at = _params(starts), wf.Context(backend), wf.index("at", len(batches))
    x, y = (wf.data(np.stack([one[part] for one in batches]), batch=2, label="xy"[part]) for part in (0, 1))
    loss = _loss(params, x[at], y[at], len(batches[0][0]) if mean else 1)
    step = ctx.compile(wf.seq(wf.grad_update(loss), OPTIMISERS[name](loss)), bindings=[at])
    for number in range(len(batches)):
        step(at=number)
    return [ctx[one] for one in params]


def _agree(found: list[np.ndarray], meant: list[np.ndarray], shown: str) -> None:
    for name, one, right in zip("vwc", found, meant, strict=True):
        np.testing.assert_allclose(one, right, rtol=1e-7, atol=1e-9, err_msg=f"{name} {shown}")
