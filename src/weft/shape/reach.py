"""What can be reached from some things, step by step."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

T = TypeVar("T", bound=Hashable)


def reach(start: Iterable[T], step: Callable[[T], Iterable[T]]) -> dict[T, None]:
    """The things to start from and all that steps lead to from them, the nearest first."""
    found = dict.fromkeys(start)
    queue = deque(found)
    while queue:
        for one in step(queue.popleft()):
            if one not in found:
                found[one] = None
                queue.append(one)
    return found
