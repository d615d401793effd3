"""The inlining decision: which buffers are virtual, computed where they are read instead of stored, and why.

A buffer is virtual when it is not live out of the program, all its writes come before its reads, the writes can be
solved for the indices read, what it is computed from has not changed by then, and no cell would be computed more often
than `max_visits` times. Copies and constants cost nothing to recompute. Where a nest would get longer than `longest` by
all that is inlined into it, the longest of that is stored after all: however long a program is, its nests are not. Of
several contractions as large as `tiled` all but one are stored: each has tiles of its own. So is the operand of a
function that is computed by functions, where their latency takes longer than memory (`latency.py`), and a contraction
whose cells are scattered, or all summed up: it would have no tiles, or one thread. The points of a contraction run in
any order, so what it reads is read at each of them: it is stored, unless it is computed as it is packed
(`prologue.py`).
"""

from __future__ import annotations

from bisect import bisect
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product
from math import prod

from weft.affine import Affine, are_affine
from weft.loops.contraction import Contraction
from weft.loops.legality import points
from weft.loops.nests import Nest, common_loops
from weft.loops.nodes import Buffer, Cast, Read, Role, Store, Update
from weft.loops.walk import Loop, free, mentioned, substituted, walk
from weft.machine import COMMON, Machine
from weft.ops import Call, Scalar
from weft.optimise.distribute import comes_later
from weft.optimise.gather import compares
from weft.optimise.inline import InverseAccess, invert_access
from weft.optimise.latency import chain, pass_ns, waiting_ns
from weft.optimise.loop_order import sums_inside
from weft.optimise.prologue import joined, placed
from weft.optimise.single_source import is_from_one, price_of
from weft.optimise.summed_products import Alone, axes_added_up, leaves_few_programs

#: A one-hot is searched through so many copies: however long their chain is, it is not walked again from each of them.
_COPIES = 16


@dataclass(frozen=True, slots=True)
class Settings:
    """How freely buffers become virtual.

    `max_visits`: how often a cell may be computed instead of stored. `max_tracing_dim`: how far loops are traced where
    visits cannot be counted from the index maps alone. `device_only`: with False, every buffer is stored. `longest`:
    how many statements and operations a nest may have with all that is inlined into it. `tiled`: from so many points on
    a contraction has tiles of its own; `prologue`: so many operations may compute a factor as it is packed. `machine`:
    its latencies and bandwidth. `chunk_ns`: what is worth a thread. `gathers`: tiles may read rows that values say.
    `again`: so many operations in all may compute a value from one as large wherever it is read, which moves fewer
    bytes than storing it. `alone`: what leaves a contraction to few programs, where those share it.
    """

    max_visits: int = 1
    max_tracing_dim: int = 5
    device_only: bool = True
    longest: int = 128
    tiled: int = 1 << 10
    prologue: int = 8
    machine: Machine = COMMON
    chunk_ns: int = 2000
    gathers: bool = False
    again: int = 0
    alone: Alone | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """Is a buffer stored, and why."""

    stored: bool
    why: str


def decide(
    nests: Sequence[Nest],
    kept: Mapping[Buffer, str],
    settings: Settings = Settings(),
    forced: Collection[Buffer] = (),
    often: Mapping[Buffer, int] | None = None,
) -> dict[Buffer, Verdict]:
    """A verdict on every buffer.

    `kept` says why some must be stored; `forced` are recomputed at any cost, those of `often` so many times, where no
    reduction reads them.
    """
    uses = _Uses(nests)
    forced = frozenset([*forced, *(buffer for buffer in uses.all if buffer.role is Role.EXPANDED)])
    verdicts: dict[Buffer, Verdict] = {}
    deciding = _Deciding(uses, kept, settings, forced, often or {}, verdicts)
    for buffer in sorted(uses.all, key=lambda one: -uses.writes.get(one, [-1])[-1]):  # readers are decided first
        verdicts[buffer] = deciding.verdict(buffer)
        if not verdicts[buffer].stored:
            deciding.inline(buffer)
    virtual = {buffer for buffer, one in verdicts.items() if not one.stored and buffer not in forced}
    verdicts |= {one: Verdict(True, why) for one, why in _too_large(nests, virtual, settings).items()}
    return {buffer: verdicts[buffer] for buffer in uses.all}


@dataclass(frozen=True, slots=True)
class _Size:
    """The size of an inlined computation: its statements and operations, contractions, and functions in a chain."""

    length: int = 0
    products: int = 0
    chain: int = 0

    def __add__(self, other: _Size) -> _Size:
        return _Size(self.length + other.length, self.products + other.products, max(self.chain, other.chain))


def _too_large(nests: Sequence[Nest], virtual: Collection[Buffer], settings: Settings) -> dict[Buffer, str]:
    """The virtual buffers to be stored after all, and why, so that no nest gets too large by what is inlined into it.

    Storing one changes nothing for the others: they are computed earlier, or as before.
    """
    stored: dict[Buffer, str] = {}
    #: The size of each buffer that is still virtual.
    inside: dict[Buffer, _Size] = {}
    for nest in nests:
        times = Counter(read.buffer for read in nest.reads if read.buffer in inside)
        for one in [one for one in times if _waits(settings.machine, nest, one, inside[one].chain)]:
            stored[one] = "functions would wait for it"
            del times[one], inside[one]
        length = _length(nest) + sum(inside[one].length * count for one, count in times.items())
        products = bool(placed(nest, settings.tiled, settings.gathers)) + sum(inside[one].products for one in times)
        for one in sorted(times, key=lambda one: (-inside[one].products, -inside[one].length)):
            own = inside[one]
            competes = own.products and products > 1
            if competes or length > settings.longest:
                stored[one] = "beside another contraction" if competes else "its nest would be too long"
                length, products = length - times[one] * own.length, products - own.products
                del inside[one]
        if nest.target in virtual and nest.target not in stored:
            functions = chain(nest.core.value, {one: inside[one].chain for one in times if one in inside})
            inside[nest.target] = inside.get(nest.target, _Size()) + _Size(length, products, functions)
    return stored


def _waits(machine: Machine, nest: Nest, buffer: Buffer, before: int) -> bool:
    """Does the latency of the functions that compute a buffer cost a nest more than memory would?"""
    if not before:
        return False
    alone, both = chain(nest.core.value, {}), chain(nest.core.value, {buffer: before})
    return waiting_ns(machine, before, alone, both) * points(nest.loops) > pass_ns(machine, buffer)


def _length(nest: Nest) -> int:
    """The statements and operations that computing one cell of a nest takes."""
    calls = sum(isinstance(one, Call) for one in walk(nest.core.value))
    indexed = mentioned(*nest.core.at)
    return 1 + calls + len(nest.tests) + sum(name not in indexed for name, _ in nest.loops)


class _Uses:
    """Which nests write and read each buffer, by their index in the program."""

    def __init__(self, nests: Sequence[Nest]) -> None:
        self.nests = nests
        self.writes: dict[Buffer, list[int]] = {}
        self.reads: dict[Buffer, list[tuple[int, Read]]] = {}
        for index, nest in enumerate(nests):
            for read in nest.reads:
                self.reads.setdefault(read.buffer, []).append((index, read))
            self.writes.setdefault(nest.target, []).append(index)

    @property
    def all(self) -> dict[Buffer, None]:
        return dict.fromkeys([*self.reads, *self.writes])


@dataclass(slots=True)
class _Deciding:
    uses: _Uses
    kept: Mapping[Buffer, str]
    settings: Settings
    forced: frozenset[Buffer]
    often: Mapping[Buffer, int]
    verdicts: Mapping[Buffer, Verdict]
    visits: dict[Buffer, int] = field(default_factory=dict)
    #: The last nest into which a virtual buffer is inlined, and whether that always reads the very cell it writes.
    last: dict[Buffer, int] = field(default_factory=dict)
    aligned: dict[Buffer, bool] = field(default_factory=dict)
    #: The contractions that are placed, with what is inlined into them so far, and those that read a buffer.
    placed: dict[int, Nest] = field(default_factory=dict)
    factors: dict[Buffer, dict[int, None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for index, nest in enumerate(self.uses.nests):
            if placed(nest, self.settings.tiled, self.settings.gathers):
                self._place(index, nest)

    def verdict(self, buffer: Buffer) -> Verdict:
        obstacle = self._obstacle(buffer)
        if obstacle:
            return Verdict(True, obstacle)
        reads = [(index, read) for index, read in self.uses.reads.get(buffer, []) if self._is_computed(index)]
        if not reads:
            return Verdict(False, "nobody reads it")
        self.last[buffer] = max(self._evaluated(index) for index, _ in reads)
        self.aligned[buffer] = all(self._keeps_cell(index, read) for index, read in reads)
        changed = self._changed(buffer)
        if changed:
            return Verdict(True, f"`{changed}` changes before it is read")
        self.visits[buffer] = sum(self._visits(index, read) for index, read in reads)
        if buffer in self.forced:
            return Verdict(
                False, "part of a long expression" if buffer.role is Role.EXPANDED else "recomputed, as asked"
            )
        if (product := self._product(buffer)) is not None:
            readers = [self.uses.nests[self._evaluated(index)] for index, _ in reads]
            if any(map(_scatters, readers)):
                return Verdict(True, "a scatter would take its tiles apart")
            if any(map(_sums_up, readers)) and self._is_shared(product):
                return Verdict(True, "a sum of all its cells would leave it to one thread")
            if self._is_added_up(buffer, product):
                return Verdict(True, "few programs would add it up")
        if self.visits[buffer] <= self._most_visits(buffer, reads):
            return Verdict(False, "read once" if self.visits[buffer] <= 1 else f"read {self.visits[buffer]} times")
        into = self._contractions(buffer)
        joins = all(self._joined(buffer, index) for index in into)
        if self._is_free(buffer) and (joins or self._is_constant(buffer)):
            return Verdict(False, "nothing to compute")
        if self._is_one_hot(buffer):
            return Verdict(False, "a one-hot")
        if joins and into and len(reads) == 1:
            return Verdict(False, f"computed as `{self.uses.nests[into[0]].target.name}` packs it")
        if self.settings.again and not into and self._saves_bytes(buffer):
            return Verdict(False, f"read {self.visits[buffer]} times, from what is as large")
        return Verdict(True, f"read {self.visits[buffer]} times")

    def inline(self, buffer: Buffer) -> None:
        """Take note that a buffer is virtual: contractions that read it compute it, or are no longer placed."""
        for index in self.factors.get(buffer, ()):
            new = self._joined(buffer, index)
            self.placed.pop(index, None)  # another of its factors may have taken it out
            if new is not None:
                self._place(index, new)

    def _place(self, index: int, nest: Nest) -> None:
        self.placed[index] = nest
        for read in nest.reads:
            self.factors.setdefault(read.buffer, {})[index] = None

    def _joined(self, buffer: Buffer, index: int) -> Nest | None:
        """A contraction with a factor computed in it; None if that is better stored."""
        if index not in self.placed:
            return None
        writers = [self.uses.nests[one] for one in self.uses.writes[buffer]]
        return joined(self.placed[index], writers, self.settings.tiled, self.settings.prologue)

    def _contractions(self, buffer: Buffer) -> list[int]:
        """The placed contractions that a buffer would be inlined into."""
        return [index for index in self.factors.get(buffer, ()) if self._is_placed(index)]

    def _is_placed(self, index: int) -> bool:
        """Is a nest a contraction, and its result stored or followed by pointwise work?"""
        target = self.uses.nests[index].target
        return index in self.placed and (self.verdicts[target].stored or self.aligned.get(target, False))

    def _product(self, buffer: Buffer) -> Contraction | None:
        """The contraction that computes a buffer, if one is placed."""
        found = (
            placed(self.placed[one], self.settings.tiled) for one in self.uses.writes[buffer] if one in self.placed
        )
        return next((one for one in found if one is not None), None)

    def _is_shared(self, product: Contraction) -> bool:
        """Has a contraction work for several threads?"""
        machine = self.settings.machine
        return machine.cores > 1 and 2e9 * points(product.loops) / machine.flops_per_s >= 2 * self.settings.chunk_ns

    def _is_added_up(self, buffer: Buffer, product: Contraction) -> bool:
        """Are a contraction's results added up by few programs, that share it?"""
        if self.settings.alone is None:
            return False
        axes = axes_added_up(buffer, self.uses.nests, self.uses.reads, lambda one: self.verdicts[one].stored)
        cell = self.uses.nests[self.uses.writes[buffer][-1]].core.at
        return leaves_few_programs(product, mentioned(*(cell[axis] for axis in axes)), self.settings.alone)

    def _most_visits(self, buffer: Buffer, reads: Sequence[tuple[int, Read]]) -> int:
        """How often a cell may be computed."""
        summed = any(self.uses.nests[index].reduces for index, _ in reads)
        return max(self.settings.max_visits, 0 if summed else self.often.get(buffer, 0))

    def _obstacle(self, buffer: Buffer) -> str:
        if buffer in self.kept:
            return self.kept[buffer]
        if not self.settings.device_only:
            return "everything is stored"
        if buffer.role in (Role.NARROW, Role.TURNED):
            return "products read it as it lies"
        writes = self.uses.writes.get(buffer)
        if not writes:
            return "given"
        reads = self.uses.reads.get(buffer, [])
        if not isinstance(self.uses.nests[writes[0]].core, Store):
            return "its old value is read"
        if any(index <= writes[-1] for index, _ in reads):
            first = min(index for index, _ in reads)
            return "its old value is read" if first <= writes[0] else "overwritten after it is read"
        if not all(sums_inside(self.uses.nests[index]) for index in writes):
            return "accumulates across iterations of an outer loop"
        if any(self._goes_on(writes[0], index) for index in writes[1:]):
            return "accumulates across iterations of a loop that others share"
        looped = [index for index in writes if self.uses.nests[index].shared]
        if any(self._written_again(one, other) for one, other in combinations(looped, 2)):
            return "written again in later iterations of a loop"
        for index in writes:
            for reader, read in reads:
                solution = invert_access(self.uses.nests[index], read.at)
                name = self.uses.nests[reader].target.name
                if solution is None:
                    return f"`{name}` reads it at indices that its loops cannot be solved for"
                if not self._in_same_iteration(index, reader, solution):
                    return f"`{name}` reads it in another iteration"
        return ""

    def _goes_on(self, start: int, index: int) -> bool:
        """Does a nest accumulate in a cell in many iterations of a loop, before which the cell got its first value?"""
        nest = self.uses.nests[index]
        own = nest.loops[common_loops(self.uses.nests[start], nest) : len(nest.shared)]
        told = mentioned(*nest.core.at)
        return isinstance(nest.core, Update) and any(name not in told for name, _ in own)

    def _in_same_iteration(self, index: int, reader: int, solution: InverseAccess) -> bool:
        """Is what a nest reads written in the same iteration of the loops that both share, and told by the others?

        Those that they share with the nest into which the reader is inlined are known there, others must be told.
        """
        writer = self.uses.nests[index]
        common = common_loops(writer, self.uses.nests[reader])
        there = common_loops(writer, self.uses.nests[self._evaluated(reader)]) if self._is_computed(reader) else common
        for at, (name, _) in enumerate(writer.loops[: len(writer.shared)]):
            found = solution.indices.get(name)
            if at < common and found is not None and found != Affine.of(name):
                return False
            if at >= there and found is None:
                return False
        return True

    def _evaluated(self, index: int) -> int:
        """The nest into which what a nest computes is inlined in the end."""
        target = self.uses.nests[index].target
        return index if self.verdicts[target].stored else self.last[target]

    def _is_computed(self, index: int) -> bool:
        target = self.uses.nests[index].target
        return self.verdicts[target].stored or target in self.last

    def _keeps_cell(self, index: int, read: Read) -> bool:
        """Does a nest read just the cell it writes, and so does every nest it is inlined into?"""
        nest = self.uses.nests[index]
        own = read.at == nest.core.at and not nest.reduces
        return own and (self.verdicts[nest.target].stored or self.aligned[nest.target])

    def _changed(self, buffer: Buffer) -> str:
        """A buffer it is computed from that is overwritten before the last read; empty if there is none."""
        for index in self.uses.writes[buffer]:
            nest = self.uses.nests[index]
            for read in nest.reads:
                writers, last = self.uses.writes.get(read.buffer, []), self.last[buffer]
                later = [one for one in writers[bisect(writers, index) :] if one <= last]
                later = [one for one in later if not _of_another_iteration(nest, read, self.uses.nests[one])]
                same = read.at == nest.core.at and not nest.reduces and self.aligned[buffer]
                if (later and (later[0] < last or not same)) or self._overtaken(index, read, last):
                    return read.buffer.name
        return ""

    def _written_again(self, index: int, after: int) -> bool:
        """Does a nest write cells that one after it has written, in later iterations of loops that both share?"""
        one, other = self.uses.nests[index], self.uses.nests[after]
        cells = Read(other.target, other.core.at), Read(one.target, one.core.at)
        return any(comes_later(cells[0], other, cells[1], one, depth, 1) for depth in range(common_loops(one, other)))

    def _overtaken(self, index: int, read: Read, last: int) -> bool:
        """Is a cell that a nest reads written in later iterations, which run before what is inlined last?"""
        nest = self.uses.nests[index]
        outer = common_loops(nest, self.uses.nests[last])
        for one in self.uses.writes.get(read.buffer, ()) if len(nest.shared) > outer else ():
            writer = self.uses.nests[one]
            own = Read(writer.target, writer.core.at)
            depths = range(outer, common_loops(nest, writer))
            if any(comes_later(read, nest, own, writer, depth, 1) for depth in depths):
                return True
        return False

    def _visits(self, index: int, read: Read) -> int:
        """How often a cell is computed for a read of it."""
        nest = self.uses.nests[index]
        writer = self.uses.nests[self.uses.writes[read.buffer][0]]
        inner = nest.loops[common_loops(nest, writer) :]
        hoists = not self._is_placed(index) and not nest.tests
        times = _reads_of_a_cell(inner, read, self.settings.max_tracing_dim, hoists=hoists)
        verdict = self.verdicts[nest.target]
        return times if verdict.stored else times * self.visits[nest.target]

    def _is_free(self, buffer: Buffer) -> bool:
        """Are its cells copies of others, or constants?"""
        for index in self.uses.writes[buffer]:
            nest = self.uses.nests[index]
            calls = any(isinstance(one, Call) for one in walk(nest.core.value))
            constant = not list(nest.reads) and not nest.loops
            if not isinstance(nest.core, Store) or nest.reduces or (calls and not constant):
                return False
        return True

    def _saves_bytes(self, buffer: Buffer) -> bool:
        """Is a value of few operations computed from one buffer as large, or none, which is read instead of it?"""
        writers = [self.uses.nests[index] for index in self.uses.writes[buffer]]
        return self.visits[buffer] * price_of(writers) <= self.settings.again and is_from_one(writers)

    def _is_constant(self, buffer: Buffer) -> bool:
        return not any(self.uses.nests[index].reads for index in self.uses.writes[buffer])

    def _is_one_hot(self, buffer: Buffer) -> bool:
        """Does it compare integers with indices, so that a sum with it is a gather?"""
        only = [self.uses.nests[index] for index in self.uses.writes[buffer]]
        if len(only) != 1 or only[0].tests or not isinstance(only[0].core, Store):
            return False
        value, index = self._reached(only[0].core.value, self.uses.writes[buffer][0])
        while isinstance(value, Cast):
            value = value.value
        if not isinstance(value, Call):
            return False
        return compares(Call(value.op, tuple(self._reached(arg, index)[0] for arg in value.args))) is not None

    def _reached(self, scalar: Scalar, index: int) -> tuple[Scalar, int]:
        """The value stored in the cell that a scalar of a nest reads, and the earlier nest that stores it.

        Operands of that value stay as they are, and copies of copies are followed only so far.
        """
        casts: list[str] = []
        for _ in range(_COPIES):
            while isinstance(scalar, Cast):
                casts.append(scalar.dtype)
                scalar = scalar.value
            writers = self.uses.writes.get(scalar.buffer, ()) if isinstance(scalar, Read) else ()
            if not isinstance(scalar, Read) or len(writers) != 1 or writers[0] >= index:
                break
            writer = self.uses.nests[writers[0]]
            solution = invert_access(writer, scalar.at) if isinstance(writer.core, Store) else None
            if solution is None:
                break
            scalar, index = substituted(writer.core.value, solution.indices), writers[0]
        for dtype in reversed(casts):
            scalar = Cast(dtype, scalar)
        return scalar, index


def _scatters(nest: Nest) -> bool:
    """Do values say where a nest writes?"""
    return not are_affine(nest.core.at)


def _sums_up(nest: Nest) -> bool:
    """Does a nest accumulate in one cell?"""
    return isinstance(nest.core, Update) and nest.loops != () and not any(free(one) for one in nest.core.at)


def _of_another_iteration(nest: Nest, read: Read, writer: Nest) -> bool:
    """Does a nest write cells for other iterations of loops that both share than those whose cells are read?"""
    shared = {name for name, _ in nest.loops[: common_loops(nest, writer)]}
    return any(
        isinstance(one, Affine)
        and isinstance(other, Affine)
        and one.terms == other.terms
        and one.offset != other.offset
        and shared.issuperset(one.names)
        for one, other in zip(read.at, writer.core.at, strict=True)
    )


def _reads_of_a_cell(inside: Sequence[Loop], read: Read, farthest: int, *, hoists: bool) -> int:
    """How many iterations of the loops around a read read the same cell, at most; `hoists`: not those of loops inside
    all that it mentions."""
    names = mentioned(*read.at)
    moving = [depth for depth, (name, _) in enumerate(inside, 1) if name in names]
    loops = inside[: max(moving, default=0)] if hoists else inside
    alone = {one.terms[0][1] for one in read.at if isinstance(one, Affine) and len(one.terms) == 1}
    rest = [(name, size) for name, size in loops if name not in alone]
    tangled = [(name, size) for name, size in rest if name in names]
    outside = prod(size for name, size in rest if name not in names)
    return outside * (_traced(read, tangled, farthest) if tangled else 1)


def _traced(read: Read, loops: Sequence[tuple[str, int]], farthest: int) -> int:
    """The most iterations of some loops, enumerated only so far, that read one cell."""
    counts: dict[tuple[int, ...], int] = {}
    names = [name for name, _ in loops]
    fixed = mentioned(*read.at).difference(names)
    moving = [one.without(fixed) for one in read.at if isinstance(one, Affine)]
    for point in product(*(range(min(size, farthest)) for _, size in loops)):
        at = dict(zip(names, point, strict=True))
        cell = tuple(one.value(at) for one in moving)
        counts[cell] = counts.get(cell, 0) + 1
    return max(counts.values())
