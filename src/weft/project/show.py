"""Prints a projection as the loop nest a person would write."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, groupby
from string import ascii_uppercase

from weft.affine import Affine
from weft.ops import Op
from weft.project.coverage import is_injective, is_surjective
from weft.project.nodes import Choice, Projection

RESULT = "R"


def operand_names(number: int) -> list[str]:
    """A, B, C, … without the result's own name."""
    letters = [letter for letter in ascii_uppercase if letter != RESULT]
    return [letters[at % 25] + (str(at // 25) if at >= 25 else "") for at in range(number)]


def tensor_names(projection: Projection) -> list[str]:
    """What the result and the operands are called in a printed nest: letters that are no loop's name."""
    loops = {loop.name for loop in projection.loops}
    result = next(name for at in count() if (name := RESULT + (str(at) if at else "")) not in loops)
    operands = [name for name in operand_names(len(projection.maps) + len(loops)) if name not in loops]
    return [result, *operands[: len(projection.maps) - 1]]


def show_nest(projection: Projection, accum: Op, op: Op) -> str:
    """The whole nest, with what must be cleared before it."""
    return "\n".join(_Nest(projection, accum, op, tensor_names(projection)).lines())


@dataclass(frozen=True, slots=True)
class _Nest:
    projection: Projection
    accum: Op
    op: Op
    names: list[str]

    def lines(self) -> Iterator[str]:
        if not (is_injective(self.projection) and is_surjective(self.projection)):
            cells = ", ".join(":" for _ in self.projection.maps[0])
            why = "some cells are never written" if is_injective(self.projection) else "cells are accumulated into"
            yield f"{self.names[0]}[{cells}] = {_neutral(self.accum)}  # {why}"
        yield from self._nest(list(self.projection.choices()), 0)

    def _nest(self, choices: list[Choice], depth: int) -> Iterator[str]:
        """The nests of some choices that agree in their outer loops."""
        for loop, group in groupby(choices, key=lambda choice: choice[depth] if depth < len(choice) else None):
            if loop is None:
                for choice in group:
                    yield from self._statement(choice, depth)
            else:
                forgotten = loop in self.projection.reduced
                note = f"  # {self.names[0]} does not mention {loop.name}: reduced" if forgotten else ""
                yield f"{_indent(depth)}for {loop.name} in range({loop.size}):{note}"
                yield from self._nest(list(group), depth + 1)

    def _statement(self, choice: Choice, depth: int) -> Iterator[str]:
        outside = [(Affine.of(one.name), one.size) for one in self.projection.tested]
        if guards := (*outside, *self.projection.guards(choice)):
            tests = (f"0 <= {self._index(index, choice)} < {size}" for index, size in guards)
            yield f"{_indent(depth)}if {' and '.join(tests)}:"
            depth += 1
        slots = self.projection.slots(choice)
        positions = [one.slot for one in self.projection.looked_up]
        target, *operands = [self._access(slot, choice) for slot in slots if slot not in positions]
        value = _combine(self.op, operands) if operands else "1"
        if is_injective(self.projection):
            yield f"{_indent(depth)}{target} = {value}"
        elif self.accum.text in "+*":
            yield f"{_indent(depth)}{target} {self.accum.text}= {value}"
        else:
            yield f"{_indent(depth)}{target} = {self.accum.name}({target}, {value})"

    def _access(self, slot: int, choice: Choice) -> str:
        shown = ", ".join(self._index(index, choice) for index in self.projection.indices(slot, choice))
        return f"{self.names[slot]}[{shown}]"

    def _index(self, index: Affine, choice: Choice) -> str:
        """An index, with what it looks up; positions are read at indices without any."""
        found = {one.name: one.slot for one in self.projection.looked_up if one.name in index.names}
        return str(index.substitute({name: Affine.of(self._access(slot, choice)) for name, slot in found.items()}))


def _indent(depth: int) -> str:
    return "    " * depth


def _combine(op: Op, values: list[str]) -> str:
    if op.text in "+-*/":
        return f" {op.text} ".join(values)
    text, *others = values
    for other in others:
        text = f"{op.name}({text}, {other})"
    return text


def _neutral(accum: Op) -> str:
    return {"add": "0", "mul": "1", "max": "-inf", "min": "inf"}.get(accum.name, f"the neutral element of {accum.name}")
