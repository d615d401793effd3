"""Collapsed and jammed loops, expanded to plain loops of C.

    for h in range(28) collapsed by 2:          for w in range(784): y[0, w] = x[0, w]
        for w in range(28): y[h, w] = x[h, w]

    for i in range(9) jammed by 4:              for i in range(2): for j: { y[j] += x[4 i, j];  … }
        for j: y[j] += x[i, j]                  for i in range(1): for j: y[j] += x[8 + i, j]

Only the C text goes beyond an axis in this way, never beyond a buffer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weft.affine import Affine
from weft.loops import Collapse, For, Jam, Let, Stmt
from weft.loops.legality import collapsed_loops, points
from weft.loops.names import BlockNames
from weft.loops.walk import Body, body_of, bottom_up, everything, map_scalars, rename, substituted, with_body


def all_written_out(body: Sequence[Stmt]) -> Body:
    """A block without loops that are collapsed or jammed."""
    return bottom_up(body, lambda stmt: written_out(stmt) if isinstance(stmt, For) else (stmt,))


def written_out(loop: For) -> tuple[For, ...]:
    """A loop that is neither collapsed nor jammed, or two: whole groups of iterations, and the rest."""
    loops, body = collapsed_loops(loop)
    name, size = loops[-1][0], points(loops)
    body = tuple(_moved(stmt, {outer: Affine(()) for outer, _ in loops[:-1]}) for stmt in body)
    how = tuple(one for one in loop.how if not isinstance(one, Collapse | Jam))
    for one in loop.how:
        if isinstance(one, Jam):
            whole, rest = divmod(size, one.times)
            group = [Affine(((one.times, name),), at) for at in range(one.times)]
            last = [Affine(((1, name),), whole * one.times)]
            parts = ((whole, group), (rest, last))
            return tuple(For(name, count, _repeated(body, name, indices), how) for count, indices in parts if count)
    return (For(name, size, body, how),)


def _repeated(body: Sequence[Stmt], loop: str, indices: Sequence[Affine]) -> tuple[Stmt, ...]:
    """A block of variables, and loops around one statement, which is done for the loop at each of some indices."""
    *lets, nest = body
    names, last = BlockNames(body), everything((nest,))[-1]

    def called(stmt: For | Let) -> str:
        assert isinstance(stmt, Let)
        return names.fresh(stmt.local.name)

    copies = [rename([_moved(one, {loop: index}) for one in (*lets, last)], called) for index in indices]
    return (*(let for copy in copies for let in copy[:-1]), _around(nest, tuple(copy[-1] for copy in copies)))


def _around(nest: Stmt, body: Body) -> Stmt:
    """A perfect nest with another block inside."""
    (inner,) = body_of(nest)
    return with_body(nest, (_around(inner, body),) if isinstance(inner, For) else body)


def _moved(stmt: Stmt, indices: Mapping[str, Affine]) -> Stmt:
    return map_scalars(stmt, lambda scalar: substituted(scalar, indices)) if indices else stmt
