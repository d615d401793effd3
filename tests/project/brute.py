"""What a specification means, point by point and straight from the notation: an answer that shares no code with weft.

`run` follows the written spec: every label, every axis of a row variable and every unnamed axis is a variable; all
their values are tried; the operands present at a point are combined and accumulated into the result. Of labels that
concatenations lay in sequence one is active at a time; a tensor that mentions such labels, but not the active one, is
absent; where the result or all operands are absent nothing happens, and a variable that no present tensor mentions
does not vary.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

import numpy as np

from weft.einsum import parse_spec
from weft.einsum.nodes import Affine, Concat, Hole, Label, Position, RowVar, Skip, labels_in
from weft.project import Plan
from weft.shape.nodes import MEMORY_ORDER, Shape

Key = Any  # a label's name, or a tuple for an axis without one


@dataclass(frozen=True)
class Unnamed:
    """An axis driven by a variable of its own, or shared with the same axis of a row variable."""

    key: tuple[object, ...]


@dataclass(frozen=True)
class Run:
    result: np.ndarray
    writes: Counter[tuple[int, ...]]  # how many points wrote each cell

    @property
    def injective(self) -> bool:
        return all(times == 1 for times in self.writes.values())

    @property
    def surjective(self) -> bool:
        return len(self.writes) == self.result.size


class Ambiguous(Exception):
    """An operand fills some parts of a concatenation, and in one of them another operand is read as well."""


def run(
    text: str,
    shapes: Sequence[Shape],
    labels: Mapping[str, int],
    arrays: Sequence[np.ndarray],
    accum: Callable[[Any, Any], Any],
    op: Callable[[Any, Any], Any],
    neutral: float,
) -> Run:
    """`shapes` are the operands' and then the result's, `labels` the size of each label."""
    return _Meaning(text, shapes, labels).run(arrays, accum, op, neutral)


class _Meaning:
    def __init__(self, text: str, shapes: Sequence[Shape], labels: Mapping[str, int]) -> None:
        spec = parse_spec(text)
        self.shapes = shapes
        self.sizes: dict[Key, int] = dict(labels)
        self.row_ranks = _row_ranks(spec, shapes)
        self.slots = [self._axes(slot, one) for slot, one in enumerate((*spec.operands, spec.result))]
        self.groups = _groups(self.slots)

    def _axes(self, slot: int, one: Any) -> list[Any]:
        found: list[Any] = []
        for kind in MEMORY_ORDER:
            row, dims = one.row(kind), self.shapes[slot].row(kind)
            between = len(dims) - len(row.axes)
            named = min(between, self.row_ranks[row.var.name]) if row.var else 0
            middle = [Unnamed((row.var.name, at)) for at in range(named)] if row.var else []
            extra = [Unnamed((slot, kind, at)) for at in range(between - named)]
            axes = [*row.lead, *extra, *middle, *row.trail]
            axes = [Unnamed((slot, kind, "_", at)) if isinstance(axis, Hole) else axis for at, axis in enumerate(axes)]
            for axis, dim in zip(axes, dims, strict=True):
                if isinstance(axis, Unnamed):
                    self.sizes[axis.key] = dim.size
            found += axes
        return found

    def run(self, arrays: Sequence[np.ndarray], accum: Any, op: Any, neutral: float) -> Run:
        choices = self._choices()
        self._check(choices)
        result = np.full(self.shapes[-1].array_shape, neutral, arrays[0].dtype)
        writes: Counter[tuple[int, ...]] = Counter()
        for active, present in choices:
            for at in self._points(present):
                places = {slot: self._place(slot, at, active) for slot in present}
                if all(self._inside(slot, place) for slot, place in places.items()):
                    values = [arrays[slot][place] for slot, place in places.items() if slot != len(arrays)]
                    cell = places[len(arrays)]
                    value = values[0]
                    for other in values[1:]:
                        value = op(value, other)
                    result[cell] = accum(result[cell], value)
                    writes[cell] += 1
        return Run(result, writes)

    def _choices(self) -> list[tuple[set[str], list[int]]]:
        """The active labels and the present tensors, of each choice in which the result and an operand are present."""
        found = []
        for chosen in product(*self.groups):
            active = set(chosen)
            present = [slot for slot in range(len(self.slots)) if self._present(slot, active)]
            if len(self.slots) - 1 in present and len(present) > 1:
                if all(self.sizes[label] for label in active):
                    found.append((active, present))
        return found

    def _check(self, choices: list[tuple[set[str], list[int]]]) -> None:
        operands = range(len(self.slots) - 1)
        partial = {slot for slot in operands for _, present in choices if slot not in present}
        concern = [{at for at, group in enumerate(self.groups) if group & _labels(slot)} for slot in self.slots]
        for _, present in choices:
            for one, other in combinations([slot for slot in operands if slot in present], 2):
                if {one, other} & partial and concern[one] & concern[other]:
                    raise Ambiguous

    def _present(self, slot: int, active: set[str]) -> bool:
        coupled = {label for group in self.groups for label in group}
        for axis in self.slots[slot]:
            mine = {label.name for label in _labels_of(axis)} & coupled
            if isinstance(axis, Concat):
                if not mine & active:
                    return False
            elif mine - active:
                return False
        return True

    def _points(self, present: Sequence[int]) -> Iterator[dict[Key, int]]:
        coupled = {label for group in self.groups for label in group}
        keys = dict.fromkeys(key for slot in present for axis in self.slots[slot] for key in _keys(axis))
        # An inactive part contributes nothing but its size; giving it one value keeps it from varying.
        active = {key for slot in present for axis in self.slots[slot] for key in _keys(axis) if key in coupled}
        active &= set.intersection(*[self._actives(slot) for slot in present]) if active else set()
        varying = [key for key in keys if key not in coupled or key in self._running]
        for values in product(*(range(self.sizes[key]) for key in varying)):
            yield dict(zip(varying, values, strict=True))
