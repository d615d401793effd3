"""Tensors with named axes, drawn one from others: what `mixtures.py` is made of, and its NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, TypeAlias

import numpy as np

import weft as wf

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
NAMES = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(eq=False, frozen=True)
class Value:
    """A tensor, the names of its batch and output axes, and what NumPy makes of what went into it.

    Positions are whole numbers from 0 on, below `limit`.
    """

    tensor: wf.Tensor
    batch: str
    output: str
    meaning: Callable[..., Array] | None
    operands: tuple[Value, ...] = ()
    limit: int = 0

    @property
    def axes(self) -> str:
        return self.batch + self.output

    @property
    def part(self) -> str:
        return f"{self.batch}|{self.output or '0'}" if self.batch else self.output or "0"


@dataclass
class Drawing:
    """A program as it is drawn: at most so many numbers in a value, and points in its loops.

    It is `smooth` as long as NumPy's values have the gradients that weft is asked for, and `narrow` once something is
    rounded to few bits.
    """

    rng: np.random.Generator
    sizes: dict[str, int] = field(default_factory=dict)
    leaves: dict[Value, Array] = field(default_factory=dict)
    known: dict[Value, Array] = field(default_factory=dict)
    values: list[Value] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)
    largest: int = 3000
    loops: int = 60_000
    smooth: bool = True
    narrow: bool = False

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def pick(self, options: Sequence[Any]) -> Any:
        return options[int(self.rng.integers(len(options)))]

    def axis(self, size: int) -> str:
        name = next(one for one in NAMES if one not in self.sizes)
        self.sizes[name] = size
        return name

    def some(self, axes: str, least: int = 0, share: float = 0.6) -> str:
        """Some of these, in any order."""
        kept = [one for one in axes if self.chance(share)]
        while len(kept) < min(least, len(axes)):
            kept.append(self.pick([one for one in axes if one not in kept]))
        return "".join(self.rng.permutation(kept)) if kept else ""

    def rows(self, axes: str) -> tuple[str, str]:
        """Batch and output axes: the leftmost some."""
        cut = int(self.rng.integers(0, len(axes) + 1)) if self.chance(0.4) else 0
        return axes[:cut], axes[cut:]

    def size(self, axes: str) -> int:
        return prod(self.sizes[one] for one in set(axes))

    def any(self, fits: Callable[[Value], bool] = lambda one: True) -> Value | None:
        """A value, rather a late one."""
        found = [one for one in self.values if not one.limit and fits(one)]
        return found[int(len(found) * self.rng.random() ** 0.5)] if found else None

    def leaf(self, batch: str, output: str) -> Value:
        """A parameter, or data with a gradient."""
        label, shape = f"p{len(self.leaves)}", tuple(self.sizes[name] for name in batch + output)
        array = self.rng.uniform(-1, 1, shape)
        if self.chance(0.6) and output:
            tensor = wf.param(label, b=shape[: len(batch)], o=shape[len(batch) :], dtype="float64")
        else:
            tensor = wf.require_grad(wf.data(array, batch=len(batch), label=label))
        one = Value(tensor, batch, output, lambda: array)
        self.leaves[one] = array
        self.values.append(one)
        self.shown.append(f"{label}: {one.part}")
        return one

    def make(
        self,
        how: str,
        tensor: wf.Tensor,
        rows: tuple[str, str],
        meaning: Callable[..., Array] | None,
        *operands: Value,
        limit: int = 0,
    ) -> Value:
        """A value of others; bounded, where it is large."""
        label = f"v{len(self.values)}"
        if any(one.meaning is None for one in operands):
            meaning = None
        one = Value(tensor.named(label), *rows, meaning, operands, limit)
        self.shown.append(f"{label}: {one.part} = {how} of {', '.join(o.tensor.label for o in operands)}")
        array = None
        if meaning:
            array = value_of(one, self.leaves, self.known)
            shape = tuple(self.sizes[name] for name in one.axes)
            assert array.shape == shape, f"{array.shape} is not {shape}\n{self.text}"
        self.values.append(one)
        unknown = array is None and how.startswith("gradient")
        large = unknown or (array is not None and np.abs(array).max(initial=0) > 6)
        if not limit and large:
            return self.make("tanh", wf.tanh(one.tensor * 0.25), rows, lambda x: np.tanh(x * 0.25), one)
        return one

    def einsum(self, how: str, operands: Sequence[Value], rows: tuple[str, str], meaning: Any, **given: Any) -> Value:
        spec = "; ".join(one.part for one in operands) + f" => {part_of(*rows)}"
        return self.make(
            f"{how} {spec} {given}",
            wf.einsum(spec, *(one.tensor for one in operands), **given),
            rows,
            meaning,
            *operands,
        )

    @property
    def text(self) -> str:
        return "\n".join([str(self.sizes), *self.shown])


def part_of(batch: str, output: str) -> str:
    return f"{batch}|{output or '0'}" if batch else output or "0"


def value_of(one: Value, leaves: dict[Value, Array], known: dict[Value, Array]) -> Array:
    if one not in known:
        operands = [value_of(other, leaves, known) for other in one.operands]
        assert one.meaning is not None
        with np.errstate(all="ignore"):
            known[one] = leaves[one] if one in leaves else np.asarray(one.meaning(*operands))
    return known[one]


def lined(array: Array, axes: str, wanted: str) -> Array:
    """Axes in the order of `wanted`, with 1 for those it lacks."""
    moved = array.transpose([axes.index(one) for one in wanted if one in axes])
    return moved.reshape([array.shape[axes.index(one)] if one in axes else 1 for one in wanted])


def folded(array: Array, axes: str, kept: str, reduce: Callable[..., Array]) -> Array:
    """Reduce a last axis that has all axes left out, in the order of the operand."""
    rest = "".join(one for one in axes if one not in kept)
    order = kept + rest
    moved = array.transpose([axes.index(one) for one in order])
    return reduce(moved.reshape(*moved.shape[: len(kept)], -1))


def along(array: Array, axes: str, axis: str, act: Callable[[Array], Array]) -> Array:
    """What `act` makes of the last axis, for one of these."""
    at = axes.index(axis)
    return np.moveaxis(act(np.moveaxis(array, at, -1)), -1, at)


Step: TypeAlias = Callable[[Drawing], Value | None]
