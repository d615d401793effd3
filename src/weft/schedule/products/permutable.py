"""Permutable loops: may straight-line code run in the iterations of loops in any order?"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from weft.affine import Affine
from weft.loops import Let, Read, Set, Stmt, Store, Update
from weft.loops.effects import accumulation, effects
from weft.loops.walk import Access, accesses, parts, variables
from weft.ops import OPS


def in_any_order(loops: Mapping[str, int], block: Sequence[Stmt], read: Sequence[Read], inside: Collection[str]) -> str:
    """Why a block of straight-line code cannot run in the iterations of some loops in any order, between reads of some
    cells, which have loops `inside` of their own too; empty if it can. Loops are told with their sizes."""
    touched = accesses(block)
    moving = {*loops, *inside}
    if taken := [
        one.buffer.name for one in touched if one.writes and any(_may_meet(one, cell, moving) for cell in read)
    ]:
        return f"`{taken[0]}` is a factor, too"
    own = effects(block).lets
    for stmt in block:
        match stmt:
            case Let():
                pass
            case Set(local=local):
                if local not in own and not _accumulates(stmt, block):
                    return f"`{local.name}` depends on the order of points"
            case Store() | Update():
                if why := _several(stmt, loops, [one for one in touched if one.buffer == stmt.buffer]):
                    return f"`{stmt.buffer.name}` {why}"
            case _:
                return "loops or tests follow it"
    return ""


def _may_meet(written: Access, read: Read, moving: Collection[str]) -> bool:
    """May a cell be one that is read? It is not, if some axis is indexed by loops around alone, and differently."""
    if written.buffer != read.buffer or written.at is None:
        return written.buffer == read.buffer
    return not any(
        isinstance(one, Affine)
        and isinstance(other, Affine)
        and one.terms == other.terms
        and one.offset != other.offset
        and not any(name in moving for name in one.names)
        for one, other in zip(written.at, read.at, strict=True)
    )


def _accumulates(stmt: Set, block: Sequence[Stmt]) -> bool:
    """Is a variable of a block further out accumulated in any order, and otherwise not mentioned?"""
    added, uses = accumulation(stmt), [one for each in block for part in parts(each) for one in variables(part)]
    sets = [one.local for one in block if isinstance(one, Set)]
    alone = uses.count(stmt.local) == sets.count(stmt.local) == 1
    return alone and added is not None and OPS[added[0]].reorderable


def _several(stmt: Store | Update, loops: Mapping[str, int], touched: Sequence[Access]) -> str:
    """Why a cell is written at several points that do not agree; nothing if it is not."""
    own_cell = {name for one in stmt.at if isinstance(one, Affine) for name in _told(one, loops)}.issuperset(loops)
    if not own_cell and (isinstance(stmt, Store) or not OPS[stmt.op].reorderable):
        return "is stored more than once"
    if any(one.at != stmt.at for one in touched):
        return "is touched at several indices"
    return "" if own_cell or len(touched) == 2 else "is touched more than once"


def _told(index: Affine, loops: Mapping[str, int]) -> list[str]:
    """The loops whose iterations an index tells apart, as those of 128*i + j, where j is less than 128."""
    moving = sorted((abs(factor), name) for factor, name in index.terms if name in loops)
    reach = 0
    for factor, name in moving:
        if factor <= reach:
            return []
        reach += factor * (loops[name] - 1)
    return [name for _, name in moving]
