"""What a specification means, point by point and straight from the notation: an answer that shares no code with weft.

`run` follows the written spec: every label, every axis of a row variable and every unnamed axis is a variable; all
their values are tried; the operands present at a point are combined and accumulated into the result. Of labels that
concatenations lay in sequence one is active at a time; a tensor that mentions such labels, but not the active one, is
absent. Where the result is absent, or every operand with such labels, nothing happens; a variable that no present
tensor mentions does not vary.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from weft.einsum import parse_spec
from weft.einsum.nodes import AffineAxis, ConcatAxis, FlatAxis, Hole, Label, Position, RowVar, Skip, labels_in
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
    """Some operands take turns in filling parts of a concatenation, and two of them come at once."""


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
    with np.errstate(over="ignore"):
        return Meaning(text, shapes, labels).run(arrays, accum, op, neutral)


class Meaning:
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
        if self.ambiguous:
            raise Ambiguous
        result = np.full(self.shapes[-1].array_shape, neutral, arrays[0].dtype)
        writes: Counter[tuple[int, ...]] = Counter()
        for active, present in choices:
            for at in self._points(active, present):
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

    @property
    def unread(self) -> bool:
        """Is there a tensor that takes no part anywhere?"""
        return {slot for _, present in self._choices() for slot in present} != set(range(len(self.slots)))

    @property
    def ambiguous(self) -> bool:
        """Operands with parts of concatenations are either all present always, or one at a time."""
        sharing = self._sharing()
        present = [[slot for slot in sharing if slot in slots] for _, slots in self._choices()]
        return any(slots != sharing for slots in present) and any(len(slots) > 1 for slots in present)

    def _choices(self) -> list[tuple[frozenset[str], tuple[int, ...]]]:
        """The active labels and the present tensors, once for each nest in which something is read and written."""
        found = {}
        for chosen in product(*self.groups):
            present = tuple(slot for slot in range(len(self.slots)) if self._present(slot, set(chosen)))
            mentioned = {label for slot in present for label in _labels(self.slots[slot])}
            sharing = self._sharing()
            read = not sharing or any(slot in present for slot in sharing)
            if len(self.slots) - 1 in present and read and all(self.sizes[label] for label in chosen):
                found[frozenset(mentioned.intersection(chosen)), present] = None
        return list(found)

    def _sharing(self) -> list[int]:
        """The operands that mention parts of concatenations."""
        parts = {label for group in self.groups for label in group}
        return [slot for slot, axes in enumerate(self.slots[:-1]) if parts & _labels(axes)]

    def _present(self, slot: int, active: set[str]) -> bool:
        coupled = {label for group in self.groups for label in group}
        for axis in self.slots[slot]:
            mine = {label.name for label in _labels_of(axis)} & coupled
            if isinstance(axis, ConcatAxis):
                if not mine & active:
                    return False
            elif mine - active:
                return False
        return True

    def _points(self, active: Collection[str], present: Sequence[int]) -> Iterator[dict[Key, int]]:
        resting = {label for group in self.groups for label in group}.difference(active)
        mentioned = dict.fromkeys(key for slot in present for axis in self.slots[slot] for key in _keys(axis))
        varying = [key for key in mentioned if key not in resting]
        for values in product(*(range(self.sizes[key]) for key in varying)):
            yield dict(zip(varying, values, strict=True))

    def _place(self, slot: int, at: Mapping[Key, int], active: Collection[str]) -> tuple[int, ...]:
        return tuple(self._position(axis, at, active) for axis in self.slots[slot])

    def _position(self, axis: Any, at: Mapping[Key, int], active: Collection[str]) -> int:
        match axis:
            case Label(name=name):
                return at[name]
            case Unnamed(key=key):
                return at[key]
            case Position(at=place):
                return place
            case AffineAxis(stride=stride, over=over, kernel=None, offset=offset):
                return stride * at[over.name] + offset
            case AffineAxis(stride=stride, over=over, kernel=kernel, offset=offset):
                window = kernel.dilation * (self.sizes[kernel.label.name] - 1) + 1
                outside = max(window, 0) // 2 if kernel.padded else 0
                return stride * at[over.name] + kernel.dilation * at[kernel.label.name] + offset - outside
            case FlatAxis(parts=labels):
                sizes = [self.sizes[label.name] for label in labels]
                return int(np.ravel_multi_index([at[label.name] for label in labels], sizes))
            case ConcatAxis(parts=parts):
                before = 0
                for part in parts:
                    if isinstance(part, Label) and part.name in active:
                        return before + at[part.name]
                    before += part.size if isinstance(part, Skip) else self.sizes[part.name]
        raise AssertionError(axis)

    def _inside(self, slot: int, place: tuple[int, ...]) -> bool:
        return all(0 <= at < size for at, size in zip(place, self.shapes[slot].array_shape, strict=True))


def _row_ranks(spec: Any, shapes: Sequence[Shape]) -> dict[str, int]:
    """How many axes each row variable stands for: what is left of its row, at the place with the fewest left."""
    ranks: dict[str, int] = {}
    for one, shape in zip((*spec.operands, spec.result), shapes, strict=True):
        for kind in MEMORY_ORDER:
            row = one.row(kind)
            if isinstance(row.var, RowVar):
                left = len(shape.row(kind)) - len(row.axes)
                ranks[row.var.name] = min(left, ranks.get(row.var.name, left))
    return ranks


def _labels_of(axis: Any) -> tuple[Label, ...]:
    return () if isinstance(axis, Unnamed) else labels_in(axis)


def _labels(axes: Sequence[Any]) -> set[str]:
    return {label.name for axis in axes for label in _labels_of(axis)}


def _keys(axis: Any) -> list[Key]:
    return [axis.key] if isinstance(axis, Unnamed) else [label.name for label in labels_in(axis)]


def _groups(slots: Sequence[Sequence[Any]]) -> list[dict[str, None]]:
    """The labels laid in sequence by the same concatenations."""
    groups: list[dict[str, None]] = []
    for axis in (axis for axes in slots for axis in axes if isinstance(axis, ConcatAxis)):
        merged = dict.fromkeys(label.name for label in labels_in(axis))
        for group in [group for group in groups if group.keys() & merged.keys()]:
            groups.remove(group)
            merged |= group
        groups.append(merged)
    return groups


def execute(printed: str, plan: Plan, arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Run a printed plan as the Python it looks like, refusing every index outside a tensor."""
    header, code = printed.split("\n", 1)
    *operands, result = re.findall(r"   (\w+): ", header.removeprefix(plan.spec.text))
    names = dict(zip(operands, map(Checked, arrays), strict=True))
    names[result] = Checked(np.full(plan.shapes[-1].array_shape, 999, np.result_type(*arrays)))
    exec(code, {"range": range, **names})
    return names[result].array


class Checked:
    """An array that takes no negative index and no slice other than `:`."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array.copy()

    def __getitem__(self, at: Any) -> Any:
        return self.array[self._checked(at)]

    def __setitem__(self, at: Any, value: Any) -> None:
        self.array[self._checked(at)] = value

    def _checked(self, at: Any) -> tuple[Any, ...]:
        at = at if isinstance(at, tuple) else (at,)
        assert len(at) == self.array.ndim
        assert all(
            one == slice(None) if isinstance(one, slice) else 0 <= one < size
            for one, size in zip(at, self.array.shape, strict=True)
        )
        return at
