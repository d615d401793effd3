"""Innermost loops that run on vectors: their points are independent of each other, but for what they add up.

    for i: { y[i] = x[i] * 2;  total = total + y[i] }

A compiler is asked for vectors loop by loop and invents none (`compiler_bugs.py` says why). Sums named in the request
may be added in any order; everything else about a point is its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from weft.loops import Fill, For, If, Let, Local, Set, Staged, Stmt, walk
from weft.loops.effects import everything, growth, parts
from weft.schedule.parallel import independent

#: Shorter loops are written as they stand: what only stores, and what adds up.
_LONG, _LONG_SUM = 4, 8
#: Sums over loops shorter than this have so many lanes: compilers add those up one by one at the end.
_LANES = ((64, 4), (128, 8))


def sums(loop: For) -> list[Local] | None:
    """The numbers from outside that a loop adds to, if it can run on vectors; None if it cannot."""
    inside = everything(loop.body)
    if loop.size < _LONG or any(isinstance(one, For | Staged | Fill) for one in inside):
        return None
    own = {one.local for one in inside if isinstance(one, Let)}
    added = [one for one in inside if isinstance(one, Set) and one.local not in own]
    if not added:
        return [] if independent(loop) else None
    found = [one.local for one in added]
    plain = not any(isinstance(one, If) for one in inside) and all(map(_adds, added))
    if not plain or loop.size < _LONG_SUM or len(set(found)) < len(found) or _used(loop.body, found):
        return None
    rest = tuple(one for one in loop.body if one not in added)
    return found if independent(replace(loop, body=rest)) else None


def lanes_of_sum(size: int) -> int:
    """How many numbers a sum over a loop of this size adds up side by side; 0 if the compiler is to choose."""
    return next((lanes for most, lanes in _LANES if size < most), 0)


def _adds(stmt: Set) -> bool:
    grown = growth(stmt)
    return grown is not None and grown[0] == "add"


def _used(body: Sequence[Stmt], found: Sequence[Local]) -> bool:
    """Are sums under way read anywhere but where they are added to?"""
    uses = [one for stmt in body for part in parts(stmt) for one in walk(part) if one in found]
    return len(uses) > len(found)
