"""Fusion: nests that touch the same cells at the same points of their loops run as one.

Two nests may share their outer loops if no dependence between them is turned around. Where one writes what the other
touches, that is plain if both name the shared loops alone in the same axes: they meet in a cell only at the same point,
where they still run in their order. Other subscripts are decided by isl (`dependence.py`). A nest joins the nearest
earlier kernel it shares data with, past kernels it has nothing to do with. Clearing a buffer waits for the first nest
that touches it and joins that; where their loops differ, it runs before everything else. What is to be written late
joins nothing from before its time. What may be joined is weighed (`fusion_cost.py`).

A kernel has no more than `kernel_operations`, so that a long program becomes many kernels, layers that are alike become
kernels that are alike, and the time all that follows takes grows with the program and no faster.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import partial

from weft.loops import Buffer
from weft.loops.effects import weight
from weft.schedule.compile_options import CompileOptions
from weft.schedule.fusion_cost import Scales
from weft.schedule.loop_tree import Level, Touched, names_in, reuses
from weft.schedule.nodes import Kernel
from weft.schedule.rename import new_names


def fuse(parts: Sequence[Kernel], late: Collection[Buffer] = (), options: CompileOptions | None = None) -> list[Kernel]:
    """Join kernels where that saves passes over memory: nests first, then what has become of them.

    What writes a buffer of `late` joins no kernel before the first that does.
    """
    options = options or CompileOptions()
    tiled = partial(reuses, points=options.contraction_points, reuse=options.reuse)
    found = [
        _Part(list(one.remarks), Level.of(one.body), set(names_in(one.body)), tiled(one.body), weight(one.body))
        for one in parts
    ]
    before = len(found) + 1
    while len(found) < before:
        before, fusing = len(found), _Fusing(late, Scales(options))
        for part in found:
            fusing.take(part)
        found = fusing.finished
    return [Kernel(tuple(part.remarks), part.level.body, part.why) for part in found]


@dataclass(slots=True, eq=False)
class _Part:
    """A kernel that may still grow."""

    remarks: list[str]
    level: Level
    names: set[str]
    tiled: bool
    length: int
    why: str = ""

    def join(self, other: _Part, scales: Scales) -> str:
        """Take another part in; or leave both as they are and say why not."""
        if self.length + other.length > scales.options.kernel_operations:
            return "the kernel would be too long"
        if self.tiled and other.tiled:
            return "both are products, and each has tiles of its own"
        names = new_names(other.names, self.names)
        why = self.level.join(other.level, names, scales.chained if self.tiled or other.tiled else scales.obstacle)
        if not why:
            self.remarks += other.remarks
            self.names.update(names.values())
            self.tiled |= other.tiled
            self.length += other.length
        return why


@dataclass(slots=True)
class _Fusing:
    late: Collection[Buffer]
    scales: Scales
    parts: list[_Part] = field(default_factory=list)
    #: The last kernel that writes a buffer, and all that touch it, the latest last.
    writers: dict[Buffer, int] = field(default_factory=dict)
    users: dict[Buffer, list[int]] = field(default_factory=dict)
    #: Buffers cleared and not touched since, and what was cleared before everything else.
    cleared: dict[Buffer, _Part] = field(default_factory=dict)
    first: list[_Part] = field(default_factory=list)
    #: The first kernel that writes something late.
    begun: int | None = None

    @property
    def finished(self) -> list[_Part]:
        return [*self.first, *self.cleared.values(), *self.parts]

    def take(self, part: _Part) -> None:
        """Take one more nest: hold it back if it clears a buffer, else give it what it needs cleared and add it."""
        touched = part.level.touched
        if _only_clears(touched) and not any(one in self.users or one in self.cleared for one in touched):
            self.cleared[next(iter(touched))] = part
            return
        for buffer in [one for one in touched if one in self.cleared]:
            clearing = self.cleared.pop(buffer)
            if clearing.join(part, self.scales):
                clearing.why = "cleared before everything else"
                self.first.append(clearing)
            else:
                part = clearing
        self._add(part)

    def _add(self, part: _Part) -> None:
        """Join the nest to a kernel, or make it one."""
        touched = part.level.touched
        earliest = self._earliest(touched)
        why = ""
        for number in sorted(self._sharing(touched, earliest), reverse=True)[: self.scales.options.fusion_tries]:
            obstacle = self.parts[number].join(part, self.scales)
            if not obstacle:
                self._note(touched, number)
                return
            why = why or obstacle
        part.why = why or ("shares no data with what runs before it" if self.parts else "")
        self.parts.append(part)
        self._note(touched, len(self.parts) - 1)

    def _earliest(self, touched: Touched) -> int:
        """The last kernel that must run before: what it may join lies there or later."""
        found = 0
        for buffer, accesses in touched.items():
            found = max(found, self.writers.get(buffer, 0))
            if any(one.writes for one in accesses):
                found = max([found, *self.users.get(buffer, ())[-1:]])
                if buffer in self.late:
                    self.begun = len(self.parts) if self.begun is None else self.begun
                    found = max(found, self.begun)
        return found

    def _sharing(self, touched: Touched, earliest: int) -> set[int]:
        """The latest kernels that touch something of it, from the earliest it may join on."""
        users = (
            number for buffer in touched for number in self.users.get(buffer, ())[-self.scales.options.fusion_tries :]
        )
        return {number for number in users if number >= earliest}

    def _note(self, touched: Touched, number: int) -> None:
        for buffer, accesses in touched.items():
            if any(one.writes for one in accesses):
                self.writers[buffer] = max(number, self.writers.get(buffer, 0))
            users = self.users.setdefault(buffer, [])
            at = bisect_left(users, number)
            if at == len(users) or users[at] != number:
                users.insert(at, number)


def _only_clears(touched: Touched) -> bool:
    return len(touched) == 1 and all(one.writes for accesses in touched.values() for one in accesses)
