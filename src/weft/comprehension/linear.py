"""Expressions as sums of indices times constants."""

from __future__ import annotations

from collections.abc import Callable

from weft.affine import Affine
from weft.comprehension.nodes import Binary, Dim, Expr, Index, Int, Size, Unary


def written(form: Affine) -> Expr:
    """A sum as an expression."""
    found: Expr | None = None
    for factor, name in form.terms:
        term: Expr = Index(name) if abs(factor) == 1 else Binary("*", Int(abs(factor)), Index(name))
        if found is None:
            found = term if factor > 0 else Unary("-", term)
        else:
            found = Binary("+" if factor > 0 else "-", found, term)
    if found is None:
        return Int(form.offset) if form.offset >= 0 else Unary("-", Int(-form.offset))
    if not form.offset:
        return found
    return Binary("+" if form.offset > 0 else "-", found, Int(abs(form.offset)))


def linear(expr: Expr, number: Callable[[Int | Size | Dim], int | Affine | None] | None = None) -> Affine | None:
    """An expression as such a sum, None if it is none; `number` gives the values of sizes, or what stands for them."""
    match expr:
        case Int() | Size() | Dim():
            value = expr.value if isinstance(expr, Int) else number(expr) if number else None
            return Affine((), value) if isinstance(value, int) else value
        case Index(name=name):
            return Affine.of(name)
        case Unary(op="-", value=inner):
            found = linear(inner, number)
            return None if found is None else -found
        case Binary(op="+" | "-" | "*" as op, left=left, right=right):
            one, other = linear(left, number), linear(right, number)
            if one is None or other is None:
                return None
            if op != "*":
                return one + other if op == "+" else one - other
            if one.is_constant:
                return other * one.offset
            return one * other.offset if other.is_constant else None
    return None


def with_sizes(expr: Expr) -> Affine | None:
    """An expression as a sum of indices and sizes, each size times a constant as well."""
    return linear(expr, lambda one: of_size(one.name) if isinstance(one, Size) else None)


def of_size(name: str) -> Affine:
    return Affine.of(f"{_SIZE}{name}")


def is_size(name: str) -> bool:
    """Does a factor belong to a size, rather than to an index?"""
    return name.startswith(_SIZE)


def spelled(form: Affine) -> Affine:
    """A sum of sizes, under the names they have in the text."""
    return Affine(tuple((factor, name.removeprefix(_SIZE)) for factor, name in form.terms), form.offset)


def never_negative(form: Affine) -> bool:
    """Is a sum of sizes at least 0, whatever the sizes from 1 on?"""
    factors = [factor for factor, _ in form.terms]
    return all(factor > 0 for factor in factors) and form.offset + sum(factors) >= 0


#: What the factor of a size is called after, so that it is not taken for that of an index.
_SIZE = "size "
