"""Definitions that run: on which backend, what they give, and what their gradients should be."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pytest

import weft as wf
from weft.tc import Definition

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

BACKENDS = ("interp", "cc")
backends = pytest.mark.parametrize("backend", BACKENDS)

#: How far a value of a type may be from that of doubles.
NEAR = {"float16": 2e-2, "bfloat16": 5e-2, "float32": 2e-4, "float64": 2e-7}


def definition(text: str, backend: str = "interp", name: str = "", **options: Any) -> Definition:
    """A definition of a text, the last one if no name is given."""
    found = wf.tc.define(text, backend=backend, **options)
    return found[name] if name else list(found)[-1]


def several(found: Any) -> tuple[Any, ...]:
    """What a definition gives, always as a tuple."""
    return found if isinstance(found, tuple) else (found,)


def assert_near(found: Array, wanted: Any, dtype: str = "") -> None:
    """Equal as far as the type goes; whole numbers exactly."""
    near = NEAR.get(dtype or found.dtype.name, 0)
    assert found.shape == np.shape(wanted)
    np.testing.assert_allclose(found.astype("float64"), np.asarray(wanted, "float64"), rtol=near, atol=near)


def seeds_of(outputs: Sequence[Array], rng: np.random.Generator) -> tuple[Array | None, ...]:
    """Gradients to start from, none for whole numbers."""
    real = [is_real(one) for one in outputs]
    made = [rng.standard_normal(one.shape).astype(one.dtype) for one in outputs]
    return tuple(one if ok else None for one, ok in zip(made, real, strict=True))


def is_real(array: Array) -> bool:
    return array.dtype.kind not in "biu"


def assert_slopes(
    gradients: Mapping[str, Array],
    inputs: Mapping[str, Array],
    value: Callable[[Mapping[str, Array]], float],
    near: float = 2e-3,
) -> None:
    """Gradients agree with central differences of a value of doubles, in a direction drawn for each input."""
    rng = np.random.default_rng(7)
    doubles = {name: one.astype("float64") if is_real(one) else one for name, one in inputs.items()}
    for name, gradient in gradients.items():
        direction = rng.standard_normal(inputs[name].shape)
        found = float((gradient.astype("float64") * direction).sum())
        slopes = []
        for step in (1e-5, 1e-6, 1e-4):  # where a step crosses a kink, another does not
            ahead, behind = (value({**doubles, name: doubles[name] + sign * step * direction}) for sign in (1, -1))
            slopes.append((ahead - behind) / (2 * step))
            if abs(slopes[-1] - found) <= near * (1 + abs(found)):
                break
        else:
            pytest.fail(f"the slope along {name} is one of {slopes}, and the gradient gives {found}")
