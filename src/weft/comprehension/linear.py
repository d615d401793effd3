"""Sums of indices times constants."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from weft.comprehension.nodes import Binary, Dim, Expr, Index, Int, Size, Unary


@dataclass(frozen=True, slots=True)
class Linear:
    """`offset + factor * index + …`; no factor is zero."""

    factors: Mapping[str, int]
    offset: int

    def __add__(self, other: Linear) -> Linear:
        names = {**self.factors, **other.factors}
        sums = {name: self.factors.get(name, 0) + other.factors.get(name, 0) for name in names}
        return Linear({name: factor for name, factor in sums.items() if factor}, self.offset + other.offset)

    def __mul__(self, by: int) -> Linear:
        return Linear({name: factor * by for name, factor in self.factors.items() if by}, self.offset * by)

    def without(self, index: str) -> Linear:
        """The rest of it."""
        return Linear({name: factor for name, factor in self.factors.items() if name != index}, self.offset)

    @property
    def expr(self) -> Expr:
        """It, as an expression."""
        found: Expr | None = None
        for name, factor in self.factors.items():
            term: Expr = Index(name) if abs(factor) == 1 else Binary("*", Int(abs(factor)), Index(name))
            if found is None:
                found = term if factor > 0 else Unary("-", term)
            else:
                found = Binary("+" if factor > 0 else "-", found, term)
        if found is None:
            return Int(self.offset) if self.offset >= 0 else Unary("-", Int(-self.offset))
        if not self.offset:
            return found
        return Binary("+" if self.offset > 0 else "-", found, Int(abs(self.offset)))


def linear(expr: Expr, number: Callable[[Int | Size | Dim], int | Linear | None] | None = None) -> Linear | None:
    """An expression as such a sum, None if it is none; `number` gives the values of sizes, or what stands for them."""
    match expr:
        case Int() | Size() | Dim():
            value = expr.value if isinstance(expr, Int) else number(expr) if number else None
            return Linear({}, value) if isinstance(value, int) else value
        case Index(name=name):
            return Linear({name: 1}, 0)
        case Unary(op="-", value=inner):
            found = linear(inner, number)
            return found * -1 if found else None
        case Binary(op="+" | "-" | "*" as op, left=left, right=right):
            one, other = linear(left, number), linear(right, number)
            if one is None or other is None:
                return None
            if op != "*":
                return one + (other if op == "+" else other * -1)
            if not one.factors:
                return other * one.offset
            return one * other.offset if not other.factors else None
    return None


def with_sizes(expr: Expr) -> Linear | None:
    """An expression as a sum of indices and sizes, each size times a constant as well."""
    return linear(expr, lambda one: of_size(one.name) if isinstance(one, Size) else None)


def of_size(name: str) -> Linear:
    return Linear({f"{_SIZE}{name}": 1}, 0)


def is_size(name: str) -> bool:
    """Does a factor belong to a size, rather than to an index?"""
    return name.startswith(_SIZE)


def spelled(form: Linear) -> Linear:
    """A sum of sizes, under the names they have in the text."""
    return Linear({name.removeprefix(_SIZE): factor for name, factor in form.factors.items()}, form.offset)


def never_negative(form: Linear) -> bool:
    """Is a sum of sizes at least 0, whatever the sizes from 1 on?"""
    factors = form.factors.values()
    return all(factor > 0 for factor in factors) and form.offset + sum(factors) >= 0


#: What the factor of a size is called after, so that it is not taken for that of an index.
_SIZE = "size "
