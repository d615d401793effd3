"""May statements that share a loop each have a loop of their own?

    for i: { A;  B;  C }      becomes      for i: A;  for i: B;  for i: C

All of A then runs before any of B. That is right where a cell that two of them touch, and one of them writes, belongs
to one turn of the loop, and where no number goes from one to another.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from weft.affine import Affine
from weft.loops import Buffer, Local, Stmt
from weft.loops.effects import effects, everything, numbers, parts
from weft.ops import Scalar
from weft.schedule.accesses import Access, accesses


def obstacle(loop: str, groups: Sequence[Sequence[Stmt]]) -> str:
    """Why the groups of statements of a loop cannot run one after another, each in a loop; nothing if they can."""
    touched = [_touched(one) for one in groups]
    for one, other in combinations(touched, 2):
        for buffer in one.keys() & other.keys():
            both = [*one[buffer], *other[buffer]]
            if any(access.writes for access in both) and not _own_turn(loop, both):
                return f"`{buffer.name}` goes from turn to turn of `{loop}`"
    return handed_on(groups)


def handed_on(groups: Sequence[Sequence[Stmt]]) -> str:
    """Which number goes from one group of statements to another; nothing if none does."""
    for one, other in combinations(groups, 2):
        for first, second in ((one, other), (other, one)):
            made = {local.name for local in effects(first).lets | effects(first).sets}
            common = [local.name for local in mentioned(second) if local.name in made]
            if common:
                return f"`{common[0]}` is a number that other code uses, too"
    return ""


def mentioned(body: Sequence[Stmt]) -> list[Local]:
    """The numbers a block uses or sets and does not declare."""
    own = effects(body).lets
    used = [one for stmt in everything(body) for part in parts(stmt) for one in numbers(part)]
    return [one for one in dict.fromkeys([*used, *effects(body).sets]) if one not in own]


def _touched(body: Sequence[Stmt]) -> dict[Buffer, list[Access]]:
    found: dict[Buffer, list[Access]] = {}
    for one in accesses(body):
        found.setdefault(one.buffer, []).append(one)
    return found


def _own_turn(loop: str, touching: Sequence[Access]) -> bool:
    """Do different turns of a loop touch different cells: is there an axis where all stand at one place it moves?"""
    if any(one.at is None for one in touching):
        return False
    columns = zip(*(one.at or () for one in touching), strict=True)
    return any(len(set(column)) == 1 and _moves(column[0], loop) for column in columns)


def _moves(place: Scalar, loop: str) -> bool:
    match place:
        case Affine(terms=((factor, name),)):
            return name == loop and factor != 0
    return False
