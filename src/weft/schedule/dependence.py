"""Does sharing a loop turn a dependence around? Decided exactly, by isl, where subscripts are affine.

Of two nests run one after the other, the first comes to any cell before the second does. In one loop that stays so if
no point of the loop at which the first comes to a cell lies after one at which the second does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import islpy as isl

from weft.loops import Place
from weft.ops import Scalar

#: The subscripts of an access, and the sizes of the loops they may name.
Reach = tuple[tuple[Scalar, ...], Mapping[str, int]]


def turns_around(first: Reach, second: Reach, loop: tuple[str, str], shared: Sequence[str]) -> bool:
    """Would the first of two accesses come to some cell after the second, once their loops are one?

    `loop` is what each calls the loop, `shared` are the loops around that both already share.
    """
    if not all(isinstance(one, Place) for at, _ in (first, second) for one in at):
        return True
    names: dict[str, str] = {}
    facts: list[str] = []
    places = []
    for side, (at, sizes) in zip("ab", (first, second), strict=True):
        mentioned = {name: None for one in at if isinstance(one, Place) for _, name in one.terms}
        for name in (*mentioned, loop[side == "b"]):
            spelled = _spelled(name, side, sizes, shared, names)
            if name in sizes:
                facts.append(f"0 <= {spelled} < {sizes[name]}")
        places.append([_place(one, side, sizes, shared, names) for one in at if isinstance(one, Place)])
    facts += [f"{one} = {other}" for one, other in zip(*places, strict=True)]
    mine, theirs = (
        _spelled(loop[number], "ab"[number], (first, second)[number][1], shared, names) for number in (0, 1)
    )
    facts.append(f"{mine} > {theirs}")
    return not _is_empty(tuple(dict.fromkeys(names.values())), tuple(dict.fromkeys(facts)))


def _spelled(name: str, side: str, sizes: Mapping[str, int], shared: Sequence[str], names: dict[str, str]) -> str:
    """The variable that stands for a loop: of one side, or of both for what they share and for static indices."""
    key = name if name in shared or name not in sizes else f"{side}:{name}"
    return names.setdefault(key, f"v{len(names)}")


def _place(place: Place, side: str, sizes: Mapping[str, int], shared: Sequence[str], names: dict[str, str]) -> str:
    terms = [f"{factor} * {_spelled(name, side, sizes, shared, names)}" for factor, name in place.terms]
    return " + ".join([*terms, str(place.offset)])


@lru_cache(maxsize=4096)
def _is_empty(names: tuple[str, ...], facts: tuple[str, ...]) -> bool:
    return bool(isl.Set(f"{{ [{', '.join(names)}] : {' and '.join(facts)} }}").is_empty())
