"""What the ranges of the loops around prove of a test."""

from __future__ import annotations

from collections.abc import Mapping

from weft.affine import Affine
from weft.loops.nodes import Inside
from weft.ops import Scalar


def bounds(index: Scalar, ranges: Mapping[str, int]) -> tuple[int, int] | None:
    """The least and the greatest value of an index; None where they are not known."""
    return index.bounds(ranges) if isinstance(index, Affine) else None


def always(test: Inside, ranges: Mapping[str, int]) -> bool:
    """Does a test hold wherever the loops around it stand?"""
    return isinstance(test.place, Affine) and test.place.stays_inside(test.size, ranges)


def never(test: Inside, ranges: Mapping[str, int]) -> bool:
    """Does a test fail wherever the loops around it stand?"""
    found = bounds(test.place, ranges)
    return found is not None and (found[1] < 0 or found[0] >= test.size)
