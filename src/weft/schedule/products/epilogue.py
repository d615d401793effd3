"""Start and epilogue of contractions: the nest that initialises the cells, and pointwise uses of the result.

    c[i, j] = b[j];  c[i, j] += a[i, k] * w[k, j];  y[p, q] = relu(c[p, q])

    becomes      for i: for j: { c = b[j];  for k: c = c + a[i, k] * w[k, j];  c[i, j] = c;  y[i, j] = relu(c[i, j]) }

Both are recognised by their index maps: their loops reach the cells just as the loops of the contraction do. So is
another contraction that goes on from the result, for a backend that has several sums in one variable:

    g[i, j] = a[i, k] * u[k, j];  g[i, j] += b[i, l] * v[l, j]

    becomes      for i: for j: { g = 0;  for k: g = g + a[i, k] * u[k, j];  for l: g = g + b[i, l] * v[l, j];  … }

And so is one that uses the result at the same cell, for a backend that has several sums of one cell beside each other
(`loops/joint_sums.py`): what is done with both needs no memory between them then.

    g[i, j] = a[i, k] * u[k, j];  h[i, j] = a[i, k] * v[k, j];  y[i, j] = silu(g[i, j]) * h[i, j]

    becomes      for i: for j: { g = 0;  for k: g = …;  h = 0;  for k: h = …;  y[i, j] = silu(g) * h }
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from weft.affine import Affine
from weft.loops import For, Let, Read, Stmt, Store, Update
from weft.loops.effects import effects, sources
from weft.loops.joint_sums import all_sums
from weft.loops.walk import Loop, accesses, expanded, free, reads, substituted, variables
from weft.ops import Scalar
from weft.optimise.latency import chains
from weft.schedule.loop_tree import renamed
from weft.schedule.products.contractions import (
    Contracting,
    contracting,
    enclosing_loops,
    same_cells,
    values_of,
    with_obstacle,
)


def started(mine: Contracting, stmt: Stmt) -> Contracting | None:
    """The contraction with a nest before it that stores its initial values; None if the nest does anything else."""
    loops, lets, block = enclosing_loops(stmt)
    *more, last = block
    cell = mine.start
    if not isinstance(cell, Read) or not isinstance(last, Store) or last.buffer != cell.buffer:
        return None
    if not all(isinstance(one, Let) for one in more) or cell.buffer not in effects(mine.rest).buffers:
        return None
    names = matched(mine, loops, [(cell.at, last.at)])
    if names is None:
        return None
    known = values_of([*lets, *(one for one in more if isinstance(one, Let))])
    value = substituted(expanded(last.value, known), {old: Affine.of(new) for old, new in names.items()})
    own = all(one.at == cell.at for one in reads(value) if one.buffer == cell.buffer)
    alone = not variables(value) and not sources(value) & effects(mine.rest).buffers - {cell.buffer}
    return replace(mine, start=value) if own and alone else None


def added(mine: Contracting, stmt: Stmt) -> Contracting | None:
    """The contraction with one after it that goes on from its result, in one variable; None if a nest is no such."""
    other = contracting(stmt, several=True)
    names = None if other is None else _continued(mine, other)
    if other is None or names is None:
        return None
    found = contracting(renamed(other.body, {**names, other.total.name: mine.total.name})[0], several=True)
    if found is None or found.total != mine.total:
        return None
    terms = [same_cells(mine.what, one) for one in (found.what, *found.more)]
    more = [one for one in terms if one is not None]
    joined = with_obstacle(replace(mine, rest=found.rest, more=(*mine.more, *more)))
    return None if joined.what.why or len(more) < len(terms) else joined


def _continued(mine: Contracting, other: Contracting) -> dict[str, str] | None:
    """The loops of a contraction's cells as one calls them whose result it starts from and stores anew; else None."""
    match mine.rest, other.start, other.rest:
        case (Store(buffer=result, value=total) as kept,), Read(buffer=start, at=at), (Store() as first, *_):
            if result == start == first.buffer and total == mine.total and (first.at, first.value) == (at, other.total):
                return matched(mine, other.what.kept, [(kept.at, at)])
    return None


def met(mine: Contracting, stmt: Stmt) -> Contracting | None:
    """The contraction with one after it that uses its results at the same cells, as a sum beside its own; None if a
    nest is no such."""
    other = contracting(stmt)
    if other is None or other.what.why or other.what.is_conditional or other.more or mine.more:
        return None
    cells = {one.buffer: one.at for one in mine.rest if isinstance(one, Store | Update)}
    after = (Let(other.total, other.start), *other.rest)
    pairs = [(cells[one.buffer], one.at) for one in accesses(after) if one.buffer in cells and one.at is not None]
    names = matched(mine, other.what.kept, pairs) if pairs else None
    if names is None:
        return None
    found = with_obstacle(replace(mine, rest=(*mine.rest, *renamed(other.point, names))))
    several = len(all_sums(mine.parts)) + len(all_sums(other.parts))
    return None if found.what.why or len(all_sums(found.parts)) < several else found


def may_follow(mine: Contracting, stmt: Stmt) -> bool:
    """Has a nest as many loops as a contraction has cells to run over, and as long ones? Then it is worth a look."""
    loops, _, _ = enclosing_loops(stmt)
    return sorted([size for _, size in loops]) == sorted([size for _, size in mine.what.kept])


def followed(mine: Contracting, stmt: Stmt) -> Contracting | None:
    """The contraction with a pointwise nest after it as its epilogue; None if the nest is no such."""
    loops, lets, block = enclosing_loops(stmt)
    cells = {one.buffer: one.at for one in mine.rest if isinstance(one, Store | Update)}
    pairs = [(cells[one.buffer], one.at) for one in accesses(block) if one.buffer in cells and one.at is not None]
    alike = matched(mine, loops, pairs) if pairs else None
    if alike is None:
        return None
    new = renamed((*lets, *block), alike)
    if any(isinstance(one, For) for one in new):
        return None
    found = with_obstacle(replace(mine, rest=(*mine.rest, *new)))
    return None if found.what.why or _waits(mine.rest, new) else found


def matched(
    mine: Contracting, loops: Sequence[Loop], cells: Sequence[tuple[tuple[Scalar, ...], tuple[Scalar, ...]]]
) -> dict[str, str] | None:
    """The loops of a nest and those of a contraction that they correspond to, if their index maps agree; else None."""
    sizes, names, kept = dict(loops), dict[str, str](), dict(mine.what.kept)
    for own, theirs in cells:
        for one, other in zip(own, theirs, strict=True):
            (name, start), (their, their_start) = _moving(one, kept), _moving(other, sizes)
            if start != their_start or bool(name) != bool(their):
                return None
            if name and names.setdefault(their, name) != name:
                return None
    same = sorted((names.get(name, ""), size) for name, size in loops) == sorted(mine.what.kept)
    return names if same else None


def _moving(index: Scalar, loops: Collection[str]) -> tuple[str, Scalar]:
    """The one of some loops that an index moves with, a cell at a time, and where it starts; else nothing, and it."""
    moving = [name for name in free(index) if name in loops]
    if not isinstance(index, Affine) or len(moving) != 1 or index.coefficient(moving[0]) != 1:
        return "", index
    return moving[0], index.without(moving)


def _waits(rest: Sequence[Stmt], more: Sequence[Stmt]) -> bool:
    """Would the chain of functions that depend on one another at a point get longer?"""
    first, second, both = (max(chains(one, {}).values(), default=0) for one in (rest, more, [*rest, *more]))
    return both > max(first, second)
