"""From an operation and its closed shapes to its projection: solve the classes, then evaluate derived indices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from string import ascii_lowercase

from weft.affine import Affine
from weft.einsum import nodes as notation
from weft.einsum.nodes import KINDS
from weft.errors import ProjectionError, Span
from weft.naming import FreshNames
from weft.project.concat_nests import with_runs
from weft.project.equations import AxisId, Derive, DerivedTerm, Eq, Equation, Id, LabelId, equations
from weft.project.nodes import Concat, DataIndex, Factor, IndexExpr, LoopVariable, Projection
from weft.project.union_axes import Classes, solve_axes
from weft.shape.logic import Einsum, Logic, read_by
from weft.shape.nodes import MEMORY_ORDER, Shape
from weft.shape.subscripts import AxisRange, labels_of


@lru_cache(maxsize=8192)
def derive(logic: Logic, shapes: tuple[Shape, ...], labels: tuple[tuple[str, int], ...] = ()) -> Projection:
    """The projection of an operation; `labels` gives the sizes of labels that no tensor has as an axis of its own."""
    found = equations(logic, shapes)
    classes, whole = build_projection(found, shapes, dict(labels))
    logic = read_by(logic)
    if not isinstance(logic, Einsum) or not logic.spec.positions:
        return whole
    held = [(slot, label.name) for slot, label in logic.spec.positions.items()]
    looked_up = tuple(DataIndex(name, slot, classes.size(LabelId(name)), logic.outside) for slot, name in held)
    return replace(whole, looked_up=looked_up, given=whole.given.difference(name for _, name in held))


def build_projection(
    found: tuple[Equation, ...], shapes: tuple[Shape, ...], labels: Mapping[str, int]
) -> tuple[Classes, Projection]:
    """Solve the equations and read off loops and maps."""
    classes = solve_axes(found, _sizes(found, shapes, labels))
    axes = [_memory_axes(slot, shape) for slot, shape in enumerate(shapes)]
    return classes, _ProjectionBuilder(classes, axes, shapes).projection()


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
            for label in labels_of(equation.term):
                sizes.setdefault(LabelId(label.name), labels.get(label.name, -1))
    if missing := [identity.name for identity, size in sizes.items() if size < 0 and isinstance(identity, LabelId)]:
        raise ProjectionError(f"the size of `{missing[0]}` must be given: no tensor has it as an axis of its own")
    return sizes


def _memory_axes(slot: int, shape: Shape) -> list[AxisId]:
    return [AxisId(slot, kind, at) for kind in MEMORY_ORDER for at in range(len(shape.row(kind)))]


class _ProjectionBuilder:
    """Labels each class with its index, and groups loops into factors."""

    def __init__(self, classes: Classes, axes: list[list[AxisId]], shapes: tuple[Shape, ...]) -> None:
        self.classes = classes
        self.axes = axes
        self.shapes = shapes
        self.coupled = self._coupled()
        self.loops = self._loops()

    def projection(self) -> Projection:
        maps = tuple(tuple(self._index(axis) for axis in axes) for axes in self.axes)
        factors = self._factors()
        given = self.classes.given
        if not self.coupled:
            return Projection(factors, (tuple(loop for (loop,) in factors),), maps, self.shapes, given)
        return with_runs(Projection(factors, (), maps, self.shapes, given), self._part_spans())

    def _part_spans(self) -> dict[str, list[Span]]:
        """Where each loop of a concatenation is written as a part."""
        spans: dict[str, list[Span]] = {self.loops[part].name: [] for part in self._parts() if part in self.loops}
        for terms in self.classes.derived.values():
            for term in terms:
                for label in labels_of(term):
                    loop = self.loops.get(self.classes.find(_id(label)))
                    if loop is not None and loop.name in spans:
                        spans[loop.name].append(label.span)
        return spans

    def _parts(self) -> set[Id]:
        return {part for group in self.coupled for part in group}

    def _coupled(self) -> list[tuple[Id, ...]]:
        """Classes that concatenations lay in sequence: the connected components of their parts."""
        groups: list[dict[Id, None]] = []
        for terms in self.classes.derived.values():
            for term in terms:
                if isinstance(term, notation.ConcatAxis):
                    _refuse_repeats(term)
                    parts = dict.fromkeys(self.classes.find(_id(label)) for label in labels_of(term))
                    touching = [group for group in groups if group.keys() & parts.keys()]
                    groups = [group for group in groups if group not in touching]
                    groups.append({part: None for group in [*touching, parts] for part in group})
        return [tuple(group) for group in groups]

    def _loops(self) -> dict[Id, LoopVariable]:
        """One loop for each class that iterates, in the order the result and then the operands meet them."""
        classes, parts = self.classes, self._parts()
        names = _Names(classes)
        loops: dict[Id, LoopVariable] = {}
        for axis in [*(axis for axes in self.axes for axis in axes), *classes.iterated]:
            key = classes.find(axis)
            for one in self._mentions(key):
                pinned = one in classes.pins or one in classes.derived or one not in classes.iterated
                if one not in loops and not pinned and (classes.size(one) != 1 or one in parts):
                    loops[one] = LoopVariable(names.of(one), classes.size(one))
        return loops

    def _mentions(self, key: Id) -> list[Id]:
        """The classes an axis's index is made of."""
        terms = self.classes.derived.get(key, ())
        return [self.classes.find(_id(label)) for term in terms for label in labels_of(term)] or [key]

    def _factors(self) -> tuple[Factor, ...]:
        grouped = {part: group for group in self.coupled for part in group}
        factors: dict[Id, Factor] = {}
        for key in self.loops:
            members = grouped.get(key, (key,))
            if members[0] not in factors:
                factors[members[0]] = tuple(self.loops[one] for one in members if one in self.loops)
        return tuple(factors.values())

    def _index(self, axis: Id) -> IndexExpr:
        key = self.classes.find(axis)
        if key in self.classes.pins:
            return self.classes.pins[key]
        if key in self.classes.derived:
            first, *others = [self._evaluate(term, self.classes.size(key)) for term in self.classes.derived[key]]
            if any(other != first for other in others):
                raise ProjectionError("one axis cannot be read at two different computed positions")
            return first
        return Affine.of(self.loops[key].name) if key in self.loops else Affine()

    def _evaluate(self, term: DerivedTerm, size: int) -> IndexExpr:
        if isinstance(term, notation.ConcatAxis):
            return self._concatenated(term)
        if isinstance(term, notation.FlatAxis):
            return self._flattened(term)
        if isinstance(term, AxisRange):
            return self._affine(term.over) * term.step + term.first(size)
        found = self._affine(term.over) * term.stride + term.offset
        if term.kernel is not None:
            left = term.kernel.left_of_axis(self.classes.size(_id(term.kernel.label)))
            found += self._affine(term.kernel.label) * term.kernel.dilation - left
        return found

    def _affine(self, label: notation.Label) -> Affine:
        found = self._index(_id(label))
        assert isinstance(found, Affine), "a part of a sum is no concatenation"
        return found

    def _flattened(self, term: notation.FlatAxis) -> Affine:
        found = Affine()
        for part in term.parts:
            found = found * self.classes.size(_id(part)) + self._affine(part)
        return found

    def _concatenated(self, term: notation.ConcatAxis) -> Concat:
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


def _refuse_repeats(term: notation.ConcatAxis) -> None:
    times = Counter(label.name for label in labels_of(term))
    for label in labels_of(term):
        if times[label.name] > 1:
            raise ProjectionError(
                f"part `{label.name}` stands twice in one concatenation",
                spans=[one.span for one in labels_of(term) if one.name == label.name],
                fix="give each part a name of its own",
            )


class _Names:
    """Loop names: a class is called by its label; the others take free letters from i on."""

    def __init__(self, classes: Classes) -> None:
        self.given: dict[Id, str] = {}
        names = FreshNames(classes.given)
        for identity in classes.sizes:
            if isinstance(identity, LabelId) and classes.find(identity) not in self.given:
                self.given[classes.find(identity)] = names.fresh(identity.name)
        letters = ascii_lowercase[8:] + ascii_lowercase[:8]
        candidates = (letter + (str(lap) if lap else "") for lap in range(1000) for letter in letters)
        self.free = (name for name in candidates if names.fresh(name) == name)

    def of(self, key: Id) -> str:
        return self.given.get(key) or next(self.free)


def _id(label: notation.Label) -> LabelId:
    return LabelId(label.name)
