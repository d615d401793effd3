"""The models of the benchmarks: what they start from here, and each of them in weft, in jax and in PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

Array = np.ndarray

#: The perceptron's widths; its batch.
WIDTHS, MLP_BATCH = (784, 256, 128, 10), 64

#: Images of 28 by 28, two convolutions of 3 by 3, each halved by pooling, then a dense layer.
IMAGE, CHANNELS, CLASSES, CNN_BATCH = 28, (1, 8, 16), 10, 32

#: The transformer.
LAYERS, WIDTH, HEADS, GPT_BATCH, SEQUENCE, VOCABULARY = 6, 64, 4, 4, 32, 64

RATE = {"mlp": 1e-3, "cnn": 0.01, "gpt": 0.1}
EPSILON = 1e-5


@dataclass(frozen=True, slots=True)
class Problem:
    """Data by name, and the first values of all parameters by label. Weights lie as weft's: outputs, then inputs."""

    data: Mapping[str, Array]
    start: Mapping[str, Array]
    layers: int = 0


@dataclass(frozen=True, slots=True)
class Details:
    """What weft says of a compilation: seconds of each stage, kernels, and how many of them differ."""

    stages: Mapping[str, float] = field(default_factory=dict)
    kernels: int = 0
    different: int = 0


@dataclass(frozen=True, slots=True)
class Ready:
    """A training step that has run once.

    `first` is the loss it found; `step` makes another and says its loss; `memory` says how many bytes training needs.
    """

    first: float
    step: Callable[[], float]
    memory: Callable[[], int]
    details: Callable[[], Details] = Details


def mlp(layers: int = 0) -> Problem:
    random = np.random.default_rng(0)
    start = {}
    for number, (inputs, outputs) in enumerate(pairwise(WIDTHS), 1):
        start[f"w{number}"] = random.normal(0, inputs**-0.5, (outputs, inputs))
        start[f"b{number}"] = np.zeros(outputs)
    data = {"x": random.normal(size=(MLP_BATCH, WIDTHS[0])), "labels": random.integers(0, WIDTHS[-1], MLP_BATCH)}
    return Problem(single(data), single(start))


def cnn(layers: int = 0) -> Problem:
    random = np.random.default_rng(0)
    start = {}
    for number, (inputs, outputs) in enumerate(pairwise(CHANNELS), 1):
        start[f"k{number}"] = random.normal(0, (9 * inputs) ** -0.5, (outputs, 3, 3, inputs))
        start[f"b{number}"] = np.zeros(outputs)
    left = IMAGE // 4
    start["w"] = random.normal(0, (left * left * CHANNELS[-1]) ** -0.5, (CLASSES, left, left, CHANNELS[-1]))
    start["b"] = np.zeros(CLASSES)
    images = random.normal(size=(CNN_BATCH, IMAGE, IMAGE, CHANNELS[0]))
    return Problem(single({"x": images, "labels": random.integers(0, CLASSES, CNN_BATCH)}), single(start))


def gpt(layers: int = 0) -> Problem:
    layers = layers or LAYERS
    random = np.random.default_rng(0)
    tokens = random.integers(0, VOCABULARY, (GPT_BATCH, SEQUENCE + 1))
    start = {
        "embedding": random.normal(0, 1, (WIDTH, VOCABULARY)),
        "position": random.normal(0, 0.1, (SEQUENCE, WIDTH)),
        "head": random.normal(0, WIDTH**-0.5, (VOCABULARY, WIDTH)),
        **_norm("last"),
    }
    for number in range(layers):
        start |= _layer(f"l{number}", random)
    return Problem(single({"tokens": tokens[:, :-1], "targets": tokens[:, 1:]}), single(start), layers)


def _layer(name: str, random: np.random.Generator) -> dict[str, Array]:
    head, hidden = WIDTH // HEADS, 4 * WIDTH
    into = {f"{name}.{one}": random.normal(0, WIDTH**-0.5, (HEADS, head, WIDTH)) for one in "qkv"}
    return {
        **_norm(f"{name}.before"),
        **into,
        f"{name}.o": random.normal(0, WIDTH**-0.5, (WIDTH, HEADS, head)),
        **_norm(f"{name}.between"),
        f"{name}.up": random.normal(0, WIDTH**-0.5, (hidden, WIDTH)),
        f"{name}.up_bias": np.zeros(hidden),
        f"{name}.down": random.normal(0, hidden**-0.5, (WIDTH, hidden)),
        f"{name}.down_bias": np.zeros(WIDTH),
    }


def _norm(name: str) -> dict[str, Array]:
    return {f"{name}.scale": np.ones(WIDTH), f"{name}.shift": np.zeros(WIDTH)}


def single(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Arrays in the types all peers use: 32 bits."""
    return {name: one.astype("int32" if one.dtype.kind == "i" else "float32") for name, one in arrays.items()}


#: Every model: what it starts from, given a number of layers where it has any.
PROBLEMS: dict[str, Callable[[int], Problem]] = {"mlp": mlp, "cnn": cnn, "gpt": gpt}
