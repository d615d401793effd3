"""Kernels as launches: what a GPU runs at once is one nest, and what follows in its cells.

    a = b[0] * 2;  for i: x[i] = a;  for j: y[j] = x[j]      becomes      for i: { a = b[0] * 2;  x[i] = a }   and
                                                                          for j: y[j] = x[j]

Statements that share a variable which changes, or which depends on what a nest writes, stay one launch of one program.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from weft.affine import Affine
from weft.loops import Cast, Fill, For, Let, Local, Remark, Staged, Stmt, Store
from weft.loops.effects import effects, sources
from weft.loops.names import BlockNames
from weft.loops.walk import Body, around, everything, expanded, map_scalars, parts, top_down, variables
from weft.ops import Num
from weft.schedule.products.contractions import values_of


def launches(body: Sequence[Stmt]) -> list[Body]:
    """The statements of a kernel, those of each launch by themselves."""
    stmts = _late(_flat(without_fills(body)))
    known = _unchanging(stmts)
    groups: list[list[Stmt]] = []
    for stmt in stmts:
        if isinstance(stmt, Let) and stmt.local in known:
            continue
        if groups and _together(groups[-1], stmt):
            groups[-1].append(stmt)
        else:
            groups.append([stmt])
    return [_with_lets(group, known) for group in _merged(groups, known)]


def without_fills(body: Sequence[Stmt]) -> Body:
    """A block in which a buffer is filled by loops."""
    names = BlockNames(body)

    def rule(stmt: Stmt) -> Sequence[Stmt] | None:
        if not isinstance(stmt, Fill):
            return None
        loops = [(names.fresh("i"), size) for size in stmt.buffer.shape]
        at = tuple(Affine.of(name) if size != 1 else Affine(()) for name, size in loops)
        value = Cast(stmt.buffer.dtype, Num(stmt.value))
        return around([loop for loop in loops if loop[1] != 1], (Store(stmt.buffer, at, value),))

    return top_down(body, rule)


def sunk(stmt: Stmt) -> Stmt:
    """A nest with variables that its loops compute on the way in computed inside: perfect, if nothing else is there."""
    if not isinstance(stmt, For):
        return stmt
    body, lets = stmt.body, list[Let]()
    while len(body) > len(lets) and isinstance(body[len(lets)], Let):
        lets.append(body[len(lets)])  # type: ignore[arg-type]
    rest = body[len(lets) :]
    if len(rest) == 1 and isinstance(rest[0], For) and not rest[0].how and not stmt.how:
        written = effects(rest).buffers
        changed = effects(rest).sets
        if not any(one.local in changed or sources(one.value) & written for one in lets):
            inner = rest[0]
            return For(stmt.loop, stmt.size, (sunk(For(inner.loop, inner.size, (*lets, *inner.body))),))
    return stmt


def _flat(body: Sequence[Stmt]) -> Sequence[Stmt]:
    return [one for stmt in body for one in (_flat(stmt.body) if isinstance(stmt, Remark) else (stmt,))]


def _late(stmts: Sequence[Stmt]) -> list[Stmt]:
    """A block with its variables declared right before they are used, unless what they read is written until then."""
    done, waiting = list[Stmt](), list[Let]()
    for stmt in stmts:
        if isinstance(stmt, Let):
            waiting.append(stmt)
            continue
        used, written = _used([stmt]), effects([stmt]).buffers
        for one in reversed(waiting):
            if one.local in used or sources(one.value) & written:
                used |= {one.local, *variables(one.value)}
        done += [one for one in waiting if one.local in used]
        waiting = [one for one in waiting if one.local not in used]
        done.append(stmt)
    return done


def _unchanging(stmts: Sequence[Stmt]) -> dict[Local, Let]:
    """Variables of a block that anybody may compute again: nothing that they read is written, nothing sets them."""
    changed = effects(stmts)
    found: dict[Local, Let] = {}
    for one in stmts:
        if isinstance(one, Let) and one.local not in changed.sets and not sources(one.value) & changed.buffers:
            if all(inner in found for inner in variables(one.value)):
                found[one.local] = one
    return found


def _together(group: Sequence[Stmt], stmt: Stmt) -> bool:
    """Is a statement one launch with those before: straight-line code as they are?"""
    return not _has_loops((*group, stmt))


def _has_loops(body: Sequence[Stmt]) -> bool:
    return any(isinstance(one, For | Staged) for one in everything(body))


def _merged(groups: Sequence[list[Stmt]], known: Collection[Local]) -> list[list[Stmt]]:
    """Groups, with those that share variables, and what lies between, as one."""
    done: list[list[Stmt]] = []
    for group in groups:
        done.append(group)
        used = _used(group) - set(known)
        first = next((at for at, one in enumerate(done[:-1]) if _declared(one) & used), None)
        if first is not None:
            done[first:] = [[stmt for one in done[first:] for stmt in one]]
    return done


def _declared(group: Sequence[Stmt]) -> set[Local]:
    return {one.local for one in group if isinstance(one, Let)}


def _used(group: Sequence[Stmt]) -> set[Local]:
    return {one for stmt in everything(group) for part in parts(stmt) for one in variables(part)} | effects(group).sets


def _with_lets(group: Sequence[Stmt], known: dict[Local, Let]) -> Body:
    """Statements with the variables from outside that they use, inside of their outermost loop if they are one."""
    wanted, needed = _used(group), list[Let]()
    for local, let in reversed(known.items()):
        if local in wanted:
            needed.insert(0, let)
            wanted |= set(variables(let.value))
    if needed and any(isinstance(one, Staged) for one in everything(group)):
        values = values_of(needed)
        return tuple(map_scalars(stmt, lambda scalar: expanded(scalar, values)) for stmt in group)
    match group:
        case [For(loop=loop, size=size, body=body, how=how)]:
            return (For(loop, size, (*needed, *body), how),)
    return (*needed, *group)
