"""Works that libraries are compared by: what each is in the words of every contestant, and the kinds there are of them.

A kind is a function of sizes, so that a row of the table is a text: `product 256×256×256`, `softmax 64×1000 gradient`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = np.ndarray

CACHE_LINE = 64

#: A work in the words of one contestant: a function of its module and of its arrays.
Words = Callable[..., Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What is computed from some arrays, by those who have words for it.

    With `gradients`, contestants also find those of the result by these inputs, pulled back from given numbers. `batch`
    says how many axes of an array are weft's batch axes. `flops` counts multiplications and additions; `moved`, the
    bytes that must be moved at least, are those of inputs and answers where not given. Answers that are `rounded`
    may be apart by so much of the largest.
    """

    inputs: Mapping[str, Array]
    weft: Words
    torch: Words
    jax: Words
    numpy: Words | None = None
    gradients: tuple[str, ...] = ()
    batch: Mapping[str, int] = field(default_factory=dict)
    flops: float = 0
    moved: int | None = None
    rounded: float = 0.0

    def in_double(self) -> dict[str, Array]:
        return {
            name: one.astype("float64") if one.dtype in ("float32", "bfloat16") else one
            for name, one in self.inputs.items()
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """Steps of training a model of `_models`: the answers are its first losses."""

    model: str
    problem: Any
    flops: float
    moved: int


#: Every kind of work by its name.
KINDS: dict[str, Callable[..., Work | Training]] = {}


def kind(name: str) -> Callable[[Callable[..., Work | Training]], Callable[..., Work | Training]]:
    """Let a function of sizes and options make works of that name."""

    def noted(make: Callable[..., Work | Training]) -> Callable[..., Work | Training]:
        KINDS[name] = make
        return make

    return noted


def work(text: str) -> Work | Training:
    """The work that a row's text stands for: its kind, sizes, options."""
    name, sizes, *options = text.split()
    if name not in KINDS:
        raise SystemExit(f"there is no work `{name}`: there are {', '.join(KINDS)}")
    numbers_of = [int(one) for one in re.split("[x×-]", sizes)]
    try:
        given = inspect.signature(KINDS[name]).bind(*numbers_of, **dict.fromkeys(options, True))
    except TypeError:
        raise SystemExit(f"`{text}` is not written as `{usage(name)}`") from None
    return KINDS[name](*given.args, **given.kwargs)


def usage(name: str) -> str:
    """How rows of a kind are written."""
    found = inspect.signature(KINDS[name]).parameters.values()
    sizes = "×".join(f"{one.name.upper()}{'…' if one.kind is one.VAR_POSITIONAL else ''}" for one in _sizes(found))
    return " ".join([name, sizes, *(f"[{one.name}]" for one in found if one.kind is one.KEYWORD_ONLY)])


def _sizes(found: Any) -> list[inspect.Parameter]:
    return [one for one in found if one.kind is not one.KEYWORD_ONLY]


def numbers(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype("float32")


def aligned(array: Array) -> Array:
    """An array that begins at a cache line: whether its rows straddle two of them is not left to chance."""
    memory = np.empty(array.nbytes + CACHE_LINE, "uint8")
    first = -memory.ctypes.data % CACHE_LINE
    found = memory[first : first + array.nbytes].view(array.dtype).reshape(array.shape)
    found[...] = array
    return found
