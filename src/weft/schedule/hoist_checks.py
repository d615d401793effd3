"""Checks are hoisted above side effects: a run that is refused has then written nothing that outlasts it.

    w.grad = 0;  ids.extremes = …;  w.grad += …    becomes    ids.extremes = …;  w.grad = 0;  w.grad += …

Kernels that find what is checked move to the front, with all they wait for, unless one of those writes what lasts.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from weft.loops import Buffer
from weft.loops.effects import read_in, written_in
from weft.schedule.nodes import Kernel


class _Touched(NamedTuple):
    """The buffers of a kernel."""

    reads: set[Buffer]
    writes: set[Buffer]

    def waits_for(self, earlier: _Touched) -> bool:
        """Must an earlier kernel stay before this one?"""
        return not (earlier.writes.isdisjoint(self.reads | self.writes) and earlier.reads.isdisjoint(self.writes))


def hoisted_checks(
    kernels: Sequence[Kernel], checked: Collection[Buffer], lasting: Collection[Buffer]
) -> tuple[Kernel, ...]:
    """The kernels in an order that finds what is checked before anything is written that lasts, where there is one."""
    early = early_kernels(kernels, checked, lasting)
    return tuple([kernels[at] for at in sorted(range(len(kernels)), key=lambda at: at not in early)])


def early_kernels(kernels: Sequence[Kernel], checked: Collection[Buffer], lasting: Collection[Buffer]) -> set[int]:
    """Which kernels can find what is checked before anything is written that lasts."""
    early: set[int] = set()
    if not checked or not lasting:
        return early
    touched = [_Touched(read_in(one.body), written_in(one.body)) for one in kernels]
    for at, one in enumerate(touched):
        if not one.writes.isdisjoint(checked):
            needed = _needed(at, touched)
            early |= needed if all(touched[one].writes.isdisjoint(lasting) for one in needed) else set()
    return early


def _needed(at: int, touched: Sequence[_Touched]) -> set[int]:
    """A kernel and those before it that it waits for, itself or by way of others."""
    found = {at}
    for earlier in range(at - 1, -1, -1):
        if any(touched[one].waits_for(touched[earlier]) for one in found):
            found.add(earlier)
    return found


class Checking(NamedTuple):
    """How many kernels run before what they found is checked; what is `late` is known only when all have run."""

    kernels: int = 0
    late: tuple[Buffer, ...] = ()


def checking(kernels: Sequence[Kernel], checked: Collection[Buffer], lasting: Collection[Buffer]) -> Checking:
    """When to check: after the last kernel that finds something to check before the first that writes what lasts."""
    writes = [written_in(one.body) for one in kernels] if checked else []
    quiet = next((at for at, one in enumerate(writes) if not one.isdisjoint(lasting)), len(writes))
    last = max((at for at, one in enumerate(writes[:quiet]) if not one.isdisjoint(checked)), default=-1)
    if quiet == len(writes):
        return Checking(0, tuple(checked))  # nothing lasts: all is known when all have run
    behind = set[Buffer]().union(*writes[last + 1 :])
    return Checking(last + 1, tuple(one for one in checked if one in behind))
