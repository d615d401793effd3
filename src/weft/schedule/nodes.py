"""Kernels, and what is known of a program that is cut into them.

schedule = kernel … verdicts plan           kernels that run one after another; what is stored, and where
kernel   = line … stmt … why                statements that run as one, and why they were not joined to others
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.loops import Buffer, Program, Remark, Stmt
from weft.optimise.inline_decision import Verdict

if TYPE_CHECKING:
    from weft.schedule.memory import MemoryPlan


@dataclass(frozen=True, slots=True)
class Kernel:
    """Code that runs as one: the assignments it came from, each a line; its statements; why they joined no others.

    `plain` says why large contractions in it run as plain loops, where some do.
    """

    remarks: tuple[str, ...]
    body: tuple[Stmt, ...]
    why: str = ""
    plain: str = ""


@dataclass(frozen=True, slots=True)
class Schedule:
    """The kernels of a program as they run, and what was decided about every buffer."""

    kernels: tuple[Kernel, ...]
    verdicts: Mapping[Buffer, Verdict]
    plan: MemoryPlan


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
