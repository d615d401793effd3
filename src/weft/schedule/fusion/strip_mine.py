"""Strip-mining: contractions one after another run a strip of rows at a time, and what is between them with them.

    for h: for t: for s: for e: a[h, t, s] += q[h, t, e] * k[h, s, e]
    for h: for t: for s: p[h, t, s] = exp(a[h, t, s])
    for h: for t: for s: for e: o[h, t, e] += p[h, t, s] * v[h, s, e]

becomes, with strips of 32 rows, each of `a` and `p` with an axis for strips and one for the rows of a strip,

    for h: for t_strip: { for t: for s: for e: a[h, t_strip, t, s] += q[h, 32 t_strip + t, e] * k[h, s, e]
                          for t: for s: p[h, t_strip, t, s] = exp(a[h, t_strip, t, s])
                          for t: for s: for e: o[h, 32 t_strip + t, e] += p[h, t_strip, t, s] * v[h, s, e] }

Which nests can is found by their index maps (`strips.py`), whether it pays by the machine's caches (`strip_cost.py`).
Attention so runs without a matrix of all its weights: `a` and `p` outlast no strip, and are folded (`fold_storage.py`).
Rows that are left over when they are cut into strips are a strip of their own.

A row is whole in its strip, so that sums along it are what they were. Only where a few rows are more than a cache
holds, from some ten thousand columns on, would it pay to cut columns too, and to rescale the sums of a softmax whenever
a larger maximum is found.

Where a mask of indices hides columns from all rows of a strip, as a causal one does, strips are in several ranges, each
along the columns that are seen in it (`strip_columns.py`). What others read is 0 elsewhere.

A sum over rows, as the gradients of `k` and `v` are, goes on from strip to strip. Where that would round it more often
than is promised (`loops/roundings.py`), so many strips add to a partial sum, and these are added up.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from math import prod

from weft.affine import Affine
from weft.loops.contraction import contraction_of
from weft.loops.nests import Nest
from weft.loops.nodes import Buffer, Cast, Read, Role, Store, Update
from weft.loops.semiring import SUM_OF_PRODUCTS
from weft.loops.walk import Loop, free, mentioned, rewritten, substituted
from weft.naming import FreshNames
from weft.ops import Num, Scalar
from weft.schedule.fusion.hidden_blocks import Visible, columns_seen
from weft.schedule.fusion.index_values import values_of_indices, with_indices_inlined
from weft.schedule.fusion.strip_columns import StripRange, Vanishing, strip_ranges, visible_forms
from weft.schedule.fusion.strip_cost import StripCost
from weft.schedule.fusion.strips import (
    AxisRoles,
    Group,
    Members,
    Roles,
    Uses,
    clears_late,
    roles_of,
    strip_group,
    touched_buffers,
)


def strip_mined(nests: Sequence[Nest], kept: Collection[Buffer], points: int, cost: StripCost) -> Sequence[Nest]:
    """The nests, those around contractions of so many points strip by strip, where that pays; `kept` outlast them."""
    if not any(True for nest in nests for _ in _ways(nest, points, cost)):
        return nests
    ids = count(1 + max((number for nest in nests for number in nest.shared), default=0))
    done, at, known = clears_late(nests), 0, dict[int, tuple[Nest, Sequence[Buffer]]]()
    of_indices, vanish = values_of_indices(nests), dict[Buffer, Vanishing]()
    while (found := _next(Uses.of(done, known), at, kept, points, cost)) is not None:
        first, last = found.group.span
        seen = found.visible(of_indices, vanish)
        start = [*done[:first], *(done[one] for one in found.group.before), *found.nests(ids, of_indices, seen)]
        vanish |= found.vanishing(seen)
        done = [*start, *(done[one] for one in found.group.after), *done[last + 1 :]]
        at = len(start)
    return done if at else nests


def _ways(nest: Nest, points: int, cost: StripCost) -> Iterator[Roles]:
    """The ways to see rows and columns in what a nest leaves, if that is a contraction's and large."""
    what = contraction_of(nest) if nest.accumulates and not nest.shared else None
    if what is not None and not what.why and what.points >= points:
        yield from (roles for roles in roles_of(what) if cost.is_large(nest.target, roles))


def _next(uses: Uses, start: int, kept: Collection[Buffer], points: int, cost: StripCost) -> _InStrips | None:
    """The first nests from some on that better run strip by strip."""
    for at in range(start, len(uses.nests)):
        for roles in _ways(uses.nests[at], points, cost):
            about = Members.of(uses, at, roles, cost.thresholds.strip_distance, whole=True)
            if not cost.rows(uses, about, Group(tuple(sorted(about.loops))), kept):
                continue
            found = Members.of(uses, at, roles, cost.thresholds.strip_distance)
            group = strip_group(uses, found)
            if rows := cost.rows(uses, found, group, kept):
                return _InStrips(uses, found, group, rows, kept, cost)
    return None


@dataclass(frozen=True, slots=True)
class _InStrips:
    """Nests that run in strips of so many rows."""

    uses: Uses
    found: Members
    group: Group
    rows: int
    kept: Collection[Buffer]
    cost: StripCost

    def nests(self, ids: Iterator[int], of_indices: Mapping[Buffer, Nest], forms: Visible) -> Iterator[Nest]:
        """The nests in loops that they share, range by range, and those of the rows that are left over."""
        roles = self.found.roles
        strips, rest = divmod(roles.row[1], self.rows)
        known = of_indices if forms else {}
        seen = columns_seen(forms, roles.row, roles.columns[0]) or []
        for one in self._ranges(seen[: strips * self.rows], self.rows):
            yield from _RowRange.of(self, one, self.rows, ids).nests(known)
        for one in self._ranges(seen[strips * self.rows :], rest) if rest else ():
            yield from _RowRange.of(self, replace(one, first=strips), rest, ids).nests(known)

    def _ranges(self, seen: Sequence[tuple[int, int]], rows: int) -> Sequence[StripRange]:
        return strip_ranges(seen, rows, self.found.roles.columns[0][1], self.cost.thresholds)

    def visible(self, of_indices: Mapping[Buffer, Nest], vanish: Mapping[Buffer, Vanishing]) -> Visible:
        """Where rows have to look at columns, by the roles of loops; no forms where no mask hides any."""
        roles, axes = self.found.roles, self.found.axes
        matrices = {one for nest, _ in self.members for one in touched_buffers(nest)} & self.found.core
        before = {one: known.named(axes[one]) for one, known in vanish.items() if one in matrices}
        forms = visible_forms(
            self.members, roles, matrices.intersection(self.local), of_indices, before, self.cost.thresholds
        )
        return forms if forms and columns_seen(forms, roles.row, roles.columns[0]) else frozenset()

    def vanishing(self, forms: Visible) -> dict[Buffer, Vanishing]:
        """The matrices that these nests alone write for others, where they may be other than 0."""
        targets, members = self.found.core.difference(self.local), set(self.group.members)
        others = {nest.target for one, nest in enumerate(self.uses.nests) if one not in members}
        stored = {nest.target for nest, _ in self.members if isinstance(nest.core, Store)}
        left = targets.intersection(stored) - others  # what is only added to holds what it held
        return {one: Vanishing(self.found.axes[one], forms) for one in left} if forms else {}

    @property
    def members(self) -> list[tuple[Nest, Mapping[str, str]]]:
        """The nests, each with its loops by their roles."""
        return [(self.uses.nests[one], self.found.loops[one]) for one in self.group.members]

    @property
    def local(self) -> list[Buffer]:
        """What these nests alone write and read, row by row."""
        members, outer = set(self.group.members), self.found.roles.outer
        return [
            one
            for one in dict.fromkeys(nest.target for nest, _ in self.members)
            if one not in self.kept and members.issuperset(self.uses.touching[one])
            if outer <= set(self.found.axes.get(one, ()))
        ]

    def summed(self, rows: int, strips: int) -> dict[Buffer, int]:
        """What contractions add up over rows in partial sums, and how many of so many strips add to one."""
        every = -(-self.found.roles.row[1] // self.rows)
        found = {
            nest.target: self.cost.strips_of_a_sum(rows, strips, every, self._batches_added(nest, loops))
            for nest, loops in self.members
            if isinstance(nest.core, Update) and nest.core.op == SUM_OF_PRODUCTS[0] and contraction_of(nest) is not None
        }
        return {one: several for one, several in found.items() if several}

    def _batches_added(self, nest: Nest, loops: Mapping[str, str]) -> int:
        """In how many batches a nest adds to a cell in all strips; 0 if it comes to a cell in one strip alone."""
        named = mentioned(*nest.core.at)
        if loops[self.found.roles.row[0]] in named:
            return 0
        return prod(size for role, size in self.found.roles.batch if loops[role] not in named)


@dataclass(frozen=True, slots=True)
class _RowRange:
    """A range of strips of so many rows: the loops that nests share there, by number, and the loop of rows.

    `local` are the buffers in strips, by what they were; `partial` the buffers of partial sums.
    """

    of_all: _InStrips
    part: StripRange
    rows: int
    shared: tuple[tuple[int, Loop], ...]
    row: str
    given: frozenset[str]
    local: Mapping[Buffer, Buffer]
    partial: Mapping[Buffer, Buffer]

    @staticmethod
    def of(strips: _InStrips, part: StripRange, rows: int, ids: Iterator[int]) -> _RowRange:
        """Some strips; several of them add to a partial sum, where all would be rounded too often."""
        roles, given = strips.found.roles, _given(strips)
        fresh, summed = FreshNames(given), strips.summed(rows, part.strips)
        several = min(summed.values(), default=0)
        cut = [part.strips // several, several] if several else [part.strips]
        names = [f"{roles.row[0]}_block", f"{roles.row[0]}_strip"][-len(cut) :]
        loops = [*roles.batch, *zip(names, cut, strict=True)]
        shared = tuple((next(ids), (fresh.fresh(name), size)) for name, size in loops)
        sizes = {roles.row[0]: (*cut, rows)}
        if part.size != roles.columns[0][1]:
            sizes[roles.columns[0][0]] = (part.size,)
        local = {one: _in_strips(one, strips.found.axes[one], sizes) for one in strips.local}
        partial = {one: one.beside(Role.PARTIAL, ".partial") for one in summed}
        return _RowRange(strips, part, rows, shared, fresh.fresh(roles.row[0]), given, local, partial)

    @property
    def cut(self) -> tuple[Loop, ...]:
        """The loops of strips."""
        return tuple(loop for _, loop in self.shared[len(self.of_all.found.roles.batch) :])

    def nests(self, known: Mapping[Buffer, Nest]) -> Iterator[Nest]:
        """The nests of these strips, which compute what is `known` to be a number of indices, rather than read it."""
        joined = list[Nest]()
        for nest, loops in self.of_all.members:
            if nest.target in self.partial:
                started, added = self._partial(nest, loops)
                yield started
                joined.append(added)
        for nest, loops in self.of_all.members:
            if self._leaves_columns(nest, loops):
                yield self._cleared(nest, loops)
            yield self._cut(with_indices_inlined(nest, known), loops)
        yield from joined

    def _leaves_columns(self, nest: Nest, loops: Mapping[str, str]) -> bool:
        """Does a nest store for others what it no longer computes in all columns?"""
        column, size = self.of_all.found.roles.columns[0]
        stored = isinstance(nest.core, Store) and nest.target not in self.local
        return stored and column in loops and self.part.size != size

    def _cleared(self, nest: Nest, loops: Mapping[str, str]) -> Nest:
        """What stores 0 in all columns of what a nest stores in some."""
        values, own = self._renamed(nest, loops, whole=True)
        at = tuple([substituted(one, values) for one in nest.core.at])
        return self._inside(self.shared, own, Store(nest.target, at, Cast(nest.target.dtype, Num(0))), nest)

    def _cut(self, nest: Nest, loops: Mapping[str, str]) -> Nest:
        """A nest with its rows in strips, in the loops that others share."""
        values, own = self._renamed(nest, loops)
        roles = self.of_all.found.roles
        strip = [Affine.of(name) for name in (*(name for name, _ in self.cut), self.row)]

        def cell(buffer: Buffer, at: Sequence[Scalar]) -> tuple[Buffer, tuple[Scalar, ...]]:
            moved = tuple(map(changed, at))
            if buffer not in self.local:
                return buffer, moved
            found = list[Scalar]()
            for role, index in zip(self.of_all.found.axes[buffer], moved, strict=True):
                first = self._first_column if role == roles.columns[0][0] else 0
                found += strip if role == roles.row[0] else [index - first]
            return self.local[buffer], tuple(found)

        def changed(scalar: Scalar) -> Scalar:
            return rewritten(scalar, leaf)

        def leaf(one: Scalar) -> Scalar | None:
            if isinstance(one, Read):
                return Read(*cell(one.buffer, one.at))
            return one.substitute(values) if isinstance(one, Affine) else None

        buffer, at = cell(self.partial.get(nest.target, nest.target), nest.core.at)
        core = replace(nest.core, buffer=buffer, at=at, value=changed(nest.core.value))
        return self._inside(self.shared, own, core, nest)

    def _partial(self, nest: Nest, loops: Mapping[str, str]) -> tuple[Nest, Nest]:
        """What starts a partial sum, and what adds it to the whole."""
        values, own = self._renamed(nest, loops, whole=self.part.step > 0)
        at = tuple([substituted(one, values) for one in nest.core.at])
        own = [loop for loop in own if any(loop[0] in free(index) for index in at)]
        part = self.partial[nest.target]
        start = Store(part, at, Cast(part.dtype, Num(0)))
        added = Update(nest.target, at, SUM_OF_PRODUCTS[0], Read(part, at))
        return self._inside(self.shared[:-1], own, start, nest), self._inside(self.shared[:-1], own, added, nest)

    def _inside(
        self, shared: Sequence[tuple[int, Loop]], own: Sequence[Loop], core: Store | Update, nest: Nest
    ) -> Nest:
        numbers, outer = tuple(number for number, _ in shared), tuple(loop for _, loop in shared)
        return Nest((*outer, *own), (), core, nest.remarks, numbers)

    def _renamed(
        self, nest: Nest, loops: Mapping[str, str], *, whole: bool = False
    ) -> tuple[dict[str, Affine], list[Loop]]:
        """What stands for the loops of a nest in the loops that nests share, and the loops that it has for itself.

        These are along the columns of a strip, or along the `whole` of them.
        """
        roles, outer = self.of_all.found.roles, [loop for _, loop in self.shared]
        taken = FreshNames((*self.given, self.row, *(name for name, _ in outer)))
        values = {loops[role]: Affine.of(new) for (role, _), (new, _) in zip(roles.batch, outer, strict=False)}
        columns = loops.get(roles.columns[0][0]) if not whole else None
        own: list[Loop] = []
        for name, size in nest.loops:
            if name == loops[roles.row[0]]:
                own.append((self.row, self.rows))
                first = self.part.first * self.of_all.rows
                values[name] = self._strip * self.rows + Affine.of(self.row) + first
            elif name == columns:
                own.append((taken.fresh(name), self.part.size))
                values[name] = Affine.of(own[-1][0]) + self._first_column
            elif name not in values:
                own.append((taken.fresh(name), size))
                values[name] = Affine.of(own[-1][0])
        return values, own

    @property
    def _strip(self) -> Affine:
        """Which strip of the range."""
        strip = Affine.of(self.cut[0][0])
        for inner, length in self.cut[1:]:
            strip = strip * length + Affine.of(inner)
        return strip

    @property
    def _first_column(self) -> Affine:
        """The first column of a strip."""
        return self._strip * self.part.step + self.part.start


def _given(strips: _InStrips) -> frozenset[str]:
    """What nests mention that is no loop of theirs: static indices."""
    found = set[str]()
    for nest, _ in strips.members:
        scalars = (nest.core.value, *nest.core.at)
        found.update(mentioned(*scalars).difference(dict(nest.loops)))
    return frozenset(found)


def _in_strips(buffer: Buffer, axes: AxisRoles, sizes: Mapping[str, Sequence[int]]) -> Buffer:
    """A buffer with axes of some roles cut into several, or shorter."""
    cut = [sizes.get(role, (size,)) for role, size in zip(axes, buffer.shape, strict=True)]
    return buffer.beside(Role.STRIPS, shape=tuple(size for some in cut for size in some))
