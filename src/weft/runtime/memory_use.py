"""How much memory the tensors of a context hold, on each of its devices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from weft.backends import DeviceUse, Pooling
from weft.cache.limit import amount
from weft.columns import table

if TYPE_CHECKING:
    from weft.runtime.device_state import DeviceState

#: So many of the largest tensors are printed.
_LARGEST = 5


@dataclass(frozen=True, slots=True)
class DeviceMemoryUse:
    """The bytes of each tensor on a device; where its memory is a pool, also what the process has taken of it."""

    tensors: Mapping[str, int] = field(hash=False)
    device: DeviceUse | None

    @property
    def held(self) -> int:
        """What all tensors hold."""
        return sum(self.tensors.values())


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """The memory of a context, device by device. Printed, it is a table."""

    devices: tuple[DeviceMemoryUse, ...]

    def __str__(self) -> str:
        header = ("device", "tensors", "held", "process", "peak", "pool", "free", "of", "largest")
        return table(header, [_row(index, one) for index, one in enumerate(self.devices)])


def _row(index: int, one: DeviceMemoryUse) -> tuple[str, ...]:
    largest = sorted(one.tensors.items(), key=lambda each: -each[1])[:_LARGEST]
    use = one.device
    figures = [use.held, use.peak, use.pool, use.free, use.total] if use is not None else []
    shown = [amount(each) for each in figures] or [""] * 5
    names = ", ".join(f"{name} {amount(size)}" for name, size in largest)
    return str(index), str(len(one.tensors)), amount(one.held), *shown, names


def memory_use(state: DeviceState) -> DeviceMemoryUse:
    """What is held on a device."""
    with state.lock:
        buffers = list(state.memory.blocks)
    tensors = dict[str, int]()
    for one in buffers:
        tensors[one.name] = tensors.get(one.name, 0) + one.bytes
    backend = state.engine.backend
    return DeviceMemoryUse(tensors, backend.memory(state.index) if isinstance(backend, Pooling) else None)
