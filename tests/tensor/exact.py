"""Random expressions of whole numbers, with the values they must have: exact until stored, then wrapped."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, reduce
from itertools import product

import numpy as np
from hypothesis import strategies as st

import weft as wf

SIGNED = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32")
UNSIGNED = ("bool", "uint8", "uint16", "uint32", "uint64")


def quotient(x: int, y: int) -> int:
    return x // y if y else 0


def rest(x: int, y: int) -> int:
    return x % y if y else 0


UNARY: dict[str, tuple[Callable[..., wf.Tensor], Callable[[int], int]]] = {
    "neg": (operator.neg, operator.neg),
    "abs": (wf.abs, abs),
    "relu": (wf.relu, lambda x: max(x, 0)),
    "sat01": (wf.sat01, lambda x: min(max(x, 0), 1)),
    "not": (wf.logical_not, lambda x: int(x == 0)),
    "square": (lambda x: x**2, lambda x: x**2),
    "third power": (lambda x: x**3, lambda x: x**3),
}
BINARY: dict[str, tuple[Callable[..., wf.Tensor], Callable[[int, int], int]]] = {
    "add": (operator.add, operator.add),
    "sub": (operator.sub, operator.sub),
    "mul": (operator.mul, operator.mul),
    "max": (wf.maximum, max),
    "min": (wf.minimum, min),
    "mod": (operator.mod, rest),
    "floordiv": (operator.floordiv, quotient),
    "lt": (operator.lt, lambda x, y: int(x < y)),
    "le": (operator.le, lambda x, y: int(x <= y)),
    "eq": (wf.equal, lambda x, y: int(x == y)),
    "ne": (wf.not_equal, lambda x, y: int(x != y)),
    "and": (wf.logical_and, lambda x, y: int(x != 0 and y != 0)),
    "or": (wf.logical_or, lambda x, y: int(x != 0 or y != 0)),
}
ACCUMULATING: dict[str, Callable[[int, int], int]] = {"+": operator.add, "*": operator.mul, "max": max, "min": min}


def wrapped(values: np.ndarray, dtype: str) -> np.ndarray:
    """Whole numbers of any size as they are stored."""
    if dtype == "bool":
        return np.vectorize(lambda x: int(x != 0), otypes=[object])(values)
    bits = np.iinfo(dtype).bits
    half = 0 if dtype.startswith("u") else 1 << (bits - 1)
    return np.vectorize(lambda x: (x + half) % (1 << bits) - half, otypes=[object])(values)


@dataclass(frozen=True, eq=False)
class Exact:
    """A tensor of output axes, and how its values come from those of others."""

    tensor: wf.Tensor
    shape: tuple[int, ...]
    compute: Callable[[], np.ndarray]

    @cached_property
    def values(self) -> np.ndarray:
        return wrapped(self.compute(), self.tensor.dtype)


@dataclass
class Numbers:
    """Tensors of whole numbers, grown at random from data of some types that meet."""

    draw: st.DrawFn
    dtypes: tuple[str, ...]
    pool: list[Exact] = field(default_factory=list)

    def pick(self, items: object) -> object:
        return self.draw(st.sampled_from(list(items)))  # type: ignore[call-overload]

    def data(self, shape: tuple[int, ...]) -> Exact:
        dtype = str(self.pick(self.dtypes))
        numbers = np.random.default_rng(self.draw(st.integers(0, 99)))
        if dtype == "bool":
            array = numbers.integers(0, 2, shape).astype(bool)
        else:
            ends = np.iinfo(dtype)
            few = numbers.integers(0 if ends.min == 0 else -3, 4, shape).astype(dtype)
            array = (
                few if self.draw(st.booleans()) else numbers.integers(ends.min, ends.max, shape, dtype, endpoint=True)
            )
        return Exact(wf.data(array), shape, lambda: array.astype(object) * 1)

    def grow(self) -> None:
        one = self.pick(self.pool)
        assert isinstance(one, Exact)
        steps = ["unary", "binary", "binary", "number", "where", "reduce", "cast", "concat", "contract"]
        try:
            new = getattr(self, f"_{self.pick(steps)}")(one)
        except wf.WeftError:  # a sum of unsigned numbers does not meet signed ones
            return
        assert new.tensor.dtype
        self.pool.append(new)

    def like(self, one: Exact) -> Exact:
        same = [other for other in self.pool if other.shape == one.shape]
        found = self.pick([*same, None])
        return found if isinstance(found, Exact) else self.data(one.shape)

    def _unary(self, one: Exact) -> Exact:
        function, meaning = UNARY[str(self.pick(UNARY))]
        return Exact(function(one.tensor), one.shape, lambda: each(meaning, one.values))

    def _binary(self, one: Exact) -> Exact:
        function, meaning = BINARY[str(self.pick(BINARY))]
        other = self.like(one)
        result = function(one.tensor, other.tensor)
        return Exact(result, one.shape, lambda: each(meaning, one.values, other.values))

    def _number(self, one: Exact) -> Exact:
        """With a number of the program, which takes the type of the tensor."""
        function, meaning = BINARY[str(self.pick(BINARY))]
        number = self.draw(st.integers(0, 5))
        return Exact(function(one.tensor, number), one.shape, lambda: each(lambda x: meaning(x, number), one.values))

    def _where(self, one: Exact) -> Exact:
        chosen, other = self.like(one), self.like(one)
        result = wf.where(chosen.tensor, one.tensor, other.tensor)
        meaning = lambda c, x, y: x if c else y  # noqa: E731
        return Exact(result, one.shape, lambda: each(meaning, chosen.values, one.values, other.values))

    def _reduce(self, one: Exact) -> Exact:
        """Axes permuted and reduced."""
        letters = "ijk"[: len(one.shape)]
        kept = self.draw(st.permutations(letters))[: self.draw(st.integers(0, len(letters)))]
        accum = str(self.pick(ACCUMULATING))
        result = wf.einsum(f"{letters} => {''.join(kept) or '0'}", one.tensor, accum=accum)
        shape = tuple(one.shape[letters.index(name)] for name in kept) or (1,)
        return Exact(result, shape, lambda: reduced(one.values, [letters.index(name) for name in kept], accum))

    def _contract(self, one: Exact) -> Exact:
        other = self.like(one)
        letters = "ijk"[: len(one.shape)]
        result = wf.einsum(f"{letters};{letters} => {letters[0]}", one.tensor, other.tensor)
        products = lambda: each(operator.mul, one.values, other.values)  # noqa: E731
        return Exact(result, one.shape[:1], lambda: reduced(products(), [0], "+"))

    def _cast(self, one: Exact) -> Exact:
        return Exact(wf.cast(one.tensor, str(self.pick(self.dtypes))), one.shape, lambda: one.values)

    def _concat(self, one: Exact) -> Exact:
        other = self.like(one)
        shape = (2 * one.shape[0], *one.shape[1:])
        return Exact(wf.concat(one.tensor, other.tensor), shape, lambda: np.concatenate([one.values, other.values]))


def each(meaning: Callable[..., int], *values: np.ndarray) -> np.ndarray:
    return np.vectorize(meaning, otypes=[object])(*values)


def reduced(values: np.ndarray, kept: list[int], accum: str) -> np.ndarray:
    """Values accumulated over the axes that are not kept, the kept ones in their new order."""
    found = np.empty([values.shape[axis] for axis in kept] or [1], object)
    groups: dict[tuple[int, ...], list[int]] = {}
    for at in product(*map(range, values.shape)):
        groups.setdefault(tuple(at[axis] for axis in kept) or (0,), []).append(values[at])
    for cell, members in groups.items():
        found[cell] = reduce(ACCUMULATING[accum], members)
    return found


@st.composite
def whole_numbers(draw: st.DrawFn) -> list[Exact]:
    """Some tensors of whole numbers, computed from each other."""
    numbers = Numbers(draw, draw(st.sampled_from([SIGNED, UNSIGNED])))
    numbers.pool.append(numbers.data(draw(st.sampled_from([(2, 3), (3,), (2, 2, 2)]))))
    for _ in range(draw(st.integers(1, 6))):
        numbers.grow()
    return numbers.pool
