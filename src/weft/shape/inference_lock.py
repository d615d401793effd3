"""One thread at a time infers.

Shapes and element types belong to graphs of tensors that threads share: a model, its parameters, its data. What one
thread says of them, tries and takes back must not be seen half done by another.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

#: Held while shapes or types are inferred, closed or looked at. Nothing that is done meanwhile waits for another lock.
INFERRING = threading.RLock()


def alone(function: Callable[P, R]) -> Callable[P, R]:
    """The function, run by one thread at a time."""

    @wraps(function)
    def locked(*args: P.args, **kwargs: P.kwargs) -> R:
        with INFERRING:
            return function(*args, **kwargs)

    return locked
