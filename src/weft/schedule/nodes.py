"""Kernels, and what is known of a program that is cut into them.

schedule = kernel … verdicts plan           kernels that run one after another; what is stored, and where
kernel   = line … stmt … why renaming       statements that run as one, and why they were not joined to others
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING, TypeAlias

from weft.lazy import lazy_property
from weft.loops import Buffer, For, Program, Remark, Stmt
from weft.loops.walk import Body
from weft.optimise.inline_decision import Verdict
from weft.schedule.alpha_renaming import IDENTITY, AlphaRenaming
from weft.schedule.loop_tree import bound_names, new_names, renamed

if TYPE_CHECKING:
    from weft.schedule.memory.memory_plan import MemoryPlan


#: A loop around several kernels: a number, its name and size.
SharedLoop: TypeAlias = tuple[int, str, int]


@dataclass(frozen=True)
class Kernel:
    """Code that runs as one: the assignments it came from, each a line; its statements; why they joined no others.

    Its statements are those of a `template`, which kernels that are alike share, under its own names (`renaming`).
    `plain` says why large contractions in it run as plain loops, where some do. Until kernels are fused, loops that
    several of them share stand in `shared`, outermost first and each with a number, and not in the body; afterwards
    they are a `recurrence`. At most so many `threads` share its loops, 0 stands for as many as the process may have.
    How the loops of one that is `decided` run is not left to passes. Those of one `sweep` follow each other, until its
    code takes their place.
    """

    remarks: tuple[str, ...]
    template: Body
    why: str = ""
    plain: str = ""
    shared: tuple[SharedLoop, ...] = ()
    recurrence: bool = False
    threads: int = 0
    renaming: AlphaRenaming = IDENTITY
    decided: bool = False
    sweep: int = 0

    @lazy_property
    def body(self) -> Body:
        """Its statements."""
        return self.renaming.applied(self.template)

    def with_body(self, body: Body) -> Kernel:
        """It with other statements."""
        return replace(self, template=body, renaming=IDENTITY)

    def with_template(self, template: Body) -> Kernel:
        """It with what became of its template."""
        return self if template is self.template else replace(self, template=template)


@dataclass(frozen=True, slots=True)
class Schedule:
    """The kernels of a program as they run, and what was decided about every buffer."""

    kernels: tuple[Kernel, ...]
    verdicts: Mapping[Buffer, Verdict] = field(hash=False)
    plan: MemoryPlan


def with_shared_loops(
    kernels: Iterable[Kernel], joined: Callable[[Sequence[Kernel]], Sequence[Kernel]] = list, depth: int = 0
) -> list[Kernel]:
    """The kernels with those that share a loop as one, after `joined` has joined what runs in its iterations."""
    done: list[Kernel] = []
    for number, run in groupby(kernels, lambda one: one.shared[depth] if len(one.shared) > depth else None):
        inside = list(run)
        if number is None:
            done += inside
            continue
        parts = joined(with_shared_loops(inside, joined, depth + 1))
        remarks = dict.fromkeys(line for one in parts for line in one.remarks)
        loop = For(number[1], number[2], in_sequence([one.body for one in parts], number[1]))
        done.append(Kernel(tuple(remarks), (loop,), shared=inside[0].shared[:depth], recurrence=True))
    return done


def in_sequence(bodies: Iterable[Body], *loops: str) -> Body:
    """Blocks one after another, in some loops, no two loops or variables of theirs called alike."""
    taken, done = set(loops), list[Stmt]()
    for body in bodies:
        names = new_names(bound_names(body), taken)
        taken.update(names.values())
        done += renamed(body, names) if any(old != new for old, new in names.items()) else body
    return tuple(done)


def as_program(kernels: Iterable[Kernel]) -> Program:
    """The kernels one after another, each below the assignments it came from."""
    return Program(tuple(Remark("\n".join(one.remarks), one.body) for one in kernels))


def as_kernels(program: Program) -> tuple[Kernel, ...]:
    """Every assignment of a program as a kernel of its own; remarks around several of them are left out."""
    return tuple(kernel for stmt in program.body for kernel in _kernels(stmt))


def _kernels(stmt: Stmt) -> Iterator[Kernel]:
    if not isinstance(stmt, Remark):
        yield Kernel((), (stmt,))
    elif any(isinstance(one, Remark) for one in stmt.body):
        for one in stmt.body:
            yield from _kernels(one)
    else:
        yield Kernel(tuple(stmt.text.splitlines()), stmt.body)
