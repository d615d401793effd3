"""Memory of GPUs as blocks: new, seen as something else, copied in, out and from one to another."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from weft.backends.cuda.gpu_device import GpuDevice
from weft.backends.protocol import Array
from weft.dlpack import DeviceArray
from weft.loops import Buffer
from weft.ops.dtypes import numpy_type

#: What compiled code takes for granted of pointers.
_ALIGNED = 16
#: The memory of an NVIDIA GPU, as DLPack says it.
_CUDA = 2


@dataclass(frozen=True, slots=True, eq=False)
class GpuBlock:
    """Memory of a GPU for one buffer; `owner` keeps it from being let go of."""

    gpu: GpuDevice
    address: int
    shape: tuple[int, ...]
    dtype: str
    owner: object

    @property
    def size(self) -> int:
        return math.prod(self.shape) * numpy_type(self.dtype).itemsize


class GpuMemory:
    """The memory half of the backend. Everything is asked of a GPU's stream; downloads wait by themselves."""

    def __init__(self, gpu: Callable[[int], GpuDevice]) -> None:
        self.gpu = gpu

    @property
    def in_order(self) -> Literal[True]:
        return True

    def allocate(self, buffer: Buffer, device: int) -> GpuBlock:
        gpu = self.gpu(device)
        size = math.prod(buffer.shape) * numpy_type(buffer.dtype).itemsize
        piece = gpu.take(size)
        with gpu.current:
            gpu.driver.call("cuMemsetD8Async", piece.address, 0, piece.size, gpu.stream)
        return GpuBlock(gpu, piece.address, buffer.shape, buffer.dtype, piece)

    def view(self, block: GpuBlock, buffer: Buffer, offset: int) -> GpuBlock:
        return GpuBlock(block.gpu, block.address + offset, buffer.shape, buffer.dtype, block.owner)

    def adopt(self, buffer: Buffer, array: Array | DeviceArray, device: int) -> GpuBlock | None:
        """Memory of this process is copied: no GPU works on it. That of a GPU is used where compiled code can."""
        if isinstance(array, DeviceArray) and array.address % _ALIGNED == 0:
            return self.borrow(array.reshape(buffer.shape))
        return None

    def place(self, device: int) -> tuple[int, int]:
        return _CUDA, device

    def borrow(self, array: DeviceArray) -> GpuBlock:
        return GpuBlock(self.gpu(array.device[1]), array.address, array.shape, array.dtype.name, array)

    def lend(self, block: GpuBlock) -> DeviceArray:
        place, dtype = self.place(block.gpu.index), numpy_type(block.dtype)
        return DeviceArray(block.address, block.shape, dtype, place, block.owner, ready=block.gpu.precede)

    def upload(self, array: Array | DeviceArray, block: GpuBlock) -> None:
        """The driver copies memory of this process aside before it returns: then the array may change."""
        if isinstance(array, DeviceArray):
            self.copy(self.borrow(array), block)
        elif block.size:
            gpu, lying = block.gpu, np.ascontiguousarray(array)
            with gpu.current:
                at = lying.__array_interface__["data"][0]
                gpu.driver.call("cuMemcpyHtoDAsync_v2", block.address, at, block.size, gpu.stream)

    def download(self, block: GpuBlock) -> Array:
        gpu, array = block.gpu, np.empty(block.shape, numpy_type(block.dtype))
        if block.size:
            with gpu.current:
                at = array.__array_interface__["data"][0]
                gpu.driver.call("cuMemcpyDtoHAsync_v2", at, block.address, block.size, gpu.stream)
            gpu.synchronize()
        return array

    def copy(self, source: GpuBlock, target: GpuBlock) -> None:
        """Between two GPUs, what either is asked for later waits for the copy."""
        if not source.size:
            return
        one, other = source.gpu, target.gpu
        if one is other:
            with one.current:
                one.driver.call("cuMemcpyDtoDAsync_v2", target.address, source.address, source.size, one.stream)
            return
        other.follow(one)
        with other.current:
            places = (target.address, other.context, source.address, one.context)
            other.driver.call("cuMemcpyPeerAsync", *places, source.size, other.stream)
        one.follow(other)

    def synchronize(self, device: int) -> None:
        self.gpu(device).synchronize()
