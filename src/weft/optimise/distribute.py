"""Loop distribution: what a loop need not run in its iterations, one after another, gets a loop of its own.

    for t: { u[t] = w * x[t];  h[t + 1] = tanh(h[t] + u[t]);  y[t] = h[t + 1] * 2 }

becomes

    for t: u[t] = w * x[t];    for t: h[t + 1] = tanh(h[t] + u[t]);    for t: y[t] = h[t + 1] * 2

Nests of a loop that depend on one another in a cycle, through its iterations, stay together: the strongly connected
components of the dependence graph (Allen and Kennedy). Every other nest is one that may run in any order and be fused
with whatever lies before or behind, and a sum over iterations is a sum like others. A nest whose cells depend on others
of its own keeps the order of those loops too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count, groupby
from math import prod

from weft.affine import AccessMap, Affine, distance
from weft.loops.contraction import contraction_of
from weft.loops.nests import Nest
from weft.loops.nodes import Buffer, Read, Update
from weft.ops import OPS, Scalar
from weft.thresholds import USUAL

#: What runs in an iteration: a nest, or several that share a loop inside.
Item = tuple[Nest, ...]


def distributed(nests: Sequence[Nest], fewest: int = USUAL.filled_tiles) -> list[Nest]:
    """The nests, each sharing no more loops than it must; contractions of `fewest` rows, columns, sums fill tiles."""
    ids = count(1 + max((number for nest in nests for number in nest.shared), default=0))
    return [nest for item in _items(nests, 0) for nest in _distributed(item, 0, ids, fewest)]


def _items(nests: Iterable[Nest], depth: int) -> Iterator[Item]:
    """Nests that share the loop at a depth, together; others by themselves."""
    numbered = enumerate(nests)
    for _, run in groupby(numbered, lambda one: one[1].shared[depth] if len(one[1].shared) > depth else ~one[0]):
        yield tuple(nest for _, nest in run)


def _distributed(item: Item, depth: int, ids: Iterator[int], fewest: int) -> Iterator[Nest]:
    """The nests of an item, which share the loops above a depth whatever becomes of those below."""
    if len(item[0].shared) <= depth:
        yield _keeping_order(item[0], ids)
        return
    parts = list(_items(item, depth + 1))
    for component in _components(_with_contractions(_dependences(parts, depth), parts, depth, fewest)):
        chosen = [parts[at] for at in component]
        if len(chosen) == 1 and len(chosen[0]) == 1:
            nest = chosen[0][0]
            yield _keeping_order(replace(nest, shared=nest.shared[:depth]), ids)
            continue
        number = next(ids)
        for part in chosen:
            below = tuple(replace(one, shared=(*one.shared[:depth], number, *one.shared[depth + 1 :])) for one in part)
            yield from _distributed(below, depth + 1, ids, fewest)


def _with_contractions(after: list[list[int]], parts: Sequence[Item], depth: int, fewest: int) -> list[list[int]]:
    """The dependences of parts, and of contractions on recurrences that alone read them: those stay together.

    In an iteration there is enough to do for tiles, and what they leave need not be stored for all iterations.
    """
    cycles = {at: tuple(group) for group in _connected(after) if len(group) > 1 for at in group}
    found = [list(one) for one in after]
    for at, part in enumerate(parts):
        if at in cycles or len(part) > 1 or not _fills_tiles(part[0], depth, fewest):
            continue
        own = [one for one, each in enumerate(parts) if each[0].target == part[0].target]
        readers = {cycles.get(one) for writer in own for one in after[writer] if one not in own}
        if len(readers) == 1 and (cycle := readers.pop()) is not None:
            for one in own:
                found[cycle[0]].append(one)
    return found


def _fills_tiles(nest: Nest, depth: int, fewest: int) -> bool:
    """Is a nest a contraction that has work for whole tiles in every iteration of a loop?"""
    what = contraction_of(nest)
    if what is None or what.why:
        return False
    outer = {name for name, _ in nest.loops[: depth + 1]}
    sides = (prod(size for name, size in group if name not in outer) for group in (what.left, what.right, what.sums))
    return min(sides) >= fewest


def _keeping_order(nest: Nest, ids: Iterator[int]) -> Nest:
    """A nest that shares those loops, if only with itself, in whose iterations its own cells depend on one another.

    Where one loop alone carries all that, and others only tell cells apart, it may stand anywhere among them: it comes
    first, and `interchange.py` says where it had better be.
    """
    if nest.target not in {read.buffer for read in nest.reads}:
        return nest
    own = range(len(nest.shared), len(nest.loops))
    carrying = [depth for depth in own if _depends(nest, nest, depth, 1)]
    if not carrying:
        return nest
    if len(carrying) == 1 and all(_apart(nest, depth) for depth in own if depth not in carrying):
        outer, first = nest.loops[: own.start], nest.loops[carrying[0]]
        rest = [loop for loop in nest.loops[own.start :] if loop != first]
        return replace(nest, loops=(*outer, first, *rest), shared=(*nest.shared, next(ids)))
    return replace(nest, shared=(*nest.shared, *(next(ids) for depth in own if depth <= carrying[-1])))


def _apart(nest: Nest, depth: int) -> bool:
    """Do iterations of a loop touch different cells of what the nest writes, whatever the other loops do?"""
    written, loop = nest.core.at, nest.loops[depth][0]
    cells = [written, *(read.at for read in nest.reads if read.buffer == nest.target)]
    return any(all(at[axis] == one for at in cells) for axis, one in enumerate(written) if _is_loop(one, loop))


def _is_loop(index: Scalar, loop: str) -> bool:
    return isinstance(index, Affine) and len(index.terms) == 1 and index.terms[0][1] == loop


def _dependences(parts: Sequence[Item], depth: int) -> list[list[int]]:
    """For each part of a loop those that must run after it, in the same iteration or in a later one."""
    touching: dict[Buffer, dict[int, None]] = {}
    for at, part in enumerate(parts):
        for nest in part:
            for buffer in (nest.target, *(read.buffer for read in nest.reads)):
                touching.setdefault(buffer, {})[at] = None
    found: list[list[int]] = []
    for at, part in enumerate(parts):
        near = dict.fromkeys(other for nest in part for other in _beside(nest, touching))
        found.append([other for other in near if _part_depends(part, parts[other], depth, at, other)])
    return found


def _beside(nest: Nest, touching: Mapping[Buffer, Mapping[int, None]]) -> Iterator[int]:
    for buffer in (nest.target, *(read.buffer for read in nest.reads)):
        yield from touching[buffer]


def _part_depends(first: Item, second: Item, depth: int, at: int, other: int) -> bool:
    """Must a part of a loop run after another: is there a cell that it comes to later?"""
    least = 0 if at < other else 1
    return any(_depends(one, another, depth, least) for one in first for another in second)


def _depends(one: Nest, other: Nest, depth: int, least: int) -> bool:
    """Does a nest come to a cell of another at least so many iterations of a loop later, and one of them writes?"""
    if _commute(one, other):
        return False
    mine, theirs = _accesses(one), _accesses(other)
    return any(
        comes_later(cell, one, another, other, depth, least)
        for cell, writes in mine
        for another, also in theirs
        if (writes or also) and cell.buffer == another.buffer
    )


def _commute(one: Nest, other: Nest) -> bool:
    """Do both only accumulate in the same buffer, in whatever order?"""
    match one.core, other.core:
        case Update(op=op), Update(op=also) if one.target == other.target and op == also and OPS[op].reorderable:
            return all(read.buffer != one.target for read in (*one.reads, *other.reads))
    return False


def _accesses(nest: Nest) -> list[tuple[Read, bool]]:
    own = Read(nest.target, nest.core.at)
    return [*((read, False) for read in nest.reads), (own, True)]


def comes_later(first: Read, mine: Nest, second: Read, theirs: Nest, depth: int, least: int) -> bool:
    """Does the second touch a cell of the first at least so many iterations later, in the same of all outer loops?"""
    loop = mine.loops[depth][0]
    quick = _quick_distance(first.at, second.at, loop)
    if quick is not None:
        return quick >= least
    maps = _map(first, mine), _map(second, theirs)
    if maps[0] is None or maps[1] is None:
        return True
    outer = [(name, name) for name, _ in mine.loops[:depth]]
    found = distance(maps[0], maps[1], (loop, loop), outer)
    return found is not None and found[1] >= least


def _quick_distance(first: Sequence[Scalar], second: Sequence[Scalar], loop: str) -> int | None:
    """How many iterations later, where an axis is indexed by the loop alone; None where that does not tell."""
    for one, other in zip(first, second, strict=True):
        if isinstance(one, Affine) and isinstance(other, Affine) and one.terms == other.terms:
            if _is_loop(one, loop):
                quotient, rest = divmod(one.offset - other.offset, one.terms[0][0])
                return quotient if not rest else None
    return None


def _map(cell: Read, nest: Nest) -> AccessMap | None:
    indices = tuple([index for index in cell.at if isinstance(index, Affine)])
    if len(indices) < len(cell.at):
        return None
    return AccessMap(indices, nest.loops)


def _components(after: Sequence[Sequence[int]]) -> list[list[int]]:
    """The strongly connected components of a graph, each in order, what must run first before what runs after it.

    Of those that may run in any order the ones that came first come first.
    """
    number = {at: home for home, group in enumerate(_connected(after)) for at in group}
    groups: dict[int, list[int]] = {}
    for at in range(len(after)):
        groups.setdefault(number[at], []).append(at)
    before = {
        home: {number[one] for one in range(len(after)) for at in after[one] if number[at] == home} for home in groups
    }
    done: list[list[int]] = []
    ready: set[int] = set()
    while len(ready) < len(groups):
        home = next(one for one in groups if one not in ready and before[one] <= ready | {one})
        ready.add(home)
        done.append(groups[home])
    return done


def _connected(after: Sequence[Sequence[int]]) -> list[list[int]]:
    """Tarjan's algorithm, with a stack of its own."""
    found: list[list[int]] = []
    order: dict[int, int] = {}
    low: dict[int, int] = {}
    open_: dict[int, None] = {}
    for root in range(len(after)):
        work = [(root, iter(after[root]))] if root not in order else []
        while work:
            at, rest = work[-1]
            if at not in order:
                order[at] = low[at] = len(order)
                open_[at] = None
            for other in rest:
                if other not in order:
                    work.append((other, iter(after[other])))
                    break
                if other in open_:
                    low[at] = min(low[at], order[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[at])
                if low[at] == order[at]:
                    members = [one for one in open_ if order[one] >= order[at]]
                    found.append(members)
                    for one in members:
                        del open_[one]
    return found
