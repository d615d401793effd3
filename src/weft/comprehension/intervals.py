"""The interval a subscript lies in, over the ranges of its indices."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from weft.affine import Affine
from weft.comprehension.piecewise import Range
from weft.loops import Local, Read
from weft.loops.intervals import ANY, Interval, interval_of
from weft.ops import Scalar
from weft.ops.dtypes import limits


def interval(value: Scalar, ranges: Mapping[str, Range], number: Callable[[str], int]) -> Interval:
    """Where a whole-number scalar lies, over the ranges of its indices; `number` gives the values of sizes."""
    first = {name: Affine.of(name) + extent.low for name, extent in ranges.items()}
    sizes = {name: extent.size for name, extent in ranges.items()}

    def leaf(one: Scalar) -> Interval:
        match one:
            case Local(name=name):
                return number(name), number(name)
            case Affine():
                return one.substitute(first).bounds(sizes) or ANY
            case Read(buffer=buffer):
                return limits(buffer.dtype)
        return ANY

    return interval_of(value, leaf)
