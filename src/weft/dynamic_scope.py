"""Dynamic scope: values that hold inside a `with` block, for the thread or task that runs it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

T = TypeVar("T")


@contextmanager
def temporarily(variable: ContextVar[Any], value: T) -> Iterator[T]:
    """Let a variable have a value inside the block; what it had before it has behind it."""
    before = variable.get()
    try:
        variable.set(value)
        yield value
    finally:
        variable.set(before)
