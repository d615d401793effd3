"""Dependence analysis for fusion: does sharing a loop reverse a dependence?

Of two nests run one after the other, the first comes to any cell before the second does. In one loop that stays so if
no iteration in which the first comes to a cell lies after one in which the second does.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from weft.affine import AccessMap, Affine, distance
from weft.ops import Scalar

#: The subscripts of an access, and the sizes of the loops they may name.
Reach = tuple[tuple[Scalar, ...], Mapping[str, int]]


def reverses_dependence(
    first: Reach, second: Reach, loop: tuple[str, str], shared: Collection[tuple[str, str]]
) -> bool:
    """Would the first of two accesses come to some cell after the second, once their loops are one?

    `loop` is what each calls the loop, `shared` are the loops around that both already share, likewise.
    """
    mine, theirs = _map(first, loop[0], [one for one, _ in shared]), _map(second, loop[1], [one for _, one in shared])
    if mine is None or theirs is None:
        return True
    found = distance(mine, theirs, loop, shared)
    return found is not None and found[0] < 0


def _map(reach: Reach, loop: str, shared: Collection[str]) -> AccessMap | None:
    """The cells of an access, by the loops that matter to them; None where they depend on values."""
    at, sizes = reach
    indices = tuple([index for index in at if isinstance(index, Affine)])
    names = dict.fromkeys((*(name for index in indices for name in index.names), loop, *shared))
    return AccessMap(indices, tuple((name, sizes[name]) for name in names if name in sizes)) if indices == at else None
