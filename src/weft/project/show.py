"""Prints a projection as the loop nest a person would write."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from string import ascii_uppercase

from weft.ops import Op
from weft.project.exact import is_injective, is_surjective
from weft.project.nodes import Choice, Concat, Fix, Given, Index, Loop, Projection, linear, stays_inside

RESULT = "R"


def operand_names(number: int) -> list[str]:
    """A, B, C, … without the result's own name."""
    letters = [letter for letter in ascii_uppercase if letter != RESULT]
    return [letters[at % 25] + (str(at // 25) if at >= 25 else "") for at in range(number)]


def show_index(index: Index) -> str:
    """An index on its own, as maps are printed."""
    match index:
        case Fix(at=at):
            return str(at)
        case Given(symbol=symbol):
            return symbol
        case Concat(parts=parts):
            return "^".join(_sum({loop: 1}, offset) for loop, offset in parts)
        case _:
            return _sum(*linear(index, ()))


def show_nest(projection: Projection, accum: Op, op: Op) -> str:
    """The whole nest, with what must be cleared before it."""
    lines = []
    if not (is_injective(projection) and is_surjective(projection)):
        cells = ", ".join(":" for _ in projection.maps[0])
        why = "some cells are never written" if is_injective(projection) else "cells are accumulated into"
        lines.append(f"{RESULT}[{cells}] = {_neutral(accum)}  # {why}")
    lines += _nest(projection, accum, op, (), "")
    return "\n".join(lines)


def _nest(projection: Projection, accum: Op, op: Op, chosen: Choice, indent: str) -> Iterator[str]:
    if len(chosen) == len(projection.factors):
        yield from _statement(projection, accum, op, chosen, indent)
        return
    for loop in projection.factors[len(chosen)]:
        note = f"  # {RESULT} does not mention {loop.name}: reduced" if loop in projection.reduced else ""
        yield f"{indent}for {loop.name} in range({loop.size}):{note}"
        yield from _nest(projection, accum, op, (*chosen, loop), indent + "    ")


def _statement(projection: Projection, accum: Op, op: Op, choice: Choice, indent: str) -> Iterator[str]:
    names = [RESULT, *operand_names(len(projection.maps) - 1)]
    if guards := _guards(projection, choice):
        yield f"{indent}if {' and '.join(guards)}:"
        indent += "    "
    present = [slot for slot in range(1, len(names)) if projection.present(slot, choice)]
    target = _access(names[0], projection.maps[0], choice)
    value = _combine(op, [_access(names[slot], projection.maps[slot], choice) for slot in present])
    if is_injective(projection):
        yield f"{indent}{target} = {value}"
    elif accum.text in "+*":
        yield f"{indent}{target} {accum.text}= {value}"
    else:
        yield f"{indent}{target} = {accum.name}({target}, {value})"


def _guards(projection: Projection, choice: Choice) -> list[str]:
    found = {
        f"0 <= {_subscript(index, choice)} < {size}": None
        for slot, (one, shape) in enumerate(zip(projection.maps, projection.shapes, strict=True))
        if projection.present(slot, choice)
        for index, size in zip(one, shape.array_shape, strict=True)
        if not isinstance(index, Given) and not stays_inside(index, size, choice)
    }
    return list(found)


def _access(name: str, one: Sequence[Index], choice: Choice) -> str:
    return f"{name}[{', '.join(_subscript(index, choice) for index in one)}]"


def _subscript(index: Index, choice: Choice) -> str:
    return index.symbol if isinstance(index, Given) else _sum(*linear(index, choice))


def _sum(coefficients: dict[str, int], offset: int) -> str:
    terms = [loop if coefficient == 1 else f"{coefficient}*{loop}" for loop, coefficient in coefficients.items()]
    if offset or not terms:
        terms.append(str(offset))
    return " + ".join(terms).replace("+ -", "- ")


def _combine(op: Op, values: list[str]) -> str:
    if op.text in "+-*/":
        return f" {op.text} ".join(values)
    text, *others = values
    for other in others:
        text = f"{op.name}({text}, {other})"
    return text


def _neutral(accum: Op) -> str:
    return {"add": "0", "mul": "1", "max": "-inf", "min": "inf"}.get(accum.name, f"the neutral element of {accum.name}")


def show_loops(factors: Sequence[Sequence[Loop]]) -> str:
    """`i:3 k:5 a:2^b:4`: the loops, parts run in sequence joined by `^`."""
    return " ".join("^".join(map(str, factor)) for factor in factors)


def show_map(one: Sequence[Index]) -> str:
    return "[" + ", ".join(show_index(index) for index in one) + "]"
