"""The memory of one device: a block for each buffer in use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from weft.backends import Array, Backend, Block, BoundProgram, Exchanging, Pooling
from weft.dlpack import CPU, DeviceArray
from weft.errors import Origin
from weft.loops import Buffer
from weft.ops.convert import convert
from weft.ops.dtypes import numpy_type
from weft.runtime import errors
from weft.runtime.compiled import Compiled


class DeviceMemory:
    """Blocks. Memory of the user's is adopted where the backend can, and copied before it is written."""

    __slots__ = ("_adopted", "_backend", "_device", "_origin", "blocks", "replaced")

    def __init__(self, backend: Backend, device: int, origin: Callable[[Buffer], Origin | None]) -> None:
        self._backend = backend
        self._device = device
        self._origin = origin  # where the tensor of a buffer was made
        self._adopted: dict[Buffer, Block] = {}  # blocks of the user's, whether or not they are still in use
        self.blocks: dict[Buffer, Block] = {}
        self.replaced = 0  # how often a buffer got another block: what was bound before is bound to the old one

    def new(self, buffer: Buffer, parts: Iterable[Buffer] = ()) -> Block:
        """A block of zeros that belongs to nobody yet; `parts` are what will lie in it, if that is several."""
        try:
            return self._backend.allocate(buffer, self._device)
        except MemoryError:
            held = self._held()
            raise errors.no_memory(list(parts) or [buffer], buffer, self._device, self._origin, held) from None

    def _held(self) -> list[str]:
        """What the memory of a device is used for, where it is not that of the process."""
        if not isinstance(self._backend, Pooling):
            return []
        return errors.memory_held(self._backend.memory(self._device), list(self.blocks), self._device)

    def download(self, buffer: Buffer, block: Block) -> Array:
        """The values of a block, as an array of the caller's own."""
        try:
            return self._backend.download(block)
        except MemoryError:
            raise errors.no_memory([buffer], buffer, self._device, self._origin) from None

    def converted(self, array: Array, buffer: Buffer) -> Array:
        """An array in the type of a buffer."""
        try:
            with np.errstate(all="ignore"):
                return np.asarray(convert(array, buffer.dtype))
        except MemoryError:
            raise errors.no_memory([buffer], buffer, self._device, self._origin) from None

    def place(
        self, program: Compiled, apart: Iterable[Buffer] = (), writes: Iterable[Buffer] = ()
    ) -> tuple[BoundProgram, dict[Buffer, Block]]:
        """A program on this memory, which gets blocks for what has none; those it `writes` are not the user's.

        Its arena, and the buffers `apart`, have blocks of their own, which come with it. Or there is an error and no
        block more than before.
        """
        own = self._new_apart(program, apart)
        self.blocks |= {one: self.new(one) for one in program.buffers if one not in self.blocks and one not in own}
        self._own(writes)
        return program.bind(self._blocks(program, own), self._backend), own

    def place_all(self, programs: Sequence[Compiled]) -> list[BoundProgram]:
        """Programs on this memory that share an arena."""
        own = self._new_apart(programs[0]) if programs else {}
        return [program.bind(self._blocks(program, own), self._backend) for program in programs]

    def _new_apart(self, program: Compiled, apart: Iterable[Buffer] = ()) -> dict[Buffer, Block]:
        own = {buffer: self.new(buffer) for buffer in apart if buffer != program.arena}
        if program.arena is not None:
            own[program.arena] = self.new(program.arena, program.offsets)
        return own

    def _blocks(self, program: Compiled, own: Mapping[Buffer, Block]) -> dict[Buffer, Block]:
        return {buffer: own[buffer] if buffer in own else self.blocks[buffer] for buffer in program.buffers}

    def clear(self, buffer: Buffer) -> None:
        """Zeros, in a block of its own: whoever uses the old one keeps it."""
        self.put(buffer, self.new(buffer))

    def adopt(self, buffer: Buffer, array: Array) -> None:
        """The values of an array of the buffer's shape and type."""
        self.check_place(buffer, array)
        block = self._backend.adopt(buffer, array, self._device)
        if block is None:
            block = self.new(buffer)
            self._backend.upload(array, block)
        else:
            self._adopted[buffer] = block
        self.put(buffer, block)

    def upload(self, buffer: Buffer, array: Array, block: Block) -> None:
        """Copy an array, of as many values, into a block of a buffer."""
        self.check_place(buffer, array)
        self._backend.upload(array if array.shape == buffer.shape else array.reshape(buffer.shape), block)

    def check_place(self, buffer: Buffer, array: Array) -> None:
        """Refuse an array of a GPU on another device."""
        if isinstance(array, DeviceArray):
            here = self._backend.place(self._device) if isinstance(self._backend, Exchanging) else CPU
            if array.device != here:
                raise errors.elsewhere(buffer, array.device, here)
            if array.dtype != numpy_type(buffer.dtype):
                raise errors.other_type(buffer, array.dtype.name)

    def lent(self, buffer: Buffer, block: Block) -> DeviceArray:
        """The values of a block, as an array of the caller's own on this device."""
        assert isinstance(self._backend, Exchanging)
        own = self.new(buffer)
        self._backend.copy(block, own)
        return self._backend.lend(own)

    def _own(self, buffers: Iterable[Buffer]) -> None:
        """Blocks that may be written, with the values they have."""
        for buffer in buffers:
            if self._is_adopted(buffer):
                block = self.new(buffer)
                self._backend.copy(self.blocks[buffer], block)
                self.put(buffer, block)

    def writable(self, buffer: Buffer) -> Block:
        """A block to be written as a whole: the one in use, or if that must not be written another to `put` there."""
        return self.new(buffer) if buffer not in self.blocks or self._is_adopted(buffer) else self.blocks[buffer]

    def fill(self, buffer: Buffer, array: Array) -> None:
        """Let a buffer have an array's values, in as many axes or fewer; if nothing uses it, it has no block."""
        block = self.blocks.get(buffer)
        if block is not None:
            self.upload(buffer, array, block)

    def drop(self, buffer: Buffer) -> None:
        """Let go of a block: nobody can ask for it any more."""
        self.blocks.pop(buffer, None)
        self._adopted.pop(buffer, None)

    def _is_adopted(self, buffer: Buffer) -> bool:
        return buffer in self._adopted and self._adopted[buffer] is self.blocks[buffer]

    def put(self, buffer: Buffer, block: Block) -> None:
        """Let a buffer have another block."""
        # A signal may come after any call: one store decides which block it is, and whose.
        self.replaced += buffer in self.blocks
        self.blocks[buffer] = block
        if buffer in self._adopted and self._adopted[buffer] is not block:
            del self._adopted[buffer]
