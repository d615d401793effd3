"""An LRU cache."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

from weft.runtime.fork import new_lock

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class LRU(Generic[K, V]):
    """A mapping of at most `limit` entries. Several threads may use it."""

    __slots__ = ("_entries", "_lock", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._entries: OrderedDict[K, V] = OrderedDict()
        self._lock = new_lock()  # a finaliser may come by in the middle

    def get(self, key: K) -> V | None:
        """What is kept under a key, which is now the most recently used; None if nothing is."""
        with self._lock:
            found = self._entries.get(key)
            if found is not None:
                self._entries.move_to_end(key)
            return found

    def put(self, key: K, value: V) -> V:
        """Keep something; the least recently used goes if there are too many."""
        with self._lock:
            self._entries[key] = value
            self._entries.move_to_end(key)
            while len(self._entries) > self.limit:
                self._entries.popitem(last=False)
        return value

    def drop(self, key: K) -> None:
        """Forget what is kept under a key, if anything is."""
        self._entries.pop(key, None)

    def __len__(self) -> int:
        return len(self._entries)
