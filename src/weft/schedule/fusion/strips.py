"""Which nests can run strip by strip: contractions, and what lies between them, that share batches and rows.

    a[h, t, s] += q[h, t, e] * k[h, s, e];  p[h, t, s] = exp(a[h, t, s]);  o[h, t, e] += p[h, t, s] * v[h, s, e]

The first contraction gives its loops roles: `h` is of batches, `t` of rows, `s` of columns. By the index maps of what
it writes, loops of other nests get them too: of all that touch cells of batches, rows and columns, and of what else is
computed from these for each row. A nest that sums over rows, as `dk[h, s, e] += dp[h, t, s] * q[h, t, e]` does, takes
part if no other of them touches what it writes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from weft.affine import Affine, are_affine
from weft.loops.contraction import Contraction, contraction_of
from weft.loops.nests import Nest
from weft.loops.nodes import Buffer, Store
from weft.loops.walk import Loop
from weft.ops import Scalar
from weft.optimise.loop_order import is_reorderable

#: The role of each axis of a buffer, by the name of the loop that gives it; nothing where it has none.
AxisRoles = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Roles:
    """The loops of a contraction by what they are to others: of batches, of rows, of columns."""

    batch: tuple[Loop, ...]
    row: Loop
    columns: tuple[Loop, ...]

    @property
    def outer(self) -> frozenset[str]:
        """Those that tell strips apart, and rows in them."""
        return frozenset([*(name for name, _ in self.batch), self.row[0]])

    @property
    def all(self) -> frozenset[str]:
        return self.outer.union(name for name, _ in self.columns)

    @property
    def sizes(self) -> dict[str, int]:
        return dict((*self.batch, self.row, *self.columns))


def roles_of(found: Contraction) -> Iterator[Roles]:
    """The ways to see rows and columns in the result of a contraction."""
    for rows, columns in ((found.left, found.right), (found.right, found.left)):
        if rows and columns:
            row = max(rows, key=lambda one: one[1])
            yield Roles((*found.batch, *(one for one in rows if one != row)), row, columns)


@dataclass(frozen=True, slots=True)
class Uses:
    """The nests of a program, and which of them touch and write a buffer."""

    nests: Sequence[Nest]
    touching: dict[Buffer, list[int]] = field(default_factory=dict)
    written: set[Buffer] = field(default_factory=set)

    @staticmethod
    def of(nests: Sequence[Nest], known: dict[int, tuple[Nest, Sequence[Buffer]]]) -> Uses:
        """Those of a program; `known` is what nests touch, by their ids, and grows."""
        found = Uses(nests)
        for index, nest in enumerate(nests):
            found.written.add(nest.target)
            if id(nest) not in known:
                known[id(nest)] = nest, tuple(touched_buffers(nest))
            for buffer in known[id(nest)][1]:
                found.touching.setdefault(buffer, []).append(index)
        return found


def touched_buffers(nest: Nest) -> dict[Buffer, None]:
    return dict.fromkeys((nest.target, *(read.buffer for read in nest.reads)))


@dataclass(slots=True)
class Members:
    """The nests whose loops have roles: the name of each by its role. `core` are the buffers of all roles."""

    roles: Roles
    loops: dict[int, dict[str, str]] = field(default_factory=dict)
    core: set[Buffer] = field(default_factory=set)
    axes: dict[Buffer, AxisRoles] = field(default_factory=dict)

    @staticmethod
    def of(uses: Uses, seed: int, roles: Roles, distance: int, *, whole: bool = False) -> Members:
        """All that get roles from the result of a contraction; or those about what has the `whole` of them.

        None is further from it than a distance: the time this takes is linear in the program.
        """
        found = Members(roles)
        nest = uses.nests[seed]
        todo = [found._assigned(nest.target, _axes(nest.core.at, {name: name for name in roles.all}))]
        refused = set[int]()
        while todo:
            for index in uses.touching[todo.pop()]:
                if index in refused or abs(index - seed) > distance:
                    continue
                names = found._matched(uses.nests[index])
                if names is None or not found._takes_part(uses.nests[index]):
                    refused.add(index)
                    found.loops.pop(index, None)
                    continue
                found.loops[index] = names
                todo += found._new_buffers(uses, uses.nests[index], names, whole)
        return found

    def _assigned(self, buffer: Buffer, axes: AxisRoles) -> Buffer:
        self.axes[buffer] = axes
        if self.roles.all <= set(axes):
            self.core.add(buffer)
        return buffer

    def _takes_part(self, nest: Nest) -> bool:
        """Is a nest about what has all roles; or is it no contraction?"""
        return not self.core.isdisjoint(touched_buffers(nest)) or contraction_of(nest) is None

    def _matched(self, nest: Nest) -> dict[str, str] | None:
        """The loops of a nest by their roles; None if they have none, or it cannot run strip by strip."""
        if nest.shared or nest.tests or not is_reorderable(nest) or not are_affine(nest.core.at):
            return None
        sizes, found = dict(nest.loops), dict[str, str]()
        for buffer, at in access_footprints(nest):
            for role, index in zip(self.axes.get(buffer, ()), at, strict=False):
                name = index.only if isinstance(index, Affine) else ""
                if role and (sizes.get(name) != self.roles.sizes[role] or found.setdefault(role, name) != name):
                    return None
        if not self.roles.outer <= found.keys() or len(set(found.values())) < len(found):
            return None
        return found

    def _new_buffers(self, uses: Uses, nest: Nest, names: Mapping[str, str], whole: bool) -> list[Buffer]:
        """The buffers that a nest gives roles to: those of the `whole` of them, else its target too, if it has rows."""
        done: list[Buffer] = []
        for buffer, at in access_footprints(nest):
            if buffer not in self.axes and buffer in uses.written:
                axes = _axes(at, names)
                every = sorted(one for one in axes if one) == sorted(self.roles.all) and all(
                    role or size == 1 for role, size in zip(axes, buffer.shape, strict=True)
                )
                if every or (not whole and buffer == nest.target and self.roles.outer <= set(axes)):
                    done.append(self._assigned(buffer, axes))
        return done


def access_footprints(nest: Nest) -> list[tuple[Buffer, tuple[Scalar, ...]]]:
    """The cells that a nest touches at a point, the one it writes first."""
    return [(nest.target, nest.core.at), *((read.buffer, read.at) for read in nest.reads)]


def _axes(at: Sequence[Scalar], names: Mapping[str, str]) -> AxisRoles:
    """The roles of axes, by the loops that index them."""
    roles = {name: role for role, name in names.items()}
    return tuple([roles.get(one.only, "") if isinstance(one, Affine) else "" for one in at])


def clears_late(nests: Sequence[Nest]) -> list[Nest]:
    """The nests, those that clear a buffer just before the first that touches it: that may run in strips."""
    waiting, done = dict[Buffer, Nest](), list[Nest]()
    for unit in _units(nests, range(len(nests))):
        first = nests[unit[0]]
        if _clears(first) and first.target not in waiting:
            waiting[first.target] = first
            continue
        for index in unit:
            done += [waiting.pop(buffer) for buffer in touched_buffers(nests[index]) if buffer in waiting]
        done += [nests[index] for index in unit]
    return [*done, *waiting.values()]


def _clears(nest: Nest) -> bool:
    """Does a nest store what it need not read, by itself?"""
    return isinstance(nest.core, Store) and not nest.reads and not nest.shared


@dataclass(frozen=True, slots=True)
class Group:
    """Nests that run strip by strip, what runs before them and what after, each by its number."""

    members: tuple[int, ...]
    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()

    @property
    def span(self) -> tuple[int, int]:
        """The first and the last of them all."""
        everything = (*self.members, *self.before, *self.after)
        return min(everything), max(everything)


def strip_group(uses: Uses, found: Members) -> Group:
    """The members that can run in the loops of their batches and strips, without those that none of the rest needs."""
    chosen = set(found.loops)
    while True:
        group = _grouped(uses, found, chosen)
        needed = _needed(uses, found, group.members)
        if len(needed) == len(group.members):
            return _with_clears_after(uses, group)
        chosen = needed


def _grouped(uses: Uses, found: Members, chosen: Collection[int]) -> Group:
    members, before, after = list[int](), list[int](), list[int]()
    theirs, delayed = _Dependences(), _Dependences()
    inside = _Inside(found)
    for unit in _units(uses.nests, range(min(chosen, default=0), max(chosen, default=-1) + 1)):
        nests = [uses.nests[index] for index in unit]
        late = any(map(delayed.on, nests))
        if not late and unit[0] in chosen and inside.takes(nests[0], found.loops[unit[0]]):
            members += unit
            theirs.add(nests)
        elif late or any(map(theirs.on, nests)):
            after += unit
            delayed.add(nests)
        else:
            before += unit
    return Group(tuple(members), tuple(before), tuple(after))


def _units(nests: Sequence[Nest], indices: Sequence[int]) -> Iterator[list[int]]:
    """Some of the nests by their numbers, those that share a loop together."""
    for _, run in groupby(indices, lambda index: nests[index].shared[0] if nests[index].shared else ~index):
        yield list(run)


def _with_clears_after(uses: Uses, group: Group) -> Group:
    """A group before the nests that clear what it does not touch."""
    others = [one for one in group.before if not _clears(uses.nests[one])]
    wanted = {buffer for one in (*others, *group.members) for buffer in touched_buffers(uses.nests[one])}
    late = [one for one in group.before if _clears(uses.nests[one]) and uses.nests[one].target not in wanted]
    before = tuple(one for one in group.before if one not in late)
    return Group(group.members, before, tuple(sorted((*late, *group.after))))


def _needed(uses: Uses, found: Members, members: Sequence[int]) -> set[int]:
    """The members about what has all roles, and those that one of them depends on; of these alone those that clear."""
    needed, wanted = set[int](), _Dependences()
    for index in reversed(members):
        nest = uses.nests[index]
        about = not found.core.isdisjoint(touched_buffers(nest)) and not _clears(nest)
        if about or wanted.on(nest):
            needed.add(index)
            wanted.add([nest])
    return needed


@dataclass(slots=True)
class _Dependences:
    """What some nests read and write."""

    reads: set[Buffer] = field(default_factory=set)
    writes: set[Buffer] = field(default_factory=set)

    def add(self, nests: Sequence[Nest]) -> None:
        self.reads.update(read.buffer for nest in nests for read in nest.reads)
        self.writes.update(nest.target for nest in nests)

    def on(self, nest: Nest) -> bool:
        """Is there a dependence between one of them and a nest?"""
        written = nest.target in self.reads or nest.target in self.writes
        return written or any(read.buffer in self.writes for read in nest.reads)


@dataclass(slots=True)
class _Inside:
    """The nests in the loops of batches and strips: how each buffer is indexed by these, and which are written."""

    found: Members
    axes: dict[Buffer, set[AxisRoles]] = field(default_factory=dict)
    written: set[Buffer] = field(default_factory=set)

    def takes(self, nest: Nest, names: Mapping[str, str]) -> bool:
        """Take one more nest, if no dependence between it and the others is then reversed: where one of them writes,
        all touch a cell in the same row of the same batch alone."""
        outer = {role: names[role] for role in self.found.roles.outer}
        own: dict[Buffer, set[AxisRoles]] = {}
        for buffer, at in access_footprints(nest):
            own.setdefault(buffer, set()).add(_axes(at, outer))
        for buffer, axes in own.items():
            if buffer == nest.target and not (axes == {_axes(nest.core.at, outer)} and self._alone(nest, axes)):
                return False
            if (buffer in self.written or (buffer == nest.target and buffer in self.axes)) and not self._meet(
                axes | self.axes[buffer]
            ):
                return False
        for buffer, axes in own.items():
            self.axes.setdefault(buffer, set()).update(axes)
        self.written.add(nest.target)
        return True

    def _meet(self, axes: set[AxisRoles]) -> bool:
        return len(axes) == 1 and self.found.roles.outer <= set(next(iter(axes)))

    def _alone(self, nest: Nest, axes: set[AxisRoles]) -> bool:
        """Does a nest come to each of its cells in one row of one batch; or does it only add to them?"""
        if self._meet(axes):
            return all(read.at == nest.core.at for read in nest.reads if read.buffer == nest.target)
        return not isinstance(nest.core, Store) and all(read.buffer != nest.target for read in nest.reads)
