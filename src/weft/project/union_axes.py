"""Solving projection equations: union-find over axes, pins, and the set of classes that iterate.

Nothing is chosen here. The equivalence is the least one containing the equations, pins are a checked partial function
on its classes, the iterating classes are a closure: any order of the equations gives the same answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from weft.affine import Affine
from weft.errors import ProjectionError
from weft.project.equations import Derive, DerivedTerm, Eq, Equation, Id, Iterate, Pin
from weft.shape.subscripts import AxisRange


@dataclass(slots=True)
class Classes:
    """Axes grouped by the loop that drives them; everything is keyed by a class's representative."""

    sizes: Mapping[Id, int]
    parent: dict[Id, Id] = field(default_factory=dict)
    pins: dict[Id, Affine] = field(default_factory=dict)
    derived: dict[Id, tuple[DerivedTerm, ...]] = field(default_factory=dict)
    iterated: dict[Id, None] = field(default_factory=dict)

    def find(self, axis: Id) -> Id:
        root = axis
        while (parent := self.parent.get(root, root)) != root:
            root = parent
        while axis != root:  # the way is shorter next time
            self.parent[axis], axis = root, self.parent[axis]
        return root

    def union(self, left: Id, right: Id) -> None:
        left, right = self.find(left), self.find(right)
        if left == right:
            return
        if self.sizes[left] != self.sizes[right]:
            raise ProjectionError(f"axes of sizes {self.sizes[left]} and {self.sizes[right]} cannot share a loop")
        self.parent[right] = left

    @property
    def given(self) -> frozenset[str]:
        """The static indices that positions depend on."""
        ranges = (term for terms in self.derived.values() for term in terms if isinstance(term, AxisRange))
        pinned = {name for pin in self.pins.values() for name in pin.names}
        return frozenset(pinned.union(index.name for one in ranges for index in one.given))

    def size(self, axis: Id) -> int:
        return self.sizes[self.find(axis)]


def solve_axes(equations: Iterable[Equation], sizes: Mapping[Id, int]) -> Classes:
    """The classes of co-iterating axes, with what pins, derives or iterates each."""
    classes = Classes(sizes)
    equations = tuple(equations)
    for equation in equations:
        if isinstance(equation, Eq):
            classes.union(equation.left, equation.right)
    for equation in equations:
        match equation:
            case Pin(axis=axis, index=index):
                key = classes.find(axis)
                if classes.pins.setdefault(key, index) != index:
                    raise ProjectionError(f"one axis cannot be read both at {classes.pins[key]} and at {index}")
            case Iterate(axis=axis):
                classes.iterated[classes.find(axis)] = None
            case Derive(axis=axis, term=term):
                key = classes.find(axis)
                classes.derived[key] = (*classes.derived.get(key, ()), term)
    return classes
