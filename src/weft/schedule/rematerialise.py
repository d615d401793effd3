"""Values that are cheap to compute are computed again late, not held until then.

    u[i] = …;  g[i] = u[i] * erf(u[i]);  y = w @ g;  …;  dw = dy @ g;  du[i] = dg[i] * (g[i] / u[i] + …)

becomes, where the second `…` is long and much is held in it,

    u[i] = …;  g[i] = u[i] * erf(u[i]);  y = w @ g;  …;  g.again[i] = u[i] * erf(u[i]);  dw = dy @ g.again;  …

so that of the two only `u` is alive in between. This is decided at the place where most bytes are held past large
products, in training between the loss and its gradient: what is read after it must be held there, or be computed from
what is. Bytes held and operations done again, so many to a byte, are made least together, by a cut through the graph of
what is computed from what (`min_cut.py`). Then comes the place where most is held now, as long as that saves a fair
part of it. Sums are never computed again, nor what is written in parts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate
from math import prod

from weft.loops import Buffer, Read, Role
from weft.loops.nests import Nest
from weft.loops.walk import rewritten, walk
from weft.ops import OPS, Call, Scalar
from weft.ops.dtypes import numpy_type
from weft.schedule.compile_options import CompileOptions
from weft.schedule.loop_tree import reuses
from weft.schedule.min_cut import END, Network


@dataclass(frozen=True, slots=True)
class Again:
    """Nests with some values computed again.

    `why`: what a copy takes. `often`: how often its values may be computed where they are read, rather than stored.
    `late`: what is written late though it could be earlier, copies and what is computed from them.
    """

    nests: Sequence[Nest]
    why: Mapping[Buffer, str] = field(default_factory=dict)
    often: Mapping[Buffer, int] = field(default_factory=dict)
    late: frozenset[Buffer] = frozenset()

    @property
    def copies(self) -> dict[Buffer, Buffer]:
        """Which buffer holds what another held."""
        targets = (nest.target for nest in self.nests)
        return {one: one.of for one in targets if one.role is Role.COPY and one.of is not None}


def again(nests: Sequence[Nest], outside: Collection[Buffer], options: CompileOptions) -> Again:
    """Compute values again where that saves memory; what is `outside` is in memory anyway."""
    found = Again(nests)
    while True:
        uses = _Uses(found, outside, options)
        place, most = uses.fullest()
        numbers, saved = _cheapest(uses, place)
        if not saved or saved < options.recompute_share * most:
            return replace(found, late=uses.late()) if found.copies else found
        found = _copied(uses, place, numbers)


class _Uses:
    """Where buffers are written and read."""

    def __init__(self, found: Again, outside: Collection[Buffer], options: CompileOptions) -> None:
        self.found, self.nests, self.outside, self.options = found, found.nests, outside, options
        self.inputs = [dict.fromkeys(read.buffer for read in nest.reads) for nest in self.nests]
        self.writers: dict[Buffer, list[int]] = {}
        self.readers: dict[Buffer, list[int]] = {}
        for number, nest in enumerate(self.nests):
            self.writers.setdefault(nest.target, []).append(number)
            for buffer in self.inputs[number]:
                self.readers.setdefault(buffer, []).append(number)
        #: How many large products there are up to each nest.
        large = partial(reuses, points=options.large_contraction_points, reuse=options.reuse)
        self.products = list(accumulate(nest.accumulates and large((nest.stmt,)) for nest in self.nests))

    def read(self, number: int) -> Sequence[int]:
        """The nests that read what a nest writes, in order."""
        return self.readers.get(self.nests[number].target, ())

    def held(self, buffer: Buffer) -> bool:
        """Is a buffer read past two large products, or in one past another: surely in another kernel?"""
        read = self.readers.get(buffer, [-1])[-1]
        return read >= 0 and self.products[read] > self.products[self.writers[buffer][-1]] + 1

    def size(self, buffer: Buffer) -> int:
        """The bytes it takes to hold a buffer; none if it is in memory anyway."""
        if buffer in self.outside or buffer not in self.writers:
            return 0
        return prod(buffer.shape) * numpy_type(buffer.dtype).itemsize

    def fullest(self) -> tuple[int, int]:
        """The last nest before which most bytes are held, written before it and read from it on, and how many."""
        changes = [0] * (len(self.nests) + 1)
        for buffer, (first, *_) in self.writers.items():
            if self.held(buffer):
                changes[first + 1] += self.size(buffer)
                changes[self.readers[buffer][-1] + 1] -= self.size(buffer)
        most, place = max((held, place) for place, held in enumerate(accumulate(changes)))
        return place, most

    def late(self) -> frozenset[Buffer]:
        """Copies and what is computed from them."""
        copies = self.found.copies.keys()
        reading = (nest.target for nest, inputs in zip(self.nests, self.inputs, strict=True) if copies & inputs.keys())
        return frozenset((*copies, *reading))


def _cheapest(uses: _Uses, place: int) -> tuple[list[int], int]:
    """Which nests to run again after a place, and how many bytes less are then held there."""
    able = _able(uses, place)
    late = [number for number in able if uses.read(number)[-1] >= place]
    network = Network()
    for number in able:
        _add(network, uses, able, place, number)
    near = network.near(2 * number for number in late)
    held = {point // 2 for point in near if point % 2 == 0 and point + 1 not in near}
    before, after = (sum(uses.size(uses.nests[number].target) for number in some) for some in (late, held))
    return [number for number in reversed(able) if 2 * number + 1 in near], before - after


def _add(network: Network, uses: _Uses, able: Mapping[int, int], place: int, number: int) -> None:
    """What a nest computes is held, or computed again at its price from what is held or computed again.

    Point `2 * number` says that it is there after the place, `2 * number + 1` that it is so by being computed again.
    """
    nest, worth = uses.nests[number], uses.options.recompute_operations
    network.edge(2 * number, 2 * number + 1, worth * uses.size(nest.target))
    network.edge(2 * number + 1, END, _price(nest) * prod(nest.target.shape))
    for buffer in uses.inputs[number]:
        first = uses.writers.get(buffer, [-1])[0]
        if first in able:
            network.edge(2 * number + 1, 2 * first)
        elif uses.size(buffer) and uses.readers[buffer][-1] < place:  # else it is held anyway
            network.edge(2 * number + 1, 2 * first)
            network.edge(2 * first, END, worth * uses.size(buffer))


def _able(uses: _Uses, place: int) -> dict[int, int]:
    """The nests that could run again after a place to some use, and before which nest at the latest; last ones first.

    They write every cell of a buffer once, all of it before anyone reads it, from what has not changed by then.
    """
    found: dict[int, int] = {}
    for number in reversed(range(place)):
        target, readers = uses.nests[number].target, uses.read(number)
        late = [reader for reader in readers if reader >= place]
        wanted = late[:1] or [found[reader] for reader in readers if reader in found]
        if not wanted or (late and not uses.held(target)) or target.role is Role.COPY:
            continue
        if uses.writers[target] != [number] or readers[0] <= number or not uses.nests[number].fills:
            continue
        writers = (writer for buffer in uses.inputs[number] for writer in uses.writers.get(buffer, ()))
        if not any(number < writer < max(wanted) for writer in writers):
            found[number] = max(wanted)
    return found


def _copied(uses: _Uses, place: int, numbers: Sequence[int]) -> Again:
    """The nests with some of them run again after a place, each just before it is needed there."""
    copies = {
        target: target.beside(Role.COPY, ".again") for target in (uses.nests[number].target for number in numbers)
    }
    before: dict[int, list[int]] = {}
    first: dict[int, int] = {}
    for number in reversed(numbers):
        first[number] = min(first.get(one, one) for one in uses.read(number) if one >= place or one in first)
        before.setdefault(first[number], []).insert(0, number)
    nests: list[Nest] = []
    for number, nest in enumerate(uses.nests):
        nests += [_reading(_writing(uses.nests[one], copies), copies) for one in before.get(number, ())]
        changes = number >= place and copies.keys() & uses.inputs[number].keys()
        nests.append(_reading(nest, copies) if changes else nest)
    why = {copies[uses.nests[number].target]: _how(uses, copies, number) for number in numbers}
    few = uses.options.recompute_inline
    often = {copies[uses.nests[number].target]: few // max(1, _price(uses.nests[number])) for number in numbers}
    known = uses.found
    return Again(nests, {**known.why, **why}, {**known.often, **often})


def _writing(nest: Nest, copies: Mapping[Buffer, Buffer]) -> Nest:
    return replace(nest, core=replace(nest.core, buffer=copies[nest.target]))


def _reading(nest: Nest, copies: Mapping[Buffer, Buffer]) -> Nest:
    """The nest with copies read where there are some."""

    def leaf(one: Scalar) -> Scalar | None:
        if isinstance(one, Read) and one.buffer in copies:
            return Read(copies[one.buffer], tuple([rewritten(index, leaf) for index in one.at]))
        return None

    return nest.mapped(lambda scalar: rewritten(scalar, leaf))


def _how(uses: _Uses, copies: Mapping[Buffer, Buffer], number: int) -> str:
    """What it takes to compute a copy, in words."""
    count = len(_calls(uses.nests[number]))
    names = " and ".join(f"`{copies.get(one, one).name}`" for one in uses.inputs[number])
    return f"not held but computed again: {count or 'no'} operation{'s' * (count != 1)}" + f" on {names}" * bool(names)


def _price(nest: Nest) -> int:
    """What the operations for one number count for."""
    return sum(OPS[call.op].price for call in _calls(nest))


def _calls(nest: Nest) -> list[Call]:
    return [one for one in walk(nest.core.value) if isinstance(one, Call)]
