"""The stages of a comprehension as text."""

from __future__ import annotations

from weft.comprehension.steps import show_step
from weft.tc.call import CompiledCall

STAGES = ("ranges", "gradient", "assign", "loops", "virtual", "kernels", "source")


def show_stage(stage: str, call: CompiledCall) -> str:
    """A stage of a compiled definition, one of `STAGES` but the gradient, which is a definition of its own."""
    return _ranges(call) if stage == "ranges" else call.function.routine.show(stage)


def _ranges(call: CompiledCall) -> str:
    """Every statement with the ranges of its indices, then the shapes of all tensors."""
    extents, flat = call.application.extents, call.template.flat
    lines = []
    for step in flat.steps:
        ranges = ", ".join(f"{index} in {extent}" for index, extent in extents.ranges(step).items())
        lines.append(show_step(step) + (f" where {ranges}" if ranges else ""))
    lines += (f"{tensor}: {flat.types[tensor]}{list(shape)}" for tensor, shape in extents.shapes.items())
    return "\n".join(lines)
