"""The loop tree of a kernel, each loop with the accesses inside it: what fusion compares and joins."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TypeAlias

from weft.affine import Affine
from weft.loops import Buffer, For, Let, Stmt
from weft.loops.walk import Access, Body, PathStep, accesses, everything, free, own_accesses, rename, scoped
from weft.naming import FreshNames
from weft.schedule.dependence import reverses_dependence

#: Every different access, by buffer.
Touched = dict[Buffer, dict[Access, None]]
#: The names that two levels have for the loops that they share.
Shared = tuple[tuple[str, str], ...]
#: Why two levels had better not share some loops; empty if they had.
Weighed: TypeAlias = "Callable[[Level, Level, Shared], str]"
#: New names of loops and variables.
LoopNames = Mapping[str, str]


@dataclass(slots=True, eq=False)
class Level:
    """A loop, or a whole kernel, with what it runs in order. Others are joined into it."""

    loop: str
    size: int
    items: list[Stmt | Level]
    touched: Touched = field(default_factory=dict)
    #: The loops inside, and this one, with their sizes.
    sizes: dict[str, int] = field(default_factory=dict)
    #: The items as statements, until others join them.
    known: Body | None = None

    @staticmethod
    def of(body: Sequence[Stmt], loop: str = "", size: int = 1) -> Level:
        """The level of a block."""
        level = Level(loop, size, [], sizes={loop: size} if loop else {}, known=tuple(body))
        for stmt in body:
            if isinstance(stmt, For):
                inner = Level.of(stmt.body, stmt.loop, stmt.size)
                level.items.append(inner)
                _merge(level.touched, inner.touched)
                level.sizes |= inner.sizes
            else:
                level.items.append(stmt)
                for one in accesses((stmt,)):
                    level.touched.setdefault(one.buffer, {})[one] = None
        return level

    @property
    def body(self) -> Body:
        if self.known is None:
            self.known = tuple(
                [For(one.loop, one.size, one.body) if isinstance(one, Level) else one for one in self.items]
            )
        return self.known

    @property
    def first_loop(self) -> int | None:
        """The index of the first item that is a loop."""
        return next((index for index, item in enumerate(self.items) if isinstance(item, Level)), None)

    def join(self, other: Level, names: LoopNames, weighed: Weighed) -> str:
        """Run another kernel's items too, sharing loops; or leave both as they are and say why not.

        `names` are the new names of its loops and variables where they are not shared. At least one loop must be shared
        where both have loops. `weighed` says why loops that could be shared had better not be, if so; then fewer are.
        """
        shared, why = self._shared(other, names, ())
        while shared and (against := weighed(self, other, shared)):
            shared, why = shared[:-1], against
        if why and not shared:
            return why
        new = {**names, **{theirs: mine for mine, theirs in shared}}
        body = renamed(other.body, new)
        if body is not other.body:
            other = Level.of(body)
        self._take(other, len(shared))
        return ""

    def _shared(self, other: Level, names: LoopNames, around: Shared) -> tuple[Shared, str]:
        """The loops that two levels can share, after those around, and why there are no more; empty if none need be."""
        at = other.first_loop
        if at is None or self.first_loop is None:
            return around, ""
        theirs = other.items[at]
        assert isinstance(theirs, Level)
        mine = self.items[self._open_loop(theirs)]
        if not isinstance(mine, Level):
            return around, f"`{names[theirs.loop]}` would come after what follows the loops"
        why = _obstacle(mine, theirs, names, around) or self._lead_obstacle(other.items[:at])
        return (around, why) if why else mine._shared(theirs, names, (*around, (mine.loop, theirs.loop)))

    def _open_loop(self, theirs: Level) -> int:
        """The item another loop could share: the last, or the last loop if what follows is independent of it."""
        last = len(self.items) - 1
        for index in range(last, -1, -1):
            item = self.items[index]
            if isinstance(item, Level):
                return index
            if any(_depends(one, theirs.touched) for one in accesses((item,))):
                break
        return last

    def _lead_obstacle(self, lead: Sequence[Stmt | Level]) -> str:
        """Why what comes before the other's loop cannot come before this one's; empty if it can."""
        for stmt in lead:
            assert not isinstance(stmt, Level)
            for one in accesses((stmt,)):
                if _depends(one, self.touched):
                    return f"`{one.buffer.name}` is needed before the loop"
        return ""

    def _take(self, other: Level, shared: int) -> None:
        """Run another level's items after these, but for what shares this many loops."""
        self.known = None
        at = other.first_loop if shared else None
        if at is None:
            self.items += other.items
        else:
            theirs = other.items[at]
            assert isinstance(theirs, Level)
            index = self._open_loop(theirs)
            mine = self.items[index]
            assert isinstance(mine, Level)
            mine._take(theirs, shared - 1)
            self.items[index:index] = other.items[:at]
            self.items += other.items[at + 1 :]
        _merge(self.touched, other.touched)
        self.sizes |= other.sizes


def _depends(one: Access, touched: Touched) -> bool:
    """Does an access depend on one of those touched, either way?"""
    here = touched.get(one.buffer, {})
    return bool(here) and (one.writes or any(access.writes for access in here))


def reuses(body: Sequence[Stmt], points: int, reuse: int) -> bool:
    """Does a block reuse what it reads many times, as a contraction does, at so many points or more?

    What statements of one block touch counts together: a variable may be all that one of them reads.
    """
    touched: dict[tuple[PathStep, ...], int] = {}
    for stmt, scope in scoped(body):
        indexed = ({name for index in one.at or () for name in free(index)} for one in own_accesses(stmt))
        cells = sum(prod(size for loop, size in scope.loops if loop in names) for names in indexed)
        touched[scope.around] = touched.get(scope.around, 0) + cells
    counts = {around: prod(step.loop[1] for step in around if step.loop) for around in touched}
    return any(cells and counts[one] >= max(points, reuse * cells) for one, cells in touched.items())


def bound_names(body: Sequence[Stmt]) -> set[str]:
    """The names of a block's loops and of the variables it declares."""
    return {_bound(one) for one in everything(body) if isinstance(one, For | Let)}


def new_names(names: Collection[str], taken: Collection[str]) -> dict[str, str]:
    """New names for all of some names, the same where they are not taken."""
    fresh = FreshNames(taken)
    return {name: fresh.fresh(name, name.rstrip("0123456789").rstrip("_")) for name in sorted(names)}


def renamed(body: Sequence[Stmt], names: LoopNames) -> Body:
    """A block with other names for loops, its own and those around it, and for its variables."""
    if all(old == new for old, new in names.items()):
        return tuple(body)
    return rename(body, lambda stmt: names.get(_bound(stmt), _bound(stmt)), dict(names.items()))


def _bound(stmt: For | Let) -> str:
    return stmt.loop if isinstance(stmt, For) else stmt.local.name


def _obstacle(mine: Level, theirs: Level, names: LoopNames, around: Shared) -> str:
    """Why two loops cannot be one; empty if they can."""
    if mine.size != theirs.size:
        return f"`{mine.loop}` runs to {mine.size}, `{names[theirs.loop]}` to {theirs.size}"
    few, many = sorted((mine.touched, theirs.touched), key=len)
    for buffer in few:
        if buffer not in many:
            continue
        for one in mine.touched[buffer]:
            for other in theirs.touched[buffer]:
                dependent = (one.writes or other.writes) and not _meet(one, other, mine.loop, theirs.loop)
                if dependent and _reverses(one, other, mine, theirs, around):
                    return f"`{buffer.name}` would be touched too early in `{mine.loop}`"
    return ""


def _reverses(one: Access, other: Access, mine: Level, theirs: Level, around: Shared) -> bool:
    """Would a shared loop reverse a dependence: would the first come to a cell after the second?"""
    if one.at is None or other.at is None:
        return True
    return reverses_dependence((one.at, mine.sizes), (other.at, theirs.sizes), (mine.loop, theirs.loop), around)


def _meet(one: Access, other: Access, loop: str, their: str) -> bool:
    """Do two accesses touch one cell only in the same iteration of the loops?"""
    if one.at is None or other.at is None:
        return False
    return any(
        isinstance(mine, Affine)
        and isinstance(yours, Affine)
        and len(mine.terms) == len(yours.terms) == 1
        and (mine.terms[0][1], yours.terms[0][1]) == (loop, their)
        and (mine.terms[0][0], mine.offset) == (yours.terms[0][0], yours.offset)
        for mine, yours in zip(one.at, other.at, strict=True)
    )


def _merge(into: Touched, more: Touched) -> None:
    for buffer, found in more.items():
        into.setdefault(buffer, {}).update(found)
