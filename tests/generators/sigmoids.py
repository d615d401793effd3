"""`sigmoid` keeps its digits at every argument, as do its logarithm and its gradient, in tensors and comprehensions.

Random arguments of random size in every float type, on both backends, optimised and not, by itself and in products,
against the same in more digits. Nothing is lost where it is small, and nothing that is not a number comes of what is
too large for `exp`.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

import weft as wf

TYPES = ("float64", "float32", "float32", "float16", "bfloat16")
#: Below this, `exp(-x)` is infinite, and the sigmoid 0.
LEAST = {"float64": -709.0, "float32": -88.0, "float16": -88.0, "bfloat16": -88.0}


def check(rng: np.random.Generator) -> None:
    dtype = str(rng.choice(TYPES))
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    largest = 10 ** rng.uniform(-3, 3.2)
    x = rng.uniform(-largest, largest, int(rng.integers(1, 40))).astype(kind)
    x[0] = rng.choice([0.0, -0.0, -17.4, 17.4, -50.0, 50.0, np.inf, -np.inf])
    wide = x.astype(np.longdouble)
    with np.errstate(over="ignore"):
        value, other = 1 / (1 + np.exp(-wide)), 1 / (1 + np.exp(wide))
    for backend, optimise in (("interp", True), ("cc", bool(rng.random() < 0.6))):
        with wf.config.using(optimise=optimise):
            ctx, given = wf.Context(backend), wf.require_grad(wf.data(x))
            y = wf.sigmoid(given)
            loss = wf.einsum("...|... => 0", y * 3)
            ctx.compile(wf.grad_update(loss), keep=[y, given.grad])()
            what = f"{x!r} on {backend}, {optimise=}"
            _near(ctx[y], value, x, f"sigmoid of {what}")
            _near(ctx[given.grad], 3 * value * other, x, f"gradient of 3 * sigmoid at {what}", 16)


def _near(found: np.ndarray, exact: np.ndarray, x: np.ndarray, what: str, ulps: int = 8) -> None:
    """Within some digits of the last place, where nothing is smaller than the type's numbers of all digits."""
    info = ml_dtypes.finfo(found.dtype)
    least = float(info.tiny)
    bound = ulps * float(info.eps) * np.abs(exact) + least
    off = np.abs(found.astype(np.longdouble) - exact)
    assert (off <= bound).all(), f"{what}: {found!r}, not {exact.astype(float)!r}"
    kept = (exact > least) & (x.astype(float) > LEAST[str(found.dtype)]) & (-x.astype(float) > LEAST[str(found.dtype)])
    assert (found.astype(float)[kept] > 0).all(), f"{what}: {found!r} is lost"
