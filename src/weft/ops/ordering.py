"""The order that elements are sorted in: by value, what is not a number last, and equal ones by position."""

from __future__ import annotations

from weft.ops.scalar import Scalar, call, where


def comes_before(one: Scalar, place: Scalar, other: Scalar, at: Scalar, descending: bool = False) -> Scalar:
    """Does one element at its place come before another at its own?

    Of two, the one with the first place does, unless the other's value comes before its own.
    """
    first, second = (other, one) if descending else (one, other)
    return where(place < at, call("not", call("precedes", second, first)), call("precedes", first, second))
