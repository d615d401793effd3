"""From loops to kernels: what is computed where, what runs together, what is kept in memory."""

from __future__ import annotations

from weft.loops import Grid, Program
from weft.schedule.annotate import annotate as annotate, in_plain_loops as in_plain_loops
from weft.schedule.compile_options import CompileOptions as CompileOptions
from weft.schedule.driver import BrokenPass as BrokenPass, stages as stages
from weft.schedule.gpu.gpu_pipeline import GPU_PASSES as GPU_PASSES, GPU_UNOPTIMISED as GPU_UNOPTIMISED
from weft.schedule.nodes import (
    Kernel as Kernel,
    Schedule as Schedule,
    as_kernels as as_kernels,
    as_program as as_program,
)
from weft.schedule.options import Options as Options
from weft.schedule.pipeline import PASSES as PASSES, UNOPTIMISED as UNOPTIMISED
from weft.schedule.stage import Pass as Pass, Task as Task
from weft.schedule.text import (
    declared_kernels as declared_kernels,
    parse_kernels as parse_kernels,
    show_kernels as show_kernels,
)
from weft.schedule.timings import Clock as Clock


def passes_for(task: Task, *, optimising: bool = True) -> tuple[Pass, ...]:
    """The passes that cut programs into kernels for what a backend has."""
    if Grid in task.places:
        return GPU_PASSES if optimising else GPU_UNOPTIMISED
    return PASSES if optimising else UNOPTIMISED


def schedule(program: Program, task: Task, *, clock: Clock | None = None) -> Schedule:
    """Cut a lowered program into kernels."""
    *_, (_, last) = stages(program, task, passes=passes_for(task), clock=clock)
    assert last.plan is not None
    return Schedule(last.kernels, last.verdicts, last.plan)


def show_verdicts(found: Schedule | None) -> str:
    """Of every buffer, whether it is stored and why."""
    if found is None:
        return "every buffer is stored: the program is not optimised"
    rows = [(buffer.name, "stored" if one.stored else "virtual", one.why) for buffer, one in found.verdicts.items()]
    wide = max((len(name) for name, _, _ in rows), default=0)
    return "\n".join(f"{name:<{wide}}  {kind:<7}  {why}" for name, kind, why in rows)
