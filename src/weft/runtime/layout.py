"""Which buffer each operand has in a context, and what it is called there: the same on all devices."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from weft.assign import Merge, Node, Operand, closed_buffer, node_of
from weft.assign.show import distinct
from weft.loops import Buffer
from weft.runtime.process import LOWERING

#: Arenas are numbered downwards from here, far below scratch buffers.
_ARENAS = -(1 << 60)


class Layout:
    """Buffers and names, given at first need. Those given by code that failed to compile can be taken back."""

    __slots__ = ("_arenas", "_asked", "_buffers", "_names", "_used")

    def __init__(self) -> None:
        self._buffers: dict[Operand, Buffer] = {}
        self._names: dict[Node, str] = {}
        self._used: dict[str, None] = {}
        self._asked = 0
        self._arenas = 0

    def buffer(self, operand: Operand) -> Buffer:
        """The buffer of an operand; a node's is the same whether it is computed or read as stored."""
        key = operand if isinstance(operand, Merge) else node_of(operand)
        with LOWERING:
            self._asked += 1
            if key not in self._buffers:
                node = key.node if isinstance(key, Merge) else key
                suffix = ".merge" if isinstance(key, Merge) else ""
                self._buffers[key] = closed_buffer(node, len(self._buffers), self.name(node) + suffix)
            return self._buffers[key]

    def arena(self, size: int) -> Buffer:
        """A piece of memory of so many bytes, like no other."""
        with LOWERING:
            self._arenas += 1
            return Buffer(_ARENAS - self._arenas, f"arena {self._arenas}", (size,), "uint8")

    def name(self, node: Node) -> str:
        """What a node is called: by its label, made distinct."""
        if node.gradient_of is not None:
            return f"{self.name(node.gradient_of)}.grad"
        with LOWERING:
            self._asked += 1
            if node not in self._names:
                self._names[node] = distinct(node.label, self._used)
                self._used[self._names[node]] = None
            return self._names[node]

    @contextmanager
    def lowering(self) -> Iterator[Mark]:
        """Code is lowered by one thread at a time; if that fails, what was given for it is taken back."""
        with LOWERING:
            mark = Mark(self)
            try:
                yield mark
            except BaseException:
                mark.settle()
                mark.go_back()
                raise
            mark.settle()


class Mark:
    """A state of a layout, and whether anybody has asked it for anything since."""

    __slots__ = ("_asked", "_layout", "_lengths")

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._lengths = (len(layout._buffers), len(layout._names))
        self._asked = layout._asked

    def settle(self) -> None:
        """What was asked so far was asked by the code this mark is for."""
        self._asked = self._layout._asked

    def go_back(self) -> None:
        """Take back what was given since, unless others have asked meanwhile and may use it."""
        with LOWERING:
            if self._layout._asked == self._asked:
                buffers, names = self._lengths
                _cut(self._layout._buffers, buffers)
                _cut(self._layout._names, names)
                _cut(self._layout._used, names)


def _cut(known: dict[Any, Any], length: int) -> None:
    while len(known) > length:
        known.popitem()
