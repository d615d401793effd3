"""Compiled code as a pure function of arrays: it works in memory of its own, and no values stay in the context."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.backends import Array, Backend, Block, BoundProgram, Exchanging
from weft.dlpack import DeviceArray
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
        """Run it. What `into` gives is written there; the other results are new arrays.

        Where some of these lie on a GPU, new ones do too, and nobody waits for them: whoever reads them does.
        """
        with self._lock:
            if self._running:
                raise errors.inside_a_run()
            for buffer, target in zip(self._outputs, into or (), strict=False):
                if target is not None:
                    self._memory.check_place(buffer, target)
            try:
                self._running = True
                self._bound(arrays)({})
                there = any(isinstance(one, DeviceArray) for one in (*arrays, *(into or ())))
                if not there:
                    self._backend.synchronize(0)
                found = [self._value(buffer, arrays, there) for buffer in self._outputs]
            finally:
                self._running = False
        for place, (target, array) in enumerate(zip(into or (), found, strict=False)):
            if target is not None:
                self._write(array.reshape(target.shape), target)
                found[place] = target
        return found

    def _write(self, array: Array, target: Array) -> None:
        """Write a result where it is wanted."""
        if isinstance(target, DeviceArray) and isinstance(self._backend, Exchanging):
            self._backend.upload(array, self._backend.borrow(target))
        elif isinstance(array, DeviceArray) and isinstance(self._backend, Exchanging):
            np.copyto(target, self._backend.download(self._backend.borrow(array)))
        else:
            np.copyto(target, array)

    def _bound(self, arrays: Sequence[Array]) -> BoundProgram:
        """The program on arrays; small ones are often the same again, and then it is the same."""
        if self._compiled is not self.routine.compiled:
            self._compiled, self._last = self.routine.compiled, None
        small = all(isinstance(array, np.ndarray) and _is_small(array) for array in arrays)
        places = tuple([array.__array_interface__["data"][0] for array in arrays]) if small else ()
        if self._last is not None and self._last[0] == places != ():
            return self._last[1]
        blocks, adopted = dict(self._own), 0
        for buffer, array in zip(self._inputs, arrays, strict=True):
            lent = self._lent(buffer, array)
            blocks[buffer] = self._copied(buffer, array) if lent is None else lent
            adopted += lent is not None
        if not adopted and self._last is not None and self._last[0] == _COPIES:
            return self._last[1]
        bound = self._compiled.bind(blocks, self._backend)
        kept = _COPIES if not adopted else places if adopted == len(arrays) else ()
        self._last = (kept, bound) if kept else None
        return bound

    def _lent(self, buffer: Buffer, array: Array) -> Block | None:
        """The memory of an array, if it can be used. On a GPU copying it takes less than binding the program anew."""
        if isinstance(array, DeviceArray):
            return None
        return self._backend.adopt(buffer, array.reshape(buffer.shape).view(), 0)

    def _value(self, buffer: Buffer, arrays: Sequence[Array], there: bool) -> Any:
        """A result; one that is an input and nothing writes is a copy of it."""
        block = self._own.get(buffer)
        if block is None:
            array = arrays[self._inputs.index(buffer)]
            if not there:
                return array.copy()
            block = self._copied(buffer, array)
        return self._memory.lent(buffer, block) if there else self._memory.download(buffer, block)

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
        self._memory.upload(buffer, array, self._copies[buffer])
        return self._copies[buffer]


def _is_small(array: Array) -> bool:
    return array.nbytes <= _SMALL and array.flags.c_contiguous
