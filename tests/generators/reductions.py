"""What numbers along axes come to, of any type and at any length, and what they hold: NumPy's answers.

Whole numbers come from all of their type; among floating ones are infinities, zeros of both signs, subnormals and what
is not a number. Axes are empty, of one, thin or long, reversed on the way, and the tensor is used once more beside it,
or added to a variable in the same loops.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import weft as wf

Answer = Callable[[np.ndarray], np.ndarray]
TYPES = ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32", "float64")
ODD = (np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-40, -1e-40)
#: What order does not change, with NumPy's name for it along the last axis.
EXACT: dict[str, tuple[Callable[[wf.Tensor], wf.Tensor], Answer]] = {
    "max": (wf.max, lambda x: x.max(-1, keepdims=True)),
    "min": (wf.min, lambda x: x.min(-1, keepdims=True)),
    "argmax": (wf.argmax, lambda x: x.argmax(-1, keepdims=True)),
    "argmin": (wf.argmin, lambda x: x.argmin(-1, keepdims=True)),
    "sort": (wf.sort, lambda x: np.sort(x, -1, kind="stable")),
    "argsort": (wf.argsort, lambda x: np.argsort(x, -1, kind="stable")),
    "cummax": (wf.cummax, lambda x: np.maximum.accumulate(x, -1)),
    "flip": (wf.flip, lambda x: x[..., ::-1]),
}
#: What is exact of whole numbers alone.
WHOLE: dict[str, tuple[Callable[[wf.Tensor], wf.Tensor], Answer]] = {
    "sum": (wf.sum, lambda x: x.sum(-1, keepdims=True)),
    "cumsum": (wf.cumsum, lambda x: x.cumsum(-1)),
    "prod": (wf.prod, lambda x: x.prod(-1, keepdims=True)),
}
#: What is as exact as the type that it is computed in.
ROUNDED: dict[str, tuple[Callable[[wf.Tensor], wf.Tensor], Answer]] = {
    "mean": (wf.mean, lambda x: x.mean(-1, keepdims=True)),
    "var": (wf.var, lambda x: x.var(-1, keepdims=True)),
    "logsumexp": (wf.logsumexp, lambda x: _log_sum(x)),
    "softmax": (wf.softmax, lambda x: np.exp(x - _log_sum(x))),
}
NEED_VALUES = ("max", "min", "argmax", "argmin", "mean", "var", "logsumexp", "softmax")


def check(rng: np.random.Generator) -> None:
    x = _values(rng)
    floating = x.dtype.kind == "f"
    kinds = EXACT | (ROUNDED if floating and np.isfinite(x).all() else {} if floating else WHOLE)
    names = [one for one in kinds if x.shape[-1] or one not in NEED_VALUES]
    turned = bool(rng.random() < 0.3)
    beside = bool(rng.random() < 0.3) and floating
    for name in rng.choice(names, 2):
        ours, meant = kinds[str(name)]
        tensor = wf.data(x, batch=x.ndim - 1, label="x")
        given = np.asarray(x[..., ::-1] if turned else x)
        made = ours(wf.flip(tensor) if turned else tensor)
        with np.errstate(all="ignore"):
            right = meant(given)
            if beside:
                made, right = made + tensor * 2, right + x * x.dtype.type(2)
        shown = f"{name} of {x.dtype}{list(x.shape)}{' reversed' * turned}{' and its double' * beside}\n{x}"
        for backend in ("interp", "cc"):
            ctx = wf.Context(backend)
            if floating and rng.random() < 0.5:
                np.testing.assert_array_equal(_added(ctx, tensor, made), x, err_msg=f"{shown}\nadded on {backend}")
            _agree(ctx[made], right, name in ROUNDED or beside, f"{shown}\non {backend}")


def _added(ctx: wf.Context, tensor: wf.Tensor, made: wf.Tensor) -> np.ndarray:
    """What a variable holds that a tensor is added to while something is made of it."""
    sums = wf.node("sums", init=0.0)

    @wf.cd
    def add() -> None:
        nonlocal sums
        sums += tensor

    ctx.compile(wf.seq(add(), made.forward), keep=[sums, made])()
    return np.asarray(ctx[sums])


def _agree(found: np.ndarray, right: np.ndarray, rounded: bool, shown: str) -> None:
    if rounded:
        digits = 1e-5 if found.dtype == np.float32 else 1e-11
        largest = float(np.abs(right[np.isfinite(right)]).max(initial=0))
        np.testing.assert_allclose(found, right, rtol=digits, atol=digits * min(largest, 1.0), err_msg=shown)
    else:
        np.testing.assert_array_equal(found, right.astype(found.dtype), err_msg=shown)


def _values(rng: np.random.Generator) -> np.ndarray:
    rows = [int(one) for one in rng.choice([0, 1, 2, 3, 5], int(rng.integers(0, 3)), p=[0.04, 0.3, 0.3, 0.3, 0.06])]
    length = int(rng.choice([0, 1, 2, 7, 16, 33, 64, 70, 200, 1031], p=[0.05, *[0.1] * 3, 0.12, *[0.11] * 4, 0.09]))
    shape, dtype = (*rows, length), np.dtype(str(rng.choice(TYPES)))
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if dtype.kind != "f":
        ends = np.iinfo(dtype)
        narrow = rng.random() < 0.4
        least, most = (max(ends.min, -2), 3) if narrow else (ends.min, ends.max)
        return rng.integers(least, most, shape, dtype, endpoint=True)
    x = rng.normal(size=shape).round(int(rng.choice([0, 1, 9])))
    if rng.random() < 0.5:
        x = np.where(rng.random(shape) < 0.2, rng.choice(ODD[int(rng.integers(0, 4)) :], shape), x)
    return x.astype(dtype)


def _log_sum(x: np.ndarray) -> np.ndarray:
    largest = x.max(-1, keepdims=True)
    return np.log(np.exp(x - largest).sum(-1, keepdims=True)) + largest
