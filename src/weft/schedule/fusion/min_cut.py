"""Minimum s-t cut by Edmonds-Karp, with several sources: the source side of the cut nearest to them.

Flow is sent along shortest augmenting paths until none is left. A node from which no residual path leads to the sink
never gets one, so it is not searched twice; these nodes are the source side.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf

#: The sink.
SINK = -1


@dataclass(slots=True)
class Network:
    """A flow network over integer nodes: the residual capacity of each edge."""

    residual: dict[int, dict[int, float]] = field(default_factory=dict)

    def edge(self, source: int, target: int, capacity: float = inf) -> None:
        """Add an edge with a capacity, what it costs to cut it."""
        self.residual.setdefault(source, {})[target] = capacity
        self.residual.setdefault(target, {}).setdefault(source, 0)

    def source_side(self, sources: Iterable[int]) -> set[int]:
        """The nodes on the source side of a minimum cut. This consumes the residual capacities."""
        closed: set[int] = set()
        for source in sources:
            while source not in closed:
                path = self._path(source, closed)
                flow = min((self.residual[one][other] for one, other in pairwise(path)), default=0)
                for one, other in pairwise(path):
                    self.residual[one][other] -= flow
                    self.residual[other][one] += flow
        return closed

    def _path(self, source: int, closed: set[int]) -> Sequence[int]:
        """The shortest augmenting path from a source; if there is none, all nodes it reaches are closed."""
        parents = {source: source}
        queue = deque([source])
        while queue:
            here = queue.popleft()  # breadth first: with other paths the number of rounds has no such bound
            for there, capacity in self.residual[here].items():
                if capacity > 0 and there not in parents and there not in closed:
                    parents[there] = here
                    if there == SINK:
                        return _path_to(parents)
                    queue.append(there)
        closed.update(parents)
        return ()


def _path_to(parents: dict[int, int]) -> list[int]:
    path = [SINK]
    while parents[path[-1]] != path[-1]:
        path.append(parents[path[-1]])
    return path[::-1]
