"""Scatters on a GPU without atomics, by owner computes: the gradient of a lookup, sums by ids, histograms.

    for d: for b: for t: if 0 <= ids[b, t] < 50304: g[ids[b, t], d] += x[b, t, d]

    becomes

    for d on a grid by 256 with 4 warps:
        for b collapsed by 2, by owners in blocks of 1024 by 16 with 4 warps:
            for t: if 0 <= ids[b, t] < 50304: g[ids[b, t], d] += x[b, t, d]

In order it would be one iteration after another, for each column. What owners take instead is that each program looks
through the ids: all of them if it owns a row, else as far as the one that does. Both times follow from sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from weft.affine import Affine
from weft.loops import Collapse, For, Grid, Owners, Read, Stmt
from weft.loops.legality import illegal, points
from weft.loops.nests import stride_of
from weft.loops.owner_computes import OwnedScatter, scatter_of
from weft.loops.walk import Body, Loop, around, mentioned, reads
from weft.schedule.gpu.simt import inside_steps, nest_steps
from weft.schedule.gpu_model import Gpu


def by_owners(body: Sequence[Stmt], gpu: Gpu) -> Body | None:
    """A launch that is a scatter, whose cells have owners; None if it is none, or is as soon done in order."""
    steps, inner = nest_steps(body)
    loops = [(one.loop, one.size) for one in steps if isinstance(one, For)]
    inside = inside_steps([one for one in steps if not isinstance(one, For)], inner)
    found = scatter_of(loops, inside)
    if isinstance(found, str) or all(isinstance(found.update.at[axis], Affine) for axis in found.keys):
        return None
    apart = [one for one in loops if _is_alone(one[0], found)]
    owned = [one for one in loops if one not in apart]
    if not owned:
        return None
    lane = _lane(apart, found)
    how, wide = _shape(lane, found, gpu)
    (first, *rest) = owned
    scatter = For(*first, around(rest, inside), (Collapse(len(owned)), how) if rest else (how,))
    if illegal(scatter) or _ns(owned, apart, wide, found, gpu) >= _in_order_ns(owned, gpu):
        return None
    for one in [*([lane] if lane else []), *(one for one in reversed(apart) if one != lane)]:
        scatter = For(*one, (scatter,), (Grid(wide if one == lane else 1, how.warps),))
    return (scatter,)


def _shape(lane: Loop | None, found: OwnedScatter, gpu: Gpu) -> tuple[Owners, int]:
    """How many positions a program takes at once, on how many warps, and how many columns it has."""
    wide = 1
    if lane is not None:
        side_by_side = stride_of(Read(found.update.buffer, found.update.at), lane[0]) == 1
        most = gpu.owned_columns if side_by_side else gpu.owned_apart
        wide = min(most, 1 << (lane[1] - 1).bit_length())
    part = max(gpu.owned_part, min(gpu.owned_block, gpu.owned_cells // wide))
    warps = gpu.owned_warps if wide * part <= 2 * gpu.owned_cells else 2 * gpu.owned_warps
    return Owners(gpu.owned_block, part, warps), wide


def _is_alone(loop: str, found: OwnedScatter) -> bool:
    """Does a loop move along an axis of cells by itself?"""
    return any(isinstance(one, Affine) and one.names == (loop,) for one in found.update.at)


def _lane(apart: Sequence[Loop], found: OwnedScatter) -> Loop | None:
    """The loop whose iterations are next to each other in memory, among those that no key or test asks for."""
    others = [index for index in found.update.at if not isinstance(index, Affine)]
    asked = mentioned(*others, *(test.index for test in found.tests))
    cells = [Read(found.update.buffer, found.update.at), *reads(found.update.value)]
    fitting = [one for one in apart if one[0] not in asked]
    return max(fitting, key=lambda one: sum(stride_of(cell, one[0]) == 1 for cell in cells), default=None)


def _ns(owned: Sequence[Loop], apart: Sequence[Loop], wide: int, found: OwnedScatter, gpu: Gpu) -> float:
    """What owners take: ids are read from the second cache, up to the first of a kind by each, to the end by that."""
    positions = points(owned)
    kinds = min(positions, prod(found.update.buffer.shape[axis] for axis in found.keys))
    blocks = -(-points(apart) // wide)
    looked = 4.0 * blocks * positions * max(kinds, gpu.owned_block) / (gpu.cache_speed * gpu.bytes_per_s) * 1e9
    waves = -(-blocks * positions // (gpu.multiprocessors * gpu.resident_programs))
    return looked + waves * gpu.program_ns


def _in_order_ns(owned: Sequence[Loop], gpu: Gpu) -> float:
    """What one iteration after another takes: each reads an id, then a cell."""
    return 2 * gpu.step_ns * points(owned)
