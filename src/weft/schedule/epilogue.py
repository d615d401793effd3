"""What is done with the results of a product, cell by cell: statements that belong to it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from weft.affine import Affine
from weft.loops import Buffer, Cast, For, Let, Local, Read, Set, Stmt, Store, Update, combine, walk
from weft.loops.effects import effects, growth, mapped, numbers, parts
from weft.loops.nests import Loop, moved, rewritten
from weft.loops.nests import around as nested
from weft.ops import Call, Num, Scalar
from weft.optimise.latency import chains
from weft.schedule.accesses import accesses
from weft.schedule.distribute import mentioned

#: Accumulations that may run in any order.
_ANY_ORDER = {"add", "sub", "mul", "max", "min", "or", "and"}

Cell = tuple[Buffer, tuple[Scalar, ...]]


@dataclass(slots=True)
class Results:
    """The number a product is summed up in, and what follows at every point of its loops."""

    start: Let
    rest: list[Stmt]
    kept: Mapping[str, int]
    #: What is known of cells once the sum is.
    cells: dict[Cell, Scalar] = field(default_factory=dict)
    #: The cells that are added to, until something is found that starts them.
    grows: Cell | None = None

    @staticmethod
    def in_number(start: Let, rest: Sequence[Stmt], kept: Sequence[Loop]) -> Results:
        """Of a sum that grows in a number."""
        return Results(start, list(rest), dict(kept), _known({}, rest))

    def later(self, inside: Collection[Local]) -> list[Stmt]:
        """What follows from the first statement on that does more than work on the result, taken out of it.

        That are loops, tests, and numbers of the loops around (`inside`). Results are then read from where they are
        stored; where they are not, nothing is taken out.
        """
        number = next((at for at, stmt in enumerate(self.rest) if _does_more(stmt, inside)), len(self.rest))
        mine, others = self.rest[:number], self.rest[number:]
        cells = _known({}, mine)
        stored = {value: Read(*cell) for cell, value in cells.items()}
        hidden = {self.start.local, *effects(mine).lets} & set(mentioned(others))
        if not others or not hidden <= stored.keys():
            return []
        self.rest, self.cells = mine, cells

        def leaf(one: Scalar) -> Scalar | None:
            return stored[one] if one in hidden else None

        return [mapped(stmt, lambda scalar: rewritten(scalar, leaf)) for stmt in others]

    @staticmethod
    def in_memory(update: Update, total: Local, kept: Sequence[Loop]) -> Results:
        """Of a sum that grows in cells: it grows in a number instead, which is stored."""
        cell = (update.buffer, update.at)
        store = Store(*cell, total)
        return Results(Let(total, Read(*cell)), [store], dict(kept), {cell: total}, cell)

    def statements(self, factors: Sequence[Scalar]) -> list[Stmt]:
        """All it computes, for what looks at accesses alone."""
        return [self.start, Set(self.start.local, Call("mul", tuple(factors))), *self.rest]

    def complete(self, names: Sequence[Stmt]) -> None:
        """Tell names that it uses."""
        self.rest = [*names, *self.rest]

    def started(self, lead: Sequence[Stmt], around: AbstractSet[str], between: Sequence[Stmt]) -> list[Stmt]:
        """The statements before it but for one that clears its cells, which becomes where the sum starts."""
        if self.grows is None:
            return list(lead)
        buffer = self.grows[0]
        if any(one.buffer == buffer for one in accesses(between)):
            return list(lead)
        for number in range(len(lead) - 1, -1, -1):
            found = self._cleared(lead[number], around)
            if found is not None:
                self.start, self.grows = Let(self.start.local, found[0]), None
                return [*lead[:number], *found[1], *lead[number + 1 :]]
            if any(one.buffer == buffer for one in accesses((lead[number],))):
                break
        return list(lead)

    def followed(self, trail: Sequence[Stmt], around: AbstractSet[str], read: Collection[Buffer]) -> list[Stmt]:
        """The statements after it but for the first ones, as far as they work on its results cell by cell."""
        for number, stmt in enumerate(trail):
            loops, block = _nest(stmt)
            names = self._names(loops, block, around)
            taken = self._taken(block, names) if names is not None else None
            if taken is None or self._order([*self.rest, *taken[0]], read) or self._waits(taken[0]):
                return list(trail[number:])
            self.rest += taken[0]
            self.cells = taken[1]
        return []

    def trouble(self, read: Collection[Buffer]) -> str:
        """Why what follows cannot run point by point in any order; nothing if it can."""
        return self._order(self.rest, read)

    # Inside

    def _cleared(self, stmt: Stmt, around: AbstractSet[str]) -> tuple[Scalar, tuple[Stmt, ...]] | None:
        """The number that a nest gives all cells of the sum, and what else the nest does."""
        assert self.grows is not None
        buffer, cell = self.grows
        loops, block = _nest(stmt)
        if sum(one.buffer == buffer for one in accesses(block)) != 1:
            return None
        for number, one in enumerate(block):
            match one:
                case Store(at=at, value=Cast(value=Num()) as value) if one.buffer == buffer:
                    if self._mapping(loops, [(cell, at)], around) is None:
                        return None
                    rest = (*block[:number], *block[number + 1 :])
                    return value, nested(loops, rest) if rest else ()
        return None

    def _names(self, loops: Sequence[Loop], block: Sequence[Stmt], around: AbstractSet[str]) -> dict[str, str] | None:
        """What the product calls the loops of a nest that reads its results."""
        known = dict(self.cells.keys())
        pairs = [(known[one.buffer], one.at) for one in accesses(block) if one.buffer in known and one.at is not None]
        if not pairs and not loops and self.kept.keys() <= around:
            return {}  # it stands where the sum is finished
        return self._mapping(loops, pairs, around) if pairs else None

    def _mapping(
        self,
        loops: Sequence[Loop],
        cells: Sequence[tuple[tuple[Scalar, ...], tuple[Scalar, ...]]],
        around: AbstractSet[str],
    ) -> dict[str, str] | None:
        """The loops of a nest as the product's, if both come to cells just alike; None if not."""
        sizes, names = dict(loops), dict[str, str]()
        for mine, theirs in cells:
            for one, other in zip(mine, theirs, strict=True):
                match one, other:
                    case Affine(terms=((1, name),), offset=0), Affine(terms=((1, their),), offset=0) if their in sizes:
                        if names.setdefault(their, name) != name:
                            return None
                    case _ if one != other or any(name in sizes for name in _loops_of(other)):
                        return None
        inner = {name: size for name, size in self.kept.items() if name not in around}
        same = {names.get(name): size for name, size in loops} == inner
        return names if same and len(names) == len(loops) == len(inner) else None

    def _taken(self, block: Sequence[Stmt], names: Mapping[str, str]) -> tuple[list[Stmt], dict[Cell, Scalar]] | None:
        """Statements of a nest as statements on the product's results; None if they do more."""
        places = {old: Affine(((1, new),)) for old, new in names.items()}
        cells, done = dict(self.cells), list[Stmt]()

        def change(scalar: Scalar) -> Scalar:
            return rewritten(
                moved(scalar, places), lambda one: cells.get((one.buffer, one.at)) if isinstance(one, Read) else None
            )

        for stmt in block:
            new: list[Stmt]
            match mapped(stmt, change):
                case Update(buffer=buffer, at=at, op=op, value=value) if (buffer, at) in cells:
                    local = _next(buffer, len(self.rest) + len(done))
                    new = [Let(local, combine(op, cells[buffer, at], value, buffer.dtype)), Store(buffer, at, local)]
                case Store(buffer=buffer, at=at, value=value) if (buffer, at) in cells and not isinstance(value, Local):
                    local = _next(buffer, len(self.rest) + len(done))
                    new = [Let(local, value), Store(buffer, at, local)]
                case For():
                    return None
                case other:
                    new = [other]
            done += new
            cells = _known(cells, new)
        buffers = {buffer for buffer, _ in cells}
        if any(one.buffer in buffers for one in accesses(done) if not one.writes):
            return None
        return done, cells

    def _waits(self, more: Sequence[Stmt]) -> bool:
        """Would functions wait for others at the same point?"""
        first, second, both = (
            max(chains(one, {}).values(), default=0) for one in (self.rest, more, [*self.rest, *more])
        )
        return both > max(first, second)

    def _order(self, rest: Sequence[Stmt], read: Collection[Buffer]) -> str:
        """Why statements cannot run at all points in any order, between those of the sums; nothing if they can."""
        own, touched = effects(rest).lets, list(accesses(rest))
        grown = [stmt.local for stmt in rest if isinstance(stmt, Set) and stmt.local not in own]
        for stmt in rest:
            match stmt:
                case Let():
                    pass
                case Store(buffer=buffer, at=at) if not self._tells_point(at):
                    return f"`{buffer.name}` is stored more than once"
                case Store(buffer=buffer, at=at):
                    if any(one.at != at for one in touched if one.buffer == buffer):
                        return f"`{buffer.name}` is touched at several places"
                case Update(buffer=buffer, op=op) if self._tells_point(stmt.at) or op in _ANY_ORDER:
                    if any(one.at != stmt.at for one in touched if one.buffer == buffer):
                        return f"`{buffer.name}` is touched at several places"
                    if not self._tells_point(stmt.at) and sum(one.buffer == buffer for one in touched) > 2:
                        return f"`{buffer.name}` is touched more than once"
                case Set(local=local) if local in own:
                    pass
                case Set(local=local):
                    grows, uses = growth(stmt), [one for each in rest for part in parts(each) for one in numbers(part)]
                    if grows is None or grows[0] not in _ANY_ORDER or uses.count(local) > 1 or grown.count(local) > 1:
                        return f"`{local.name}` depends on the order of points"
                case _:
                    return "loops or tests follow the sum"
        if taken := [one.buffer.name for one in touched if one.writes and one.buffer in read]:
            return f"`{taken[0]}` is a factor, too"
        return ""

    def _tells_point(self, at: Sequence[Scalar]) -> bool:
        """Does every point have a cell of its own?"""
        alone = {one.terms[0][1] for one in at if isinstance(one, Affine) and len(one.terms) == 1}
        return self.kept.keys() <= alone


def _known(cells: Mapping[Cell, Scalar], block: Sequence[Stmt]) -> dict[Cell, Scalar]:
    """The numbers that cells hold after a block, of those known before it and those it stores."""
    found = dict(cells)
    for stmt in block:
        match stmt:
            case Store(buffer=buffer, at=at, value=Local() as value):
                found[buffer, at] = value
            case Store(buffer=buffer, at=at) | Update(buffer=buffer, at=at):
                found.pop((buffer, at), None)
            case Set(local=local):
                found = {cell: value for cell, value in found.items() if value != local}
    return found


def _next(buffer: Buffer, number: int) -> Local:
    return Local(f"{buffer.name.replace('.', '_')}_{number}_next", buffer.dtype)


def _nest(stmt: Stmt) -> tuple[list[Loop], list[Stmt]]:
    loops: list[Loop] = []
    block = [stmt]
    while len(block) == 1 and isinstance(block[0], For):
        loops.append((block[0].loop, block[0].size))
        block = list(block[0].body)
    return loops, block


def _loops_of(scalar: Scalar) -> list[str]:
    return [name for one in walk(scalar) if isinstance(one, Affine) for _, name in one.terms]


def _does_more(stmt: Stmt, inside: Collection[Local]) -> bool:
    return not isinstance(stmt, Let | Set | Store | Update) or any(one in inside for one in mentioned([stmt]))
