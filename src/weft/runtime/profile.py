"""Measured time of each kernel against the least it could take."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter

from weft.backends import BoundProgram
from weft.columns import table
from weft.machine import Machine
from weft.schedule import Kernel
from weft.schedule.cost import assignments, cost, roofline
from weft.schedule.gpu.gpu_roofline import gpu_bound
from weft.schedule.gpu_model import Gpu


@dataclass(frozen=True, slots=True)
class Timed:
    """A kernel, the best time measured, and the bound its operations and memory set, in seconds."""

    kernel: Kernel
    seconds: float
    bound: float


@dataclass(frozen=True, slots=True)
class Profile:
    """Every kernel of a routine, timed."""

    kernels: tuple[Timed, ...]

    @property
    def seconds(self) -> float:
        return sum(one.seconds for one in self.kernels)

    def __str__(self) -> str:
        rows = [
            (str(number), *_row(one.seconds, one.bound, self.seconds), assignments(one.kernel))
            for number, one in enumerate(self.kernels)
        ]
        total = _row(self.seconds, sum(one.bound for one in self.kernels), self.seconds)
        return table(("kernel", "µs", "share", "bound", "of it", "assignments"), [*rows, ("all", *total, "")])


def measured(
    kernels: Sequence[Kernel],
    calls: Sequence[BoundProgram],
    given: Mapping[str, int],
    times: int,
    machine: Machine | Gpu,
    wait: Callable[[], None],
) -> Profile:
    """Run kernels in their order so many times, each until it is done, and keep the best time of each."""
    best = [float("inf")] * len(calls)
    for _ in range(times):
        for number, call in enumerate(calls):
            start = perf_counter()
            call(given)
            wait()
            best[number] = min(best[number], perf_counter() - start)
    timed = zip(kernels, best, strict=True)
    return Profile(tuple(Timed(kernel, seconds, _least(kernel, machine)) for kernel, seconds in timed))


def _least(kernel: Kernel, machine: Machine | Gpu) -> float:
    return gpu_bound(kernel, machine) if isinstance(machine, Gpu) else roofline(cost(kernel), machine)


def _row(seconds: float, least: float, total: float) -> tuple[str, str, str, str]:
    share = f"{100 * seconds / total:.0f}%" if total else ""
    return f"{1e6 * seconds:.1f}", share, f"{1e6 * least:.1f}", f"{100 * least / seconds:.0f}%" if seconds else ""
