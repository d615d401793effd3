"""Where buffers lie: one piece of memory for all that nobody wants afterwards, used again when their values are dead.

A buffer is alive from the first kernel that touches it to the last. Two that are alive at once never overlap, but for
one that takes the memory of another in the very kernel where that one dies (`inplace.py`). Offsets are multiples of
`ALIGNMENT`, and so are the sizes counted. A buffer that may be read where the kernels have not written it depends on
what it held before and is left apart.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf, prod

from weft.loops import Buffer, Remark
from weft.ops.dtypes import numpy_type
from weft.schedule.cover import Site, covered, sites
from weft.schedule.fuse import Kernel
from weft.schedule.inplace import takes_over
from weft.schedule.table import shortened, table

#: A line of the cache, and as wide as vectors are.
ALIGNMENT = 64

#: The first and the last kernel that touch something.
Life = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Plan:
    """Where in one piece of memory buffers lie.

    `offsets` in bytes, of every buffer planned; what is not here has memory of its own. `size` is what all need
    together, `peak` what is alive in the kernel with the most, and so the least possible. `shares`: whose memory a
    buffer takes over, in the kernel where it is born and the other dies. `apart`: why a buffer is not planned.
    """

    offsets: Mapping[Buffer, int]
    size: int
    peak: int
    lives: Mapping[Buffer, Life]
    shares: Mapping[Buffer, Buffer]
    apart: Mapping[Buffer, str]

    @property
    def separate(self) -> int:
        """What the buffers would need if none used memory of another."""
        return sum(map(_rounded, self.offsets))

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
                str(size_of(one)),
                _span(self.lives[one]),
                str(offset),
                self._others(one),
            )
            for one, offset in self.offsets.items()
        ]
        rows += [(one.name, _shape(one), one.dtype, str(size_of(one)), "", "", why) for one, why in self.apart.items()]
        total = f"{self.size} bytes; {self.peak} are alive at once, apart they would be {self.separate}"
        return f"{table(header, rows)}\n{total}" if rows else total

    def _others(self, buffer: Buffer) -> str:
        start, end = self.offsets[buffer], self.offsets[buffer] + size_of(buffer)
        names = [
            other.name
            for other, offset in self.offsets.items()
            if other != buffer and offset < end and start < offset + size_of(other) and self.shares.get(buffer) != other
        ]
        taken = [f"{self.shares[buffer].name} (in place)"] if buffer in self.shares else []
        return shortened([*taken, *names], 3)


def plan(kernels: Sequence[Kernel], outside: Collection[Buffer], *, in_place: bool = False) -> Plan:
    """Plan the memory of kernels run in order, once; buffers in `outside` are kept or given and stay out of it.

    `in_place` lets buffers take over memory where that saves any. What to run is then `as_one(kernels, plan.shares)`,
    for compiled code may count on different buffers never to overlap.
    """
    found = sites([Remark("", kernel.body) for kernel in kernels])
    apart = {
        buffer: "may be read before it is written"
        for buffer, own in found.items()
        if buffer not in outside and not covered(own)
    }
    lives = {
        buffer: (own[0].steps[0].number, own[-1].steps[0].number)
        for buffer, own in found.items()
        if buffer not in outside and buffer not in apart
    }
    alone = [[buffer] for buffer in lives]
    plans = [_planned(alone, lives, apart)]
    if in_place:
        plans.append(_planned(_chains(found, lives), lives, apart))
    return min(plans, key=lambda one: one.size)


def size_of(buffer: Buffer) -> int:
    """The bytes of a buffer."""
    return prod(buffer.shape) * numpy_type(buffer.dtype).itemsize


@dataclass(frozen=True, slots=True)
class _Block:
    """Buffers that lie in the same bytes, each taking over from the one before it."""

    buffers: tuple[Buffer, ...]
    life: Life
    size: int

    def meets(self, other: _Block) -> bool:
        return self.life[0] <= other.life[1] and other.life[0] <= self.life[1]


#: In which order blocks are given their place; the order that needs least wins.
_ORDERS: tuple[Callable[[_Block], tuple[int, ...]], ...] = (
    lambda block: (-block.size, block.life[0]),
    lambda block: (block.life[0], -block.size),
    lambda block: (block.life[0] - block.life[1], -block.size),
)


def _planned(chains: Sequence[Sequence[Buffer]], lives: Mapping[Buffer, Life], apart: Mapping[Buffer, str]) -> Plan:
    blocks = [_Block(tuple(chain), (lives[chain[0]][0], lives[chain[-1]][1]), _rounded(chain[0])) for chain in chains]
    placed, size = min((_placed(sorted(blocks, key=order)) for order in _ORDERS), key=lambda one: one[1])
    where = {buffer: offset for block, offset in placed.items() for buffer in block.buffers}
    shares = {new: old for chain in chains for old, new in pairwise(chain)}
    return Plan({one: where[one] for one in lives}, size, _peak(blocks), lives, shares, apart)


def _chains(found: Mapping[Buffer, Sequence[Site]], lives: Mapping[Buffer, Life]) -> list[list[Buffer]]:
    """The buffers, each following one whose memory it can take over, where there is one."""
    chains: list[list[Buffer]] = []
    for new, (birth, _) in sorted(lives.items(), key=lambda item: item[1][0]):  # stable: in order of appearance
        for chain in chains:
            if lives[chain[-1]][1] == birth and all(_follows(new, old, found, lives) for old in chain):
                chain.append(new)
                break
        else:
            chains.append([new])
    return chains


def _follows(new: Buffer, old: Buffer, found: Mapping[Buffer, Sequence[Site]], lives: Mapping[Buffer, Life]) -> bool:
    """Is a buffer dead by the time another is born, or can that one take over from it in the kernel where they meet?"""
    birth = lives[new][0]
    if lives[old][1] < birth:
        return True
    there = [[_inside(site) for site in found[one] if site.steps[0].number == birth] for one in (new, old)]
    return takes_over(*there, passing=lives[new] == lives[old] == (birth, birth))


def _inside(site: Site) -> Site:
    """A site as seen from its kernel."""
    return Site(site.access, site.steps[1:])


def _placed(blocks: Sequence[_Block]) -> tuple[dict[_Block, int], int]:
    """Offsets for blocks in this order, each in the smallest gap that holds it, and what all need."""
    placed: dict[_Block, int] = {}
    for block in blocks:
        busy = sorted((offset, offset + other.size) for other, offset in placed.items() if other.meets(block))
        placed[block] = min(_gaps(busy, block.size))[1]
    return placed, max((offset + block.size for block, offset in placed.items()), default=0)


def _gaps(busy: Sequence[tuple[int, int]], size: int) -> Iterator[tuple[float, int]]:
    """Where there is room between busy bytes, and how much; after the last there is no end to it."""
    end = 0
    for start, stop in busy:
        if start - end >= size:
            yield start - end, end
        end = max(end, stop)
    yield inf, end


def _peak(blocks: Sequence[_Block]) -> int:
    """The most bytes that are alive in one kernel."""
    births = {block.life[0] for block in blocks}
    return max((sum(one.size for one in blocks if one.life[0] <= at <= one.life[1]) for at in births), default=0)


def _rounded(buffer: Buffer) -> int:
    return -(-size_of(buffer) // ALIGNMENT) * ALIGNMENT


def _shape(buffer: Buffer) -> str:
    return "×".join(map(str, buffer.shape))


def _span(life: Life) -> str:
    return f"{life[0]}–{life[1]}" if life[0] != life[1] else str(life[0])
