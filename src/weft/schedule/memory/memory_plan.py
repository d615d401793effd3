"""Memory planning by liveness: one arena for all buffers that are not live out, whose memory is reused once they die.

A buffer is alive from the first kernel that touches it to the last. Buffers that are alive at once never overlap, but
for one that takes the memory of another in place, in the very kernel of its last use (`in_place.py`). Offsets are
multiples of `ALIGNMENT`, and so are the sizes counted. A buffer that may be read before the kernels have written it
depends on what it held before and stays outside the arena. Where kernels run at the same time, one that takes memory of
another has to wait for it: there the smallest buffers are given bytes that are nobody else's.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise, takewhile

import numpy as np
from numpy.typing import NDArray

from weft.columns import shortened, table
from weft.loops import Buffer, Role
from weft.loops.reaching_writes import Site, covered, sites
from weft.loops.walk import PathStep
from weft.schedule.kernel_templates import per_template, touched, touched_by_one
from weft.schedule.memory.in_place import takes_over
from weft.schedule.nodes import Kernel

#: A cache line, and the widest vector.
ALIGNMENT = 64

Numbers = NDArray[np.int64]
#: A live range: the first and the last kernel that touch something.
Life = tuple[int, int]


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Where buffers lie in the arena.

    `offsets` in bytes, of every buffer planned; what is not here has memory of its own. `size` is that of the arena,
    `peak` the bytes alive in the kernel with the most, a lower bound of it. `shares`: whose memory a buffer takes in
    place, in the kernel of its definition and the other's last use. `apart`: why a buffer is not planned.
    """

    offsets: Mapping[Buffer, int] = field(hash=False)
    size: int
    peak: int
    lives: Mapping[Buffer, Life] = field(hash=False)
    shares: Mapping[Buffer, Buffer] = field(hash=False)
    apart: Mapping[Buffer, str] = field(hash=False)

    @property
    def separate(self) -> int:
        """What the buffers would need without reuse."""
        return sum(map(_rounded, self.offsets))

    def own(self, kernels: Sequence[Kernel]) -> set[Buffer]:
        """The buffers planned that one of the kernels alone touches."""
        return touched_by_one(kernels).intersection(self.offsets)

    def with_private(self, kernels: Sequence[Kernel]) -> MemoryPlan:
        """The plan for kernels in some of which each thread has a buffer for itself, which lies where all had one."""
        new = {one.of: one for buffers in touched(kernels) for one in buffers if one.role is Role.PRIVATE}

        def named(one: Buffer) -> Buffer:
            before = one.of if one.role is Role.PRIVATE and one.of else one
            return new.get(before, before)

        return replace(
            self,
            offsets={named(one): offset for one, offset in self.offsets.items()},
            lives={named(one): life for one, life in self.lives.items()},
            shares={named(one): named(old) for one, old in self.shares.items()},
        )

    def cut(self, counts: Sequence[int]) -> MemoryPlan:
        """The plan for kernels each of which is cut into so many."""
        ends = [0, *accumulate(counts)]
        lives = {one: (ends[first], ends[last + 1] - 1) for one, (first, last) in self.lives.items()}
        return replace(self, lives=lives)

    def __str__(self) -> str:
        return self.show()

    def show(self) -> str:
        """The plan as a table."""
        header = ("buffer", "shape", "type", "bytes", "kernels", "offset", "shares with")
        rows = [
            (
                one.name,
                _shape(one),
                one.dtype,
                str(one.bytes),
                _span(self.lives[one]),
                str(offset),
                self._others(one),
            )
            for one, offset in self.offsets.items()
        ]
        rows += [(one.name, _shape(one), one.dtype, str(one.bytes), "", "", why) for one, why in self.apart.items()]
        total = f"{self.size} bytes; {self.peak} are alive at once, {self.separate} without reuse"
        return f"{table(header, rows)}\n{total}" if rows else total

    def _others(self, buffer: Buffer) -> str:
        start, end = self.offsets[buffer], self.offsets[buffer] + buffer.bytes
        names = [
            other.name
            for other, offset in self.offsets.items()
            if other != buffer and offset < end and start < offset + other.bytes and self.shares.get(buffer) != other
        ]
        taken = [f"{self.shares[buffer].name} (in place)"] if buffer in self.shares else []
        return shortened([*taken, *names], 3)


def planned(
    kernels: Sequence[Kernel], outside: Collection[Buffer], *, in_place: bool = False, own_bytes: int = 0
) -> MemoryPlan:
    """Plan the memory of kernels run in order, once; buffers in `outside` are live out or given and stay out of it.

    As many of the smallest buffers as take `own_bytes` together have memory that is never reused.
    `in_place` lets buffers take over memory where that saves any. What runs is `coalesced(kernels, plan.shares)`, for
    compiled code assumes that different buffers do not alias. A tensor may hold what an earlier run left, if nothing
    proves that it is written first; what is no tensor is made anew in every run, also under tests that prove nothing.
    """
    found = _sites(kernels)
    apart = {
        buffer: "may be read before it is written"
        for buffer, own in found.items()
        if buffer not in outside and buffer.role is Role.TENSOR and not covered(own)
    }
    lives = {
        buffer: (own[0].steps[0].position, own[-1].steps[0].position)
        for buffer, own in found.items()
        if buffer not in outside and buffer not in apart
    }
    alone = _blocks([[buffer] for buffer in lives], _with_own(lives, own_bytes, len(kernels)))
    if not in_place:
        return _planned(alone, lives, apart)
    shared = _planned(_blocks(_chains(found, lives), lives), lives, apart)
    if shared.size < _peak(alone):
        return shared
    return min(_planned(alone, lives, apart), shared, key=lambda one: one.size)


def _sites(kernels: Sequence[Kernel]) -> dict[Buffer, list[Site]]:
    """The accesses to every buffer, the first step to each the number of its kernel; they name what templates name."""
    found: dict[Buffer, list[Site]] = {}
    in_templates = per_template(kernels, lambda one, _: sites(one.template))
    for number, (kernel, own) in enumerate(zip(kernels, in_templates, strict=True)):
        for buffer, some in own.items():
            here = found.setdefault(kernel.renaming.buffer(buffer), [])
            here += [Site(one.access, (PathStep(number), *one.steps)) for one in some]
    return found


@dataclass(frozen=True, slots=True)
class _Allocation:
    """Buffers in the same bytes, each taking the memory of the one before it in place."""

    buffers: tuple[Buffer, ...]
    life: Life
    size: int


#: The orders in which blocks are given offsets; the order that needs least wins.
_ORDERS: tuple[Callable[[_Allocation], tuple[int, ...]], ...] = (
    lambda block: (-block.size, block.life[0]),
    lambda block: (block.life[0], -block.size),
    lambda block: (block.life[0] - block.life[1], -block.size),
)


def _blocks(chains: Sequence[Sequence[Buffer]], lives: Mapping[Buffer, Life]) -> list[_Allocation]:
    return [_Allocation(tuple(one), (lives[one[0]][0], lives[one[-1]][1]), _rounded(one[0])) for one in chains]


def _with_own(lives: Mapping[Buffer, Life], own_bytes: int, kernels: int) -> dict[Buffer, Life]:
    """The kernels for which buffers are to keep their memory: all of them, for the smallest."""
    smallest = sorted(lives, key=_rounded)
    ends = accumulate(map(_rounded, smallest))
    own = {one for one, end in zip(smallest, ends, strict=True) if end <= own_bytes}
    return {one: (0, kernels - 1) if one in own else life for one, life in lives.items()}


def _planned(blocks: Sequence[_Allocation], lives: Mapping[Buffer, Life], apart: Mapping[Buffer, str]) -> MemoryPlan:
    least = _peak(blocks)
    size, where = _placed(sorted(blocks, key=_ORDERS[0]))
    for order in _ORDERS[1:]:
        if size > least:
            size, where = min((size, where), _placed(sorted(blocks, key=order)), key=lambda one: one[0])
    shares = {new: old for block in blocks for old, new in pairwise(block.buffers)}
    alive = _peak(_blocks([block.buffers for block in blocks], lives))
    return MemoryPlan({one: where[one] for one in lives}, size, alive, lives, shares, apart)


def _chains(found: Mapping[Buffer, Sequence[Site]], lives: Mapping[Buffer, Life]) -> list[list[Buffer]]:
    """The buffers, each following one whose memory it can take over, where there is one."""
    chains: list[list[Buffer]] = []
    ending: dict[int, list[int]] = {}  # the chains by the kernel in which their last buffer dies
    for new, (birth, death) in sorted(lives.items(), key=lambda item: item[1][0]):  # stable: in order of appearance
        here = ending.get(birth, [])
        position = next((one for one in here if _follows(new, chains[one], found, lives)), len(chains))
        if position == len(chains):
            chains.append([])
        else:
            here.remove(position)
        chains[position].append(new)
        insort(ending.setdefault(death, []), position)
    return chains


def _follows(
    new: Buffer, chain: Sequence[Buffer], found: Mapping[Buffer, Sequence[Site]], lives: Mapping[Buffer, Life]
) -> bool:
    """Can a buffer take over from all of a chain that is still alive in the kernel where it is born?"""
    birth = lives[new][0]
    alive = takewhile(lambda old: lives[old][1] == birth, reversed(chain))
    there = _there(new, birth, found)
    return all(
        takes_over(there, _there(old, birth, found), private=lives[new] == lives[old] == (birth, birth))
        for old in alive
    )


def _there(buffer: Buffer, kernel: int, found: Mapping[Buffer, Sequence[Site]]) -> list[Site]:
    """The sites of a buffer in a kernel, with the steps inside it."""
    return [Site(site.access, site.steps[1:]) for site in found[buffer] if site.steps[0].position == kernel]


def _placed(blocks: Sequence[_Allocation]) -> tuple[int, dict[Buffer, int]]:
    """Best fit in this order: the size of the arena, and the offsets of the buffers."""
    where: dict[Buffer, int] = {}
    columns = np.zeros((4, len(blocks)), np.int64)  # birth, death, start and stop of those allocated, sorted by start
    for count, block in enumerate(blocks):
        births, deaths, starts, stops = columns[:, :count]
        meets = (births <= block.life[1]) & (deaths >= block.life[0])
        start = _smallest_gap(starts[meets], stops[meets], block.size)
        where |= dict.fromkeys(block.buffers, start)
        at = starts.searchsorted(start)
        columns[:, at + 1 : count + 1] = columns[:, at:count]
        columns[:, at] = (*block.life, start, start + block.size)
    return int(columns[3].max(initial=0)), where


def _smallest_gap(starts: Numbers, stops: Numbers, size: int) -> int:
    """The start of the smallest gap between live bytes that fits a size; after the last it is unbounded."""
    ends = np.maximum.accumulate(np.concatenate(([0], stops)))
    gaps = starts - ends[:-1]
    fits = np.flatnonzero(gaps >= size)
    return int(ends[fits[np.argmin(gaps[fits])]] if len(fits) else ends[-1])


def _peak(blocks: Sequence[_Allocation]) -> int:
    """The most bytes that are alive in one kernel."""
    change: dict[int, int] = {}
    for block in blocks:
        birth, death = block.life
        change[birth] = change.get(birth, 0) + block.size
        change[death + 1] = change.get(death + 1, 0) - block.size
    return max(accumulate(change[at] for at in sorted(change)), default=0)


def _rounded(buffer: Buffer) -> int:
    return -(-buffer.bytes // ALIGNMENT) * ALIGNMENT


def _shape(buffer: Buffer) -> str:
    return "×".join(map(str, buffer.shape))


def _span(life: Life) -> str:
    return f"{life[0]}–{life[1]}" if life[0] != life[1] else str(life[0])
