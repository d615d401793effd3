"""Layers in NumPy, written by places and windows: images are batch, places, channels; kernels as weft stores them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np


def relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def padded_images(x: np.ndarray, axes: int, size: int, dilation: int, fill: float = 0.0) -> np.ndarray:
    """With half of a window before each axis of places, and enough behind it."""
    span = dilation * (size - 1) + 1
    left = span // 2
    around = [(0, 0), *[(left, span)] * axes, *[(0, 0)] * (x.ndim - 1 - axes)]
    return np.pad(x, around, constant_values=fill)


def windows(
    x: np.ndarray, axes: int, size: int, stride: int, dilation: int = 1, padded: bool = True, fill: float = 0.0
) -> dict[tuple[int, ...], np.ndarray]:
    """For each place in a window, what all windows have there."""
    lengths = x.shape[1 : 1 + axes]
    span = dilation * (size - 1) + 1
    counts = [n // stride if padded else (n - span) // stride + 1 for n in lengths]
    source = padded_images(x, axes, size, dilation, fill) if padded else x
    found = {}
    for at in product(range(size), repeat=axes):
        cut = [
            slice(dilation * k, dilation * k + stride * (n - 1) + 1, stride) for k, n in zip(at, counts, strict=True)
        ]
        found[at] = source[(slice(None), *cut)]
    return found


def conv(
    x: np.ndarray,
    kernel: np.ndarray,
    *,
    axes: int,
    stride: int = 1,
    dilation: int = 1,
    groups: int = 1,
    padded: bool = True,
) -> np.ndarray:
    """Of kernels `outputs, window…, inputs`, or in groups `groups, outputs, window…, inputs`."""
    if groups == 1:
        kernel = kernel[None]
    size = kernel.shape[2]
    parts = []
    for at, part in enumerate(np.split(x, groups, axis=-1)):
        shifted = windows(part, axes, size, stride, dilation, padded).items()
        parts.append(sum(seen @ kernel[at][(slice(None), *place)].T for place, seen in shifted))
    return np.concatenate(parts, axis=-1)


def conv_transpose(
    x: np.ndarray, kernel: np.ndarray, *, axes: int, stride: int = 1, dilation: int = 1, padded: bool = True
) -> np.ndarray:
    """Each place adds its window; padded, what lies beyond the edges is cut off."""
    size = kernel.shape[1]
    span = dilation * (size - 1) + 1
    lengths = x.shape[1 : 1 + axes]
    y = np.zeros((len(x), *((n - 1) * stride + span for n in lengths), kernel.shape[0]))
    for place in product(range(size), repeat=axes):
        to = [
            slice(dilation * k, dilation * k + stride * (n - 1) + 1, stride)
            for k, n in zip(place, lengths, strict=True)
        ]
        y[(slice(None), *to)] += x @ kernel[(slice(None), *place)].T
    if not padded:
        return y
    left = span // 2
    enough = np.pad(y, [(0, 0), *[(0, stride)] * axes, (0, 0)])
    return enough[(slice(None), *(slice(left, left + stride * n) for n in lengths))]


def pool(
    x: np.ndarray, reduce: Callable[..., np.ndarray], *, axes: int, size: int, stride: int, padded: bool = False
) -> np.ndarray:
    fill = -np.inf if reduce is np.max else 0.0
    return reduce(np.stack(list(windows(x, axes, size, stride, 1, padded, fill).values())), axis=0)


def normalise(x: np.ndarray, axes: tuple[int, ...], eps: float = 1e-5) -> np.ndarray:
    centred = x - x.mean(axes, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axes, keepdims=True) + eps)


def log_softmax(x: np.ndarray) -> np.ndarray:
    above = x - x.max(-1, keepdims=True)
    return above - np.log(np.exp(above).sum(-1, keepdims=True))
