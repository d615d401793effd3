"""Compiled code as a pure function of arrays: it works in memory of its own, and no values stay in the context."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weft.backends import Array, Backend, Block, BoundProgram
from weft.loops import Buffer
from weft.runtime import errors
from weft.runtime.fork import new_lock
from weft.runtime.memory import DeviceMemory
from weft.runtime.routine import Routine
from weft.runtime.tune import tune_routine
from weft.runtime.tuning_report import TuningReport

#: Arrays of so many bytes are kept alive until the next call.
_SMALL = 1 << 16
#: Where all arrays lie in copies, which stay where they are.
_COPIES = (-1,)


class PureFunction:
    """Takes values of some nodes and gives those of others; everything else is computed from them."""

    def __init__(
        self,
        routine: Routine,
        backend: Backend,
        memory: DeviceMemory,
        inputs: Sequence[Buffer],
        outputs: Sequence[Buffer],
    ) -> None:
        self.routine, self._compiled = routine, routine.compiled
        self._backend, self._memory = backend, memory
        self._inputs, self._outputs = list(inputs), outputs
        self._own = {one: self._new(one) for one in (*self._compiled.buffers, *outputs) if one not in inputs}
        self._copies: dict[Buffer, Block] = {}
        self._last: tuple[tuple[int, ...], BoundProgram] | None = None
        self._lock = new_lock()
        self._running = False

    def __call__(self, *arrays: Array, into: Sequence[Array | None] | None = None) -> list[Array]:
        """Run it. What `into` gives is written there; the other results are new arrays."""
        with self._lock:
            if self._running:
                raise errors.inside_a_run()
            try:
                self._running = True
                self._bound(arrays)({})
                self._backend.synchronize(0)
                found = [self._value(buffer, arrays) for buffer in self._outputs]
            finally:
                self._running = False
        for place, (target, array) in enumerate(zip(into or (), found, strict=False)):
            if target is not None:
                np.copyto(target, array.reshape(target.shape))
                found[place] = target
        return found

    def _bound(self, arrays: Sequence[Array]) -> BoundProgram:
        """The program on arrays; small ones are often the same again, and then it is the same."""
        if self._compiled is not self.routine.compiled:
            self._compiled, self._last = self.routine.compiled, None
        small = all(array.nbytes <= _SMALL and array.flags.c_contiguous for array in arrays)
        places = tuple([array.__array_interface__["data"][0] for array in arrays]) if small else ()
        if self._last is not None and self._last[0] == places != ():
            return self._last[1]
        blocks, adopted = dict(self._own), 0
        for buffer, array in zip(self._inputs, arrays, strict=True):
            lent = self._backend.adopt(buffer, array.reshape(buffer.shape).view(), 0)
            blocks[buffer] = self._copied(buffer, array) if lent is None else lent
            adopted += lent is not None
        if not adopted and self._last is not None and self._last[0] == _COPIES:
            return self._last[1]
        bound = self._compiled.bind(blocks, self._backend)
        kept = _COPIES if not adopted else places if adopted == len(arrays) else ()
        self._last = (kept, bound) if kept else None
        return bound

    def _value(self, buffer: Buffer, arrays: Sequence[Array]) -> Array:
        """A result; one that is an input and nothing writes is a copy of it."""
        if buffer in self._own:
            return self._memory.download(buffer, self._own[buffer])
        return arrays[self._inputs.index(buffer)].copy()

    def tune(self, arrays: Sequence[Array], seconds: float, show: bool) -> TuningReport:
        """Tune it on arrays."""
        values = {buffer: array.reshape(buffer.shape) for buffer, array in zip(self._inputs, arrays, strict=True)}
        return tune_routine(self.routine, {}, values, seconds, show)

    def _new(self, buffer: Buffer) -> Block:
        parts = self._compiled.offsets if buffer == self._compiled.arena else ()
        return self._memory.new(buffer, parts)

    def _copied(self, buffer: Buffer, array: Array) -> Block:
        """A copy of an array whose memory cannot be used, where that of the last call was."""
        if buffer not in self._copies:
            self._copies[buffer] = self._new(buffer)
        block = self._copies[buffer]
        self._backend.upload(array.reshape(buffer.shape), block)
        return block
