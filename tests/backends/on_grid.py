"""A backend that interprets launches of a GPU, and finds what that alone would not: races, and what runs too early."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from backends.grid_races import race
from weft.backends.cuda.graph_dependences import TouchedBytes, waits
from weft.backends.interp import Interp
from weft.backends.protocol import BoundProgram, Executable, Memory
from weft.loops import Grid, Lanes, Product, Program, Simt, buffers_of, show
from weft.loops.effects import effects
from weft.schedule.nodes import Kernel, as_program


@dataclass(frozen=True, slots=True)
class _LastFirst:
    """Launches of which each runs as late as others wait for it: what a graph of them may do, if these are enough."""

    kernels: Sequence[Kernel]

    @property
    def source(self) -> str:
        return show(as_program(self.kernels))

    def bind(self, memory: Memory) -> BoundProgram:
        calls = [Interp().compile([one]).bind(memory) for one in self.kernels]
        before = waits([_touched(one, memory) for one in self.kernels], len(self.kernels))
        order = list[int]()
        while len(order) < len(calls):
            ready = (at for at, others in enumerate(before) if at not in order and set(others) <= set(order))
            order.append(max(ready))

        def call(given: Mapping[str, int]) -> None:
            for at in order:
                calls[at](given)

        return call


def _touched(kernel: Kernel, memory: Memory) -> TouchedBytes:
    written = effects(kernel.body).buffers
    spans = {one: (at := memory[one].ctypes.data, at + memory[one].nbytes) for one in buffers_of(Program(kernel.body))}
    return TouchedBytes(tuple(spans.values()), tuple(span for one, span in spans.items() if one in written))


@dataclass(frozen=True, slots=True)
class OnGrid(Interp):
    """The oracle, given launches on a grid, in which programs and lanes do not race; it runs them last first."""

    name: str = "grid"

    @property
    def fuses(self) -> bool:
        return True

    @property
    def places(self) -> frozenset[type]:
        return frozenset({Product, Grid, Lanes, Simt})

    def compile(self, kernels: Sequence[Kernel]) -> Executable:
        for kernel in kernels:
            assert not (problem := race(kernel.body)), f"{problem}\n{show(Program(kernel.body))}"
        return _LastFirst(kernels)
