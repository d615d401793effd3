"""What there is to tune in a program: its kernels before anything is decided, those that do the same only once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from weft.loops import Buffer, Grid, Program
from weft.loops.staged import plain
from weft.loops.walk import Body
from weft.schedule.apply_decisions import kernel_key, with_decisions
from weft.schedule.canonical import systematic
from weft.schedule.compile_options import CompileOptions
from weft.schedule.decisions import Decisions, decisions_of
from weft.schedule.driver import stages
from weft.schedule.gpu.gpu_pipeline import GPU_PASSES
from weft.schedule.kernel_templates import with_templates
from weft.schedule.nodes import Kernel
from weft.schedule.pipeline import PASSES
from weft.schedule.stage import Pass, Stage, Task
from weft.schedule.tuning.gpu_knobs import gpu_knobs
from weft.schedule.tuning.knobs import Knob
from weft.schedule.tuning.space import knobs


def _deciding(task: Task) -> tuple[tuple[Pass, ...], tuple[Pass, ...]]:
    """The passes before those that recall and decide how loops run, where that is not decided; and these."""
    passes = GPU_PASSES if Grid in task.places else PASSES
    first = [one.name for one in passes].index("apply_tuned")
    return passes[:first], passes[first:]


@dataclass(frozen=True, slots=True, eq=False)
class Subject:
    """A kernel by its key, at which positions of a program it runs, and what weft decides about it."""

    key: str
    kernel: Kernel
    positions: tuple[int, ...]
    rules: Decisions
    knobs: tuple[Knob, ...]
    options: CompileOptions
    own: Collection[Buffer]
    static: Mapping[str, int]

    def made(self, chosen: Decisions) -> Kernel:
        """The kernel as it runs with decisions; raises what is not legal about them."""
        threads = self.options.schedule.threads or self.options.threads
        return replace(with_decisions(self.kernel, chosen, self.options, self.own, self.static), threads=threads)


def before_decisions(program: Program, task: Task) -> Stage:
    """A program cut into kernels of which nothing is decided yet."""
    *_, (_, last) = stages(program, task, passes=_deciding(task)[0])
    return last


def after_decisions(stage: Stage, task: Task) -> Stage:
    """The same when all is decided: as tuning found best, and by rules where it found nothing."""
    for one in _deciding(task)[1]:
        stage = one.run(stage, task)
    return stage


def subjects(stage: Stage, task: Task) -> list[Subject]:
    """What there is to tune in a program that is cut into kernels."""
    rules, as_loops, own = (
        _decisions(stage, task, lambda body: body),
        _decisions(stage, task, plain),
        stage.own,
    )
    on_gpu, positions = Grid in task.places, dict[str, list[int]]()
    for position, kernel in enumerate(stage.kernels):
        positions.setdefault(kernel_key(kernel), []).append(position)
    found = []
    for key, (first, *others) in positions.items():
        kernel = stage.kernels[first]
        body = systematic(kernel.body).body
        ways = gpu_knobs(body, task.options.shaped_for) if on_gpu else knobs(body, task.options, own, as_loops[first])
        given = (tuple(ways), task.options, own, task.static)
        found.append(Subject(key, kernel, (first, *others), rules[first], *given))
    return found


def _decisions(stage: Stage, task: Task, change: Callable[[Body], Body]) -> list[Decisions]:
    """What weft decides about each kernel of a stage, under systematic names; their bodies are changed before."""
    formed = with_templates(one.with_body(change(systematic(one.body).body)) for one in stage.kernels)
    last = after_decisions(replace(stage, formed=tuple(formed)), replace(task, tuned={}))
    return [decisions_of(one.body) for one in last.kernels]
