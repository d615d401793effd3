"""Where a subscript reads an axis: `x[2]`, `x[-1]`, `x[i + 1]`, `x[2:5]`, `x[::-1]`, `x[i : i + 4]`.

    subscript = AxisPoint(index)                    one position: the axis is gone
              | AxisRange(over, start, stop, step)  the positions of a Python slice: an axis, counted by `over`
              | Label                               the whole axis

Every one is an affine access: the first position, plus a step times a loop. Which position is the first, and how many
there are, follows from the size of the axis as Python says it does. A position may be supplied when the code runs, as
static indices times numbers; these are `given` then, and all positions must be inside.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from weft.affine import Affine
from weft.einsum.nodes import Axis, Label, labels_in


class GivenIndex(NamedTuple):
    """A static index in a subscript, of values below `size`. One that `counts` is how many runs there were."""

    name: str
    size: int
    counts: bool = False


@dataclass(frozen=True, slots=True)
class AxisPoint:
    """One position; a number below 0 counts from the end. One that is `looped` is where a loop around stands.

    Such a loop comes to every position of the axis.
    """

    index: Affine
    given: tuple[GivenIndex, ...] = ()
    looped: bool = False

    @property
    def exact(self) -> int | None:
        """How many positions the axis has if a static index alone runs through them."""
        return self.given[0].size if self.given and self.index.only else None

    @property
    def least(self) -> int:
        """How large the axis must be."""
        if self.looped:
            return 0
        low, high = _bounds(self.index, self.given)
        return high + 1 if self.given or low >= 0 else -low

    def first(self, size: int) -> Affine:
        """The position in an axis of this size."""
        return self.index + size if not self.given and self.index.offset < 0 else self.index


@dataclass(frozen=True, slots=True)
class AxisRange:
    """The positions of `start:stop:step`, one for each value of `over`.

    With static indices in them `start` and `stop` are a constant apart, so that there are always as many positions.
    """

    over: Label
    start: Affine | None = None
    stop: Affine | None = None
    step: int = 1
    given: tuple[GivenIndex, ...] = ()

    @property
    def window(self) -> int | None:
        """How many positions there are where that does not depend on the size of the axis."""
        if not self.given:
            return None
        assert self.start is not None
        assert self.stop is not None
        return len(range(self.start.offset, self.stop.offset, self.step))

    @property
    def reach(self) -> tuple[int, int] | None:
        """The least and the greatest position of those that static indices move; None if there are none."""
        if not self.window:
            return None
        assert self.start is not None
        ends = [_bounds(self.start + self.step * last, self.given) for last in (0, self.window - 1)]
        return min(low for low, _ in ends), max(high for _, high in ends)

    @property
    def least(self) -> int:
        """How large the axis must be."""
        return self.reach[1] + 1 if self.reach else 0

    def first(self, size: int) -> Affine:
        """The first position in an axis of this size."""
        if self.given:
            assert self.start is not None
            return self.start
        return Affine((), self._positions(size).start)

    def count(self, size: int) -> int:
        """How many positions there are in an axis of this size."""
        return len(self._positions(size)) if self.window is None else self.window

    def size(self, of: Mapping[str, int]) -> int:
        """`count`, as a rule of how sizes follow from others."""
        return self.count(of["axis"])

    def _positions(self, size: int) -> range:
        start, stop = (None if end is None else end.offset for end in (self.start, self.stop))
        return range(*slice(start, stop, self.step).indices(size))


#: What stands for one axis between the brackets.
Subscript: TypeAlias = AxisPoint | AxisRange | Label


@dataclass(frozen=True, slots=True)
class SlicedRow:
    """The subscripts of the first axes of a row and of its last ones; all others stay as they are."""

    lead: tuple[Subscript, ...] = ()
    trail: tuple[Subscript, ...] = ()

    @property
    def subscripts(self) -> tuple[Subscript, ...]:
        return self.lead + self.trail


NO_SUBSCRIPTS = SlicedRow()


def labels_of(term: Axis | AxisRange) -> tuple[Label, ...]:
    """The labels that the position in an axis is computed from."""
    return (term.over,) if isinstance(term, AxisRange) else labels_in(term)


def kept_axes(subscripts: tuple[Subscript, ...]) -> tuple[Label, ...]:
    """The axes that are left of those that have subscripts."""
    axes = (one.over if isinstance(one, AxisRange) else one for one in subscripts)
    return tuple(axis for axis in axes if isinstance(axis, Label))


def _bounds(index: Affine, given: tuple[GivenIndex, ...]) -> tuple[int, int]:
    found = index.bounds({one.name: one.size for one in given})
    assert found is not None, "a static index says how many values it takes"
    return found
