"""Does code read only what it has written itself?

    for j: e[j] = x[j];  for j: y[j] = e[j] + e[0]      yes: every cell of e is written before it is read
    for j: e[j + 1] = e[j]                              no: what e[0] holds comes from elsewhere

A read is covered if its cell is among those that statements before it write, in the same turn of all loops around both.
What earlier turns of those loops wrote is left out of account, so the answer may be no where it could be yes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import islpy as isl

from weft.affine import Affine
from weft.loops import Buffer, For, If, Inside, Remark, Staged, Stmt
from weft.loops.walk import Access, Loop, free, own_accesses
from weft.ops import Scalar


@dataclass(frozen=True, slots=True)
class Step:
    """A statement on the way to an access: its number in its block, and the loop or the tests it puts around."""

    number: int
    loop: Loop | None = None
    tests: tuple[Inside, ...] = ()
    #: Does a backend place what is inside, in an order of its own?
    staged: bool = False


@dataclass(frozen=True, slots=True)
class Site:
    """An access and the statements around it, outermost first, its own last."""

    access: Access
    steps: tuple[Step, ...]

    @property
    def loops(self) -> tuple[Loop, ...]:
        return tuple(step.loop for step in self.steps if step.loop is not None)

    @property
    def tests(self) -> tuple[Inside, ...]:
        return tuple(test for step in self.steps for test in step.tests)


def sites(body: Sequence[Stmt]) -> dict[Buffer, list[Site]]:
    """Every access in a block, by buffer, in the order written."""
    found: dict[Buffer, list[Site]] = {}
    for site in _sites(body, ()):
        found.setdefault(site.access.buffer, []).append(site)
    return found


def covered(one_buffer: Sequence[Site]) -> bool:
    """Do the sites of a buffer, all it has in some block, read only what they wrote?"""
    reads = dict.fromkeys(site for site in one_buffer if not site.access.writes)
    writes = list(dict.fromkeys(site for site in one_buffer if site.access.writes))
    return all(_covered(read, writes) for read in reads)


def _sites(body: Sequence[Stmt], around: tuple[Step, ...]) -> Iterator[Site]:
    for number, stmt in enumerate(body):
        match stmt:
            case For(loop=loop, size=size, body=inner):
                yield from _sites(inner, (*around, Step(number, (loop, size))))
            case If(tests=tests, body=inner):
                yield from (Site(one, (*around, Step(number))) for one in own_accesses(stmt))
                yield from _sites(inner, (*around, Step(number, tests=tests)))
            case Remark(body=inner):
                yield from _sites(inner, (*around, Step(number)))
            case Staged(body=inner):
                yield from _sites(inner, (*around, Step(number, staged=True)))
            case _:
                yield from (Site(one, (*around, Step(number))) for one in own_accesses(stmt))


def _covered(read: Site, writes: Sequence[Site]) -> bool:
    before = [(write, shared) for write in writes if (shared := _shared(write, read)) is not None]
    if any(_plainly(write, read, shared) for write, shared in before):
        return True
    return _by_sets(read, [(write, shared) for write, shared in before if _told(write, shared)])


def _shared(write: Site, read: Site) -> int | None:
    """How many steps two sites share, if the write comes first in the block where they part; else None."""
    for shared, (mine, yours) in enumerate(zip(write.steps, read.steps, strict=False)):
        if mine.number != yours.number:
            return shared if mine.number < yours.number else None
    return None


def _plainly(write: Site, read: Site, shared: int) -> bool:
    """Does a write cover a read as anybody can see: in each axis at its place, or everywhere by a loop of its own?"""
    own = write.steps[shared:]
    inner = {step.loop[0]: step.loop[1] for step in own if step.loop is not None}
    if any(step.tests for step in own) or not all(inner.values()):
        return False
    wanted, at = read.access.at, write.access.at
    if wanted is None or at is None:
        return True
    idle = dict(inner)  # a loop is everywhere in one axis only
    for place, there, size in zip(at, wanted, write.access.buffer.shape, strict=True):
        fixed = isinstance(place, Affine) and inner.keys().isdisjoint(free(place))
        if size != 1 and not (fixed and place == there) and idle.pop(_loop(place), None) != size:
            return False
    return True


def _loop(place: Scalar) -> str:
    """The loop that a place is; nothing if it is more than that."""
    match place:
        case Affine(terms=((1, name),), offset=0):
            return name
    return ""


def _told(write: Site, shared: int) -> bool:
    """Can its cells be told from the loops: no gathers, no tests of its own that depend on values?"""
    own = (test.place for step in write.steps[shared:] for test in step.tests)
    return all(isinstance(one, Affine) for one in (*(write.access.at or ()), *own))


def _by_sets(read: Site, before: Sequence[tuple[Site, int]]) -> bool:
    """Decided by isl: loops around the read are parameters, a write's own loops take all their values."""
    if not before:
        return False
    names: dict[str, str] = {}
    wanted = _cells(read, len(read.steps), names)
    written = "; ".join(_cells(write, shared, names) for write, shared in before)
    parameters = f"[{', '.join(names.values())}] -> "
    return bool(isl.Set(f"{parameters}{{ {wanted} }}").is_subset(isl.Set(f"{parameters}{{ {written} }}")))


def _cells(site: Site, shared: int, names: dict[str, str]) -> str:
    """The cells of a site as isl writes sets; what cannot be told of them is left open.

    `names` is what loops and static indices are called as parameters; loops after `shared` steps are no parameters.
    """
    inner = {step.loop[0]: f"l{depth}" for depth, step in enumerate(site.steps) if step.loop and depth >= shared}

    def name(one: str) -> str:
        return inner.get(one) or names.setdefault(one, f"p{len(names)}")

    def text(place: Affine) -> str:
        return " + ".join([*(f"{factor} * {name(one)}" for factor, one in place.terms), str(place.offset)])

    holds = [f"0 <= {name(loop)} < {size}" for loop, size in site.loops]
    holds += [f"0 <= {text(test.place)} < {test.size}" for test in site.tests if isinstance(test.place, Affine)]
    shape, at = site.access.buffer.shape, site.access.at or ()
    holds += [f"0 <= x{axis} < {size}" for axis, size in enumerate(shape)]
    holds += [f"x{axis} = {text(place)}" for axis, place in enumerate(at) if isinstance(place, Affine)]
    cell = ", ".join(f"x{axis}" for axis in range(len(shape)))
    condition = " and ".join(holds) or "true"
    return f"[{cell}] : " + (f"exists ({', '.join(inner.values())} : {condition})" if inner else condition)
