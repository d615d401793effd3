"""What is made at its first use: the rooms of the package, and properties of values.

A process may fork while another of its threads makes one. So a lock that is held meanwhile is one that a fork waits
for, and a property takes none: two threads may both make it, and both get the one that was made first.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")

#: Held while rooms are loaded: Python would take two threads that import a room and one of its modules for a deadlock.
#: Nothing that is done meanwhile waits for another lock.
LOADING = RLock()


class lazy_property(Generic[T]):
    """A property that is made once; in Python 3.11 `functools.cached_property` holds a lock that all objects share."""

    def __init__(self, make: Callable[[Any], T]) -> None:
        self.make = make
        self.__doc__ = make.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> lazy_property[T]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> lazy_property[T] | T:
        if instance is None:
            return self
        made: T = instance.__dict__.setdefault(self.make.__name__, self.make(instance))
        return made
