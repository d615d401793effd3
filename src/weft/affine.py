"""Affine indices: whole-number combinations of loops and of indices that are given when code runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import overload

from weft.ops import Number, Scalar


@dataclass(frozen=True, slots=True, eq=False)
class Affine(Scalar):
    """The sum of `coefficient * name` over its terms, and an offset.

    No name stands in it twice and no coefficient is zero; terms keep the order in which they were first mentioned, and
    that order makes no difference: indices that are equal everywhere are equal values.
    """

    terms: tuple[tuple[int, str], ...] = ()
    offset: int = 0

    def __post_init__(self) -> None:
        terms = self.terms
        if terms and (len(terms) > 1 or not terms[0][0]):
            if not all(factor for factor, _ in terms) or len({name for _, name in terms}) < len(terms):
                object.__setattr__(self, "terms", _collected(terms))

    def __eq__(self, other: object) -> bool:
        if type(other) is not Affine:
            return NotImplemented
        if self.offset != other.offset or len(self.terms) != len(other.terms):
            return False
        return self.terms == other.terms or set(self.terms) == set(other.terms)

    def __hash__(self) -> int:
        return hash((frozenset(self.terms) if len(self.terms) > 1 else self.terms, self.offset))

    @staticmethod
    def of(name: str) -> Affine:
        """A loop or a given index itself."""
        return Affine(((1, name),))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple([name for _, name in self.terms])

    @property
    def is_constant(self) -> bool:
        return not self.terms

    @property
    def only(self) -> str:
        """The name that it is; nothing if it is more than that."""
        return self.terms[0][1] if len(self.terms) == 1 and self.terms[0][0] == 1 and not self.offset else ""

    def coefficient(self, name: str) -> int:
        return next((factor for factor, one in self.terms if one == name), 0)

    @overload
    def __add__(self, other: Affine | int) -> Affine: ...
    @overload
    def __add__(self, other: Number) -> Scalar: ...
    def __add__(self, other: Number) -> Scalar:
        if isinstance(other, Affine):
            return Affine((*self.terms, *other.terms), self.offset + other.offset)
        return Affine(self.terms, self.offset + other) if isinstance(other, int) else Scalar.__add__(self, other)

    @overload
    def __sub__(self, other: Affine | int) -> Affine: ...
    @overload
    def __sub__(self, other: Number) -> Scalar: ...
    def __sub__(self, other: Number) -> Scalar:
        return self + -other if isinstance(other, Affine | int) else Scalar.__sub__(self, other)

    @overload
    def __mul__(self, other: int) -> Affine: ...
    @overload
    def __mul__(self, other: Number) -> Scalar: ...
    def __mul__(self, other: Number) -> Scalar:
        if isinstance(other, int):
            return Affine(tuple([(factor * other, name) for factor, name in self.terms]), self.offset * other)
        return Scalar.__mul__(self, other)

    def __neg__(self) -> Affine:
        return self * -1

    def divide(self, by: int) -> Affine | None:
        """It divided by a number; None where something would be left."""
        if by == 1:
            return self
        if self.offset % by or any(factor % by for factor, _ in self.terms):
            return None
        return Affine(tuple([(factor // by, name) for factor, name in self.terms]), self.offset // by)

    def substitute(self, values: Mapping[str, Affine]) -> Affine:
        """It with names replaced by indices."""
        if self.only:
            return values.get(self.only, self)
        if not any(name in values for _, name in self.terms):
            return self
        terms, offset = list[tuple[int, str]](), self.offset
        for factor, name in self.terms:
            inner = values.get(name)
            if inner is None:
                terms.append((factor, name))
            else:
                offset += factor * inner.offset
                terms += [(factor * one, deeper) for one, deeper in inner.terms]
        return Affine(tuple(terms), offset)

    def without(self, names: Iterable[str]) -> Affine:
        """It with some names at 0."""
        return Affine(tuple([term for term in self.terms if term[1] not in names]), self.offset)

    def value(self, at: Mapping[str, int]) -> int:
        """What it comes to where names have these values."""
        return self.offset + sum(factor * at[name] for factor, name in self.terms)

    def bounds(self, ranges: Mapping[str, int]) -> tuple[int, int] | None:
        """The least and the greatest value where each name runs from 0 to below a size; None if one is not known."""
        low = high = self.offset
        for factor, name in self.terms:
            if name not in ranges:
                return None
            end = factor * (ranges[name] - 1)
            if end < 0:
                low += end
            else:
                high += end
        return low, high

    def stays_inside(self, size: int, ranges: Mapping[str, int]) -> bool:
        """Is it from 0 to below a size for all values of its names?"""
        found = self.bounds(ranges)
        return found is not None and found[0] >= 0 and found[1] < size

    def __str__(self) -> str:
        signs = {1: "", -1: "-"}
        terms = [f"{signs.get(factor, f'{factor}*')}{name}" for factor, name in self.terms]
        if self.offset or not terms:
            terms.append(str(self.offset))
        return " + ".join(terms).replace("+ -", "- ")


def _collected(terms: Iterable[tuple[int, str]]) -> tuple[tuple[int, str], ...]:
    """Terms with one for each name, in the order of first mention, and none that is zero."""
    found: dict[str, int] = {}
    for factor, name in terms:
        found[name] = found.get(name, 0) + factor
    return tuple([(factor, name) for name, factor in found.items() if factor])
