"""Nodes of loops: a node that a loop computes has a value for every iteration.

    for t in range(T):                    z[t] = tanh(h[t] + x[t])
        z = tanh(h + x)       means       h[t + 1] = z[t]
        h = z                             where h[0] is what it starts with, h[T] what it ends with

So nothing is written twice, and whoever runs through the same iterations, in either direction, reads what this one
had there: the loop of a gradient does. What a node keeps of all that is decided when its storage is folded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from weft.affine import Affine
from weft.shape.cells import ShapeVar
from weft.shape.close import close


@dataclass(frozen=True, slots=True, eq=False)
class LoopIndex:
    """The index of a loop: what it is called, and a shape whose one axis has a position for each iteration."""

    name: str
    length: ShapeVar

    @property
    def size(self) -> int:
        """How many iterations there are; closes the shape."""
        (axis,) = close(self.length).output
        return axis.size

    @property
    def symbol(self) -> str:
        """What slices call it: no static index has such a name."""
        return f"{self.name}'"


#: Where loops stand.
Standing: TypeAlias = Mapping[LoopIndex, Affine]


@dataclass(frozen=True, slots=True)
class Iterations:
    """The loops that a node has values for, outermost first.

    What the last of them carries from one iteration to the next, in the direction it runs, has one value more: that
    which the first iteration starts with. Inside the loop it is read as the iteration found it, outside as the loop
    left it, and written for the next iteration, or for the first.
    """

    indices: tuple[LoopIndex, ...]
    carried: Literal["", "forward", "backward"] = ""

    @property
    def sizes(self) -> tuple[int, ...]:
        *outer, last = (index.size for index in self.indices)
        return (*outer, last + bool(self.carried))

    def inside(self, outer: LoopIndex) -> Iterations:
        """The same in one more loop around."""
        return Iterations((outer, *self.indices), self.carried)

    def read(self, standing: Standing) -> tuple[Affine, ...]:
        """The first subscripts of a cell that is read where loops stand so."""
        return self._cell(standing, self.carried == "backward", self.carried == "forward")

    def written(self, standing: Standing) -> tuple[Affine, ...]:
        """The first subscripts of a cell that is written where loops stand so."""
        return self._cell(standing, self.carried == "forward", self.carried == "backward")

    def _cell(self, standing: Standing, ahead: bool, at_end: bool) -> tuple[Affine, ...]:
        *outer, last = self.indices
        around = [standing[index] for index in outer]
        if last in standing:
            return (*around, standing[last] + int(ahead))
        assert self.carried, "outside its loop there is only what that carries"
        return (*around, Affine((), last.size * at_end))
