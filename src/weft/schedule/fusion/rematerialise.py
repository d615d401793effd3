"""Rematerialisation: values that are cheap to compute are computed a second time late, not kept alive until then.

    u[i] = …;  g[i] = u[i] * erf(u[i]);  y = w @ g;  …;  dw = dy @ g;  du[i] = dg[i] * (g[i] / u[i] + …)

becomes, where the second `…` is long and memory is full in it,

    u[i] = …;  g[i] = u[i] * erf(u[i]);  y = w @ g;  …;  g.again[i] = u[i] * erf(u[i]);  dw = dy @ g.again;  …

so that of the two only `u` is alive in between. This is decided at the program point of peak memory, counting what is
alive across large contractions; in training that lies between the loss and its gradient. What is read after that point
must be alive there, or be recomputed from what is. Bytes alive plus operations recomputed, so many to a byte, are
minimal: a minimum cut through the dependence graph (`min_cut.py`). Then comes the point where memory peaks now, as long
as that saves a fair share of it. Reductions are never recomputed, nor what several nests write.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate
from math import prod

from weft.loops import Buffer, Read, Role, Store
from weft.loops.nests import Nest
from weft.loops.walk import rewritten, walk
from weft.ops import OPS, Call, Scalar
from weft.schedule.compile_options import CompileOptions
from weft.schedule.fusion.min_cut import SINK, Network
from weft.schedule.loop_tree import reuses

#: What is not made a second time: copies made so, and those that are stored wherever they are read, a pass over memory.
_STAYING = (Role.COPY, Role.NARROW, Role.TURNED)


@dataclass(frozen=True, slots=True)
class Rematerialised:
    """Nests with some values rematerialised, each into a copy of its buffer.

    `why`: what a copy costs. `often`: how many reads of a copy may be inlined rather than stored.
    `late`: what is written late though it could be earlier, copies and what is computed from them.
    """

    nests: tuple[Nest, ...]
    why: Mapping[Buffer, str] = field(default_factory=dict, hash=False)
    often: Mapping[Buffer, int] = field(default_factory=dict, hash=False)
    late: frozenset[Buffer] = frozenset()

    @property
    def copies(self) -> dict[Buffer, Buffer]:
        """The copies, and the buffer each is a copy of."""
        targets = (nest.target for nest in self.nests)
        return {one: one.of for one in targets if one.role is Role.COPY and one.of is not None}

    def with_nests(self, nests: Sequence[Nest]) -> Rematerialised:
        """The same of other nests, some of whose copies may be gone."""
        known = {nest.target for nest in nests}
        why = {one: each for one, each in self.why.items() if one in known}
        often = {one: each for one, each in self.often.items() if one in known}
        return Rematerialised(tuple(nests), why, often, self.late)


def rematerialised(
    nests: Sequence[Nest], outside: Collection[Buffer], options: CompileOptions, free_bytes: int = 0
) -> Rematerialised:
    """Rematerialise where that lowers peak memory, if it is above `free_bytes`; what is `outside` is there anyway."""
    found = Rematerialised(tuple(nests))
    while True:
        uses = _Lifetimes(found, outside, options)
        point, most = uses.peak()
        chosen, saved = _cheapest(uses, point)
        if not saved or most <= free_bytes or saved < options.recompute_share * most:
            return replace(found, late=uses.late()) if found.copies else found
        found = _copied(uses, point, chosen)


class _Lifetimes:
    """Which nests write and read each buffer, and from when to when it is alive."""

    def __init__(self, found: Rematerialised, outside: Collection[Buffer], options: CompileOptions) -> None:
        self.found, self.nests, self.outside, self.options = found, found.nests, outside, options
        self.inputs = [dict.fromkeys(read.buffer for read in nest.reads) for nest in self.nests]
        self.writers: dict[Buffer, list[int]] = {}
        self.readers: dict[Buffer, list[int]] = {}
        for index, nest in enumerate(self.nests):
            self.writers.setdefault(nest.target, []).append(index)
            for buffer in self.inputs[index]:
                self.readers.setdefault(buffer, []).append(index)
        #: How many large contractions there are up to each nest.
        large = partial(reuses, points=options.large_contraction_points, reuse=options.reuse)
        self.products = list(accumulate(nest.accumulates and large((nest.stmt,)) for nest in self.nests))

    def uses_of(self, index: int) -> Sequence[int]:
        """The nests that read what a nest writes, in order."""
        return self.readers.get(self.nests[index].target, ())

    def begins(self, index: int) -> int:
        """The first of the nests that share a loop with one."""
        while (
            index and self.nests[index].shared[:1] and self.nests[index - 1].shared[:1] == self.nests[index].shared[:1]
        ):
            index -= 1
        return index

    def lives_long(self, buffer: Buffer) -> bool:
        """Is a buffer alive across two large contractions, or across one into another: surely in another kernel?"""
        read = self.readers.get(buffer, [-1])[-1]
        return read >= 0 and self.products[read] > self.products[self.writers[buffer][-1]] + 1

    def size(self, buffer: Buffer) -> int:
        """The bytes it takes to keep a buffer alive; none if it is in memory anyway, or a copy of what is given."""
        if buffer in self.outside or buffer not in self.writers or self._is_given(buffer):
            return 0
        return buffer.bytes

    def _is_given(self, buffer: Buffer) -> bool:
        """Are its cells those of something that nobody writes? Whoever reads it may read that."""
        core = self.nests[self.writers[buffer][0]].core
        only = len(self.writers[buffer]) == 1 and isinstance(core, Store)
        return only and isinstance(core.value, Read) and core.value.buffer not in self.writers

    def peak(self) -> tuple[int, int]:
        """The last nest before which most bytes are alive, written before it and read from it on, and how many."""
        changes = [0] * (len(self.nests) + 1)
        for buffer, (first, *_) in self.writers.items():
            if self.lives_long(buffer):
                changes[first + 1] += self.size(buffer)
                changes[self.readers[buffer][-1] + 1] -= self.size(buffer)
        most, point = max((alive, point) for point, alive in enumerate(accumulate(changes)))
        return point, most

    def late(self) -> frozenset[Buffer]:
        """Copies and what is computed from them."""
        copies = self.found.copies.keys()
        reading = (nest.target for nest, inputs in zip(self.nests, self.inputs, strict=True) if copies & inputs.keys())
        return frozenset((*copies, *reading))


def _cheapest(uses: _Lifetimes, point: int) -> tuple[list[int], int]:
    """Which nests to recompute after a program point, and how many bytes less are then alive there."""
    candidates = _candidates(uses, point)
    late = [index for index in candidates if uses.uses_of(index)[-1] >= point]
    network = Network()
    for index in candidates:
        _add(network, uses, candidates, point, index)
    chosen = network.source_side(2 * index for index in late)
    alive = {node // 2 for node in chosen if node % 2 == 0 and node + 1 not in chosen}
    before, after = (sum(uses.size(uses.nests[index].target) for index in some) for some in (late, alive))
    return [index for index in reversed(candidates) if 2 * index + 1 in chosen], before - after


def _add(network: Network, uses: _Lifetimes, candidates: Mapping[int, int], point: int, index: int) -> None:
    """What a nest writes is kept alive across the point, or recomputed at its price from what is available there.

    Node `2 * index` on the source side says: available after the point; `2 * index + 1`: recomputed for that.
    """
    nest, worth = uses.nests[index], uses.options.recompute_operations
    network.edge(2 * index, 2 * index + 1, worth * uses.size(nest.target))
    network.edge(2 * index + 1, SINK, _price(nest) * prod(nest.target.shape))
    for buffer in uses.inputs[index]:
        first = uses.writers.get(buffer, [-1])[0]
        if first in candidates:
            network.edge(2 * index + 1, 2 * first)
        elif uses.size(buffer) and uses.readers[buffer][-1] < point:  # else it is alive anyway
            network.edge(2 * index + 1, 2 * first)
            network.edge(2 * first, SINK, worth * uses.size(buffer))


def _candidates(uses: _Lifetimes, point: int) -> dict[int, int]:
    """The nests that could usefully be recomputed after a point, and before which nest at the latest; last ones first.

    They write every cell of a buffer once, all of it before anyone reads it, from what has not changed by then.
    """
    found: dict[int, int] = {}
    for index in reversed(range(point)):
        target, readers = uses.nests[index].target, uses.uses_of(index)
        late = [reader for reader in readers if reader >= point]
        wanted = late[:1] or [found[reader] for reader in readers if reader in found]
        if not wanted or (late and not uses.lives_long(target)) or target.role in _STAYING:
            continue
        if uses.writers[target] != [index] or readers[0] <= index or not uses.nests[index].fills:
            continue
        if uses.nests[index].shared:  # it would run through its recurrence again
            continue
        writers = (writer for buffer in uses.inputs[index] for writer in uses.writers.get(buffer, ()))
        if not any(index < writer < max(wanted) for writer in writers):
            found[index] = max(wanted)
    return found


def _copied(uses: _Lifetimes, point: int, chosen: Sequence[int]) -> Rematerialised:
    """The nests with some of them recomputed after a point, each just before its first use there."""
    copies = {target: target.beside(Role.COPY, ".again") for target in (uses.nests[index].target for index in chosen)}
    before: dict[int, list[int]] = {}
    first_use: dict[int, int] = {}
    for index in reversed(chosen):
        late = (one for one in uses.uses_of(index) if one >= point or one in first_use)
        first_use[index] = min(uses.begins(first_use.get(one, one)) for one in late)
        before.setdefault(first_use[index], []).insert(0, index)
    nests: list[Nest] = []
    for index, nest in enumerate(uses.nests):
        nests += [_reading(_writing(uses.nests[one], copies), copies) for one in before.get(index, ())]
        changes = index >= point and copies.keys() & uses.inputs[index].keys()
        nests.append(_reading(nest, copies) if changes else nest)
    why = {copies[uses.nests[index].target]: _how(uses, copies, index) for index in chosen}
    few = uses.options.recompute_inline
    often = {copies[uses.nests[index].target]: few // max(1, _price(uses.nests[index])) for index in chosen}
    known = uses.found
    return Rematerialised(tuple(nests), {**known.why, **why}, {**known.often, **often})


def _writing(nest: Nest, copies: Mapping[Buffer, Buffer]) -> Nest:
    return replace(nest, core=replace(nest.core, buffer=copies[nest.target]))


def _reading(nest: Nest, copies: Mapping[Buffer, Buffer]) -> Nest:
    """The nest with copies read where there are some."""

    def leaf(one: Scalar) -> Scalar | None:
        if isinstance(one, Read) and one.buffer in copies:
            return Read(copies[one.buffer], tuple([rewritten(index, leaf) for index in one.at]))
        return None

    return nest.mapped(lambda scalar: rewritten(scalar, leaf))


def _how(uses: _Lifetimes, copies: Mapping[Buffer, Buffer], index: int) -> str:
    """What it takes to compute a copy, in words."""
    count = len(_calls(uses.nests[index]))
    names = " and ".join(f"`{copies.get(one, one).name}`" for one in uses.inputs[index])
    return f"recomputed, not kept alive: {count or 'no'} operation{'s' * (count != 1)}" + f" on {names}" * bool(names)


def _price(nest: Nest) -> int:
    """What the operations for one cell cost."""
    return sum(OPS[call.op].price for call in _calls(nest))


def _calls(nest: Nest) -> list[Call]:
    return [one for one in walk(nest.core.value) if isinstance(one, Call)]
