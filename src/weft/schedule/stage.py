"""What passes are given: a task, what is asked of all of them, and a stage, the program so far."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from weft.loops import Buffer, Grid, Parallel, Product
from weft.loops.nests import Nest
from weft.loops.walk import Body
from weft.optimise.inline_decision import Verdict
from weft.schedule.compile_options import CompileOptions
from weft.schedule.decisions import Decisions
from weft.schedule.fusion.rematerialise import Rematerialised
from weft.schedule.kernel_templates import per_template
from weft.schedule.memory.memory_plan import MemoryPlan
from weft.schedule.nodes import Kernel, SharedLoop, with_shared_loops


@dataclass(frozen=True, slots=True)
class Task:
    """What is asked of the passes.

    `kept` says of buffers why they must be in memory afterwards; `static` gives the sizes of static indices;
    `recompute` are buffers to be recomputed rather than stored; `places` are the kinds of decisions about loops
    that the backend can run; `tuned` are the best that were found for kernels (`tuned.py`). What is `checked` of a run
    is to be found before it writes what is `lasting`.
    """

    kept: Mapping[Buffer, str] = field(hash=False)
    static: Mapping[str, int] = field(default_factory=dict, hash=False)
    recompute: tuple[Buffer, ...] = ()
    places: frozenset[type] = frozenset()
    options: CompileOptions = field(default_factory=CompileOptions)
    tuned: Mapping[str, Decisions] = field(default_factory=dict, hash=False)
    checked: tuple[Buffer, ...] = ()
    lasting: tuple[Buffer, ...] = ()

    @property
    def placing(self) -> bool:
        """Are contractions left to the backend: it places them, and nobody asked for an order of loops?"""
        return Product in self.places and not self.options.schedule.order

    @property
    def gathering(self) -> bool:
        """May contractions read rows that values say, each wherever it is: a processor's tiles do?"""
        return self.placing and Grid not in self.places

    @property
    def sharing(self) -> bool:
        """Are there threads to share loops, and a backend that has them do so?"""
        return Parallel in self.places and self.options.machine.cores > 1


@dataclass(frozen=True, slots=True)
class Stage:
    """A program between two passes: nests until buffers are inlined, kernels from then on, and what is known of it."""

    rematerialised: Rematerialised
    formed: tuple[Kernel, ...] | None = None
    verdicts: Mapping[Buffer, Verdict] = field(default_factory=dict, hash=False)
    #: The buffers that never hold -0.0, and those that are kept or given.
    unsigned: frozenset[Buffer] = frozenset()
    outside: frozenset[Buffer] = frozenset()
    plan: MemoryPlan | None = None
    #: The code of sweeps, by their numbers from 1 on.
    sweeps: tuple[Body, ...] = ()

    @property
    def nests(self) -> Sequence[Nest]:
        return self.rematerialised.nests

    @property
    def own(self) -> Collection[Buffer]:
        """The buffers between kernels that one of them alone touches."""
        return self.plan.own(self.kernels) if self.plan else ()

    @property
    def parts(self) -> Sequence[Kernel]:
        """What runs, in order, without the loops that several share: every nest, before kernels are formed."""
        if self.formed is not None:
            return self.formed
        return [Kernel(nest.remarks, (nest.stmt,), shared=shared_loops(nest)) for nest in self.nests]

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """What runs, in order."""
        return tuple(with_shared_loops(self.parts))


def shared_loops(nest: Nest) -> tuple[SharedLoop, ...]:
    """The loops that a nest shares with others."""
    return tuple((number, *loop) for number, loop in zip(nest.shared, nest.loops, strict=False))


def each_kernel(stage: Stage, change: Callable[[Body], Body]) -> Stage:
    """The stage with the statements of every kernel changed, but for those that are decided."""
    return each_kernel_knowing(stage, lambda body, _: change(body))


def each_kernel_knowing(
    stage: Stage, change: Callable[[Body, Collection[Buffer]], Body], some: Collection[Buffer] = ()
) -> Stage:
    """The stage with the statements of every kernel changed, by a rule that asks which buffers are among some."""
    bodies = per_template(
        stage.parts, lambda one, own: one.template if one.decided else change(one.template, own), some
    )
    return replace(stage, formed=tuple(map(Kernel.with_template, stage.parts, bodies)))


def where_placed(stage: Stage, task: Task, kind: type, change: Callable[[Body], Body]) -> Stage:
    """The stage with kernels changed, for a backend that can run what is decided of this kind."""
    return each_kernel(stage, change) if kind in task.places else stage


@dataclass(frozen=True, slots=True)
class Pass:
    """A pass by name. It says what it does in the first line of its docstring, and shows it in the rest."""

    name: str
    run: Callable[[Stage, Task], Stage]
