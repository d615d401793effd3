"""Backends for tests: the interpreter with something in the way, and one whose memory nobody else understands."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.backends.host_memory import HostMemory
from weft.backends.interp import Interp
from weft.backends.protocol import Array, BoundProgram, Executable, Memory
from weft.loops import Buffer
from weft.runtime.worker import Worker
from weft.schedule import Kernel

Hook = Callable[[str], None]


@dataclass(frozen=True)
class _Hooked:
    inner: Executable
    hook: Hook

    @property
    def source(self) -> str:
        return self.inner.source

    def bind(self, memory: Memory) -> BoundProgram:
        bound = self.inner.bind(memory)

        def run(given: Mapping[str, int]) -> None:
            self.hook(self.source)
            bound(given)

        return run


@dataclass(frozen=True)
class Hooked(HostMemory):
    """The interpreter, which calls a hook with the loops of a program before it runs them."""

    hook: Hook
    name: str = "hooked"

    def compile(self, kernels: Sequence[Kernel]) -> Executable:
        return _Hooked(Interp().compile(kernels), self.hook)


@dataclass(frozen=True)
class Box:
    """Memory only `Boxed` looks into."""

    device: int
    array: Array


@dataclass(frozen=True)
class _Unboxing:
    inner: Executable

    @property
    def source(self) -> str:
        return self.inner.source

    def bind(self, memory: Memory) -> BoundProgram:
        assert len({box.device for box in memory.values()}) <= 1
        return self.inner.bind({buffer: box.array for buffer, box in memory.items()})


class Boxed:
    """A backend like that of a far device: memory cannot be adopted, there are two devices, calls are counted."""

    fuses = False
    name = "boxed"

    def __init__(self) -> None:
        self.calls: list[str] = []

    def count_devices(self) -> int | None:
        return 2

    def compile(self, kernels: Sequence[Kernel]) -> Executable:
        return _Unboxing(Interp().compile(kernels))

    def allocate(self, buffer: Buffer, device: int) -> Box:
        return Box(device, Interp().allocate(buffer, device))

    def view(self, block: object, buffer: Buffer, offset: int) -> object:
        raise AssertionError("nothing is planned for a backend that does not fuse")

    def adopt(self, buffer: Buffer, array: Array, device: int) -> Box | None:
        return None

    def upload(self, array: Array, block: Box) -> None:
        self.calls.append("upload")
        assert (array.shape, array.dtype) == (block.array.shape, block.array.dtype)
        block.array[...] = array

    def download(self, block: Box) -> Array:
        self.calls.append("download")
        return np.array(block.array)

    def copy(self, source: Box, target: Box) -> None:
        self.calls.append(f"copy {source.device} to {target.device}")
        target.array[...] = source.array

    def synchronize(self, device: int) -> None:
        self.calls.append(f"synchronize {device}")


def ended(worker: Worker, within_s: float = 10) -> bool:
    """Does a thread end in time?"""
    limit = time.monotonic() + within_s
    while worker.is_alive() and time.monotonic() < limit:
        time.sleep(0.001)
    return not worker.is_alive()


def param(name: str = "w", **options: Any) -> Any:
    """A parameter in double precision."""
    import weft as wf

    return wf.param(name, dtype="float64", **options)
