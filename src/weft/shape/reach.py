"""What can be reached from some things, step by step, and what they are made of."""

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


def parts_first(whole: Iterable[T], parts: Callable[[T], Iterable[T]]) -> list[T]:
    """Some things and all that they are made of, each once and after its parts."""
    order: list[T] = []
    entered: set[T] = set()
    for first in whole:
        stack = [(first, iter(parts(first)))] if first not in entered else []
        entered.add(first)
        while stack:
            one, left = stack[-1]
            part = next((each for each in left if each not in entered), None)
            if part is None:
                order.append(one)
                stack.pop()
            else:
                entered.add(part)
                stack.append((part, iter(parts(part))))
    return order
