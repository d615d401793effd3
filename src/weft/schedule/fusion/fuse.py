"""Loop fusion: nests that touch the same cells in the same iterations of their loops run as one.

Two nests may share their outer loops if that reverses no dependence between them. Where one writes what the other
touches, that is so if both index the same axes by the shared loops alone: they touch a cell only in the same iteration,
where they still run in their order. Other subscripts are decided by isl (`dependence.py`). A nest joins the nearest
earlier kernel it shares data with, past kernels that are independent of it. Clearing a buffer is delayed until the
first nest that touches it and joins that; where their loops differ, it runs before everything else. What is to be
written late joins no kernel before the first that is. What finds what is checked of a run joins its like alone, and
runs before what writes what outlasts it (`hoist_checks.py`). Whether fusion pays is estimated (`fusion_cost.py`).

A contraction that a backend places is a kernel of its own: what initialises its cells and pointwise work on its result
join it (`epilogue.py`), and what goes on from that, where a backend has several sums in one variable, or uses it at the
same cells, where a backend has several sums of a cell; anything else shares its batch loops, or nothing. Another
contraction shares them if what one leaves for the other fits into a cache then, and did not before: attention runs head
by head.

A kernel has no more than `kernel_operations`, so that a long program becomes many kernels, layers that are alike become
kernels that are alike, and the time of all later passes is linear in the program.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from weft.loops import Buffer, Let, Set, Stmt, Store, Update
from weft.loops.effects import weight
from weft.loops.walk import Access, accesses
from weft.schedule.compile_options import CompileOptions
from weft.schedule.fusion.fusion_cost import FusionCost
from weft.schedule.hoist_checks import early_kernels
from weft.schedule.loop_tree import Level, LoopNames, Shared, Touched, bound_names, new_names, renamed, reuses
from weft.schedule.nodes import Kernel
from weft.schedule.products.contractions import Contracting, contracting, may_contract
from weft.schedule.products.epilogue import added, followed, may_follow, met, started


def fused(
    parts: Sequence[Kernel],
    late: Collection[Buffer] = (),
    options: CompileOptions | None = None,
    placing: bool = False,
    checked: Collection[Buffer] = (),
    lasting: Collection[Buffer] = (),
    cost: type[FusionCost] = FusionCost,
    gathers: bool = False,
) -> list[Kernel]:
    """Join kernels where that saves passes over memory: nests first, then what has become of them.

    What writes a buffer of `late` joins no kernel before the first that does. With `placing`, contractions are kernels
    of their own, those that gather rows too if the backend `gathers`. Whether fusion pays, `cost` says.
    """
    options = options or CompileOptions()
    found = [_Part.of(one, options, placing, gathers) for one in parts]
    for at in early_kernels(parts, checked, lasting):
        found[at].early = True
    shared = parts[0].shared if parts else ()
    for together in (False, True):  # contractions join one another when all that joins one of them has
        before = len(found) + 1
        while len(found) < before:
            before, fusing = len(found), _Fusing(late, cost(options, together))
            for part in found:
                fusing.take(part)
            found = fusing.finished
    return [
        part.decided
        or Kernel(tuple(part.remarks), part.level.body, part.why, recurrence=part.recurrence, shared=shared)
        for part in found
    ]


@dataclass(slots=True, eq=False)
class _Part:
    """A kernel under construction; where it is a contraction, what runs before that, and the contraction.

    One that is `tiled` reuses what it reads; where it is also `placed`, in contractions alone, which a backend places.
    Where it begins or ends with one, so many of its loops are `shareable` there: those of batches.
    """

    remarks: list[str]
    level: Level
    names: set[str]
    tiled: bool
    placed: bool
    length: int
    product: Contracting | None = None
    shareable: tuple[int | None, int | None] = (None, None)
    lead: tuple[Stmt, ...] = ()
    why: str = ""
    recurrence: bool = False
    #: Does it find what is checked, before what lasts is written?
    early: bool = False
    #: The kernel, if it is decided how it runs.
    decided: Kernel | None = None
    #: Why a contraction that could be a sum beside its own is not.
    apart: str = ""
    #: Why parts that have not changed since do not join it: how long they were, whether contractions run together.
    refused: dict[tuple[_Part, int, bool], str] = field(default_factory=dict)

    @staticmethod
    def of(kernel: Kernel, options: CompileOptions, placing: bool, gathers: bool = False) -> _Part:
        points = options.contraction_points
        asked = (
            placing
            and not kernel.recurrence
            and not kernel.decided
            and len(kernel.body) == 1
            and may_contract(kernel.body, points)
        )
        product = contracting(kernel.body[0], gathers) if asked else None
        if product is not None and (product.what.why or product.what.points < points):
            product = None
        body = product.body if product else kernel.body
        tiled = product is not None or reuses(body, points, options.reuse)
        level, names, remarks = Level.of(body), bound_names(body), list(kernel.remarks)
        batch = len(product.what.batch) if product else None
        placed = product is not None or not tiled
        length, ends = weight(body), (batch, batch)
        made = _Part(remarks, level, names, tiled, placed, length, product, ends, recurrence=kernel.recurrence)
        return replace(made, decided=kernel) if kernel.decided else made

    def join(self, other: _Part, scales: FusionCost) -> str:
        """Take another part in; or leave both as they are and say why not."""
        asked = other, other.length, scales.together and self.tiled and other.tiled
        if asked in self.refused:
            return self.refused[asked]
        why = self._join(other, scales)
        if why:
            self.refused[asked] = why
        else:
            self.refused = {}
        return why

    def _join(self, other: _Part, scales: FusionCost) -> str:
        if self.decided or other.decided:
            return "it is decided how its loops run"
        if (self.recurrence and other.product) or (other.recurrence and self.product):
            return "a contraction runs by itself, not in the iterations of a recurrence"
        if self.early != other.early:
            return "what is checked is found before anything is written that lasts"
        if self.length + other.length > scales.options.kernel_operations:
            return "the kernel would be too long"
        self.apart = ""
        why = "" if self._join_cells(other, scales) else self._join_loops(other, scales)
        if not why:
            self.remarks += other.remarks
            self.tiled |= other.tiled
            self.placed = self.product is not None or (self.placed and other.placed)
            self.recurrence |= other.recurrence
            self.length += other.length
        return why and (self.apart or why)

    def _new_names(self, other: _Part) -> LoopNames:
        """What another part's loops and variables are called here, where they are not shared."""
        return new_names(other.names, self.names)

    def _join_cells(self, other: _Part, scales: FusionCost) -> bool:
        """Join as the initialisation of a contraction, as its epilogue, as a further sum of its cells, or as what runs
        before it, if it `leads`."""
        found, lead, leads = None, (*self.lead, *other.lead), scales.leads
        if self.product is not None and other.product is not None:
            if len(other.level.body) == 1:
                nest = renamed(other.level.body, self._new_names(other))[0]
                found = None if scales.added(self.product, other.product) else added(self.product, nest)
                found = found or self._join_sums(self.product, other.product, nest, scales)
        elif self.product is not None:
            *before, nest = other.level.body
            first = _comes_first(before, self.level.touched) if leads else not before
            if first and may_follow(self.product, nest):
                *before, nest = renamed(other.level.body, self._new_names(other))
                found, lead = followed(self.product, nest), (*self.lead, *before)
                if found is not None and scales.epilogue(self.product, found):
                    return False
        elif other.product is not None:
            if leads and _is_straight(self.level.body) and self.names.isdisjoint(other.names):
                found, lead = other.product, (*self.level.body, *other.lead)
            elif len(self.level.items) == 1 and _comes_first(other.lead, self.level.touched):
                found = started(other.product, self.level.body[0])
        if found is None:
            return False
        batch = len(found.what.batch)
        self.product, self.lead, self.shareable = found, lead, (batch, batch)
        self.level = Level.of((*lead, *found.body))
        self.names |= {*other.names, *self._new_names(other).values()}
        return True

    def _join_sums(self, mine: Contracting, other: Contracting, nest: Stmt, scales: FusionCost) -> Contracting | None:
        """The contraction with another as a sum beside its own, if that is better."""
        if scales.apart or not may_follow(mine, nest):
            return None
        found = met(mine, nest)
        self.apart = "" if found is None else scales.joint(mine, other, found)
        return None if self.apart else found

    def _join_loops(self, other: _Part, scales: FusionCost) -> str:
        """Share loops: of a contraction its batch loops alone."""
        limits = [one for one in (self.shareable[1], other.shareable[0]) if one is not None]
        most, both = min(limits, default=None), self.tiled and other.tiled
        if both and not (self.placed and other.placed):
            return "both reuse what they read, and each wants the caches for itself"
        if limits and (most == 0 or self.level.first_loop is None or other.level.first_loop is None):
            return "only pointwise work on its result joins a contraction"

        if (straight := _straight(self.level, other.level)) is not None and (why := scales.beside(straight)):
            return why

        def weighed(mine: Level, theirs: Level, shared: Shared) -> str:
            if most is not None and len(shared) > most:
                return f"`{shared[most][0]}` is a loop of the contraction itself"
            if both:
                return scales.batched(mine, theirs, shared)
            return (scales.chained if self.tiled or other.tiled else scales.obstacle)(mine, theirs, shared)

        names = self._new_names(other)
        why = self.level.join(other.level, names, weighed)
        if not why:
            self.names.update(names.values())
            self.product, self.shareable = None, (self.shareable[0], other.shareable[1])
        return why


def _straight(one: Level, other: Level) -> Level | None:
    """The nests, where one of two is straight-line code and the other has loops."""
    return other if one.first_loop is None else one if other.first_loop is None else None


def _is_straight(body: Sequence[Stmt]) -> bool:
    """Is it straight-line code, in no loop and under no test?"""
    return all(isinstance(one, Let | Set | Store | Update) for one in body)


def _comes_first(body: Sequence[Stmt], touched: Touched) -> bool:
    """May a few statements run before something that they ran after?"""
    return _is_straight(body) and all(one.buffer not in touched for one in accesses(body))


#: The position of a kernel in the order: an ordinal, and a second one for kernels that moved behind that one.
_Key = tuple[int, int]


@dataclass(slots=True)
class _Fusing:
    late: Collection[Buffer]
    scales: FusionCost
    parts: dict[_Key, _Part] = field(default_factory=dict)
    last: int = 0
    #: The last kernel that writes a buffer, and all that touch it, the latest last.
    writers: dict[Buffer, _Key] = field(default_factory=dict)
    users: dict[Buffer, list[_Key]] = field(default_factory=dict)
    #: Buffers cleared and not touched since, and what was cleared before everything else.
    cleared: dict[Buffer, _Part] = field(default_factory=dict)
    first: list[_Part] = field(default_factory=list)
    #: The first kernel that writes something late.
    begun: _Key | None = None

    @property
    def finished(self) -> list[_Part]:
        return [*self.first, *self.cleared.values(), *(self.parts[key] for key in sorted(self.parts))]

    def take(self, part: _Part) -> None:
        """Take one more nest: delay it if it clears a buffer, else join the clearing of its buffers and add it."""
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
        for key in self._sharing(touched)[: self.scales.options.fusion_tries]:
            if key < earliest and not self._may_move(key, earliest):
                continue
            obstacle = self.parts[key].join(part, self.scales)
            if not obstacle:
                self._note(touched, self._moved(key, earliest) if key < earliest else key)
                return
            why = why or obstacle
        part.why = why or ("shares no data with what runs before it" if self.parts else "")
        self.last += 1
        self.parts[self.last, 0] = part
        self._note(touched, (self.last, 0))

    def _earliest(self, touched: Touched) -> _Key:
        """The last kernel that must run before: what it may join lies there or later."""
        found = (0, 0)
        for buffer, touching in touched.items():
            found = max(found, self.writers.get(buffer, found))
            if any(one.writes for one in touching):
                found = max([found, *self.users.get(buffer, ())[-1:]])
                if buffer in self.late:
                    self.begun = self.begun or (self.last + 1, 0)
                    found = max(found, self.begun)
        return found

    def _sharing(self, touched: Touched) -> list[_Key]:
        """The latest kernels that touch something of it, the nearest first."""
        most = self.scales.options.fusion_tries
        return sorted({key for buffer in touched for key in self.users.get(buffer, ())[-most:]}, reverse=True)

    def _may_move(self, key: _Key, behind: _Key) -> bool:
        """Is a kernel a contraction that may as well run behind a later one, where something may join it?

        One between may have dropped a dead variable with what that read: it does not touch all that was noted.
        """
        part = self.parts[key]
        return part.product is not None and not any(
            key < other and other[0] <= behind[0] and _dependent(mine, self.parts[other].level.touched.get(buffer, ()))
            for buffer, mine in part.level.touched.items()
            for other in self.users[buffer]
        )

    def _moved(self, key: _Key, behind: _Key) -> _Key:
        """The new position of a kernel that is moved behind another."""
        part = self.parts.pop(key)
        position = behind[0], 1 + max((other[1] for other in self.parts if other[0] == behind[0]), default=-1)
        self.last = max(self.last, position[0])
        for buffer in part.level.touched:
            if key in self.users.get(buffer, ()):
                self.users[buffer].remove(key)
                if self.writers.get(buffer) == key:
                    self.writers[buffer] = position
        self.parts[position] = part
        self._note(part.level.touched, position)
        return position

    def _note(self, touched: Touched, key: _Key) -> None:
        for buffer, touching in touched.items():
            if any(one.writes for one in touching):
                self.writers[buffer] = max(key, self.writers.get(buffer, key))
            users = self.users.setdefault(buffer, [])
            at = bisect_left(users, key)
            if at == len(users) or users[at] != key:
                users.insert(at, key)


def _dependent(mine: Collection[Access], theirs: Collection[Access]) -> bool:
    """Is there a dependence between two kernels through a buffer that both touch?"""
    return any(one.writes for one in (*mine, *theirs))


def _only_clears(touched: Touched) -> bool:
    return len(touched) == 1 and all(one.writes for touching in touched.values() for one in touching)
