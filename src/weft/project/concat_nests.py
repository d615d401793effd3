"""The nests of an operation with concatenations: which parts run together, and which operands take part.

At each choice of parts the operands that have those parts are present. A choice is run if the result has it and
something is read there. Either every operand that has parts is always present, and operands combine as usual; or
operands take turns, and then exactly one of them may be present at a time: anything else would be ambiguous. Loops
that only an absent operand mentions do not run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import TypeAlias

from weft.errors import ProjectionError, Span
from weft.project.nodes import Choice, Concat, IndexExpr, IndexMap, Projection, loops_in

#: The loops of concatenations, and where their parts are written.
PartSpans: TypeAlias = Mapping[str, Sequence[Span]]


def with_runs(whole: Projection, parts: PartSpans) -> Projection:
    """The projection with its runs."""
    everything = replace(whole, runs=tuple(product(*whole.factors)))
    alternating = _alternating(everything, parts)
    read = {choice: everything.slots(choice) for choice in everything.choices()}
    possible = {one: slots for one, slots in read.items() if not alternating or not alternating.isdisjoint(slots)}
    _refuse_unread(everything, possible)
    runs = {choice: slots for choice, slots in possible.items() if all(one.size for one in choice if one.name in parts)}
    _refuse_ambiguity(alternating, runs, parts)
    found = tuple(dict.fromkeys(_mentioned(everything, choice, slots) for choice, slots in runs.items()))
    running = {loop.name for choice in found for loop in choice}
    kept = tuple(tuple(loop for loop in factor if loop.name in running) for factor in whole.factors)
    trimmed = tuple(tuple(_without(index, running) for index in one) for one in whole.maps)
    return replace(whole, factors=tuple(factor for factor in kept if factor), runs=found, maps=trimmed)


#: Runs, and the slots of the tensors that are present in them.
Present: TypeAlias = Mapping[Choice, Sequence[int]]


def _alternating(everything: Projection, parts: PartSpans) -> set[int]:
    """The operands whose maps mention parts of concatenations."""
    return {
        slot
        for slot, one in enumerate(everything.maps)
        if slot and any(name in parts for index in one for name in loops_in(index))
    }


def _refuse_ambiguity(alternating: set[int], runs: Present, parts: PartSpans) -> None:
    present = [(choice, [slot for slot in slots if slot in alternating]) for choice, slots in runs.items()]
    if all(len(slots) == len(alternating) for _, slots in present):
        return
    for choice, slots in present:
        if len(slots) > 1:
            part = next(loop.name for loop in choice if loop.name in parts)
            raise ProjectionError(
                f"part `{part}` of a concatenation could come from operand {slots[0]} or operand {slots[1]}",
                spans=parts[part],
                fix="let one operand fill each part: slice or multiply in an operation of its own",
            )


def _refuse_unread(everything: Projection, runs: Present) -> None:
    read = {slot for slots in runs.values() for slot in slots}
    for slot in range(1, len(everything.maps)):
        if slot not in read:
            raise ProjectionError(
                f"operand {slot} is never read: its parts and the result's never run together",
                fix="name the parts alike on both sides",
            )


def _mentioned(everything: Projection, choice: Choice, slots: Sequence[int]) -> Choice:
    """The loops of a choice that a tensor present there mentions."""
    return tuple(loop for loop in choice if any(_mentions(everything.maps[slot], loop.name) for slot in slots))


def _mentions(one: IndexMap, loop: str) -> bool:
    return any(loop in index.offsets if isinstance(index, Concat) else loop in loops_in(index) for index in one)


def _without(index: IndexExpr, running: set[str]) -> IndexExpr:
    """The index without the parts that never run."""
    return Concat(tuple(part for part in index.parts if part[0] in running)) if isinstance(index, Concat) else index
