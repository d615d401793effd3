"""From an operation and its closed shapes to its projection: solve the classes, then evaluate derived indices."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from string import ascii_lowercase

from weft.einsum import nodes as notation
from weft.einsum.nodes import KINDS
from weft.errors import ProjectionError
from weft.project.nodes import Affine, Concat, Factor, Fix, Index, IndexMap, Iter, Loop, Projection, linear, loops_in
from weft.project.read import AxisId, Derive, Eq, Equation, Id, LabelId, equations
from weft.project.solve import Classes, solve
from weft.shape.logic import Logic
from weft.shape.nodes import MEMORY_ORDER, Shape


@lru_cache(maxsize=8192)
def derive(logic: Logic, shapes: tuple[Shape, ...], labels: tuple[tuple[str, int], ...] = ()) -> Projection:
    """The projection of an operation; `labels` gives the sizes of labels that no tensor has as an axis of its own."""
    found = equations(logic, shapes)
    return build(found, shapes, dict(labels))


def build(found: tuple[Equation, ...], shapes: tuple[Shape, ...], labels: Mapping[str, int]) -> Projection:
    """Solve the equations and read off loops and maps."""
    classes = solve(found, _sizes(found, shapes, labels))
    axes = [_memory_axes(slot, shape) for slot, shape in enumerate(shapes)]
    return _Builder(classes, axes, shapes).projection()


def _sizes(found: tuple[Equation, ...], shapes: tuple[Shape, ...], labels: Mapping[str, int]) -> dict[Id, int]:
    sizes: dict[Id, int] = {
        AxisId(slot, kind, at): dim.size
        for slot, shape in enumerate(shapes)
        for kind in KINDS
        for at, dim in enumerate(shape.row(kind))
    }
    for equation in found:
        if isinstance(equation, Eq) and isinstance(equation.right, LabelId) and isinstance(equation.left, AxisId):
            sizes.setdefault(equation.right, sizes[equation.left])
    for equation in found:
        if isinstance(equation, Derive):
            for label in notation.labels_in(equation.term):
                sizes.setdefault(LabelId(label.name), labels.get(label.name, -1))
    if missing := [id.name for id, size in sizes.items() if size < 0 and isinstance(id, LabelId)]:
        raise ProjectionError(f"the size of `{missing[0]}` must be given: no tensor has it as an axis of its own")
    return sizes


def _memory_axes(slot: int, shape: Shape) -> list[AxisId]:
    return [AxisId(slot, kind, at) for kind in MEMORY_ORDER for at in range(len(shape.row(kind)))]


class _Builder:
    """Labels each class with its index, and groups loops into factors."""

    def __init__(self, classes: Classes, axes: list[list[AxisId]], shapes: tuple[Shape, ...]) -> None:
        self.classes = classes
        self.axes = axes
        self.shapes = shapes
        self.coupled = self._coupled()
        self.loops = self._loops()

    def projection(self) -> Projection:
        maps = tuple(tuple(self._index(axis) for axis in axes) for axes in self.axes)
        projection = Projection(self._factors(), maps, self.shapes)
        return _prune(projection) if self.coupled else projection

    def _coupled(self) -> list[tuple[Id, ...]]:
        """Classes that concatenations lay in sequence: the connected components of their parts."""
        groups: list[dict[Id, None]] = []
        for terms in self.classes.derived.values():
            for term in terms:
                if isinstance(term, notation.Concat):
                    parts = dict.fromkeys(self.classes.find(_id(label)) for label in notation.labels_in(term))
                    touching = [group for group in groups if group.keys() & parts.keys()]
                    groups = [group for group in groups if group not in touching]
                    groups.append({part: None for group in [*touching, parts] for part in group})
        return [tuple(group) for group in groups]

    def _loops(self) -> dict[Id, Loop]:
        """One loop for each class that iterates, in the order the result and then the operands meet them."""
        classes, parts = self.classes, {part for group in self.coupled for part in group}
        names = _Names(classes)
        loops: dict[Id, Loop] = {}
        for axis in [*(axis for axes in self.axes for axis in axes), *classes.iterated]:
            key = classes.find(axis)
            for one in self._mentions(key):
                pinned = one in classes.pins or one in classes.derived or one not in classes.iterated
                if one not in loops and not pinned and (classes.size(one) > 1 or one in parts):
                    loops[one] = Loop(names.of(one), classes.size(one))
        return loops

    def _mentions(self, key: Id) -> list[Id]:
        """The classes an axis's index is made of."""
        terms = self.classes.derived.get(key, ())
        return [self.classes.find(_id(label)) for term in terms for label in notation.labels_in(term)] or [key]

    def _factors(self) -> tuple[Factor, ...]:
        grouped = {part: group for group in self.coupled for part in group}
        factors: dict[tuple[Id, ...], Factor] = {}
        for key in self.loops:
            members = grouped.get(key, (key,))
            factors.setdefault(members, tuple(self.loops[one] for one in members if one in self.loops))
        return tuple(factors.values())

    def _index(self, axis: Id) -> Index:
        key = self.classes.find(axis)
        if key in self.classes.pins:
            return self.classes.pins[key]
        if key in self.classes.derived:
            first, *others = [self._evaluate(term) for term in self.classes.derived[key]]
            if any(other != first for other in others):
                raise ProjectionError("one axis cannot be read at two different computed positions")
            return first
        return Iter(self.loops[key].name) if key in self.loops else Fix(0)

    def _evaluate(self, term: notation.Affine | notation.Concat) -> Index:
        if isinstance(term, notation.Concat):
            return self._concatenated(term)
        terms = [(term.stride, self._index(_id(term.over)))]
        offset = term.offset
        if term.kernel is not None:
            terms.append((term.kernel.dilation, self._index(_id(term.kernel.label))))
            offset -= _padding(term, self.classes.size(_id(term.kernel.label)))
        return _affine(terms, offset)

    def _concatenated(self, term: notation.Concat) -> Concat:
        offset, parts = 0, []
        for part in term.parts:
            if isinstance(part, notation.Skip):
                offset += part.size
            else:
                key = self.classes.find(_id(part))
                if key in self.loops:
                    parts.append((self.loops[key].name, offset))
                offset += self.classes.size(key)
        return Concat(tuple(parts))


class _Names:
    """Loop names: a class is called by its label; the others take free letters from i on."""

    def __init__(self, classes: Classes) -> None:
        self.given: dict[Id, str] = {}
        for id in classes.sizes:
            if isinstance(id, LabelId):
                self.given.setdefault(classes.find(id), id.name)
        letters = ascii_lowercase[8:] + ascii_lowercase[:8]
        candidates = (letter + (str(lap) if lap else "") for lap in range(1000) for letter in letters)
        taken = set(self.given.values())
        self.free = (name for name in candidates if name not in taken)

    def of(self, key: Id) -> str:
        return self.given.get(key) or next(self.free)


def _id(label: notation.Label) -> LabelId:
    return LabelId(label.name)


def _padding(term: notation.Affine, kernel: int) -> int:
    """Positions a padded window reaches left of the axis: half of what it needs beyond its stride, rounded down."""
    assert term.kernel is not None
    span = term.kernel.dilation * (kernel - 1) + 1
    return max(span - term.stride, 0) // 2 if term.kernel.padded else 0


def _affine(terms: list[tuple[int, Index]], offset: int) -> Index:
    """`Σ coefficient * index + offset` in its simplest form."""
    coefficients: dict[str, int] = {}
    for coefficient, index in terms:
        inner, at = linear(index, ())
        offset += coefficient * at
        for loop, factor in inner.items():
            coefficients[loop] = coefficients.get(loop, 0) + coefficient * factor
    if not coefficients:
        return Fix(offset)
    if offset == 0 and list(coefficients.values()) == [1]:
        return Iter(next(iter(coefficients)))
    return Affine(tuple((coefficient, loop) for loop, coefficient in coefficients.items()), offset)


def _prune(projection: Projection) -> Projection:
    """Drop the parts of concatenations that nothing is read from or written to; refuse ambiguous ones."""
    factors = tuple(
        _live_parts(projection, factor) if _coupled(factor, projection) else factor for factor in projection.factors
    )
    kept = {loop.name for factor in factors for loop in factor}
    maps = tuple(tuple(_without(index, kept) for index in one) for one in projection.maps)
    return Projection(factors, maps, projection.shapes)


def _live_parts(projection: Projection, factor: Factor) -> Factor:
    live, readers = [], {}
    for loop in factor:
        result, *operands = [_reach(one, factor, loop) for one in projection.maps]
        concerned = {slot: reach for slot, reach in enumerate(operands, 1) if reach is not None}
        if loop.size and result is not False and (not concerned or True in concerned.values()):
            live.append(loop)
            readers[loop] = [slot for slot, reach in concerned.items() if reach]
    if any(len(slots) < len(concerned) for slots in readers.values()):
        for loop, slots in readers.items():
            if len(slots) > 1:
                raise ProjectionError(
                    f"part `{loop.name}` of a concatenation could come from operand {slots[0]} or operand {slots[1]}",
                    fix="let one operand fill each part: slice or multiply in an operation of its own",
                )
    return tuple(live)


def _coupled(factor: Factor, projection: Projection) -> bool:
    names = {loop.name for loop in factor}
    return any(isinstance(index, Concat) and names & set(loops_in(index)) for one in projection.maps for index in one)


def _reach(one: IndexMap, factor: Factor, loop: Loop) -> bool | None:
    """Is the map defined while `loop` is the active part of `factor`? None if it does not mention the factor."""
    names = {part.name for part in factor}
    concerned = [set(loops_in(index)) & names for index in one]
    if not any(concerned):
        return None
    return all(loop.name in mentioned for mentioned in concerned if mentioned)


def _without(index: Index, kept: set[str]) -> Index:
    return Concat(tuple(part for part in index.parts if part[0] in kept)) if isinstance(index, Concat) else index
