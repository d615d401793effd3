"""A routine's memory over again, to try kernels on: nothing that is tried there is ever seen by the context."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import TypeAlias

from weft.backends import Array, Backend, Block, BoundProgram, Executable
from weft.errors import OutOfMemory
from weft.loops import Buffer, Role, buffers_of
from weft.loops.effects import effects
from weft.loops.walk import accesses
from weft.runtime.bisect import difference
from weft.runtime.crashes import compiled
from weft.runtime.interleaved_timing import Sample
from weft.schedule import Kernel, as_program
from weft.schedule.memory.memory_plan import MemoryPlan

#: What takes less is run several times in a row, to be timed.
_TIMED_S = 1e-4

_Values: TypeAlias = Mapping[Buffer, Array]


class Workbench:
    """Blocks for all that some kernels touch, with the values that they begin with."""

    def __init__(
        self, backend: Backend, kernels: Sequence[Kernel], plan: MemoryPlan, values: _Values, given: Mapping[str, int]
    ) -> None:
        self.backend, self.given = backend, given
        try:
            self._blocks = _blocks(backend, dict.fromkeys([*buffers_of(as_program(kernels)), *values]), plan)
            self.put(values)
        except MemoryError:
            what = "there is no memory for a second copy of what the routine works on, to tune it there"
            raise OutOfMemory(what, fix="tune it on smaller sizes, or in a process that holds less") from None
        written = {one for kernel in kernels for one in effects(kernel.body).buffers}
        #: What is written, with what it held at first.
        self.updated = {one: array for one, array in values.items() if one in written}

    def compiled(self, kernels: Sequence[Kernel]) -> BoundProgram:
        """Kernels one after another, on this memory."""
        return self._bound(kernels, self.backend.compile(kernels))

    def runnable(self, kernel: Kernel) -> tuple[Kernel, BoundProgram]:
        """A kernel on this memory, in plain loops where the compiler breaks down on it otherwise."""
        (found,), executable = compiled(self.backend, (kernel,))
        return found, self._bound((found,), executable)

    def _bound(self, kernels: Sequence[Kernel], executable: Executable) -> BoundProgram:
        """Kernels on memory. What each thread has for itself lies where the one of all lay."""
        touched = buffers_of(as_program(kernels))
        return executable.bind({one: self._blocks[one if one in self._blocks else one.of or one] for one in touched})

    def begin(self) -> None:
        """The values that were there at first."""
        self.put(self.updated)

    def put(self, values: _Values) -> None:
        for one, array in values.items():
            self.backend.upload(array.reshape(one.shape), self._blocks[one])

    def take(self, buffers: Iterable[Buffer]) -> dict[Buffer, Array]:
        return {one: self.backend.download(self._blocks[one]) for one in buffers}

    def run(self, call: BoundProgram) -> None:
        call(self.given)
        self.backend.synchronize(0)

    def sample(self, call: BoundProgram, before: _Values) -> Sample:
        """What times a program that begins with these values each time: it runs once for each, or often for none."""
        often = [0]

        def timed() -> float:
            self.put(before)
            start = perf_counter()
            for _ in range(often[0] or 1):
                call(self.given)
            self.backend.synchronize(0)
            took = max((perf_counter() - start) / (often[0] or 1), 1e-9)
            if not often[0]:
                often[0] = 1 if before else max(1, int(_TIMED_S / took))
            return took

        return timed


def _blocks(backend: Backend, touched: Iterable[Buffer], plan: MemoryPlan) -> dict[Buffer, Block]:
    """A block for each buffer; those that are planned lie in one."""
    arena = backend.allocate(Buffer(0, "arena", (max(plan.size, 1),), "uint8", Role.ARENA), 0)
    return {
        one: backend.view(arena, one, plan.offsets[one]) if one in plan.offsets else backend.allocate(one, 0)
        for one in touched
    }


@dataclass(frozen=True, slots=True)
class Trial:
    """A kernel on the memory that it finds in its program: what that holds before, and what it should hold after.

    What the kernel reads and writes has its old value before each run that is timed.
    """

    bench: Workbench
    before: _Values
    updated: _Values
    meant: _Values

    @staticmethod
    def of(bench: Workbench, kernel: Kernel, untuned: BoundProgram, own: Collection[Buffer]) -> Trial:
        """A trial on memory as it is now; what the untuned kernel leaves there is meant, but for what is its own."""
        written = effects(kernel.body).buffers
        before = bench.take(written)
        read = {one.buffer for one in accesses(kernel.body) if not one.writes}
        bench.run(untuned)
        meant = bench.take(one for one in written if one not in own)
        return Trial(bench, before, {one: array for one, array in before.items() if one in read}, meant)

    def problem(self, call: BoundProgram) -> str:
        """What is wrong with what a candidate computes, if anything is."""
        self.bench.put(self.before)
        self.bench.run(call)
        found = difference("it", self.meant, self.bench.take(self.meant))
        return "" if found is None else f"it gives other answers in `{found.buffer}`"

    def sample(self, call: BoundProgram) -> Sample:
        return self.bench.sample(call, self.updated)

    def leave(self, call: BoundProgram) -> None:
        """Memory as the kernel leaves it."""
        self.bench.put(self.before)
        self.bench.run(call)
