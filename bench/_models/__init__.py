"""The models of the benchmarks: what they start from here, and each of them in weft, in jax and in PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

Array = np.ndarray

EPSILON = 1e-5


@dataclass(frozen=True, slots=True)
class Perceptron:
    widths: tuple[int, ...] = (784, 256, 128, 10)
    batch: int = 64


@dataclass(frozen=True, slots=True)
class Images:
    """Convolutions of 3 by 3, each halved by pooling, then a dense layer."""

    size: int = 28
    channels: tuple[int, ...] = (1, 8, 16)
    classes: int = 10
    batch: int = 32


@dataclass(frozen=True, slots=True)
class Transformer:
    layers: int = 6
    width: int = 64
    heads: int = 4
    batch: int = 4
    length: int = 32
    vocabulary: int = 64


@dataclass(frozen=True, slots=True)
class Problem:
    """Data by name, and the first values of all parameters by label. Weights lie as weft's: outputs, then inputs.

    It is trained by Adam, or by gradient descent, at a rate.
    """

    data: Mapping[str, Array]
    start: Mapping[str, Array]
    sizes: Perceptron | Images | Transformer
    rate: float
    adam: bool = False


@dataclass(frozen=True, slots=True)
class Details:
    """What weft says of a compilation: seconds of each stage, kernels, and how many of them differ."""

    stages: Mapping[str, float] = field(default_factory=dict)
    kernels: int = 0
    different: int = 0


@dataclass(frozen=True, slots=True)
class Ready:
    """A training step that has run once.

    `step` makes another, `loss` is what the last one found, and `memory` says how many bytes training needs.
    """

    step: Callable[[], None]
    loss: Callable[[], float]
    memory: Callable[[], int]
    details: Callable[[], Details] = Details


def mlp(sizes: Perceptron) -> Problem:
    random = np.random.default_rng(0)
    start = {}
    for number, (inputs, outputs) in enumerate(pairwise(sizes.widths), 1):
        start[f"w{number}"] = random.normal(0, inputs**-0.5, (outputs, inputs))
        start[f"b{number}"] = np.zeros(outputs)
    data = {
        "x": random.normal(size=(sizes.batch, sizes.widths[0])),
        "labels": random.integers(0, sizes.widths[-1], sizes.batch),
    }
    return Problem(single(data), single(start), sizes, rate=1e-3, adam=True)


def cnn(sizes: Images) -> Problem:
    random = np.random.default_rng(0)
    start = {}
    for number, (inputs, outputs) in enumerate(pairwise(sizes.channels), 1):
        start[f"k{number}"] = random.normal(0, (9 * inputs) ** -0.5, (outputs, 3, 3, inputs))
        start[f"b{number}"] = np.zeros(outputs)
    left, last = sizes.size // 4, sizes.channels[-1]
    start["w"] = random.normal(0, (left * left * last) ** -0.5, (sizes.classes, left, left, last))
    start["b"] = np.zeros(sizes.classes)
    images = random.normal(size=(sizes.batch, sizes.size, sizes.size, sizes.channels[0]))
    data = {"x": images, "labels": random.integers(0, sizes.classes, sizes.batch)}
    return Problem(single(data), single(start), sizes, rate=0.01)


def gpt(sizes: Transformer, *, adam: bool = False) -> Problem:
    random, width, vocabulary = np.random.default_rng(0), sizes.width, sizes.vocabulary
    tokens = random.integers(0, vocabulary, (sizes.batch, sizes.length + 1))
    start = {
        "embedding": random.normal(0, 1, (width, vocabulary)),
        "position": random.normal(0, 0.1, (sizes.length, width)),
        "head": random.normal(0, width**-0.5, (vocabulary, width)),
        **_norm("last", width),
    }
    for number in range(sizes.layers):
        start |= _layer(f"l{number}", random, width, sizes.heads)
    data = {"tokens": tokens[:, :-1], "targets": tokens[:, 1:]}
    return Problem(single(data), single(start), sizes, rate=1e-3 if adam else 0.1, adam=adam)


def _layer(name: str, random: np.random.Generator, width: int, heads: int) -> dict[str, Array]:
    head, hidden = width // heads, 4 * width
    into = {f"{name}.{one}": random.normal(0, width**-0.5, (heads, head, width)) for one in "qkv"}
    return {
        **_norm(f"{name}.before", width),
        **into,
        f"{name}.o": random.normal(0, width**-0.5, (width, heads, head)),
        **_norm(f"{name}.between", width),
        f"{name}.up": random.normal(0, width**-0.5, (hidden, width)),
        f"{name}.up_bias": np.zeros(hidden),
        f"{name}.down": random.normal(0, hidden**-0.5, (width, hidden)),
        f"{name}.down_bias": np.zeros(width),
    }


def _norm(name: str, width: int) -> dict[str, Array]:
    return {f"{name}.scale": np.ones(width), f"{name}.shift": np.zeros(width)}


def single(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Arrays in the types all peers use: 32 bits."""
    return {name: one.astype("int32" if one.dtype.kind == "i" else "float32") for name, one in arrays.items()}


def problem(model: str, layers: int = 0) -> Problem:
    """What a model starts from in its usual sizes, or with a number of layers where it has any."""
    if model == "gpt":
        return gpt(Transformer(layers) if layers else Transformer())
    return mlp(Perceptron()) if model == "mlp" else cnn(Images())
