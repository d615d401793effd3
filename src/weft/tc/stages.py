"""The stages of a comprehension as text."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from weft.comprehension.affine import Range
from weft.comprehension.flat import show_step
from weft.comprehension.gradient import backward
from weft.tc.call import Call

_COMPILED = ("assign", "loops", "virtual", "kernels", "source")


def show_stage(stage: str, call: Call, wrt: Sequence[str]) -> str:
    """A stage, one of `STAGES`, of a compiled definition."""
    if stage in _COMPILED:
        return call.function.routine.show(stage)
    return _OWN[stage](call, wrt)


def _ranges(call: Call, wrt: Sequence[str]) -> str:
    """Every statement with the ranges of its indices, then the shapes of all tensors."""
    extents, flat = call.application.extents, call.template.flat
    lines = []
    for step in flat.steps:
        ranges = ", ".join(f"{index} in {range}" for index, range in extents.ranges(step).items())
        lines.append(show_step(step) + (f" where {ranges}" if ranges else ""))
    for tensor, shape in extents.shapes.items():
        lines.append(f"{tensor}: {flat.types[tensor]}{list(shape)}")
    return "\n".join(lines)


def _gradient(call: Call, wrt: Sequence[str]) -> str:
    """The steps of the gradient, in the language as far as it goes."""
    extents, flat = call.application.extents, call.template.flat
    lines = []
    for step in backward(flat, flat.results, wrt).steps:
        ranges: dict[str, Range] = dict(extents.ranges(step))
        lines.append(
            show_step(step) + f" where {', '.join(f'{i} in {one}' for i, one in ranges.items())}" * bool(ranges)
        )
    return "\n".join(lines)


_OWN: dict[str, Callable[[Call, Sequence[str]], str]] = {"ranges": _ranges, "gradient": _gradient}
STAGES = (*_OWN, *_COMPILED)
