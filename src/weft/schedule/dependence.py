"""Does sharing a loop turn a dependence around? Decided exactly where subscripts are affine: by the bounds of what they
reach, and where that does not tell, by isl.

Of two nests run one after the other, the first comes to any cell before the second does. In one loop that stays so if
no point of the loop at which the first comes to a cell lies after one at which the second does.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache

import islpy as isl

from weft.affine import Affine
from weft.loops.bounds import bounds
from weft.loops.walk import free
from weft.ops import Scalar

#: The subscripts of an access, and the sizes of the loops they may name.
Reach = tuple[tuple[Scalar, ...], Mapping[str, int]]


def turns_around(first: Reach, second: Reach, loop: tuple[str, str], shared: Collection[tuple[str, str]]) -> bool:
    """Would the first of two accesses come to some cell after the second, once their loops are one?

    `loop` is what each calls the loop, `shared` are the loops around that both already share, likewise.
    """
    if not all(isinstance(one, Affine) for at, _ in (first, second) for one in at):
        return True
    if _apart(first, second):
        return False
    names: dict[str, str] = {}
    facts: list[str] = []
    places, turns = [], []
    for number, (at, sizes) in enumerate((first, second)):
        side = _Side("ab"[number], sizes, {pair[number]: pair[0] for pair in shared}, names)
        for name in dict.fromkeys([*(name for one in at for name in free(one)), loop[number]]):
            spelled = side.spelled(name)
            if name in sizes:
                facts.append(f"0 <= {spelled} < {sizes[name]}")
        places.append([side.place(one) for one in at if isinstance(one, Affine)])
        turns.append(side.spelled(loop[number]))
    facts += [f"{one} = {other}" for one, other in zip(*places, strict=True)]
    facts.append(f"{turns[0]} > {turns[1]}")
    return not _is_empty(tuple(dict.fromkeys(names.values())), tuple(dict.fromkeys(facts)))


def _apart(first: Reach, second: Reach) -> bool:
    """Do two accesses have no cell in common, because of how far they reach along some axis?"""
    for one, other in zip(first[0], second[0], strict=True):
        mine, theirs = bounds(one, first[1]), bounds(other, second[1])
        if mine and theirs and (mine[1] < theirs[0] or theirs[1] < mine[0]):
            return True
    return False


@dataclass(frozen=True, slots=True)
class _Side:
    """One of two accesses: the sizes of its loops, what both call those they share, and the variables so far."""

    side: str
    sizes: Mapping[str, int]
    shared: Mapping[str, str]
    names: dict[str, str]

    def spelled(self, name: str) -> str:
        """The variable that stands for a loop: of this side, or of both for what they share and static indices."""
        key = self.shared.get(name) or (f"{self.side}:{name}" if name in self.sizes else name)
        return self.names.setdefault(key, f"v{len(self.names)}")

    def place(self, place: Affine) -> str:
        terms = [f"{factor} * {self.spelled(name)}" for factor, name in place.terms]
        return " + ".join([*terms, str(place.offset)])


@lru_cache(maxsize=4096)
def _is_empty(names: tuple[str, ...], facts: tuple[str, ...]) -> bool:
    return bool(isl.Set(f"{{ [{', '.join(names)}] : {' and '.join(facts)} }}").is_empty())
