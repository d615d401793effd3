"""From loops to kernels: what is computed where, what runs together, what is kept in memory."""

from __future__ import annotations

from collections.abc import Sequence

from weft.loops import Program, show as show_loops
from weft.schedule.annotate import annotate as annotate
from weft.schedule.compile_options import CompileOptions as CompileOptions
from weft.schedule.nodes import (
    Kernel as Kernel,
    Schedule as Schedule,
    as_kernels as as_kernels,
    as_program as as_program,
)
from weft.schedule.options import Options as Options
from weft.schedule.pipeline import (
    PASSES as PASSES,
    UNOPTIMISED as UNOPTIMISED,
    BrokenPass as BrokenPass,
    Pass as Pass,
    stages as stages,
)
from weft.schedule.stage import Task as Task
from weft.schedule.timings import Clock as Clock


def schedule(program: Program, task: Task, *, clock: Clock | None = None) -> Schedule:
    """Cut a lowered program into kernels."""
    *_, (_, last) = stages(program, task, clock=clock)
    assert last.plan is not None
    return Schedule(last.kernels, last.verdicts, last.plan)


def show_verdicts(found: Schedule | None) -> str:
    """Of every buffer, whether it is stored and why."""
    if found is None:
        return "every buffer is stored: the program is not optimised"
    rows = [(buffer.name, "stored" if one.stored else "virtual", one.why) for buffer, one in found.verdicts.items()]
    wide = max((len(name) for name, _, _ in rows), default=0)
    return "\n".join(f"{name:<{wide}}  {kind:<7}  {why}" for name, kind, why in rows)


def show_kernels(kernels: Sequence[Kernel]) -> str:
    """The loops of every kernel, with the assignments it came from, why it was not joined to one before, and why a
    contraction in it is none for the backend."""
    parts = []
    for index, kernel in enumerate(kernels):
        title = f"kernel {index}" + (f": {kernel.why}" if kernel.why else "")
        plain = [f"# in plain loops: {kernel.plain}"] if kernel.plain else []
        parts.append(
            "\n".join([title, *(f"# {line}" for line in kernel.remarks), *plain, show_loops(Program(kernel.body))])
        )
    return "\n\n".join(parts)
