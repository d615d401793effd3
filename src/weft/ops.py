"""The one table of primitive scalar operations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.errors import WeftError, user_origin


@dataclass(frozen=True, slots=True)
class Binary:
    """A scalar operation of two operands: its NumPy meaning and, if it can accumulate, its neutral element."""

    name: str
    text: str
    meaning: np.ufunc
    neutral: Callable[[np.dtype[Any]], object] | None = None


def _lowest(dtype: np.dtype[Any]) -> object:
    return np.iinfo(dtype).min if dtype.kind in "iu" else dtype.kind != "b" and -np.inf


def _highest(dtype: np.dtype[Any]) -> object:
    return np.iinfo(dtype).max if dtype.kind in "iu" else dtype.kind == "b" or np.inf


BINARY: dict[str, Binary] = {
    op.name: op
    for op in (
        Binary("add", "+", np.add, lambda dtype: 0),
        Binary("sub", "-", np.subtract),
        Binary("mul", "*", np.multiply, lambda dtype: 1),
        Binary("div", "/", np.divide),
        Binary("pow", "**", np.power),
        Binary("max", "max", np.maximum, _lowest),
        Binary("min", "min", np.minimum, _highest),
    )
}
_BY_TEXT = {op.text: op for op in BINARY.values()}


def binary(name: str) -> Binary:
    """The operation called `name`, by its name or by its operator."""
    found = BINARY.get(name) or _BY_TEXT.get(name)
    if found is None:
        raise WeftError(
            f"there is no binary operation {name!r}",
            origin=user_origin(),
            fix="use one of " + ", ".join(op.text for op in BINARY.values()),
        )
    return found


def accumulator(name: str) -> Binary:
    """The operation called `name`, which must have a neutral element."""
    found = binary(name)
    if found.neutral is None:
        raise WeftError(
            f"{name!r} cannot accumulate: it has no neutral element",
            origin=user_origin(),
            fix="accumulate with one of " + ", ".join(op.text for op in BINARY.values() if op.neutral),
        )
    return found
