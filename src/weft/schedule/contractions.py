"""Products: sums of products of two factors, told from which loops each factor and the result know, and staged.

    for i: { for j: c[i, j] = 0;  for k: for j: c[i, j] += a[i, k] * b[k, j];  for j: y[i, j] = relu(c[i, j]) }

    becomes

    product of left i; right j; sums k:
        for i: for j: { c = 0;  for k: c = c + a[i, k] * b[k, j];  y[i, j] = relu(c) }

Of the loops around such a sum those that only one factor mentions are the product's left and right, those that the
result does not mention its sums; those that both factors mention stay around it as they are. Statements that share
these loops get loops of their own where that is right (`distribute.py`), unless they start the sum or work on its
result, cell by cell: then they belong to it (`epilogue.py`). What gathers, tests or is small stays as it is.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from weft.affine import Affine
from weft.errors import WeftWarning
from weft.loops import Buffer, Cast, For, If, Let, Local, Read, Remark, Set, Staged, Stmt, Store, Update, walk
from weft.loops.annotations import product
from weft.loops.effects import effects, everything, numbers, sources, with_body
from weft.loops.insert_casts import dtype_of
from weft.loops.nests import Loop, around, free, rewritten
from weft.ops import Call, Num, Scalar
from weft.schedule.accesses import read_in
from weft.schedule.distribute import mentioned, obstacle
from weft.schedule.epilogue import Results
from weft.schedule.nodes import Kernel

_TYPES = ("float32", "float64")
#: What a factor may be computed with: it is computed again for every tile.
_CHEAP = {"add", "sub", "mul", "neg", "relu", "max", "min", "arg1", "arg2", "relu_gate", "lt", "le", "where"}


def stage(kernels: Sequence[Kernel], outside: Collection[Buffer], points: int = 1 << 10) -> list[Kernel]:
    """The kernels with products of so many points staged; `outside` are the buffers that must be written for later."""
    staged = [_checked(one, replace(one, body=_Staging(points).block(one.body))) for one in kernels]
    wanted = set(outside).union(*(read_in(one.body) for one in staged))
    return [replace(one, body=tuple(_needed(stmt, wanted) for stmt in one.body)) for one in staged]


def _checked(kernel: Kernel, staged: Kernel) -> Kernel:
    """The staged kernel, if it still does all that the kernel does: else this very file has an error, which is told,
    and the kernel stays as it is."""
    if not (gone := lost(kernel.body, staged.body)):
        return staged
    text = f"an error in weft, please report it: {gone} is lost where products are staged; this kernel runs without"
    warnings.warn(text, WeftWarning, stacklevel=2)
    return kernel


def lost(before: Sequence[Stmt], after: Sequence[Stmt]) -> str:
    """A write or a buffer read that is no longer in a block that should do the same; nothing if all of them are.

    Clearing a buffer may go, where a product that writes it starts from there.
    """
    for one in _writes(before) - _writes(after):
        return f"a write of `{one.name}`"
    for buffer in effects(before).buffers - effects(after).buffers:
        return f"`{buffer.name}`"
    for buffer in read_in(before) - effects(before).buffers - read_in(after):
        return f"a read of `{buffer.name}`"
    return ""


def _writes(body: Sequence[Stmt]) -> Counter[Buffer | Local]:
    """How often a block writes each buffer, other than to clear it, and sets each number."""
    found: Counter[Buffer | Local] = Counter()
    for stmt in everything(body):
        match stmt:
            case Store(value=Cast(value=Num())):
                pass
            case Store(buffer=buffer) | Update(buffer=buffer):
                found[buffer] += 1
            case Set(local=local):
                found[local] += 1
    return found


def refusals(body: Sequence[Stmt], points: int = 1 << 10) -> list[str]:
    """Why sums of products in a block are not staged."""
    staging = _Staging(points)
    staging.block(tuple(body))
    return [f"{_title(stmt)}: {why}" for stmt, why in staging.why.items() if why]


def staged_in(body: Sequence[Stmt]) -> list[Staged]:
    """What is staged in a block."""
    return [one for one in everything(body) if isinstance(one, Staged)]


@dataclass(frozen=True, slots=True)
class _Core:
    """A statement that adds to a sum, and the way to it: blocks, outermost first, and its place in each."""

    stmt: Set | Update
    blocks: tuple[Sequence[Stmt], ...]
    at: tuple[int, ...]

    @property
    def loops(self) -> tuple[Loop, ...]:
        """The loops around it; the n-th holds the block after the n-th."""
        steps = (block[at] for block, at in zip(self.blocks, self.at, strict=True))
        return tuple((one.loop, one.size) for one in steps if isinstance(one, For))

    @property
    def points(self) -> int:
        return prod(size for _, size in self.loops)


@dataclass(slots=True)
class _Staging:
    #: From so many multiplications on, staging pays.
    points: int
    #: Why what looks like a product is none, of all its loops; empty where that is nothing special.
    why: dict[Set | Update, str] = field(default_factory=dict)

    def block(self, body: Sequence[Stmt]) -> tuple[Stmt, ...]:
        """A block with its products staged."""
        done = list(body)
        at = 0
        while at < len(done):
            stmt = done[at]
            found = self._found(done, at) if isinstance(stmt, For) else None
            if found is not None:
                done, at = found, 0
            else:
                if isinstance(stmt, If):
                    tested = [one for one in stmt.body if isinstance(one, Set | Update) and _added(one) is not None]
                    self.why |= dict.fromkeys(tested, "it runs under tests")
                if isinstance(stmt, For | If | Remark):
                    done[at] = with_body(stmt, self.block(stmt.body))
                at += 1
        return tuple(done)

    def _found(self, block: Sequence[Stmt], at: int) -> list[Stmt] | None:
        """The block with the largest product of the loop there staged; None if there is none."""
        for core in sorted(_cores(block, at), key=lambda one: -one.points):
            try:
                found = _Attempt(core, self.points).result()
            except _Deeper:
                continue
            except _No as no:
                self.why.setdefault(core.stmt, str(no))
            else:
                self.why.pop(core.stmt, None)
                return found
        return None


def _cores(block: Sequence[Stmt], at: int) -> Iterator[_Core]:
    """The sums of products in the loop there."""

    def inside(blocks: tuple[Sequence[Stmt], ...], places: tuple[int, ...]) -> Iterator[_Core]:
        stmt = blocks[-1][places[-1]]
        match stmt:
            case For(body=body):
                for place in range(len(body)):
                    yield from inside((*blocks, body), (*places, place))
            case Update(op="add") | Set() if len(blocks) > 1 and _added(stmt) is not None:
                yield _Core(stmt, blocks, places)

    return inside((block,), (at,))


def _added(stmt: Stmt) -> Call | None:
    """The product that a statement adds to a sum of floats."""
    match stmt:
        case Update(op="add", buffer=buffer, value=Call(op="mul") as value):
            return value if buffer.dtype in _TYPES else None
        case Set(local=local, value=Call(op="add", args=(first, Call(op="mul") as value))) if local == first:
            return value if local.dtype in _TYPES else None
    return None


def _title(stmt: Set | Update) -> str:
    return stmt.local.name if isinstance(stmt, Set) else stmt.buffer.name


class _No(Exception):
    """It is no product, or none that can be staged. The text may be empty, where that is nothing special."""


class _Deeper(_No):
    """Without its outermost loop it may be one."""


@dataclass(slots=True)
class _Attempt:
    """One sum of products on its way to be staged."""

    core: _Core
    worth: int
    #: Numbers that are only names for what they are, by the depth of their blocks.
    named: dict[Local, tuple[int, Scalar]] = field(default_factory=dict)

    def result(self) -> list[Stmt]:
        """The outermost block with the product staged."""
        core, loops = self.core, dict(self.core.loops)
        if core.points < self.worth:
            raise _No("too small")
        self._name()
        factors = self._factors()
        depth, kept = self._kept()
        knows = [set(free(one)) for one in factors]
        batch = [name for name in kept if all(name in one for one in knows)]
        left, right = ([name for name in kept if name in one and name not in batch] for one in knows)
        sums = [name for name in loops if name not in kept]
        if core.loops[0][0] in batch:
            raise _Deeper
        if idle := [name for name in kept if not any(name in one for one in knows)]:
            raise _No(f"no factor knows `{idle[0]}`")
        if not sums or not (left or right):
            raise _No("")
        if prod(loops[name] for name in (*left, *right, *sums)) < self.worth:
            raise _No("too small")
        groups = tuple([(name, loops[name]) for name in some] for some in (left, right, sums))
        results = self._results(depth, tuple((name, loops[name]) for name in kept))
        return self._put(depth, results, factors, groups, [(name, loops[name]) for name in batch])

    # What it is

    def _name(self) -> None:
        """Find the numbers before it that are only names."""
        sets, writes = effects(self.core.blocks[0]).sets, effects([self.core.blocks[0][self.core.at[0]]]).buffers
        for depth, (block, at) in enumerate(zip(self.core.blocks, self.core.at, strict=True)):
            for number, stmt in enumerate(block[:at]):
                if isinstance(stmt, Let) and stmt.local not in sets and self._known(stmt.value):
                    beside = effects(block[number:at]).buffers if depth == 0 else set()
                    if not sources(stmt.value) & (writes | beside):
                        self.named[stmt.local] = depth, self._spelled(stmt.value)

    def _known(self, scalar: Scalar) -> bool:
        """Does a scalar mention no numbers of the loops but names?"""
        inside = effects(self.core.blocks[0])
        return all(one in self.named or one not in inside.sets | inside.lets for one in numbers(scalar))

    def _spelled(self, scalar: Scalar) -> Scalar:
        """A scalar with names replaced by what they stand for."""

        def leaf(one: Scalar) -> Scalar | None:
            return self.named[one][1] if isinstance(one, Local) and one in self.named else None

        return rewritten(scalar, leaf)

    def _is_name(self, stmt: Stmt) -> bool:
        return isinstance(stmt, Let) and stmt.local in self.named

    def _factors(self) -> tuple[Scalar, Scalar]:
        added = _added(self.core.stmt)
        assert added is not None
        value = self._spelled(added)
        assert isinstance(value, Call)
        one, other = value.args
        for factor in (one, other):
            if trouble := _trouble(factor, dtype_of(value)):
                raise _No(trouble)
        return one, other

    def _kept(self) -> tuple[int, list[str]]:
        """The depth of the block that holds all its sums, and the loops that the result knows."""
        names = [name for name, _ in self.core.loops]
        stmt = self.core.stmt
        if isinstance(stmt, Update):
            terms = [place.terms for place in stmt.at if isinstance(place, Affine)]
            moving = [[name for _, name in one if name in names] for one in terms]
            if len(terms) < len(stmt.at) or any(len(one) > 1 for one in moving):
                raise _No("its cells are not told by one loop each")
            kept = [name for name in names if [name] in moving]
            if sum(map(len, moving)) > len(kept):
                raise _No("its cells lie on a diagonal")
            return next((at for at, name in enumerate(names) if name not in kept), len(names)), kept
        for depth in range(1, len(self.core.blocks)):
            block = self.core.blocks[depth]
            if any(isinstance(one, Let) and one.local == stmt.local for one in block[: self.core.at[depth]]):
                return depth, names[:depth]
        raise _No("it is one number")

    # Where it goes

    def _results(self, depth: int, kept: Sequence[Loop]) -> Results:
        """The sum's number and what is done with it in its own block."""
        stmt, block, at = self.core.stmt, self.core.blocks[depth], self.core.at[depth]
        if isinstance(stmt, Update):
            name = f"{stmt.buffer.name.replace('.', '_')}_total"
            return Results.in_memory(stmt, Local(name, stmt.buffer.dtype), kept)
        start = next(one for one in block[:at] if isinstance(one, Let) and one.local == stmt.local)
        return Results.in_number(start, block[at + 1 :], kept)

    def _put(
        self,
        depth: int,
        results: Results,
        factors: tuple[Scalar, Scalar],
        groups: tuple[list[Loop], ...],
        batch: list[Loop],
    ) -> list[Stmt]:
        """The outermost block, with the product and what ran in its loops one after another."""
        core, before, after = self.core, list[Stmt](), list[Stmt]()
        read = sources(factors[0]) | sources(factors[1])
        own = isinstance(core.stmt, Set)
        for level in range(len(core.blocks) - 1, -1, -1):
            block, at = core.blocks[level], core.at[level]
            lead = [one for one in block[:at] if level == 0 or not self._is_name(one)]
            trail = list(block[at + 1 :])
            if own and level == depth:
                lead = [one for one in lead if one != results.start]
                trail = results.later(self._inside(depth))
            if level <= depth:  # here the sum is finished
                inner = {name for name, _ in core.loops[:level]}
                lead = results.started(lead, inner, before)
                if not after and not (own and level == depth):
                    trail = results.followed(trail, inner, read)
                results.complete(self._lets(level, results.rest))
            before, after = [*lead, *before], [*after, *trail]
            begun = [one for one in lead if level and _begins(one, after)]  # numbers that only what follows knows
            before, after = [one for one in before if one not in begun], [*begun, *after]
            if level == 0:
                break
            mine = results.statements(factors)
            if trouble := obstacle(core.loops[level - 1][0], [one for one in (before, mine, after) if one]):
                raise _No(trouble)
            before, after = (self._again(level, some) for some in (before, after))
        if trouble := results.trouble(read):
            raise _No(trouble)
        left, right, sums = groups
        staged = product(left, right, sums, results.start, factors, results.rest)
        self._check_numbers(before, staged, after)
        return [*before, *around(batch, (staged,)), *after]

    def _inside(self, depth: int) -> set[Local]:
        """The numbers declared in the product's loops, but not in the block of its sums."""
        blocks = zip(self.core.blocks[1:depth], self.core.at[1:depth], strict=True)
        return {one.local for block, at in blocks for one in block[:at] if isinstance(one, Let)} - self.named.keys()

    def _again(self, level: int, body: Sequence[Stmt]) -> list[Stmt]:
        """Statements of a block in a loop of their own."""
        loop = self.core.loops[level - 1]
        return list(around([loop], (*self._lets(level, body), *body))) if body else []

    def _lets(self, level: int, body: Sequence[Stmt]) -> list[Stmt]:
        """The names of a block that statements of it use, told before them again."""
        found: list[Stmt] = []
        wanted = set(mentioned(body))
        for stmt in reversed(self.core.blocks[level][: self.core.at[level]] if level else ()):
            if isinstance(stmt, Let) and stmt.local in wanted and self._is_name(stmt):
                found.insert(0, stmt)
                wanted |= set(mentioned([stmt]))
        return found

    def _check_numbers(self, before: Sequence[Stmt], staged: Staged, after: Sequence[Stmt]) -> None:
        """No number of the loops taken apart may be used where it is not known."""
        inside = {one.local for one in everything([self.core.blocks[0][self.core.at[0]]]) if isinstance(one, Let)}
        for piece in ([*before], [staged], [*after]):
            if lost := [one for one in mentioned(piece) if one in inside]:
                raise _No(f"`{lost[0].name}` is a number that other code uses, too")
        shared = [one for one in mentioned([staged]) if one in effects([staged]).sets]
        if any(one in mentioned(piece) for one in shared for piece in ([*before], [*after]) if self._moved(piece)):
            raise _No(f"`{shared[0].name}` is a number that other code uses, too")

    def _moved(self, piece: Sequence[Stmt]) -> list[Stmt]:
        """The statements of a piece that were inside the loops."""
        return [one for one in piece if one not in self.core.blocks[0]]


def _trouble(factor: Scalar, dtype: str) -> str:
    """Why something cannot be a factor; nothing if it can."""
    inside = walk(factor)
    tensors = [one for one in inside if isinstance(one, Read)]
    if any(isinstance(one, Local) for one in inside):
        return "a factor is a number computed elsewhere"
    if any(not isinstance(place, Affine) for one in tensors for place in one.at):
        return "a factor is gathered"
    if len(tensors) != 1:
        return "a factor is not one tensor's"
    if dtype_of(factor) != dtype or any(one.buffer.dtype != dtype for one in tensors):
        return "a factor is of another type"
    if any(isinstance(one, Call) and one.op not in _CHEAP for one in inside):
        return "a factor takes long to compute"
    return ""


def _begins(stmt: Stmt, after: Sequence[Stmt]) -> bool:
    """Does a statement give a number that other statements use its first value, whenever it runs?"""
    return isinstance(stmt, Let) and not sources(stmt.value) and stmt.local in mentioned(after)


def _needed(stmt: Stmt, wanted: Collection[Buffer]) -> Stmt:
    """A statement without what staged code stores and nobody reads."""
    match stmt:
        case Staged(what=what, body=body):
            return Staged(what, tuple(one for inner in body for one in _stored(inner, wanted)))
        case For() | If() | Remark():
            return with_body(stmt, tuple(_needed(one, wanted) for one in stmt.body))
    return stmt


def _stored(stmt: Stmt, wanted: Collection[Buffer]) -> list[Stmt]:
    match stmt:
        case For(body=body):
            return [with_body(stmt, tuple(one for inner in body for one in _stored(inner, wanted)))]
        case Store(buffer=buffer) if buffer not in wanted:
            return []
    return [stmt]
