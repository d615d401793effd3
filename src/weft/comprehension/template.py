"""A definition before shapes are known: its steps, what it says about shapes, and its extents once they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from weft.comprehension.check import Checked, CheckedProgram
from weft.comprehension.flat import Extents, Flat, flatten, measure
from weft.comprehension.indirect import Indirect, find_indirect
from weft.comprehension.nodes import (
    Comprehension,
    Definition,
    Expr,
    Ident,
    Index,
    Int,
    Param,
    Read,
    children,
    exprs,
)
from weft.comprehension.ranges import infer
from weft.einsum.nodes import Kind, Label
from weft.shape.nodes import Computed, Constraint, Dim, RowIs, RowRef, Size, Term

#: How many axes of each kind a tensor has.
Split = tuple[int, int, int]


@dataclass(frozen=True, eq=False)
class Template:
    """A checked definition, with what has been found out about it."""

    program: CheckedProgram
    name: str
    unchecked: bool = False
    _measured: dict[tuple[tuple[int, ...], ...], Extents] = field(default_factory=dict)

    @cached_property
    def flat(self) -> Flat:
        return flatten(self.program, self.name)

    @cached_property
    def indirect(self) -> dict[str, tuple[Indirect, ...]]:
        """The subscripts to be checked while it runs, by the tensor whose steps read there."""
        return {} if self.unchecked else find_indirect(self.flat)

    @property
    def checked(self) -> Checked:
        return self.program[self.name]

    @property
    def definition(self) -> Definition:
        return self.checked.definition

    def extents(self, shapes: Sequence[tuple[int, ...]]) -> Extents:
        """Everything about sizes, for the shapes of the flat definition's parameters."""
        key = tuple(shapes)
        if key not in self._measured:
            given = dict(zip(self.flat.params, key, strict=True))
            self._measured[key] = measure(self.flat, infer(self.program, self.name, given))
        return self._measured[key]

    # What it says about shapes

    def constraints(self, tensor: str, splits: Sequence[Split]) -> tuple[Constraint, ...]:
        """The constraints on the shapes of a tensor (slot 0) and the parameters, whose axes lie in memory order."""
        found: list[Constraint] = []
        for slot, (param, split) in enumerate(zip(self.flat.params, splits, strict=True), 1):
            found += _rows(slot, self._terms(param), split)
        rank = self.flat.ranks[tensor]
        dims = self._dims.get(self.flat.homes[tensor][1]) if not self.flat.homes[tensor][0] else None
        own = dims or (None,) * rank
        terms = [Label(name or _axis(tensor, axis)) for axis, name in enumerate(own)]
        found += _rows(0, terms, (0, 0, max(rank, 1)))
        known = self._labels
        for axis, name in enumerate(own):
            if name is None:
                found.append(Computed(Label(_axis(tensor, axis)), known, _Sized(self, tensor, axis)))
        return tuple(found)

    def shape_of(self, tensor: str, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """The shape of a tensor for the sizes of the parameters' axes."""
        shapes = [tuple(_size(term, sizes) for term in self._terms(param)) for param in self.flat.params]
        return self.extents(shapes).shapes[tensor]

    @property
    def _labels(self) -> tuple[Label, ...]:
        terms = (term for param in self.flat.params for term in self._terms(param))
        return tuple(dict.fromkeys(term for term in terms if isinstance(term, Label)))

    def _terms(self, param: str) -> list[Term]:
        for one in self.definition.params:
            if one.name.name == param:
                return [Size(Dim(dim.value)) if isinstance(dim, Int) else Label(dim.name) for dim in one.type.dims]
        return [Label(_axis(param, axis)) for axis in range(self.flat.ranks[param])]

    @cached_property
    def _dims(self) -> dict[str, tuple[str | None, ...]]:
        """Of every tensor of the definition itself, the size variables that its axes are, where that is plain."""
        found = {one.name.name: _declared(one) for one in self.definition.params}
        for one in self.checked.accumulates:
            found[one] = tuple(_axis(one, axis) for axis in range(self.checked.ranks[one]))
        for statement in self.definition.body:
            if isinstance(statement, Comprehension) and statement.target.name not in found:
                found[statement.target.name] = tuple(_plain(one.name, statement, found) for one in statement.indices)
        return found


@dataclass(frozen=True, slots=True)
class _Sized:
    """The size of one axis of a tensor, from those of the parameters' axes."""

    template: Template
    tensor: str
    axis: int

    def __call__(self, sizes: Mapping[str, int]) -> int:
        return self.template.shape_of(self.tensor, sizes)[self.axis]


def _axis(tensor: str, axis: int) -> str:
    """The name of a size that the text gives none."""
    return f"{tensor}.{axis}"


def _size(term: Term, sizes: Mapping[str, int]) -> int:
    if isinstance(term, Size):
        return term.dim.size
    assert isinstance(term, Label)
    return sizes[term.name]


def _rows(slot: int, terms: Sequence[Term], split: Split) -> list[Constraint]:
    """The three rows of a tensor whose axes in memory order are these; a single number has an axis of 1."""
    batch, _, output = split
    axes = tuple(terms) or (Size(Dim(1)),)
    rows: dict[Kind, tuple[Term, ...]] = {
        "batch": axes[:batch],
        "output": axes[batch : batch + output],
        "input": axes[batch + output :],
    }
    return [RowIs(RowRef(slot, kind), row) for kind, row in rows.items()]


def _declared(param: Param) -> tuple[str | None, ...]:
    return tuple(dim.name if isinstance(dim, Ident) else None for dim in param.type.dims)


def _plain(index: str, statement: Comprehension, dims: Mapping[str, tuple[str | None, ...]]) -> str | None:
    """The size variable an index runs to, if it only ever stands alone in axes of that size."""
    if any(True for clause in statement.where):
        return None
    found = {name for expr in exprs(statement) for name in _axes(expr, index, dims)}
    return next(iter(found)) if len(found) == 1 else None


def _axes(expr: Expr, index: str, dims: Mapping[str, tuple[str | None, ...]]) -> list[str | None]:
    """The size of every axis an index stands in; None for any other place."""
    if isinstance(expr, Index):
        return [None] if expr.name == index else []
    if not isinstance(expr, Read):
        return [name for part in children(expr) for name in _axes(part, index, dims)]
    found: list[str | None] = []
    for axis, part in enumerate(expr.subscripts):
        if part == Index(index):
            found.append(dims.get(expr.tensor, (None,) * len(expr.subscripts))[axis])
        else:
            found += _axes(part, index, dims)
    return found
