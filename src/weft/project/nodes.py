"""Which loops an operation runs and where each tensor is read or written.

    projection = factors, runs, maps, shapes, given, looked_up     slot 0 is the result
    factor     = loop+                            several loops run in sequence: the parts of a concatenation
    run        = loop*                            one nest: at most one loop of each factor
    loop       = name, size
    map        = index*                           one per axis, in memory order: batch, output, input
    index      = Affine(terms, offset)            sum of coefficient * loop, plus offset
               | Concat(parts)                    the active part's loop, plus that part's offset

Without concatenation there is one run, of all loops. With it there is a run for each choice of parts that is read and
written; a tensor whose map needs a loop that does not run is absent there: an absent operand takes no part, an absent
result is not written. An affine index may leave the axis when padded; such a point is not executed. A name in it that
is no loop is an index given when the code runs, or one that a tensor of the operation holds: `A[B[i] + k]` is read at
the index `v + k`, where `v` is looked up in B.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import TypeAlias

from weft.affine import AccessMap, Affine
from weft.lazy import lazy_property
from weft.shape.logic import Outside
from weft.shape.nodes import Shape


@dataclass(frozen=True, slots=True)
class LoopVariable:
    name: str
    size: int

    def __str__(self) -> str:
        return f"{self.name}:{self.size}"


@dataclass(frozen=True)
class Concat:
    parts: tuple[tuple[str, int], ...]

    @lazy_property
    def offsets(self) -> dict[str, int]:
        """Where each part begins."""
        return dict(self.parts)


@dataclass(frozen=True, slots=True)
class DataIndex:
    """An index that the tensor of a slot holds: a position along an axis of so many.

    `outside`: what becomes of one that is not (`shape/logic.py`).
    """

    name: str
    slot: int
    size: int
    outside: Outside


IndexExpr: TypeAlias = Affine | Concat
IndexMap: TypeAlias = tuple[IndexExpr, ...]
Factor: TypeAlias = tuple[LoopVariable, ...]
Choice: TypeAlias = tuple[LoopVariable, ...]


@dataclass(frozen=True)
class Projection:
    factors: tuple[Factor, ...]
    runs: tuple[Choice, ...]
    maps: tuple[IndexMap, ...]
    shapes: tuple[Shape, ...]
    #: The names in maps that are no loops: indices given when the code runs.
    given: frozenset[str] = frozenset()
    looked_up: tuple[DataIndex, ...] = ()

    def __hash__(self) -> int:
        return self._hash

    @lazy_property
    def _hash(self) -> int:
        return hash((self.runs, self.maps, self.shapes, self.looked_up))

    @property
    def loops(self) -> tuple[LoopVariable, ...]:
        return tuple(loop for factor in self.factors for loop in factor)

    @lazy_property
    def reduced(self) -> tuple[LoopVariable, ...]:
        """The loops the result forgot: it is written at the same place for each of their values."""
        mentioned = {name for index in self.maps[0] for name in loops_in(index)}
        running = {loop for choice in self.choices() for loop in choice}
        return tuple(loop for loop in self.loops if loop in running and loop.name not in mentioned)

    def choices(self) -> Iterator[Choice]:
        """The runs that write the result."""
        return (choice for choice in self.runs if self.present(0, choice))

    def present(self, slot: int, choice: Choice) -> bool:
        """Is the tensor read or written while these loops run?"""
        return _present(self.maps[slot], self._active(choice))

    def _active(self, choice: Choice) -> frozenset[str]:
        """The names that have a value while these loops run."""
        return self.given.union([loop.name for loop in choice], [one.name for one in self.looked_up])

    def slots(self, choice: Choice) -> list[int]:
        """The tensors read or written while these loops run, in order; of many parts only those are looked at."""
        always, waiting = self._slots
        found = {slot: None for loop in choice for slot in waiting.get(loop.name, ())}
        active = self._active(choice)
        return [slot for slot in sorted([*always, *found]) if _present(self.maps[slot], active)]

    def indices(self, slot: int, choice: Choice) -> tuple[Affine, ...]:
        """Where a tensor is read or written while these loops run."""
        return tuple([_at(index, choice) for index in self.maps[slot]])

    def guards(self, choice: Choice) -> tuple[tuple[Affine, int], ...]:
        """What keeps every access inside its tensor: 0 <= index < size, where that is not so anyway.

        What is looked up is taken to be a position of its axis.
        """
        ranges = {loop.name: loop.size for loop in choice}
        if not all(ranges.values()):
            return ()
        ranges |= {one.name: one.size for one in self.looked_up}
        axes = (
            axis
            for slot in self.slots(choice)
            for axis in zip(self.indices(slot, choice), self.shapes[slot].array_shape, strict=True)
        )
        found = [(index, size) for index, size in axes if not index.stays_inside(size, ranges)]
        return tuple(dict.fromkeys((index, size) for index, size in found if self.given.isdisjoint(index.names)))

    @lazy_property
    def tested(self) -> tuple[DataIndex, ...]:
        """What is looked up and may lie outside its axis, so that such points are not executed.

        Other positions that could be outside are held inside: those that are only read, and to be told after the run.
        """
        scattered = {name for index in self.maps[0] for name in loops_in(index)} if self.looked_up else ()
        return tuple(
            one
            for one in self.looked_up
            if one.outside == "skip" or not one.size or (one.outside == "check" and one.name in scattered)
        )

    @lazy_property
    def scatters(self) -> bool:
        """Does data say which cells of the result are written?"""
        written = {name for index in self.maps[0] for name in loops_in(index)} if self.looked_up else ()
        return any(one.name in written for one in self.looked_up)

    @lazy_property
    def written(self) -> list[AccessMap]:
        """The cells of the result that each run writes; what is given counts as 0."""
        maps = []
        for choice in self.choices():
            loops = tuple((loop.name, loop.size) for loop in choice)
            indices = self.indices(0, choice)
            if self.given:
                indices = tuple([index.without(self.given) for index in indices])
            maps.append(AccessMap(indices, loops, self.guards(choice)))
        return maps

    @lazy_property
    def _runs_of(self) -> dict[int, tuple[Choice, ...]]:
        """The runs in which each tensor is read or written."""
        found: dict[int, list[Choice]] = {}
        for choice in self.runs:
            for slot in self.slots(choice):
                found.setdefault(slot, []).append(choice)
        return {slot: tuple(runs) for slot, runs in found.items()}

    @lazy_property
    def _slots(self) -> tuple[list[int], dict[str, list[int]]]:
        """The slots whose maps mention no parts of a concatenation, and the others by the loops of one such axis."""
        parts = {loop.name for factor in self.factors if len(factor) > 1 for loop in factor}
        if not parts:
            return list(range(len(self.maps))), {}
        always, waiting = list[int](), dict[str, list[int]]()
        for slot, one in enumerate(self.maps):
            needed = next((names for index in one if not parts.isdisjoint(names := loops_in(index))), None)
            if needed is None:
                always.append(slot)
            for name in needed or ():
                waiting.setdefault(name, []).append(slot)
        return always, waiting

    def renamed(self, names: Mapping[str, str]) -> Projection:
        """The same projection with some loops called differently."""
        factors, runs = (
            tuple(tuple(LoopVariable(names.get(loop.name, loop.name), loop.size) for loop in one) for one in groups)
            for groups in (self.factors, self.runs)
        )
        maps = tuple(tuple(_renamed(index, names) for index in one) for one in self.maps)
        return replace(self, factors=factors, runs=runs, maps=maps)

    def view(self, result: int, *operands: int) -> Projection:
        """The same loops and maps with the slots in other roles: how a gradient reads the forward record.

        Of the runs only those that write its result, and of the parts of a concatenation those that run in them: the
        gradients of all parts together take a time linear in their number.
        """
        slots, runs = (result, *operands), self._runs_of.get(result, ())
        shapes = tuple(self.shapes[slot] for slot in slots)
        running = dict.fromkeys(loop for choice in runs for loop in choice)
        names = [loop.name for loop in running]
        maps = tuple(tuple(_running(index, names) for index in self.maps[slot]) for slot in slots)
        factors: dict[int, list[LoopVariable]] = {}
        for loop in sorted(running, key=lambda loop: self._factor_of[loop.name]):
            factors.setdefault(self._factor_of[loop.name][0], []).append(loop)
        looked_up = tuple(replace(one, slot=slots.index(one.slot)) for one in self.looked_up)
        return Projection(tuple(map(tuple, factors.values())), runs, maps, shapes, self.given, looked_up)

    @lazy_property
    def _factor_of(self) -> dict[str, tuple[int, int]]:
        """Where each loop stands among the factors."""
        return {
            loop.name: (index, position)
            for index, factor in enumerate(self.factors)
            for position, loop in enumerate(factor)
        }


def loops_in(index: IndexExpr) -> tuple[str, ...]:
    """The names in an index: loops, or what is given."""
    return index.names if isinstance(index, Affine) else tuple([loop for loop, _ in index.parts])


def _at(index: IndexExpr, choice: Choice) -> Affine:
    """The index while `choice` is active."""
    if isinstance(index, Affine):
        return index
    return next(Affine.of(loop.name) + index.offsets[loop.name] for loop in choice if loop.name in index.offsets)


def _renamed(index: IndexExpr, names: Mapping[str, str]) -> IndexExpr:
    if isinstance(index, Affine):
        return index.substitute({old: Affine.of(new) for old, new in names.items()})
    return Concat(tuple((names.get(loop, loop), offset) for loop, offset in index.parts))


def _running(index: IndexExpr, names: Sequence[str]) -> IndexExpr:
    """An index with those parts alone that run."""
    if not isinstance(index, Concat) or len(index.parts) <= 1:
        return index
    offsets = index.offsets
    kept = [(name, offsets[name]) for name in names if name in offsets]
    return Concat(tuple(sorted(kept, key=itemgetter(1)))) if len(kept) < len(offsets) else index


def _present(indices: IndexMap, active: frozenset[str]) -> bool:
    return all(_reachable(index, active) for index in indices)


def _reachable(index: IndexExpr, active: frozenset[str]) -> bool:
    if isinstance(index, Concat):
        return not active.isdisjoint(index.offsets)
    return active.issuperset(index.names)
