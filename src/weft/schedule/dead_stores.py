"""Writes nobody reads, and the variables and loops left idle by that, left out.

t = x[i];  h[i] = t;  y[i] = t      becomes, where no kernel reads h,      t = x[i];  y[i] = t
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from weft.loops import Buffer, For, If, Let, Remark, Set, Stmt, Store, Update
from weft.loops.effects import found_through, read_in, written_in
from weft.loops.walk import Cell, everything, parts, same, variables, with_body


def without_unread(bodies: Sequence[tuple[Stmt, ...]], kept: Collection[Buffer]) -> list[tuple[Stmt, ...]]:
    """The bodies of kernels without writes that none of them needs; `kept` are the buffers written for later."""
    found = list(bodies)
    reads, writes = [read_in(one) for one in found], [written_in(one) for one in found]
    read = set(kept).union(*reads)
    rest = list(range(len(found)))
    while rest:
        shorter = {number: new for number in rest if (new := _without(found[number], read)) is not found[number]}
        for number, new in shorter.items():
            found[number], reads[number], writes[number] = new, read_in(new), written_in(new)
        before, read = read, set(kept).union(*reads)
        gone = before - read
        rest = [number for number, one in enumerate(writes) if number in shorter or not gone.isdisjoint(one)]
    return found


def _without(body: tuple[Stmt, ...], read: Collection[Buffer]) -> tuple[Stmt, ...]:
    """A block without writes to buffers nobody reads, without the loops and variables left idle by that.

    Where nothing goes, it is the very same block.
    """
    kept: list[Stmt] = []
    for stmt in body:
        if isinstance(stmt, For | If | Remark):
            rest = _without(stmt.body, read)
            kept += [with_body(stmt, rest)] if rest else []
        elif not isinstance(stmt, Store | Update) or stmt.buffer in read:
            kept.append(stmt)
    kept = _used(_last_writes(kept))
    return body if same(kept, body) else tuple(kept)


def _last_writes(body: list[Stmt]) -> list[Stmt]:
    """The block without writes of cells that are written again before anyone reads them."""
    kept: list[Stmt] = []
    again: set[Cell] = set()
    for stmt in reversed(body):
        if isinstance(stmt, Store) and (stmt.buffer, stmt.at) in again:
            continue
        if again:
            read, written = read_in((stmt,)), written_in((stmt,))
            again = {cell for cell in again if cell[0] not in read and not found_through(cell) & written}
        if isinstance(stmt, Store) and not any(map(variables, stmt.at)):
            again.add((stmt.buffer, stmt.at))
        kept.append(stmt)
    return kept[::-1]


def _used(body: list[Stmt]) -> list[Stmt]:
    """The block without variables that nothing after them uses; those of blocks further out may be used there."""
    if not any(isinstance(stmt, Let | Set) for stmt in body):
        return body
    own = {stmt.local for stmt in body if isinstance(stmt, Let)}
    used: set[str] = set()
    kept: list[Stmt] = []
    for stmt in reversed(body):
        if isinstance(stmt, Let | Set) and stmt.local in own and stmt.local.name not in used:
            continue
        used |= {one.name for inner in everything((stmt,)) for part in parts(inner) for one in variables(part)}
        kept.append(stmt)
    return kept[::-1]
