"""Weak references: what belongs to objects without keeping them alive."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar
from weakref import ref

K = TypeVar("K")
V = TypeVar("V")


class Weak(Generic[K, V]):
    """A mapping that does not keep its keys alive: an entry goes with its key. Keys are compared by identity.

    Python drops what is raised while it tells that an object is no more, an interrupt too. Nothing is raised in
    `dict.pop`, which is not written in Python. Several threads may use it.
    """

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: dict[ref[K], V] = {}

    def get(self, key: K) -> V | None:
        """What belongs to an object; None if nothing does."""
        return self._entries.get(ref(key))

    def put(self, key: K, value: V) -> V:
        """Let something belong to an object."""
        self._entries[ref(key, self._entries.pop)] = value
        return value

    def __iter__(self) -> Iterator[K]:
        """The objects that are alive, in the order they were put here."""
        return iter([key for one in list(self._entries) if (key := one()) is not None])

    def clear(self) -> None:
        """Let go of everything."""
        self._entries.clear()
