"""Runs passes one after another: times each, checks what it leaves, and hands every stage out."""

from __future__ import annotations

from collections.abc import Iterator

from weft.loops import MalformedLoops, Program, check
from weft.loops.nests import nests
from weft.loops.walk import Body, identical
from weft.schedule.fusion.rematerialise import Rematerialised
from weft.schedule.nodes import as_kernels
from weft.schedule.pipeline import PASSES
from weft.schedule.stage import Pass, Stage, Task
from weft.schedule.timings import Clock


class BrokenPass(MalformedLoops):
    """A pass left a program that is not well formed."""


def stages(
    program: Program,
    task: Task,
    *,
    passes: tuple[Pass, ...] = PASSES,
    clock: Clock | None = None,
) -> Iterator[tuple[str, Stage]]:
    """Run passes one after another: the name of each, and what it leaves; checked, if the options say so."""
    time, stage = clock or Clock(), _first_stage(program, passes)
    checked: dict[int, Body] = {}
    for one in passes:
        before = stage
        with time(one.name):
            stage = one.run(stage, task)
        if task.options.verify and not _is_same(before, stage):
            _verify(one, stage, task, checked)
        yield one.name, stage


def _first_stage(program: Program, passes: tuple[Pass, ...]) -> Stage:
    """The program before any pass: its nests, or where no pass makes kernels of them, a kernel for each assignment."""
    if all(one.name != "inline" for one in passes):
        return Stage(Rematerialised(()), as_kernels(program))
    return Stage(Rematerialised(tuple(nests(program))))


def _is_same(before: Stage, after: Stage) -> bool:
    """Has a pass left all nests and kernels as they were?"""
    return before.formed is after.formed and identical(before.nests, after.nests)


def _verify(done: Pass, stage: Stage, task: Task, checked: dict[int, Body]) -> None:
    """Check what a pass has changed: templates that were `checked` before are known by their ids."""
    try:
        for kernel in stage.kernels:
            if id(kernel.template) not in checked:
                check(Program(kernel.template), task.static)
                checked[id(kernel.template)] = kernel.template
    except MalformedLoops as error:
        raise BrokenPass(f"the pass `{done.name}` left a program that is not well formed: {error}") from error
