"""What a call of a function hands in and takes out: arrays into buffers before a run, out of others after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from weft.backends import Array
from weft.loops import Buffer
from weft.runtime.memory import DeviceMemory


@dataclass(slots=True, eq=False)
class Exchange:
    """One call's arrays. Both ends are part of the run: no other work comes between, so no call sees another's."""

    inputs: Sequence[Buffer]
    arrays: Sequence[Array]
    outputs: Sequence[Buffer]
    found: Sequence[Array] = ()

    def hand_in(self, memory: DeviceMemory) -> None:
        """Let the inputs have the arrays' values."""
        for buffer, array in zip(self.inputs, self.arrays, strict=True):
            memory.fill(buffer, array)

    def take_out(self, memory: DeviceMemory) -> None:
        """The results, as arrays of the caller's own."""
        self.found = [memory.download(buffer, memory.blocks[buffer]) for buffer in self.outputs]
