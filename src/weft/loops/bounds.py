"""How far places reach: what the ranges of the loops around prove of a test."""

from __future__ import annotations

from collections.abc import Mapping

from weft.affine import Affine
from weft.loops.nodes import Inside
from weft.ops import Scalar


def bounds(place: Scalar, ranges: Mapping[str, int]) -> tuple[int, int] | None:
    """The least and the greatest value of a place; None where they are not known."""
    if not isinstance(place, Affine) or any(name not in ranges for _, name in place.terms):
        return None
    ends = [factor * (ranges[name] - 1) for factor, name in place.terms]
    low = place.offset + sum(end for end in ends if end < 0)
    high = place.offset + sum(end for end in ends if end > 0)
    return low, high


def always(test: Inside, ranges: Mapping[str, int]) -> bool:
    """Does a test hold wherever the loops around it stand?"""
    found = bounds(test.place, ranges)
    return found is not None and found[0] >= 0 and found[1] < test.size


def never(test: Inside, ranges: Mapping[str, int]) -> bool:
    """Does a test fail wherever the loops around it stand?"""
    found = bounds(test.place, ranges)
    return found is not None and (found[1] < 0 or found[0] >= test.size)
