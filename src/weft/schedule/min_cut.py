"""The cheapest cut through a network: what flows from its sources to its end is stopped at the least price.

Flow is sent along one path after another until none is left. From where the end cannot be reached it never can be
again, so such places are not searched twice; they are the near side of the cut that lies closest to the sources.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf

#: The place where everything ends.
END = -1


@dataclass(slots=True)
class Network:
    """Places, numbered, and how much each edge between two still lets through."""

    room: dict[int, dict[int, float]] = field(default_factory=dict)

    def edge(self, source: int, target: int, price: float = inf) -> None:
        """An edge that can be cut at a price."""
        self.room.setdefault(source, {})[target] = price
        self.room.setdefault(target, {}).setdefault(source, 0)

    def near(self, sources: Iterable[int]) -> set[int]:
        """The places on the sources' side of the cheapest cut. This uses the network up."""
        closed: set[int] = set()
        for source in sources:
            while source not in closed:
                path = self._path(source, closed)
                least = min((self.room[one][other] for one, other in pairwise(path)), default=0)
                for one, other in pairwise(path):
                    self.room[one][other] -= least
                    self.room[other][one] += least
        return closed

    def _path(self, source: int, closed: set[int]) -> Sequence[int]:
        """A way from a source to the end; if there is none, all that can be reached is closed."""
        came = {source: source}
        waiting = deque([source])
        while waiting:
            here = waiting.popleft()  # the shortest way: any other might send little, and often
            for there, room in self.room[here].items():
                if room > 0 and there not in came and there not in closed:
                    came[there] = here
                    if there == END:
                        return _back(came)
                    waiting.append(there)
        closed.update(came)
        return ()


def _back(came: dict[int, int]) -> list[int]:
    path = [END]
    while came[path[-1]] != path[-1]:
        path.append(came[path[-1]])
    return path[::-1]
