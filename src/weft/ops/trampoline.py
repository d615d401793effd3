"""Functions that call each other as deep as a program is long, on a stack that has no end.

A step is a generator. What it yields is another step, which is done first and whose result is sent back to it:

    def size(tree: Tree) -> Steps[int]:
        left = yield size(tree.left)
        ...
        return left + right + 1

    finished(size(tree))
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeAlias, TypeVar, cast

T = TypeVar("T")

#: Work that waits for other work, and comes to a T in the end.
Steps: TypeAlias = Generator["Steps[Any]", Any, T]


def finished(steps: Steps[T]) -> T:
    """What work comes to, with all that it waits for done."""
    waiting: list[Steps[Any]] = [steps]
    result: Any = None
    while waiting:
        try:
            waiting.append(waiting[-1].send(result))
            result = None
        except StopIteration as done:
            waiting.pop()
            result = done.value
    return cast(T, result)
