"""The cost model of strip-mining: what strips keep out of memory against what is read again for each of them.

What contractions leave for others is written once and read once. In strips it is read from a cache, and never written
to memory if nobody else wants it. But what contractions read that has no rows, and sums over rows, are passed over
again for each strip.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from math import prod

from weft.loops.contraction import contraction_of
from weft.loops.legality import points
from weft.loops.nests import Nest
from weft.loops.nodes import Buffer
from weft.loops.roundings import PARTS
from weft.loops.walk import mentioned
from weft.machine import Machine
from weft.ops.dtypes import numpy_type
from weft.schedule.fusion.strips import Group, Members, Roles, Uses, access_footprints
from weft.thresholds import USUAL, Thresholds

#: So many partial sums are added up in single precision: as many roundings are left for that.
_FEW = 10


@dataclass(frozen=True, slots=True)
class StripCost:
    """Weighs strips for a machine, in which terms of sums over rows are rounded so many times at most."""

    machine: Machine
    roundings: int = sum(PARTS)
    thresholds: Thresholds = USUAL

    def is_large(self, buffer: Buffer, roles: Roles) -> bool:
        """Does what a contraction leaves for others in a batch fill half of the second cache, and are rows many?"""
        many = roles.row[1] >= 2 * self.thresholds.strip_rows_least
        return many and 2 * _row(buffer, roles) * roles.row[1] >= self.machine.caches[1]

    def rows(self, uses: Uses, found: Members, group: Group, kept: Collection[Buffer]) -> int:
        """How many rows are best in a strip; 0 if it is better not to cut them. What is `kept` is in memory anyway."""
        products = {one: uses.nests[one] for one in group.members if contraction_of(uses.nests[one]) is not None}
        made = found.core.intersection(nest.target for nest in products.values())
        used = found.core.intersection(read.buffer for nest in products.values() for read in nest.reads)
        used.intersection_update(uses.nests[one].target for one in group.members)
        if not made or not used:
            return 0
        members, roles, between = set(group.members), found.roles, made | used
        local = [one for one in between if one not in kept and members.issuperset(uses.touching[one])]
        rows = self._even(roles.row[1], self.machine.caches[1] // sum(_row(one, roles) for one in between))
        if rows > roles.row[1]:
            return 0
        again = sum(one for index, nest in products.items() for one in _without_rows(nest, found.loops[index], roles))
        strips = points(roles.batch) * -(-roles.row[1] // rows)
        saved = sum(one.bytes for one in between) + sum(one.bytes for one in local)
        return rows if strips * self.machine.transfer_ns(again) < self.machine.transfer_ns(saved, saved // 2) else 0

    def strips_of_a_sum(self, rows: int, strips: int, every: int, batches: int) -> int:
        """How many strips of so many rows add to one sum, where `every` strip of some batches would; 0 if all may."""
        once = min(rows, PARTS[0] + -(-rows // PARTS[0]))
        if not batches or once + every * batches <= self.roundings:
            return 0
        return max(one for one in range(1, max(1, self.roundings - _FEW - once) + 1) if strips % one == 0)

    def _even(self, total: int, fitting: int) -> int:
        """About so many rows as fit, in whole tiles, where possible so that no strip is shorter."""
        tile, least = self.thresholds.tile_rows, self.thresholds.strip_rows_least
        most = max(max(min(fitting, self.thresholds.strip_rows_most), least) // tile, 1) * tile
        even = [one for one in range(most, most // 2, -tile) if total % one == 0]
        return even[0] if even else most


def _row(buffer: Buffer, roles: Roles) -> int:
    """The bytes of a row."""
    return points(roles.columns) * numpy_type(buffer.dtype).itemsize


def _without_rows(nest: Nest, loops: Mapping[str, str], roles: Roles) -> Iterator[int]:
    """The bytes of a batch that a contraction reads or writes in every strip, whatever its rows."""
    sizes = dict(nest.loops)
    for buffer, at in access_footprints(nest):
        names = mentioned(*at)
        if loops[roles.row[0]] not in names:
            own = names.intersection(sizes).difference(loops[role] for role, _ in roles.batch)
            times = 2 if buffer == nest.target else 1
            yield times * prod(sizes[name] for name in own) * numpy_type(buffer.dtype).itemsize
