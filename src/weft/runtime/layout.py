"""Which buffer each operand has in a context, and what it is called there: the same on all devices."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from weft.assign import Merge, Node, Operand, closed_buffer, node_of
from weft.errors import Origin
from weft.loops import Buffer, Role
from weft.naming import FreshNames
from weft.runtime.fork import LOWERING
from weft.runtime.sources import key_of


class Gone(weakref.ref[Any]):
    """Of something that will be no more, what is to be forgotten then: the id of a node, the arena of a routine.

    It is itself what a list is given when that comes, by a function that is not written in Python: what is raised in
    one that is, an interrupt too, is dropped.
    """

    __slots__ = ("what",)
    what: int | Buffer


@dataclass(frozen=True, slots=True, eq=False)
class _Known:
    """A node that has a name or a buffer here. The node itself is not kept alive."""

    node: Gone
    name: str  # of its own; a gradient has none
    number: int  # in the order they became known


class Layout:
    """Buffers and names, given at first need. Those given by code that failed to compile can be taken back.

    Whatever belongs to a node goes with it: `dead` has the nodes that are no more and were not dropped yet, and the
    routines with arenas that are no more.
    """

    __slots__ = ("_arenas", "_asked", "_buffers", "_given", "_known", "_named", "_names", "_owners", "_users", "dead")

    def __init__(self) -> None:
        self._known: dict[int, _Known] = {}  # by the id of the node
        self._buffers: dict[int, Buffer] = {}  # by the key of the operand
        self._owners: dict[int, int] = {}  # which key a buffer belongs to, by its id
        self._names = FreshNames()
        self._asked = 0
        self._given = 0
        self._named = 0
        self._arenas = 0
        self._users: dict[Buffer, Gone] = {}  # of arenas
        self.dead: deque[Gone] = deque()

    def buffer(self, operand: Operand) -> Buffer:
        """The buffer of an operand; a node's is the same whether it is computed or read as stored."""
        key = key_of(operand)
        with LOWERING:
            self._asked += 1
            found = self._buffers.get(key)
            if found is None:
                node = node_of(operand)
                suffix = ".merge" if isinstance(operand, Merge) else ""
                found = closed_buffer(node, self._given, self.name(node) + suffix)
                if node.id not in self._known:
                    self._know(node, "")
                self._given += 1
                self._owners[found.id] = key
                self._buffers[key] = found
            return found

    def arena(self, size: int) -> Buffer:
        """A piece of memory of so many bytes, like no other."""
        with LOWERING:
            self._arenas += 1
            return Buffer(self._arenas, f"arena {self._arenas}", (size,), "uint8", Role.ARENA)

    def used_by(self, arena: Buffer, user: object) -> None:
        """An arena goes with who uses it."""
        self._users[arena] = self._watched(user, arena)

    def _watched(self, one: object, what: int | Buffer) -> Gone:
        made = Gone(one, self.dead.append)
        made.what = what
        return made

    def name(self, node: Node) -> str:
        """What a node is called: by its label, made distinct."""
        if node.is_grad and node.gradient_of is not None:
            return f"{self.name(node.gradient_of)}.grad"
        with LOWERING:
            self._asked += 1
            if node.id not in self._known:
                self._know(node, self._names.fresh(node.label or "tensor"))
            return self._known[node.id].name

    def _know(self, node: Node, name: str) -> None:
        self._known[node.id] = _Known(self._watched(node, node.id), name, self._named)
        self._named += 1

    def knows(self, node: Node) -> bool:
        """Has it a name or a buffer here?"""
        return node.id in self._known

    def label(self, key: int) -> str:
        """What a stored value is called, for errors."""
        buffer = self._buffers.get(key)
        return buffer.name if buffer is not None else "a tensor"

    def origin(self, buffer: Buffer) -> Origin | None:
        """Where the tensor was made that a buffer belongs to."""
        while buffer.of is not None:
            buffer = buffer.of
        key = self._owners.get(buffer.id) if buffer.role is Role.TENSOR else None
        known = self._known.get(key if key >= 0 else ~key) if key is not None else None
        node = known.node() if known is not None else None
        return node.origin if node is not None else None

    def drop(self, gone: int | Buffer) -> list[Buffer]:
        """Forget a node that is no more, and the buffers it had; or the arena of a routine."""
        if isinstance(gone, Buffer):
            self._users.pop(gone, None)
            return [gone]
        known = self._known.pop(gone, None)
        if known is not None:
            self._names.release(known.name)
        found = [buffer for key in (gone, ~gone) if (buffer := self._buffers.pop(key, None)) is not None]
        for buffer in found:
            self._owners.pop(buffer.id, None)
        return found

    def savepoint(self) -> Savepoint:
        """The state it is in. Called with LOWERING held."""
        return Savepoint(self, self._named, self._asked)


@dataclass(slots=True, eq=False)
class Savepoint:
    """A state of a layout, and whether anybody has asked it for anything since."""

    _layout: Layout
    _named: int
    _asked: int

    def settle(self) -> None:
        """What was asked so far was asked by the code this is for."""
        self._asked = self._layout._asked

    def go_back(self) -> None:
        """Take back what was given since, unless others have asked meanwhile and may use it."""
        with LOWERING:
            if self._layout._asked == self._asked:
                for identity in list(self._since()):
                    self._layout.drop(identity)

    def _since(self) -> Iterator[int]:
        for identity, known in reversed(self._layout._known.items()):
            if known.number < self._named:
                return
            yield identity
