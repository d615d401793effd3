"""Property tests of a monoid on random numbers: is it associative, is its start neutral, is it commutative?

States are compared by what they come to, alone and joined with others: there may be several of the same meaning.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from weft.errors import WeftError
from weft.ops.monoid import Monoid
from weft.ops.scalar import Call, Num, Scalar, computed
from weft.ops.table import OPS

_DRAWS = 32
_CLOSE = 1e-6


def numeric_values(values: Sequence[Scalar], numbers: Sequence[Any]) -> tuple[Any, ...]:
    """What traced values come to; what they share is computed once."""
    known: dict[int, Any] = {}

    def leaf(one: Scalar) -> Any:
        return one.value if isinstance(one, Num) else numbers[one.number]  # type: ignore[attr-defined]

    def call(one: Call, args: Sequence[Any]) -> Any:
        if id(one) not in known:
            known[id(one)] = OPS[one.op].meaning(*args)
        return known[id(one)]

    return tuple(computed(one, leaf, call) for one in values)


def numeric_value(value: Scalar, numbers: Sequence[Any]) -> Any:
    """What a traced value comes to."""
    return numeric_values((value,), numbers)[0]


def check_monoid(one: Monoid) -> Monoid:
    """A monoid with what trials find out about it; an error if it is none."""
    with np.errstate(all="ignore"):
        for trial in _trials(one):
            trial.check_associative()
            trial.check_neutral()
        return replace(one, commutative=all(trial.commutes() for trial in _trials(one)))


@dataclass(frozen=True, slots=True)
class _Trial:
    """Three values at their positions, and the states that they are lifted to."""

    monoid: Monoid
    values: tuple[float, ...]
    states: tuple[tuple[Any, ...], ...]

    def check_neutral(self) -> None:
        one, (a, b, _) = self.monoid, self.states
        start = tuple(np.float64(number) for number in one.start)
        for state, text in ((a, f"x = {self.values[0]:.6g}"), (start, "`start` itself")):
            for joined, how in ((self._join(start, state), "start, a"), (self._join(state, start), "a, start")):
                self._same(joined, state, b, f"start={_shown(one.start)} is not neutral", how, "a", f"with a of {text}")

    def check_associative(self) -> None:
        a, b, c = self.states
        left, right = self._join(self._join(a, b), c), self._join(a, self._join(b, c))
        values = ", ".join(f"{one:.6g}" for one in self.values)
        how = ("combine(a, b), c", "combine(a, combine(b, c))")
        self._same(left, right, a, "it is not associative", *how, f"with a, b, c of x = {values}")

    def commutes(self) -> bool:
        a, b, c = self.states
        left, right = self._join(a, b), self._join(b, a)
        return self._comes_to_same(left, right) and self._comes_to_same(self._join(left, c), self._join(right, c))

    def _join(self, left: Sequence[Any], right: Sequence[Any]) -> tuple[Any, ...]:
        return numeric_values(self.monoid.combine, (*left, *right))

    def _comes_to_same(self, left: Sequence[Any], right: Sequence[Any]) -> bool:
        return _close(*(numeric_value(self.monoid.result, state) for state in (left, right)))

    def _same(self, left: Any, right: Any, other: Any, what: str, joined: str, single: str, where: str) -> None:
        for one, two in ((left, right), (self._join(left, other), self._join(right, other))):
            if not self._comes_to_same(one, two):
                numbers = [f"combine({joined}) is {_shown(left)}, {single} is {_shown(right)}, {where}"]
                ends = [_shown((numeric_value(self.monoid.result, state),)) for state in (one, two)]
                numbers.append(
                    f"they come to {ends[0]} and {ends[1]}" + ("" if one is left else ", joined with another")
                )
                fix = "define `combine` so that it does not matter which two are joined first, nor where `start` is"
                raise WeftError(f"`{self.monoid.name}` is no monoid: {what}", notes=numbers, fix=fix)


def _trials(one: Monoid) -> Iterator[_Trial]:
    """Values near 1 and far from it; positive ones first, for functions that know no others."""
    rng = np.random.default_rng(0)
    for draw in range(_DRAWS):
        values = rng.standard_normal(3) * (1 if draw % 3 else 10)
        values = np.abs(values) if draw < _DRAWS // 2 else values
        positions = rng.permutation(100)[:3]
        numbers = zip(values, positions, strict=True)
        states = tuple(numeric_values(one.of, pair) for pair in numbers)
        yield _Trial(one, tuple(map(float, values)), states)


def _close(one: Any, other: Any) -> bool:
    one, other = np.float64(one), np.float64(other)
    same = one == other or (np.isnan(one) and np.isnan(other))
    return bool(same or abs(one - other) <= _CLOSE * max(1e-3, abs(one), abs(other)))


def _shown(numbers: Sequence[Any]) -> str:
    texts = [f"{float(one):.6g}" for one in numbers]
    return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"
