"""Memory of this process, as NumPy arrays: what backends share that run on the processor."""

from __future__ import annotations

import sys
from typing import Literal

import numpy as np

from weft.backends.protocol import Array
from weft.loops import Buffer
from weft.ops.dtypes import numpy_type
from weft.schedule.memory.memory_plan import ALIGNMENT


def aligned(length: int) -> Array:
    """New memory of so many bytes, all zero, that starts where allocated memory does."""
    if length > sys.maxsize - ALIGNMENT:
        raise MemoryError
    space = np.zeros(length + ALIGNMENT, np.uint8)
    start = -space.ctypes.data % ALIGNMENT
    return space[start : start + length]


class HostMemory:
    """The memory half of a backend. A block is an array; devices differ in which arrays they hold."""

    __slots__ = ()

    @property
    def fuses(self) -> bool:
        return False

    @property
    def prompt(self) -> Literal[True]:
        return True

    def count_devices(self) -> int | None:
        return None

    def allocate(self, buffer: Buffer, device: int) -> Array:
        dtype = numpy_type(buffer.dtype)
        return aligned(buffer.bytes).view(dtype).reshape(buffer.shape)

    def view(self, block: Array, buffer: Buffer, offset: int) -> Array:
        dtype = numpy_type(buffer.dtype)
        return block[offset : offset + buffer.bytes].view(dtype).reshape(buffer.shape)

    def adopt(self, buffer: Buffer, array: Array, device: int) -> Array | None:
        if not (array.flags.c_contiguous and array.flags.aligned):
            return None
        block = array.view(np.ndarray)
        block.flags.writeable = False
        return block

    def upload(self, array: Array, block: Array) -> None:
        np.copyto(block, array)

    def download(self, block: Array) -> Array:
        return block.copy()

    def copy(self, source: Array, target: Array) -> None:
        np.copyto(target, source)

    def synchronize(self, device: int) -> None:
        """Everything is done when it returns."""
