"""The stages of a comprehension as text."""

from __future__ import annotations

from collections.abc import Sequence

from weft.comprehension.flat import show_step
from weft.comprehension.gradient import backward
from weft.comprehension.show import show_definition
from weft.comprehension.text import gradient_definition
from weft.tc.call import Call

STAGES = ("ranges", "gradient", "assign", "loops", "virtual", "kernels", "source")


def show_stage(stage: str, call: Call, wrt: Sequence[str]) -> str:
    """A stage, one of `STAGES`, of a compiled definition."""
    match stage:
        case "ranges":
            return _ranges(call)
        case "gradient":
            return _gradient(call, wrt)
    return call.function.routine.show(stage)


def _ranges(call: Call) -> str:
    """Every statement with the ranges of its indices, then the shapes of all tensors."""
    extents, flat = call.application.extents, call.template.flat
    lines = []
    for step in flat.steps:
        ranges = ", ".join(f"{index} in {range}" for index, range in extents.ranges(step).items())
        lines.append(show_step(step) + (f" where {ranges}" if ranges else ""))
    lines += (f"{tensor}: {flat.types[tensor]}{list(shape)}" for tensor, shape in extents.shapes.items())
    return "\n".join(lines)


def _gradient(call: Call, wrt: Sequence[str]) -> str:
    """A definition that computes the gradient for these shapes."""
    flat, extents = call.template.flat, call.application.extents
    made = backward(flat, flat.results, wrt, afresh=True)
    return show_definition(gradient_definition(f"{call.template.name}_gradient", flat, made, extents, wrt))
