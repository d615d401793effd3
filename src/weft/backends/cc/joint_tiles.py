"""Joint sums of a product (`loops/joint_sums.py`) in C: each has tiles of the product's size, a group of tiles of
rows before the next, and leaves them in memory of its own, where the product's epilogue finds them.

Of sums whose factors differ in the tensors alone, one micro-kernel does all; of those of the same columns, one panel.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from weft.backends.cc.lines import Lines
from weft.backends.cc.nan_checks import NanCheckedTiles
from weft.backends.cc.panels import PackingTiles
from weft.loops import Buffer, Read
from weft.loops.joint_sums import joint_sums
from weft.loops.legality import points
from weft.loops.walk import rewritten
from weft.ops import Scalar


@dataclass(frozen=True, slots=True)
class Beside:
    """A sum beside a product's own: its number, its tiles, whose micro-kernel and whose packing it calls, which panel
    it reads, and whether that is packed for it."""

    at: int
    tiles: PackingTiles
    kernel: str
    pack: str
    panel: str
    packs: bool

    @property
    def call(self) -> str:
        """The call of its micro-kernel."""
        given = {"panel": self.panel, "sums": f"sums_{self.at}"}
        names = [given.get(name, name) for _, name in self.tiles.given()]
        return f"{self.kernel}_any(rows, columns, {', '.join(names)});"


@dataclass(frozen=True, slots=True)
class TilesBeside(NanCheckedTiles):
    """The functions of a product in tiles, and of the sums beside its own."""

    def functions(self) -> Lines:
        lines = NanCheckedTiles.functions(self)
        for one in self.beside:
            own = one.tiles.of_tiles() if one.kernel == one.tiles.name else []
            packs = one.tiles.of_panels() if one.packs and one.pack == one.tiles.name else []
            lines += [*one.tiles.sizes(), *own, *packs] if own or packs else []
        return lines

    @property
    def beside(self) -> list[Beside]:
        """The sums beside its own."""
        found = list[Beside]()
        kernels, packs, panels = ({key: name} for key, name in self._first(self))
        for at, parts in enumerate(joint_sums(self.parts)[0], 1):
            tiles = PackingTiles(f"{self.name}_beside{at}", parts, self.tile, self.writer)
            (kernel, name), (pack, _), (panel, _) = self._first(tiles)
            packed = bool(self.tile.panel) and panel not in panels
            own = panels.setdefault(panel, f"panel_{at}")
            found.append(Beside(at, tiles, kernels.setdefault(kernel, name), packs.setdefault(pack, name), own, packed))
        return found

    @staticmethod
    def _first(tiles: PackingTiles) -> list[tuple[Hashable, str]]:
        """What tells micro-kernels, packing and panels from those of other sums, and what they are called."""
        rows, columns, sums = tiles.parts.factors[0], tiles.parts.factors[1], tiles.parts.sums
        read = [rows] if tiles.tile.panel else [rows, columns]
        return [
            ((sums, _apart_from_tensors(read)), tiles.name),
            ((sums, _apart_from_tensors([columns])), tiles.name),
            ((sums, columns), "panel"),
        ]

    def panel_sizes(self) -> dict[str, int]:
        """How many sums the panels have that the product packs for others."""
        return {one.panel: points(one.tiles.parts.sums) for one in self.beside if one.packs}


def _apart_from_tensors(factors: Sequence[Scalar]) -> tuple[Scalar, ...]:
    """Factors with tensors that are told by their order alone."""
    known = dict[Buffer, int]()

    def leaf(one: Scalar) -> Scalar | None:
        if not isinstance(one, Read):
            return None
        at = known.setdefault(one.buffer, len(known))
        return Read(Buffer(at, "", one.buffer.shape, one.buffer.dtype), one.at)

    return tuple(rewritten(one, leaf) for one in factors)
