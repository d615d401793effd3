"""The order and the tiles of loops in a kernel, as decided: interchange and strip-mining of a band, a perfect nest.

    for i0 in range(512): for i1 in range(512): y[i0, i1] = x[i1, i0]      with i1 cut by 32, order i1 i0

    becomes

    for t1 in range(16): for i1 in range(32): for i0 in range(512): y[i0, 32 t1 + i1] = x[32 t1 + i1, i0]

Loops over tiles come first, in the order of the others. A loop whose iterations are independent of each other may go
anywhere; the others keep their order, so that whatever they accumulate is accumulated in the same order as before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from weft.affine import Affine
from weft.loops import For, MalformedLoops, Staged, Stmt
from weft.loops.affine_accesses import independent
from weft.loops.walk import Body, Loop, around, block_at, perfect, top_down


@dataclass(frozen=True, slots=True)
class Band:
    """Loops of a perfect nest, and what is inside them."""

    loops: tuple[Loop, ...]
    block: Body

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.loops)

    def is_independent(self, loop: Loop) -> bool:
        """May the iterations of a loop run in any order, whatever the others do?"""
        others = [one for one in self.loops if one != loop]
        return independent(For(*loop, around(others, self.block)))


def bands_of(body: Sequence[Stmt]) -> list[Band]:
    """The bands of a block of more than one loop, from the outermost in."""
    found: list[Band] = []

    def rule(stmt: Stmt) -> Sequence[Stmt] | None:
        if isinstance(stmt, For):
            band = Band(*perfect((stmt,)))
            found.extend([band] if len(band.loops) > 1 else [])
            top_down(band.block, rule)
            return (stmt,)
        return None

    top_down(body, rule)
    return found


def tile_loop(loop: str) -> str:
    """The loop over the tiles of a loop of a systematic name: `t3` of `i3`."""
    return f"t{loop[1:]}"


def rearranged(body: Sequence[Stmt], tiles: Mapping[str, int], order: Sequence[str]) -> Body:
    """A block with loops cut into tiles and in another order."""

    def rule(stmt: Stmt) -> Sequence[Stmt] | None:
        if not isinstance(stmt, For):
            return (stmt,) if isinstance(stmt, Staged) else None
        band = Band(*perfect((stmt,)))
        inside = Band(band.loops, top_down(band.block, rule))
        return _rearranged(inside, tiles, [one for one in order if one in band.names])

    return top_down(body, rule) if tiles or order else tuple(body)


def _rearranged(band: Band, tiles: Mapping[str, int], order: Sequence[str]) -> Body:
    cut = {name: tiles[name] for name in band.names if name in tiles}
    if not cut and not order:
        return around(band.loops, band.block)
    chosen = tuple(order) or band.names
    if sorted(chosen) != sorted(band.names):
        raise MalformedLoops(f"{' '.join(chosen)} are not the loops {' '.join(band.names)}")
    sizes = dict(band.loops)
    for name, size in cut.items():
        if not 1 < size < sizes[name] or sizes[name] % size:
            raise MalformedLoops(f"loop `{name}` of {sizes[name]} iterations has no tiles of {size}")
    outer = [(tile_loop(name), sizes[name] // cut[name]) for name in chosen if name in cut]
    inner = [(name, cut.get(name, sizes[name])) for name in chosen]
    _check_order(band, [*outer, *inner], cut)
    at = {name: Affine(((size, tile_loop(name)), (1, name))) for name, size in cut.items()}
    return around([*outer, *inner], block_at(band.block, at))


def _check_order(band: Band, loops: Sequence[Loop], cut: Mapping[str, int]) -> None:
    """Loops that are not independent run in the order they had: those over tiles before their own, and all in turn."""
    ordered = [name for name, size in band.loops if not band.is_independent((name, size))]
    wanted = [one for name in ordered for one in ([tile_loop(name), name] if name in cut else [name])]
    if [name for name, _ in loops if name in wanted] != wanted:
        raise MalformedLoops(f"the order of {' '.join(wanted)} is not free")
