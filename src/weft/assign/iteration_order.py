"""In what order a nest that reads cells which it writes itself must run.

    h[t, b] = tanh(h[t - 1, b] + x[t, b])      t goes up: h[t - 1, b] is written one iteration before it is read
    d[t - 1, b] += d[t, b] * w[t, b]           t goes down

Loops are chosen from the outermost in: one in which no cell is read before it is written, whichever way it runs, and
some are read after it is; those that it tells nothing of are left to the next (Allen and Kennedy).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weft.affine import AccessMap, Affine, distance
from weft.ops import Scalar

#: Loops from the outermost in, and whether they run backwards.
IterationOrder = tuple[tuple[str, bool], ...]


def iteration_order(
    written: Sequence[Scalar], read: Sequence[Sequence[Scalar]], loops: Mapping[str, int]
) -> IterationOrder | None:
    """An order in which every cell is written before it is read, of those that are both; None if none is proved."""
    if not all(loops.values()):
        return tuple((name, False) for name in loops)
    target, maps = _map(written, loops), [_map(at, loops) for at in read]
    waiting = [one for one in maps if one is not None]
    if target is None or len(waiting) < len(maps):
        return None
    order: list[tuple[str, bool]] = []
    while waiting:
        chosen = _carrying(target, waiting, [name for name in loops if name not in dict(order)], order)
        if chosen is None:
            return None
        name, reverse, waiting = chosen
        order.append((name, reverse))
    return (*order, *((name, False) for name in loops if name not in dict(order)))


def _carrying(
    target: AccessMap, reads: Sequence[AccessMap], loops: Sequence[str], order: Sequence[tuple[str, bool]]
) -> tuple[str, bool, list[AccessMap]] | None:
    """A loop that separates writes from reads, the way it runs, and the reads that it does not separate."""
    shared = [(name, name) for name, _ in order]
    for name in loops:
        found = [(one, distance(target, one, (name, name), shared)) for one in reads]
        known = [(one, least, most) for one, (least, most) in ((a, b) for a, b in found if b is not None)]
        if all(least >= 0 for _, least, _ in known) and (not known or any(most > 0 for _, _, most in known)):
            return name, False, [one for one, least, _ in known if least == 0]
        if all(most <= 0 for _, _, most in known) and any(least < 0 for _, least, _ in known):
            return name, True, [one for one, _, most in known if most == 0]
    return None


def _map(at: Sequence[Scalar], loops: Mapping[str, int]) -> AccessMap | None:
    indices = tuple([one for one in at if isinstance(one, Affine)])
    return AccessMap(indices, tuple(loops.items())) if len(indices) == len(at) else None
