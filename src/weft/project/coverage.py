"""Is no cell of a result written twice, is every cell written?

Injective: accumulating is a plain write. Surjective: nothing need be cleared first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from weft.affine import AccessMap, covers, injective
from weft.project.nodes import Projection, loops_in


@lru_cache(maxsize=8192)
def is_injective(projection: Projection) -> bool:
    """What data says tells no cells apart, for positions may repeat; one that all points share moves all alike."""
    held = {one.name for one in projection.looked_up if any(map(loops_in, projection.maps[one.slot]))}
    maps = projection.written
    if projection.scatters:
        apart = [tuple(index for index in one.indices if held.isdisjoint(index.names)) for one in maps]
        maps = [replace(one, indices=indices) for one, indices in zip(maps, apart, strict=True)]
    return injective(maps)


@lru_cache(maxsize=8192)
def is_surjective(projection: Projection) -> bool:
    return cover([projection])


def cover(projections: Sequence[Projection]) -> bool:
    """Is every cell of the result, the same tensor for all, written by one of them?

    What is written at a position supplied when the code runs, or that data may forbid, is taken for written nowhere.
    """
    shape = projections[0].shapes[0].array_shape
    maps = [one for projection in projections if not _depends(projection) for one in projection.written]
    return covers(maps, AccessMap.all_of(shape), shape)


def _depends(projection: Projection) -> bool:
    """Is a position in an axis of the result, one of several, supplied when the code runs, or is it up to data?"""
    if projection.scatters or projection.tested:
        return True
    if not projection.given:
        return False
    axes = zip(projection.maps[0], projection.shapes[0].array_shape, strict=True)
    return any(size > 1 and not projection.given.isdisjoint(loops_in(index)) for index, size in axes)
