"""What a device holds: blocks of memory, which nodes have values in them, and what other devices sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from weft.assign import Node
from weft.backends import Array, Bound
from weft.loops import Buffer
from weft.runtime import refuse
from weft.runtime.first import FirstValues, given_values, is_computed
from weft.runtime.memory import DeviceMemory
from weft.runtime.order import Order
from weft.runtime.routine import Facts, Reads, Routine


@dataclass(frozen=True, slots=True)
class Found:
    """What has to happen before something can be read."""

    nodes: tuple[Node, ...]  # that get a first value
    given: Mapping[Buffer, Array | None]  # the values of those that are not computed; None: zeros
    first: FirstValues  # of those that are
    merges: tuple[Node, ...]  # whose merge buffers are used up


class Holdings:
    """Which values there are. Every method is called with the context's lock held."""

    __slots__ = ("_buffer", "_device", "_first_values", "_memory", "_order", "sent", "stored")

    def __init__(
        self,
        memory: DeviceMemory,
        order: Order,
        buffer: Callable[[Node], Buffer],
        first_values: Callable[[tuple[Node, ...]], FirstValues],
        device: int,
    ) -> None:
        self.stored: dict[Node, None] = {}
        self.sent: dict[Node, int] = {}  # what was put into merge buffers and not read since, and by which device
        self._memory = memory
        self._order = order
        self._buffer = buffer
        self._first_values = first_values
        self._device = device

    def uncomputed(self, nodes: Sequence[Node]) -> tuple[Node, ...]:
        """Those that have no value yet and whose first values are computed."""
        return tuple([node for node in nodes if node not in self.stored and is_computed(node)])

    def has(self, reads: Reads) -> bool:
        """Are all these values there, to be read again and again?"""
        return not reads.merges and all(node in self.stored for node in reads.nodes)

    def find(self, reads: Reads, reader: Routine | None = None) -> Found:
        """What it takes to read these. Changes nothing; refuses what would read garbage."""
        for node in reads.merges:
            if node not in self.sent:
                raise refuse.nothing_transferred(node, self.sent, self._device)
        self.check_whole(reads.buffers)
        missing = tuple([node for node in reads.nodes if node not in self.stored])
        first = self._first_values(self.uncomputed(missing))
        given = {}
        for node in missing:
            if node not in first.nodes:
                buffer = self._buffer(node)
                given[buffer] = given_values(node, buffer)
                if given[buffer] is None and not node.recurrent:
                    raise refuse.never_got_a_value(node, reader, self._device)
        return Found(missing, given, first, reads.merges)

    def fill(self, found: Found) -> list[Bound]:
        """Put the values that are given where they belong; what is left to call for those that are computed."""
        for buffer, array in found.given.items():
            if array is None:
                self._memory.clear(buffer)
            else:
                self._memory.adopt(buffer, array)
        self._order.wrote(found.given)
        self._memory.allocate(found.first.buffers)
        return [self._memory.bind(found.first.program)] if found.first.program else []

    def accept(self, found: Found) -> None:
        """From now on these values are there, or will be when it is their turn."""
        self.stored |= dict.fromkeys(found.nodes)
        for node in found.merges:
            del self.sent[node]

    def ran(self, facts: Facts) -> None:
        """A routine is to run: of what it writes, what it leaves stays."""
        for node in facts.written:
            self.stored.pop(node, None)
        for node in facts.leaves:
            self.stored[node] = None

    def check_whole(self, buffers: Sequence[Buffer]) -> None:
        """Refuse values that were to be written by something that failed."""
        for buffer in buffers:
            failure = self._order.broken(buffer)
            if failure is not None:
                raise refuse.lost(buffer.name, failure, self._device)
