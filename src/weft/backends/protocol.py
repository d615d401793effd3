"""The seam between the runtime and what runs code: all a backend has to offer.

A backend has devices, numbered from 0, each with memory of its own. A piece of that memory is a `Block`, which only the
backend looks into. What a backend is asked to do on one device it does in the order it is asked; it may return before
that is done, and `synchronize` waits for it. `download` waits by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import numpy.typing as npt

from weft.dlpack import DeviceArray
from weft.errors import WeftError
from weft.loops import Buffer
from weft.schedule.gpu_model import Gpu
from weft.schedule.nodes import Kernel

Array: TypeAlias = npt.NDArray[Any]
#: Memory of a device, for one buffer: whatever the backend makes of it.
Block: TypeAlias = Any
Memory: TypeAlias = Mapping[Buffer, Block]
#: A program on its memory: a call runs it with static indices bound. Two threads never call the same one at once.
BoundProgram: TypeAlias = Callable[[Mapping[str, int]], None]


class CompilerCrash(WeftError):
    """What a backend compiles with broke down on some kernels: what each made it do, by position.

    That is no mistake of theirs. Others, that do the same in another way, may get through. `mending` is what to do so
    that the compiler does not break down.
    """

    def __init__(
        self,
        kernels: Mapping[int, WeftError],
        compiler: str = "the C compiler",
        mending: str = "set WEFT_CC to another compiler, or to another version of this one",
    ) -> None:
        first = next(iter(kernels.values()))
        super().__init__(first.what, origin=None, notes=first.notes, fix=first.fix)
        self.kernels, self.compiler, self.mending = kernels, compiler, mending


class Bindable(Protocol):
    """Something that runs on memory."""

    def bind(self, memory: Memory) -> BoundProgram:
        """The program on `memory`, which holds a block of one device for every buffer."""
        ...


class Executable(Bindable, Protocol):
    """A compiled program."""

    @property
    def source(self) -> str:
        """The text it was compiled from, for people."""
        ...


@runtime_checkable
class Backend(Protocol):
    """Something that compiles kernels and has memory to run them on."""

    @property
    def name(self) -> str: ...

    @property
    def fuses(self) -> bool:
        """Does it want programs cut into fused kernels, rather than a nest for each assignment?"""
        ...

    def count_devices(self) -> int | None:
        """How many devices there are; None if as many as anybody wants."""
        ...

    def compile(self, kernels: Sequence[Kernel]) -> Executable:
        """The kernels, to run one after another, ready to be bound to the memory of any device.

        Raises a `CompilerCrash` that names those on which what it compiles with broke down.
        """
        ...

    def allocate(self, buffer: Buffer, device: int) -> Block:
        """New memory, all zero, aligned to 64 bytes where it is compiled code's own."""
        ...

    def view(self, block: Block, buffer: Buffer, offset: int) -> Block:
        """The bytes of a block from an offset on, as memory of a buffer."""
        ...

    def adopt(self, buffer: Buffer, array: Array, device: int) -> Block | None:
        """The memory of an array of the buffer's shape and type, to be read only; None where it cannot be used."""
        ...

    def upload(self, array: Array, block: Block) -> None:
        """Copy an array of the block's shape and type, of any strides, into the block; then the array may change."""
        ...

    def download(self, block: Block) -> Array:
        """The values of a block, as an array of the caller's own."""
        ...

    def copy(self, source: Block, target: Block) -> None:
        """Copy a block into another of the same shape and type, perhaps on another device."""
        ...

    def synchronize(self, device: int) -> None:
        """Return when everything asked of a device is done."""
        ...


@runtime_checkable
class Placing(Protocol):
    """What a backend offers that can do more with some code than run it as it is written."""

    @property
    def places(self) -> frozenset[type]:
        """The kinds of decisions it can run: products in tiles, annotations of loops. It gets no others."""
        ...


@runtime_checkable
class DescribingGpu(Protocol):
    """What a backend offers that knows the GPU it runs on."""

    @property
    def described(self) -> Gpu:
        """The GPU."""
        ...


@dataclass(frozen=True, slots=True)
class KernelCall:
    """A kernel, by a name that says all about it, and what a program calls it with.

    That are buffers and indices: static ones by name, or numbers. At most so many `threads` share it, 0 stands for as
    many as the process may have.
    """

    kernel: str
    buffers: tuple[Buffer, ...]
    given: tuple[str | int, ...]
    threads: int = 0


@runtime_checkable
class Played(Protocol):
    """A compiled program that is a list of calls, and nothing more."""

    @property
    def calls(self) -> Sequence[KernelCall]: ...


@runtime_checkable
class Lasting(Protocol):
    """What a backend offers whose kernels outlive the process: a program that is a list of calls can be recalled."""

    @property
    def identity(self) -> str:
        """Whatever the meaning of kernels' names depends on: compiler, flags, machine."""
        ...

    def recall(self, calls: Sequence[KernelCall]) -> Bindable | None:
        """The program that makes these calls; None if a kernel is not there any more."""
        ...


@runtime_checkable
class InOrder(Protocol):
    """What a backend offers whose devices do all they are asked, copies included, in the order they are asked.

    Whoever asks for a run need not wait for it: what is asked for next finds it done.
    """

    @property
    def in_order(self) -> Literal[True]: ...


@runtime_checkable
class Prompt(Protocol):
    """What a backend offers that has done everything when it returns: nobody need synchronise."""

    @property
    def prompt(self) -> Literal[True]: ...


@dataclass(frozen=True, slots=True)
class DeviceUse:
    """Bytes of a device's memory: those in blocks, now and at most; in the pool they come from; free for anybody."""

    held: int
    peak: int
    pool: int
    free: int
    total: int


@runtime_checkable
class Exchanging(Protocol):
    """What a backend offers whose memory other libraries can use where it lies."""

    def place(self, device: int) -> tuple[int, int]:
        """A device, as DLPack says it."""
        ...

    def lend(self, block: Block) -> DeviceArray:
        """The memory of a block as an array that others take."""
        ...

    def borrow(self, array: DeviceArray) -> Block:
        """The memory of somebody's array as a block."""
        ...


@runtime_checkable
class Pooling(Protocol):
    """What a backend offers that takes its devices' memory from pools, of which others can have what is not in use."""

    def memory(self, device: int) -> DeviceUse:
        """How much of a device's memory is in use."""
        ...

    def release(self, device: int) -> None:
        """Give back what no block uses."""
        ...
