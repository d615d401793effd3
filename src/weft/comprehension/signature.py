"""A definition before shapes are known: its steps, what it says about shapes, and its extents once they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeAlias

from weft.comprehension.axes import axis_name, leading
from weft.comprehension.check import CheckedProgram
from weft.comprehension.gather_checks import Indirect, find_indirect
from weft.comprehension.nodes import Definition, Int
from weft.comprehension.ranges import infer
from weft.comprehension.scope import Checked
from weft.comprehension.size_dependence import Dependences, find_dependences
from weft.comprehension.steps import Extents, Flat, flatten, measure
from weft.einsum.nodes import Kind, Label
from weft.errors import WeftError
from weft.lazy import lazy_property
from weft.shape.nodes import Computed, Constraint, Dim, RowIs, RowRef, Size, Term

#: How many batch, input and output axes a tensor has, of those that the text gives it.
Split: TypeAlias = tuple[int, int, int]


@dataclass(frozen=True, eq=False)
class Template:
    """A checked definition, with what has been found out about it."""

    program: CheckedProgram
    name: str
    unchecked: bool = False
    _measured: dict[tuple[tuple[int, ...], ...], Extents] = field(default_factory=dict)

    @lazy_property
    def flat(self) -> Flat:
        return flatten(self.program, self.name)

    @lazy_property
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
        """The constraints on the shapes of a tensor (slot 0) and the parameters, whose axes lie in memory order.

        The first axes of the tensor are batch axes as far as they are sizes of batch axes of parameters.
        """
        found: list[Constraint] = []
        for slot, (param, split) in enumerate(zip(self.flat.params, splits, strict=True), 1):
            found += _rows(slot, self.terms(param), split)
        own = self.axes(tensor)
        batch = leading(own, self.batched(splits))
        terms = [Label(name or axis_name(tensor, axis)) for axis, name in enumerate(own)]
        found += _rows(0, terms, (batch, 0, len(own) - batch))
        for axis, name in enumerate(own):
            if name is None:
                rule, needs = _Sized(self, tensor, axis), self._needed(tensor, axis)
                found.append(Computed(Label(axis_name(tensor, axis)), self._labels, rule, needs))
        return tuple(found)

    def _needed(self, tensor: str, axis: int) -> frozenset[str]:
        """The sizes of parameters that say how long an axis of a tensor is; all of them where that is not plain."""
        path, local = self.flat.homes.get(tensor, (None, ""))
        if path == "" and local in self._dependences:
            return self._dependences[local][axis]
        return frozenset(label.name for label in self._labels)

    @lazy_property
    def _dependences(self) -> dict[str, Dependences]:
        return {} if self.checked.accumulates else find_dependences(self.checked)

    def axes(self, tensor: str) -> tuple[str | None, ...]:
        """The sizes that the axes of a tensor are, in terms of the parameters' axes; None where that is not plain."""
        path, local = self.flat.homes.get(tensor, (None, ""))
        plain = self._axes.get(tensor) or (self.checked.axes.get(local) if path == "" else None)
        return plain or (None,) * self.flat.ranks[tensor]

    @lazy_property
    def _axes(self) -> dict[str, tuple[str | None, ...]]:
        """Those of the results, which may be tensors of definitions that are called."""
        results = (one.name.name for one in self.definition.results)
        return dict(zip(self.flat.results, (self.checked.axes[one] for one in results), strict=True))

    def batched(self, splits: Sequence[Split]) -> set[str]:
        """The sizes of batch axes of parameters."""
        terms = [self.terms(param)[: split[0]] for param, split in zip(self.flat.params, splits, strict=True)]
        return {term.name for row in terms for term in row if isinstance(term, Label)}

    @property
    def _labels(self) -> tuple[Label, ...]:
        terms = (term for param in self.flat.params for term in self.terms(param))
        return tuple(dict.fromkeys(term for term in terms if isinstance(term, Label)))

    def terms(self, param: str) -> list[Size | Label]:
        """The axes of a parameter."""
        for one in self.definition.params:
            if one.name.name == param:
                return [Size(Dim(dim.value)) if isinstance(dim, Int) else Label(dim.name) for dim in one.type.dims]
        return [Label(axis_name(param, axis)) for axis in range(self.flat.ranks[param])]


@dataclass(frozen=True, slots=True)
class _Sized:
    """The size of one axis of a tensor, from those of the parameters' axes.

    Those that it does not depend on may be missing: then others stand in for them, one and the largest of the rest, of
    which the first that the definition accepts will do.
    """

    template: Template
    tensor: str
    axis: int

    def size(self, of: Mapping[str, int]) -> int | None:
        missing = {label.name for label in self.template._labels} - {*of}
        if not missing:
            return self._of_all(of)
        for stand_in in (1, max(of.values(), default=1)):
            with suppress(WeftError):
                return self._of_all({**of, **dict.fromkeys(missing, stand_in)})
        return None

    def _of_all(self, of: Mapping[str, int]) -> int:
        params = map(self.template.terms, self.template.flat.params)
        shapes = [tuple(term.dim.size if isinstance(term, Size) else of[term.name] for term in one) for one in params]
        return self.template.extents(shapes).shapes[self.tensor][self.axis]

    def __str__(self) -> str:
        return f"{self.template.name}.{axis_name(self.tensor, self.axis)}"


def _rows(slot: int, terms: Sequence[Term], split: Split) -> list[Constraint]:
    """The three rows of a tensor whose axes in memory order are these; without output axes it has one of 1."""
    batch, _, output = split
    rows: dict[Kind, tuple[Term, ...]] = {
        "batch": tuple(terms[:batch]),
        "output": tuple(terms[batch : batch + output]) or (Size(Dim(1)),),
        "input": tuple(terms[batch + output :]),
    }
    return [RowIs(RowRef(slot, kind), row) for kind, row in rows.items()]
