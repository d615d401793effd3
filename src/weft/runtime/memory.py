"""The memory of one device: a block for each buffer in use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from weft.backends import Array, Backend, Block, Bound
from weft.loops import Buffer
from weft.runtime.built import Placed


class DeviceMemory:
    """Blocks. Memory of the user's is adopted where the backend can, and copied before it is written."""

    __slots__ = ("_adopted", "_backend", "_device", "blocks", "replaced")

    def __init__(self, backend: Backend, device: int) -> None:
        self._backend = backend
        self._device = device
        self._adopted: set[Buffer] = set()
        self.blocks: dict[Buffer, Block] = {}
        self.replaced = 0  # how often a buffer got another block: what was bound before is bound to the old one

    def new(self, buffer: Buffer) -> Block:
        """A block of zeros that belongs to nobody yet."""
        return self._backend.allocate(buffer, self._device)

    def allocate(self, buffers: Iterable[Buffer]) -> None:
        """A block for each of these that has none."""
        for buffer in buffers:
            if buffer not in self.blocks:
                self.blocks[buffer] = self.new(buffer)

    def bind(self, program: Placed, blocks: Mapping[Buffer, Block] | None = None) -> Bound:
        """A program on this memory, or on other blocks of this device."""
        return program.bind(self.blocks if blocks is None else blocks, self._backend)

    def clear(self, buffer: Buffer) -> None:
        """Zeros, in a block of its own: whoever uses the old one keeps it."""
        self._put(buffer, self.new(buffer))

    def adopt(self, buffer: Buffer, array: Array) -> None:
        """The values of an array of the buffer's shape and type."""
        block = self._backend.adopt(buffer, array, self._device)
        if block is None:
            block = self.new(buffer)
            self._backend.upload(array, block)
            self._put(buffer, block)
        else:
            self._put(buffer, block)
            self._adopted.add(buffer)

    def own(self, buffers: Iterable[Buffer]) -> None:
        """Blocks that may be written, with the values they have."""
        for buffer in buffers:
            if buffer in self._adopted:
                block = self.new(buffer)
                self._backend.copy(self.blocks[buffer], block)
                self._put(buffer, block)

    def overwrite(self, buffer: Buffer) -> Block:
        """A block that is about to be written as a whole."""
        if buffer not in self.blocks or buffer in self._adopted:
            self._put(buffer, self.new(buffer))
        return self.blocks[buffer]

    def _put(self, buffer: Buffer, block: Block) -> None:
        self.replaced += buffer in self.blocks
        self.blocks[buffer] = block
        self._adopted.discard(buffer)
