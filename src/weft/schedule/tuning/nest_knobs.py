"""What can be chosen about a perfect nest: the order of its loops, and tiles of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from weft.loops import MalformedLoops, Parallel, Unroll, Vector
from weft.loops.walk import Loop, around
from weft.schedule.compile_options import CompileOptions
from weft.schedule.decisions import Decisions
from weft.schedule.nests.bands import Band, rearranged, tile_loop
from weft.schedule.tuning.knobs import Knob, annotation_knob, chunk_sizes

_TILES = (8, 16, 32, 64, 128, 256)
_CLAIMED = (1, 2, 4)
#: Nests of more loops stay as they are.
_DEEPEST = 6


def nest_knobs(band: Band, options: CompileOptions) -> Iterator[Knob]:
    """The order of loops, and tiles of each; where threads share the nest, they share its outermost loop."""
    if len(band.loops) > _DEEPEST:
        return
    legal = [one for one in _orders(band.names) if _is_free(band, one)]

    def order_of(found: Decisions) -> tuple[str, ...]:
        return tuple(name for name in found.order if name in band.names)

    def ordered(found: Decisions, order: tuple[str, ...]) -> Decisions:
        return _moved(found, found.with_order(band.names, order), band, options)

    yield Knob(f"order of {' '.join(band.names)}", ((), *legal), order_of, ordered)
    for name, size in band.loops:
        sizes = tuple(one for one in _TILES if one < size and size % one == 0)
        yield _cut(name, sizes, band, options)
        if sizes and chunk_sizes(size, options):
            yield _shared_tiles(name)


def _cut(loop: str, sizes: Sequence[int], band: Band, options: CompileOptions) -> Knob:
    def cut(found: Decisions, size: int) -> Decisions:
        return _moved(found, found.with_tiles(loop, size), band, options)

    return Knob(f"{loop} tiles", (0, *sizes), lambda found: dict(found.tiles).get(loop, 0), cut)


def _shared_tiles(loop: str) -> Knob:
    """What threads claim of the loop over tiles of another, where there is one."""
    knob = annotation_knob(tile_loop(loop), (Parallel,), [None, *map(Parallel, _CLAIMED)])

    def write(found: Decisions, value: Any) -> Decisions:
        return knob.write(found, value) if loop in dict(found.tiles) else found

    return replace(knob, write=write)


def _orders(names: Sequence[str]) -> list[tuple[str, ...]]:
    """Every loop innermost, and every loop outermost."""
    inner = [(*(other for other in names if other != name), name) for name in names]
    outer = [(name, *(other for other in names if other != name)) for name in names]
    return [one for one in dict.fromkeys([*inner, *outer]) if one != tuple(names)]


def _is_free(band: Band, order: Sequence[str]) -> bool:
    try:
        rearranged(around(band.loops, band.block), {}, order)
    except MalformedLoops:
        return False
    return True


def _moved(before: Decisions, after: Decisions, band: Band, options: CompileOptions) -> Decisions:
    """Decisions after the loops of a nest moved: the outermost is shared and the innermost runs as was so before."""
    if _standing(before, band) == _standing(after, band):
        return before
    old = [one for loop in _standing(before, band) for one in before.how(loop[0])]
    for name in band.names:
        after = after.with_how(name, ()).with_how(tile_loop(name), ())
    (outer, size), *_, (inner, _) = _standing(after, band)
    shared = [
        Parallel(one) for one in chunk_sizes(size, options)[:1] if any(isinstance(each, Parallel) for each in old)
    ]
    runs = [one for one in old if isinstance(one, Vector | Unroll)][-1:]
    return after.with_how(outer, shared).with_how(inner, runs)


def _standing(found: Decisions, band: Band) -> list[Loop]:
    """The loops of a nest as they stand, those over tiles first."""
    sizes, tiles = dict(band.loops), dict(found.tiles)
    names = [name for name in found.order if name in sizes] or band.names
    outer = [(tile_loop(name), sizes[name] // tiles[name]) for name in names if name in tiles]
    return [*outer, *((name, tiles.get(name, sizes[name])) for name in names)]
