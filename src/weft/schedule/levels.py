"""A kernel as levels of loops, each knowing what is touched inside: what fusion compares and joins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from weft.loops import Buffer, For, If, Inside, Let, Local, Place, Remark, Set, Stmt
from weft.loops.effects import mapped
from weft.loops.nests import free, rewritten
from weft.ops import Scalar
from weft.schedule.access import Access, accesses
from weft.schedule.dependence import turns_around

#: From so many points on, and so many uses of a cell on average, a nest wants the processor for itself.
_HEAVY, _REUSE = 1 << 15, 4

#: Every different access, by buffer.
Touched = dict[Buffer, dict[Access, None]]


@dataclass(slots=True, eq=False)
class Level:
    """A loop, or a whole kernel, with what it runs in order. It grows when another is joined to it."""

    loop: str
    size: int
    items: list[Stmt | Level]
    touched: Touched = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    #: The loops inside, and this one, with their sizes.
    sizes: dict[str, int] = field(default_factory=dict)

    @staticmethod
    def of(body: Sequence[Stmt], loop: str = "", size: int = 1) -> Level:
        """The level of a block."""
        level = Level(loop, size, [], sizes={loop: size} if loop else {})
        for stmt in body:
            if isinstance(stmt, For):
                inner = Level.of(stmt.body, stmt.loop, stmt.size)
                level.items.append(inner)
                _merge(level.touched, inner.touched)
                level.names |= inner.names | {stmt.loop}
                level.sizes |= inner.sizes
            else:
                level.items.append(stmt)
                for one in accesses((stmt,)):
                    level.touched.setdefault(one.buffer, {})[one] = None
                level.names |= set(names_in((stmt,)))
        return level

    @property
    def body(self) -> tuple[Stmt, ...]:
        return tuple(For(one.loop, one.size, one.body) if isinstance(one, Level) else one for one in self.items)

    def join(self, other: Level, around: tuple[str, ...] = ()) -> str:
        """Run another level's items too, sharing loops; or leave both as they are and say why not.

        On the level of the kernel at least one loop must be shared, where both have loops; `around` are those shared.
        """
        shared = self._shared_loop(other, around)
        if isinstance(shared, str):
            if not self.loop and shared:
                return shared
            self.items += other.items
        else:
            mine, at, theirs = shared
            mine.join(relooped(theirs, mine.loop), (*around, mine.loop))
            self.items[-1:-1] = other.items[:at]
            self.items += other.items[at + 1 :]
        _merge(self.touched, _moved_touched(other.touched, {}))
        self.names |= other.names
        self.sizes |= other.sizes
        return ""

    def _shared_loop(self, other: Level, around: tuple[str, ...]) -> tuple[Level, int, Level] | str:
        """The last loop here and the first there, if they can be one; else why not, empty if both need not share."""
        at = next((number for number, item in enumerate(other.items) if isinstance(item, Level)), None)
        if at is None or not any(isinstance(item, Level) for item in self.items):
            return ""
        mine, theirs = self.items[-1], other.items[at]
        assert isinstance(theirs, Level)
        if not isinstance(mine, Level):
            return f"`{theirs.loop}` would come after what follows the loops"
        return _obstacle(mine, theirs, around) or self._lead_obstacle(other.items[:at]) or (mine, at, theirs)

    def _lead_obstacle(self, lead: Sequence[Stmt | Level]) -> str:
        """Why what comes before the other's loop cannot come before this one's; empty if it can."""
        for stmt in lead:
            assert not isinstance(stmt, Level)
            for one in accesses((stmt,)):
                here = self.touched.get(one.buffer, {})
                if here and (one.writes or any(access.writes for access in here)):
                    return f"`{one.buffer.name}` is needed before the loop"
        return ""


def is_heavy(body: Sequence[Stmt], loops: Mapping[str, int] | None = None) -> bool:
    """Does a block use what it reads many times over, as a product of large matrices does?"""
    loops = loops or {}
    for stmt in body:
        if isinstance(stmt, For | If | Remark):
            inner = {**loops, stmt.loop: stmt.size} if isinstance(stmt, For) else loops
            if is_heavy(stmt.body, inner):
                return True
        elif prod(loops.values()) >= _HEAVY:
            named = ({name for place in one.at or () for name in free(place)} for one in accesses((stmt,)))
            cells = sum(prod(size for loop, size in loops.items() if loop in names) for names in named)
            if prod(loops.values()) >= _REUSE * cells:
                return True
    return False


def _obstacle(mine: Level, theirs: Level, around: tuple[str, ...]) -> str:
    """Why two loops cannot be one; empty if they can."""
    if mine.size != theirs.size:
        return f"`{mine.loop}` runs to {mine.size}, `{theirs.loop}` to {theirs.size}"
    few, many = sorted((mine.touched, theirs.touched), key=len)
    for buffer in few:
        if buffer not in many:
            continue
        for one in mine.touched[buffer]:
            for other in theirs.touched[buffer]:
                apart = (one.writes or other.writes) and not _meet(one, other, mine.loop, theirs.loop)
                if apart and _turns(one, other, mine, theirs, around):
                    return f"`{buffer.name}` would be touched too early in `{mine.loop}`"
    return ""


def _turns(one: Access, other: Access, mine: Level, theirs: Level, around: tuple[str, ...]) -> bool:
    """Would the one come to a cell after the other in a shared loop?"""
    if one.at is None or other.at is None:
        return True
    return turns_around((one.at, mine.sizes), (other.at, theirs.sizes), (mine.loop, theirs.loop), around)


def _meet(one: Access, other: Access, loop: str, their: str) -> bool:
    """Do two accesses reach one cell only where the loops stand alike?"""
    if one.at is None or other.at is None:
        return False
    return any(
        isinstance(mine, Place)
        and isinstance(yours, Place)
        and len(mine.terms) == len(yours.terms) == 1
        and (mine.terms[0][1], yours.terms[0][1]) == (loop, their)
        and (mine.terms[0][0], mine.offset) == (yours.terms[0][0], yours.offset)
        for mine, yours in zip(one.at, other.at, strict=True)
    )


def relooped(level: Level, loop: str) -> Level:
    """The level with its own loop called differently."""
    return level if level.loop == loop else _renamed(level, {level.loop: loop})


def renamed(level: Level, taken: set[str]) -> Level:
    """The level with loops and numbers called differently from all those taken."""
    fresh: dict[str, str] = {}
    names = set(taken)
    for name in sorted(level.names):
        new, number = name, 1
        while new in names:
            number += 1
            new = f"{name.rstrip('0123456789').rstrip('_') or name}_{number}"
        names.add(new)
        if new != name:
            fresh[name] = new
    return _renamed(level, fresh) if fresh else level


def names_in(body: Sequence[Stmt]) -> Iterator[str]:
    """The loops and numbers a block declares."""
    for stmt in body:
        match stmt:
            case For(loop=loop, body=inner):
                yield loop
                yield from names_in(inner)
            case If(body=inner) | Remark(body=inner):
                yield from names_in(inner)
            case Let(local=local):
                yield local.name


def _merge(into: Touched, more: Touched) -> None:
    for buffer, found in more.items():
        into.setdefault(buffer, {}).update(found)


def _renamed(level: Level, fresh: Mapping[str, str]) -> Level:
    return Level(
        fresh.get(level.loop, level.loop),
        level.size,
        [_renamed(one, fresh) if isinstance(one, Level) else _statement(one, fresh) for one in level.items],
        _moved_touched(level.touched, fresh),
        {fresh.get(name, name) for name in level.names},
        {fresh.get(name, name): size for name, size in level.sizes.items()},
    )


def _moved_touched(touched: Touched, fresh: Mapping[str, str]) -> Touched:
    if not fresh:
        return touched
    return {
        buffer: {
            Access(buffer, one.at and tuple(_scalar(place, fresh) for place in one.at), one.writes): None
            for one in found
        }
        for buffer, found in touched.items()
    }


def _scalar(scalar: Scalar, fresh: Mapping[str, str]) -> Scalar:
    def leaf(one: Scalar) -> Scalar | None:
        match one:
            case Local(name=name, dtype=dtype):
                return Local(fresh.get(name, name), dtype)
            case Place(terms=terms, offset=offset):
                if not any(name in fresh for _, name in terms):
                    return one
                return Place(tuple((factor, fresh.get(name, name)) for factor, name in terms), offset)
        return None

    return rewritten(scalar, leaf)


def _statement(stmt: Stmt, fresh: Mapping[str, str]) -> Stmt:
    match stmt:
        case For(loop=loop, size=size, body=body):
            return For(fresh.get(loop, loop), size, tuple(_statement(one, fresh) for one in body))
        case If(tests=tests, body=body):
            places = tuple(Inside(_scalar(one.place, fresh), one.size) for one in tests)
            return If(places, tuple(_statement(one, fresh) for one in body))
        case Remark(text=text, body=body):
            return Remark(text, tuple(_statement(one, fresh) for one in body))
        case Let(local=local, value=value):
            return Let(Local(fresh.get(local.name, local.name), local.dtype), _scalar(value, fresh))
        case Set(local=local, value=value):
            return Set(Local(fresh.get(local.name, local.name), local.dtype), _scalar(value, fresh))
    return mapped(stmt, lambda scalar: _scalar(scalar, fresh))
