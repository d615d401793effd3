"""Memory that watches who reads and writes it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from weft.loops import Buffer


@dataclass
class Watched:
    """An array that knows which of its cells were read, written, and read before they were written."""

    array: np.ndarray
    read: set[tuple[int, ...]] = field(default_factory=set)
    written: set[tuple[int, ...]] = field(default_factory=set)
    stale: set[tuple[int, ...]] = field(default_factory=set)
    loads: int = 0
    stores: int = 0

    def __getitem__(self, cell: tuple[Any, ...]) -> Any:
        at = tuple(map(int, cell))
        self.read.add(at)
        self.loads += 1
        if at not in self.written:
            self.stale.add(at)
        return self.array[cell]

    def __setitem__(self, cell: Any, value: Any) -> None:
        cells = np.ndindex(self.array.shape) if cell is Ellipsis else [tuple(map(int, cell))]
        for one in cells:
            self.written.add(one)
            self.stores += 1
        self.array[cell] = value


def watched(memory: dict[Buffer, np.ndarray], some: Iterable[Buffer] | None = None) -> dict[Buffer, Any]:
    chosen = set(memory if some is None else some)
    return {one: Watched(array.copy()) if one in chosen else array.copy() for one, array in memory.items()}
