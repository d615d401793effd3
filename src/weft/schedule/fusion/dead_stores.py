"""Dead store elimination across kernels, with the variables and loops that are dead without those stores.

t = x[i];  h[i] = t;  y[i] = t      becomes, where no kernel reads h,      t = x[i];  y[i] = t
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from weft.loops import Buffer, For, If, Remark, Stmt, Store, Update
from weft.loops.effects import found_through, read_in, written_in
from weft.loops.walk import Cell, identical, variables, with_body
from weft.optimise.dead_code import eliminate_dead_code


def eliminate_dead_stores(bodies: Sequence[tuple[Stmt, ...]], kept: Collection[Buffer]) -> list[tuple[Stmt, ...]]:
    """The bodies of kernels without dead writes; `kept` are the buffers that are live out of the program."""
    found = list(bodies)
    reads, writes = [read_in(one) for one in found], [written_in(one) for one in found]
    read = set(kept).union(*reads)
    rest = list(range(len(found)))
    while rest:
        shorter = {index: new for index in rest if (new := _live(found[index], read)) is not found[index]}
        for index, new in shorter.items():
            found[index], reads[index], writes[index] = new, read_in(new), written_in(new)
        before, read = read, set(kept).union(*reads)
        gone = before - read
        rest = [index for index, one in enumerate(writes) if index in shorter or not gone.isdisjoint(one)]
    return found


def _live(body: tuple[Stmt, ...], read: Collection[Buffer]) -> tuple[Stmt, ...]:
    """A block without writes to buffers nobody reads, and without the loops and variables that are dead then.

    Where nothing goes, it is the very same block.
    """
    return eliminate_dead_code(_live_writes(body, read))


def _live_writes(body: tuple[Stmt, ...], read: Collection[Buffer]) -> tuple[Stmt, ...]:
    kept: list[Stmt] = []
    for stmt in body:
        if isinstance(stmt, For | If | Remark):
            kept.append(with_body(stmt, _live_writes(stmt.body, read)))
        elif not isinstance(stmt, Store | Update) or stmt.buffer in read:
            kept.append(stmt)
    kept = _without_overwritten(kept)
    return body if identical(kept, body) else tuple(kept)


def _without_overwritten(body: list[Stmt]) -> list[Stmt]:
    """The block without writes of cells that are overwritten before anyone reads them."""
    kept: list[Stmt] = []
    overwritten: set[Cell] = set()
    for stmt in reversed(body):
        if isinstance(stmt, Store) and (stmt.buffer, stmt.at) in overwritten:
            continue
        if overwritten:
            read, written = read_in((stmt,)), written_in((stmt,))
            overwritten = {cell for cell in overwritten if cell[0] not in read and not found_through(cell) & written}
        if isinstance(stmt, Store) and not any(map(variables, stmt.at)):
            overwritten.add((stmt.buffer, stmt.at))
        kept.append(stmt)
    return kept[::-1]
